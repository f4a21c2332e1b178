"""Traces that travel with the report: inside the page while they are small, else in files beside it."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping
from pathlib import Path

from kernelbook.edition.model import Edition
from kernelbook.report.text import slug

EACH_LIMIT = 96 * 1024  # bytes, compressed
PAGE_LIMIT = 2 * 1024 * 1024  # bytes of all embedded traces together, compressed

Links = Mapping[tuple[str, str], Mapping[str, str]]


def place(edition: Edition, folder: Path, output: Path, each: int = EACH_LIMIT, page: int = PAGE_LIMIT) -> Links:
    """{"gz": base64} of each trace that is embedded, {"href": path} of each that is copied below `output`.

    folder: the edition's, from which relative paths of traces count. The smallest traces are embedded first, until the
    page's limit is reached.
    """
    links: dict[tuple[str, str], Mapping[str, str]] = {}
    left = page
    files = {row.key: _find(folder, row.trace_path) for row in edition.case_runs if row.trace_path}
    sizes = sorted((file.stat().st_size, key, file) for key, file in files.items() if file)
    for _, key, file in sizes:
        data = file.read_bytes()
        if len(data) <= min(each, left) and data[:2] == b"\x1f\x8b":
            left -= len(data)
            links[key] = {"gz": base64.b64encode(data).decode("ascii")}
        else:
            links[key] = {"href": _copy(file, key, output)}
    return links


def _find(folder: Path, trace_path: str) -> Path | None:
    """The trace's file: the path as it stands, or relative to the edition's folder or to its results."""
    places = (Path(trace_path), folder / trace_path, folder.parent / trace_path)
    return next((place for place in places if place.is_file()), None)


def _copy(file: Path, key: tuple[str, str], output: Path) -> str:
    relative = Path("traces") / slug(key[0]) / f"{slug(key[1])}.json.gz"
    target = output / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
    return relative.as_posix()
