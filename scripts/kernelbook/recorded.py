"""What a folder of recorded traces holds: measured cases, or nothing but traces from anywhere.

A recorded run of Kernelbook's own has <case>/<process>/measurement.json. In any other folder each *.json and *.json.gz
is taken for a trace; files that differ in nothing but a rank number are the processes of one case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

MEASUREMENT = "measurement.json"
RANK = re.compile(r"(?:^|(?<=[^a-z]))rank[-_.]?(\d+)", re.IGNORECASE)
TRACE_ENDINGS = (".json.gz", ".json")


def recorded_cases(folder: Path) -> Mapping[str, Mapping[int, Path]]:
    """case -> process -> its measurement.json or its trace, paths relative to `folder`, in the order of names."""
    measured: dict[str, dict[int, Path]] = {}
    for file in sorted(folder.glob(f"*/*/{MEASUREMENT}")):
        process = file.parent.name
        if process.isdigit():
            measured.setdefault(file.parent.parent.name, {})[int(process)] = file.relative_to(folder)
    if measured:
        return {case: dict(sorted(files.items())) for case, files in measured.items()}
    return _traces(folder)


def is_trace(file: Path) -> bool:
    """Whether a file that recorded_cases named is a bare trace, without a measurement.json."""
    return file.name != MEASUREMENT


def _traces(folder: Path) -> dict[str, dict[int, Path]]:
    groups: dict[str, list[tuple[int | None, Path]]] = {}
    for file in sorted(path for ending in TRACE_ENDINGS for path in folder.rglob(f"*{ending}")):
        name = file.relative_to(folder).as_posix().lower()
        stem = next(name.removesuffix(ending) for ending in TRACE_ENDINGS if name.endswith(ending))
        rank = RANK.search(stem)
        key = RANK.sub("", stem) if rank else stem
        groups.setdefault(key, []).append((int(rank[1]) if rank else None, file.relative_to(folder)))
    cases: dict[str, dict[int, Path]] = {}
    for key, found in groups.items():
        ranks = [rank for rank, _ in found]
        in_order = len(set(ranks)) < len(ranks) or None in ranks
        processes = {place + 1 if in_order else rank + 1: file for place, (rank, file) in enumerate(found)}
        cases[_free_name(_case_name(key), cases)] = dict(sorted(processes.items()))
    return cases


def _case_name(stem: str) -> str:
    """The stem in the letters that a case may have."""
    name = re.sub(r"[^a-z0-9.]+", "-", stem).strip("-.") or "trace"
    return name if name[0].isalpha() else f"trace-{name}"


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
