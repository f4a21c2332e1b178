"""Replace the published site atomically.

The published folder is a symbolic link to a version beside it (`.site-versions/<number>`). A new version is written
completely, then the link is replaced by a rename. The previous version stays for readers that still use it; older ones
are deleted.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path


class PublishError(ValueError):
    """The site could not be published; the message has the reason and the remedy."""


def report_sources(nights: Iterable[str], reports: Path, site: Path, full_nights: int) -> dict[str, Path]:
    """Night -> folder of its report, for the last `full_nights` (newest first): new, or as published before."""
    sources = {}
    for night in list(nights)[:full_nights]:
        places = (reports / night, site / "nights" / night / "report")
        place = next((place for place in places if (place / "index.html").is_file()), None)
        if place:
            sources[night] = place
    return sources


def publish(pages: Iterable[tuple[str, str]], reports: Mapping[str, Path], site: Path) -> Path:
    """Write all pages and reports as a new version of `site`; returns the version's folder.

    Raises PublishError if `site` is a folder that publishing did not make, and OSError on a full disk; the old site
    stays.
    """
    if site.exists() and not site.is_symlink():
        raise PublishError(
            f"{site}: is there already and was not made by publishing: move it away, or set publish.folder"
        )
    versions = site.parent / f".{site.name}-versions"
    versions.mkdir(parents=True, exist_ok=True)
    with (versions / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _publish(pages, reports, site, versions)


def _publish(pages: Iterable[tuple[str, str]], reports: Mapping[str, Path], site: Path, versions: Path) -> Path:
    numbers = sorted(int(path.name) for path in versions.iterdir() if path.name.isdigit())
    for left in versions.glob("*.new"):
        shutil.rmtree(left)
    version = versions / str(numbers[-1] + 1 if numbers else 1)
    new = version.with_name(f"{version.name}.new")
    try:
        _write(pages, reports, new)
        new.rename(version)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    before = site.resolve()
    link = site.parent / f".{site.name}-link"
    link.unlink(missing_ok=True)
    link.symlink_to(version.relative_to(site.parent), target_is_directory=True)
    link.replace(site)
    for number in numbers:
        if str(number) != before.name:
            shutil.rmtree(versions / str(number), ignore_errors=True)
    return version


def _write(pages: Iterable[tuple[str, str]], reports: Mapping[str, Path], folder: Path) -> None:
    made: set[Path] = set()
    for name, text in pages:
        path = folder / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        path.write_text(text, encoding="utf-8")
    for night, source in reports.items():
        shutil.copytree(source, folder / "nights" / night / "report", dirs_exist_ok=True)
    (folder / ".nojekyll").touch()  # GitHub Pages serves the files as they are
