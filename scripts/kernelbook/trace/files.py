"""Trace files on disk: which there are, and what the first bytes of one say of its origin."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENDINGS = (".json.gz", ".json")
_HEAD_BYTES = 1 << 16  # torch writes the metadata before the events
_METADATA = re.compile(r'"(distributedInfo|deviceProperties)"\s*:\s*(?=[\[{])')


@dataclass(frozen=True)
class TraceFile:
    """A trace's path and what it says of the process that wrote it.

    distributed: torch's distributedInfo, None where there is none. device: name of the first device.
    """

    path: Path
    distributed: dict[str, Any] | None = None
    device: str | None = None


def trace_files(folder: Path) -> list[Path]:
    """Every file below a folder that has a trace's ending, in any case, in the order of paths."""
    return sorted(path for path in folder.rglob("*") if path.name.lower().endswith(ENDINGS) and path.is_file())


def without_ending(name: str) -> str:
    """A file's name without a trace's ending."""
    ending = next((ending for ending in ENDINGS if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def read_origin(folder: Path, path: Path) -> TraceFile:
    """The trace at `path`, relative to `folder`, with what its head says; a file that cannot be read says nothing."""
    head = _head(folder / path).decode("utf-8", "replace")
    found: dict[str, Any] = {}
    for key in _METADATA.finditer(head):
        try:
            value, _ = json.JSONDecoder().raw_decode(head, key.end())
        except (ValueError, RecursionError):
            continue
        found.setdefault(key[1], value)
    distributed = found.get("distributedInfo")
    return TraceFile(path, distributed if isinstance(distributed, dict) else None, device_name(found))


def device_name(metadata: dict[str, Any]) -> str | None:
    """Name of the first device of a trace's metadata."""
    devices = metadata.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    name = first.get("name") if isinstance(first, dict) else None
    return name.strip() or None if isinstance(name, str) else None


def _head(file: Path) -> bytes:
    """The first 64 KiB, unpacked; nothing of a file that cannot be read."""
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(file) if packed else file.open("rb") as opened:
            return opened.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
