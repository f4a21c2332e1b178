"""Traces that travel with the report: inside the page while they are small, else in files beside it."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping
from pathlib import Path

from kernelbook.report.model import CaseRun, Edition
from kernelbook.report.text import slug

EACH_LIMIT = 96 * 1024  # bytes, compressed
PAGE_LIMIT = 2 * 1024 * 1024  # bytes of all embedded traces together, compressed

Links = Mapping[tuple[str, str], Mapping[str, str]]


def place(edition: Edition, output: Path, each: int = EACH_LIMIT, page: int = PAGE_LIMIT) -> Links:
    """{"gz": base64} of each trace that is embedded, {"href": path} of each that is copied below `output`.

    The smallest are embedded first, until the page's limit is reached.
    """
    links: dict[tuple[str, str], Mapping[str, str]] = {}
    left = page
    for row in sorted((row for row in edition.case_runs if row.trace), key=_size):
        data = row.trace.read_bytes() if row.trace else b""
        if len(data) <= min(each, left) and data[:2] == b"\x1f\x8b":
            left -= len(data)
            links[row.key] = {"gz": base64.b64encode(data).decode("ascii")}
        else:
            links[row.key] = {"href": _beside(row, output)}
    return links


def _size(row: CaseRun) -> tuple[int, str, str]:
    return (row.trace.stat().st_size if row.trace else 0), row.run, row.case


def _beside(row: CaseRun, output: Path) -> str:
    relative = Path("traces") / slug(row.run) / f"{slug(row.case)}.json.gz"
    target = output / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    if row.trace:
        shutil.copyfile(row.trace, target)
    return relative.as_posix()
