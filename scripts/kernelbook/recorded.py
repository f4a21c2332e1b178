"""What a folder of recorded traces holds: measured cases, or nothing but traces from anywhere.

A recorded run of Kernelbook's own has <case>/<process>/measurement.json. In any other folder each *.json and *.json.gz
is taken for a trace. The ranks of one job are the processes of one case: files that differ in nothing but a rank
number in their names, or files of one folder that say inside that they are different ranks of as many.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

MEASUREMENT = "measurement.json"
RANK = re.compile(r"(?:^|(?<=[^a-z]))rank[-_.]?([0-9]{1,9})(?![0-9])", re.IGNORECASE)
PROCESS = re.compile(r"[1-9][0-9]{0,8}")
TRACE_ENDINGS = (".json.gz", ".json")
MOST_LETTERS = 80  # of a file's name in the name of its case
HEAD_BYTES = 1 << 16  # torch writes distributedInfo before the events
_INSIDE = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})\b[^{}]*?"world_size"\s*:\s*(\d{1,9})\b')
Ranked = tuple[int | None, Path]


def recorded_cases(folder: Path) -> Mapping[str, Mapping[int, Path]]:
    """case -> process -> its measurement.json or its trace, paths relative to `folder`, in the order of names."""
    measured: dict[str, dict[int, Path]] = {}
    for process in sorted(folder.glob("*/*")):
        file = process / MEASUREMENT
        broken_link = process.is_symlink() and not process.exists()
        # a measurement.json that cannot be read still is a case, whose row says so
        if PROCESS.fullmatch(process.name) and (broken_link or os.path.lexists(file)):
            measured.setdefault(process.parent.name, {})[int(process.name)] = file.relative_to(folder)
    if measured:
        return {case: dict(sorted(files.items())) for case, files in measured.items()}
    return _traces(folder)


def is_trace(file: Path) -> bool:
    """Whether a file that recorded_cases named is a bare trace, without a measurement.json."""
    return file.name != MEASUREMENT


def trace_files(folder: Path) -> list[Path]:
    """Every file below a folder that has a trace's ending, in any case, in the order of paths."""
    return sorted(path for path in folder.rglob("*") if path.name.lower().endswith(TRACE_ENDINGS) and path.is_file())


def without_ending(name: str) -> str:
    """A file's name without a trace's ending."""
    ending = next((ending for ending in TRACE_ENDINGS if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def trace_head(file: Path) -> bytes:
    """The first 64 KiB of a trace, unpacked; nothing of a file that cannot be read."""
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(file) if packed else file.open("rb") as opened:
            return opened.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""


def _traces(folder: Path) -> dict[str, dict[int, Path]]:
    groups: dict[str, list[Ranked]] = {}
    for file in trace_files(folder):
        stem = without_ending(file.relative_to(folder).as_posix().lower())
        rank = RANK.search(stem)
        key = RANK.sub("", stem) if rank else stem
        groups.setdefault(key, []).append((int(rank[1]) if rank else None, file.relative_to(folder)))
    cases: dict[str, dict[int, Path]] = {}
    for key, found in _with_ranks_inside(folder, groups).items():
        ranks = [rank for rank, _ in found]
        in_order = len(set(ranks)) < len(ranks) or None in ranks
        processes = {place + 1 if in_order else rank + 1: file for place, (rank, file) in enumerate(found)}
        cases[_free_name(_case_name(key), cases)] = dict(sorted(processes.items()))
    return cases


def _with_ranks_inside(folder: Path, groups: Mapping[str, list[Ranked]]) -> dict[str, list[Ranked]]:
    """The groups, with files brought together whose names tell no rank and whose heads tell ranks of one job."""
    jobs: dict[tuple[Path, int], list[tuple[int, str]]] = {}
    for key, ((rank, file), *more) in groups.items():
        inside = None if more or rank is not None else _rank_inside(folder / file)
        if inside and inside[1] > 1:
            jobs.setdefault((file.parent, inside[1]), []).append((inside[0], key))
    merged = dict(groups)
    for members in jobs.values():
        if 1 < len(members) == len({rank for rank, _ in members}):
            files = [(rank, merged.pop(key)[0][1]) for rank, key in sorted(members)]
            merged[_free_name(_common([key for _, key in members]), merged)] = files
    return merged


def _rank_inside(file: Path) -> tuple[int, int] | None:
    """(rank, world size) from the head of a trace; None where it says nothing."""
    found = _INSIDE.search(trace_head(file))
    return (int(found[1]), int(found[2])) if found else None


def _common(names: Sequence[str]) -> str:
    """What several names begin with, without the rest of a number or word."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = re.sub(r"[^/._-]*$", "", "".join(letters[0] for letters in same))
    return prefix.rstrip("/._-") or "ranks"


def _case_name(stem: str) -> str:
    """The stem in the letters that a case may have."""
    name = re.sub(r"[^a-z0-9.]+", "-", stem)[:MOST_LETTERS].strip("-.") or "trace"
    name = re.sub(r"(.+?)\1{19,}", r"\1", name)  # Snakemake takes a name that repeats itself for an endless recursion
    name = re.sub(r"\.(?=(?:json|log)$)", "-", name)  # so end the files beside the folders of the cases
    return name if name[0].isalpha() else f"trace-{name}"


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
