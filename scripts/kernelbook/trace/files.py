"""Trace files on disk: finding them, and what the start of a file says about its origin."""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

ENDINGS = (".json.gz", ".json")
_HEAD_BYTES = 1 << 16  # torch writes the metadata before the events
BESIDE_TRACE = frozenset({"measurement.json", "case.json", "shapes.json.gz"})  # in the folder of a measurement
MADE = {"summary.json": "details.md", "diff.json": "diff.md"}  # of a report or diff: its JSON, and a file beside it
_METADATA = re.compile(r'"(distributedInfo|deviceProperties)"\s*:\s*(?=[\[{])')


class TraceFile(msgspec.Struct, frozen=True):
    """A trace and its origin.

    distributed: torch's distributedInfo. device: name of the first device. content: see `content_of`; of a trace of one
    rank of several, else None.
    """

    path: Path
    distributed: dict[str, Any] | None = None
    device: str | None = None
    content: tuple[int, int] | None = None


def trace_files(folder: Path) -> list[Path]:
    """All files below a folder whose names end as a trace's, in any case, sorted.

    What Kernelbook leaves beside a trace that it measured is left out: its measurement, and a forward of the same
    process with shapes, which is no window of its own. So are reports and diffs below the folder, which hold copies of
    the traces.
    """
    candidates = [path for path in folder.rglob("*") if path.name.lower().endswith(ENDINGS) and path.is_file()]
    made = {path.parent for path in candidates if path.parent != folder and _is_made(path)}
    return sorted(
        path
        for path in candidates
        if made.isdisjoint(path.parents) and (path.name not in BESIDE_TRACE or not _is_measured(path.parent))
    )


def unreadable_folders(folder: Path) -> dict[Path, str]:
    """Why a folder, or one below it, cannot be listed. `trace_files` finds nothing there."""
    errors: list[OSError] = []
    for _ in os.walk(folder, onerror=errors.append):
        pass
    return {Path(error.filename): f"{error.filename}: cannot be read: {error.strerror}" for error in errors}


def _is_made(file: Path) -> bool:
    """Whether the file is the JSON of a report or diff that Kernelbook wrote."""
    twin = MADE.get(file.name)
    return twin is not None and (file.parent / twin).is_file()


def _is_measured(folder: Path) -> bool:
    """Whether the folder is that of a measured process or job."""
    left = (folder / "trace.json.gz").is_file() or (folder / "rank-0").is_dir()
    return left and (folder / "measurement.json").is_file()


def without_ending(name: str) -> str:
    ending = next((ending for ending in ENDINGS if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def read_origin(folder: Path, path: Path) -> TraceFile:
    """The trace at `path`, relative to `folder`, with the origin that its first 64 KiB state."""
    head = _head(folder / path).decode("utf-8", "replace")
    metadata: dict[str, Any] = {}
    for key in _METADATA.finditer(head):
        try:
            value, _ = json.JSONDecoder().raw_decode(head, key.end())
        except (ValueError, RecursionError):
            continue
        metadata.setdefault(key[1], value)
    distributed = metadata.get("distributedInfo")
    job = distributed if isinstance(distributed, dict) else None
    is_rank = job is not None and job.get("world_size") not in (None, 1)
    return TraceFile(path, job, device_name(metadata), content_of(folder / path) if is_rank else None)


def content_of(file: Path) -> tuple[int, int] | None:
    """(size modulo 2^32, CRC-32) of the unpacked file, equal for copies; None for a file that cannot be read.

    The last eight bytes of a gzip file state both (RFC 1952).
    """
    try:
        with file.open("rb") as opened:
            if opened.read(2) == b"\x1f\x8b":
                opened.seek(-8, os.SEEK_END)
                crc, size = struct.unpack("<II", opened.read(8))
                return size, crc
            opened.seek(0)
            size = crc = 0
            while chunk := opened.read(1 << 20):
                size, crc = size + len(chunk), zlib.crc32(chunk, crc)
            return size % (1 << 32), crc
    except (OSError, struct.error):
        return None


def device_name(metadata: dict[str, Any]) -> str | None:
    """Name of the first device in the metadata of a trace."""
    devices = metadata.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    name = first.get("name") if isinstance(first, dict) else None
    return name.strip() or None if isinstance(name, str) else None


def _head(file: Path) -> bytes:
    """The first 64 KiB, unpacked; empty for a file that cannot be read."""
    try:
        with file.open("rb") as raw:
            is_gzip = raw.read(2) == b"\x1f\x8b"
        with gzip.open(file) if is_gzip else file.open("rb") as opened:
            return opened.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
