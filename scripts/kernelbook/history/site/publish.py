"""Replace the published site atomically.

The published folder is a symbolic link to a version beside it (`.site-versions/<number>`). A new version is written
completely, then the link is replaced by a rename. The previous version stays for readers that still use it; older ones
are deleted. A file that did not change is a hard link to that of the previous version, so only changes are written.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping
from itertools import chain
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


def publish(pages: Iterable[tuple[str, str | None]], reports: Mapping[str, Path], site: Path) -> Path:
    """Write all pages and reports as a new version of `site`; returns the version's folder.

    pages: (path, text), the text None if the page is that of the published version.

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


def _publish(pages: Iterable[tuple[str, str | None]], reports: Mapping[str, Path], site: Path, versions: Path) -> Path:
    numbers = sorted(int(path.name) for path in versions.iterdir() if path.name.isdigit())
    for left in versions.glob("*.new"):
        shutil.rmtree(left)
    version = versions / str(numbers[-1] + 1 if numbers else 1)
    new = version.with_name(f"{version.name}.new")
    before = site.resolve()
    try:
        _write(pages, reports, new, before)
        new.rename(version)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    link = site.parent / f".{site.name}-link"
    link.unlink(missing_ok=True)
    link.symlink_to(version.relative_to(site.parent), target_is_directory=True)
    link.replace(site)
    for number in numbers:
        if str(number) != before.name:
            shutil.rmtree(versions / str(number), ignore_errors=True)
    return version


def _write(pages: Iterable[tuple[str, str | None]], reports: Mapping[str, Path], folder: Path, before: Path) -> None:
    """Fill `folder`; files that are the same in the version `before` are linked."""
    for name, text in chain(pages, [(".nojekyll", "")]):  # GitHub Pages serves the files as they are
        old, new = before / name, folder / name
        new.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            if not _link(old, new):
                shutil.copy2(old, new)
        elif not (_has_content(old, content := text.encode()) and _link(old, new)):
            new.write_bytes(content)
    for night, source in reports.items():
        place = f"nights/{night}/report"
        for file in (file for file in sorted(source.rglob("*")) if file.is_file()):
            part = file.relative_to(source)
            old, new = before / place / part, folder / place / part
            new.parent.mkdir(parents=True, exist_ok=True)
            if not (_is_copy(old, file) and _link(old, new)):
                shutil.copy2(file, new)


def _has_content(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _is_copy(path: Path, source: Path) -> bool:
    """Whether `path` has the size and time of `source`, which copying preserves."""
    if not path.is_file():
        return False
    copy, original = path.stat(), source.stat()
    return (copy.st_size, copy.st_mtime_ns) == (original.st_size, original.st_mtime_ns)


def _link(path: Path, link: Path) -> bool:
    """Make a hard link; False if the file system has none."""
    try:
        os.link(path, link)
    except OSError:
        return False
    return True
