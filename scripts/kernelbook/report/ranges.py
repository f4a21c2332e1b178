"""What a trace holds beside the forwards of its case: nested ranges, and of a bare trace the whole file."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
Key = tuple[str, str]
LINES = 40
KERNELS = 15
FILES = 8


@dataclass(frozen=True)
class RangeLine:
    """All ranges of one name: counts of most of them, times as medians. Figures include what is nested inside."""

    run: str
    case: str
    annotation: str
    count: int
    kernels: int | None
    memcpys: int | None
    memsets: int | None
    cpu_time_us: float | None
    device_time_us: float | None
    device_busy_us: float | None
    inferred: bool
    forward: bool


@dataclass(frozen=True)
class KernelLine:
    """All activities of one name in a file."""

    name: str
    category: str
    count: int
    total_us: float
    median_us: float
    share: float | None


@dataclass(frozen=True)
class WholeFile:
    """Figures of a whole bare trace, work from before the window included; `more` kernels are not listed."""

    run: str
    case: str
    process: int
    kernels: int | None
    memcpys: int | None
    memsets: int | None
    launches: int | None
    unattributed: int | None
    device_time_us: float | None
    device_busy_us: float | None
    longest: tuple[KernelLine, ...]
    more: int


def range_lines(tables: Mapping[str, pa.Table]) -> tuple[RangeLine, ...]:
    """Of each (run, case) whose trace has other ranges than the forwards, its ranges by name, at most `LINES` of them.

    In the order in which they first appear; where there are more, those of the most CPU time.
    """
    grouped: dict[Key, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tables["ranges"].to_pylist():
        grouped[row["run"], row["case"]][row["annotation"]].append(row)
    bare = {(row["run"], row["case"]) for row in _bare(tables)}
    lines: list[RangeLine] = []
    for key, by_name in grouped.items():
        others = any(not row.get("forward", True) for rows in by_name.values() for row in rows)
        if others or key in bare:
            kept = sorted(by_name, key=lambda name: -sum(row["cpu_time_us"] for row in by_name[name]))[:LINES]
            lines += [_line(key, name, by_name[name]) for name in by_name if name in set(kept)]
    return tuple(lines)


def whole_files(tables: Mapping[str, pa.Table]) -> tuple[WholeFile, ...]:
    """The files of each case that is a bare trace, a process each."""
    kernels: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in tables["kernels"].to_pylist():
        kernels[row["run"], row["case"], row["process"]].append(row)
    shown: Counter[Key] = Counter()
    files = []
    for row in _bare(tables):
        key = row["run"], row["case"]
        if row.get("totals") and shown[key] < FILES:
            shown[key] += 1
            files.append(_file(row, kernels[*key, row["process"]]))
    return tuple(files)


def _bare(tables: Mapping[str, pa.Table]) -> list[Row]:
    return [row for row in tables["cases"].to_pylist() if row.get("workload") == "trace"]


def _line(key: Key, name: str, rows: list[Row]) -> RangeLine:
    counts = {each: Counter(row.get(each) for row in rows).most_common(1)[0][0] for each in ("kernels", *COPIES)}
    times = {each: _median(row.get(each) for row in rows) for each in TIMES}
    inferred, forward = (any(row.get(each) for row in rows) for each in ("inferred", "forward"))
    return RangeLine(*key, name, len(rows), **counts, **times, inferred=inferred, forward=forward)


def _file(row: Row, kernels: list[Row]) -> WholeFile:
    totals = json.loads(row["totals"])
    figures = {key: totals.get(key) for key in TOTALS}
    whole = totals.get("device_time_us")
    ordered = sorted(kernels, key=lambda kernel: -kernel["total_us"])
    longest = tuple(
        KernelLine(
            **{key: kernel[key] for key in ("name", "category", "count", "total_us", "median_us")},
            share=kernel["total_us"] / whole if whole else None,
        )
        for kernel in ordered[:KERNELS]
    )
    return WholeFile(
        row["run"], row["case"], row["process"], **figures, longest=longest, more=max(len(ordered) - KERNELS, 0)
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


TIMES = ("cpu_time_us", "device_time_us", "device_busy_us")
COPIES = ("memcpys", "memsets")
TOTALS = ("kernels", *COPIES, "launches", "unattributed", "device_time_us", "device_busy_us")
