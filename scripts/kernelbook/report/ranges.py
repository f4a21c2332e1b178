"""Figures of a trace other than those of its forwards: nested ranges, and the whole file of a bare trace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kernelbook.cases.medians import median
from kernelbook.cases.process import KEYS
from kernelbook.collectives.likeness import fold

Row = Mapping[str, Any]
Key = tuple[str, str]
Group = tuple[str, int]  # annotation and level of ranges
Kind = tuple[int, int | None]  # number and kernels of a kind of work
LINES = 40
KERNELS = 15
FILES = 8


@dataclass(frozen=True)
class RangeLine:
    """Ranges of one name that did the same work: the most frequent counts and median times, nested ranges included.

    annotation: the name, with * for each number if several names are merged. labels: their numbers. level: number of
    ranges of that name around each. kind: index among the `kinds` of work of that name and level.
    """

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
    labels: tuple[str, ...] = ()
    level: int = 0
    kind: int = 0
    kinds: int = 1


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
    """Figures of a whole bare trace, with work from before the window. more: number of kernels that are not listed.

    ranks: the rank of the trace and similar ranks of the same job; empty for a trace without ranks.
    """

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
    ranks: tuple[int, ...] = ()


def range_lines(tables: Mapping[str, pa.Table], left_out: Collection[tuple[Any, ...]] = ()) -> tuple[RangeLine, ...]:
    """The ranges of each (run, case) whose forwards did different work or whose trace has further ranges.

    A line for each name, level and kind of work, in the order of their first range; at most the `LINES` with the most
    CPU time. Kinds are numbered within a process, so they are identified by the number of kernels, too.
    left_out: (run, case, process, rank) of ranks whose figures are not those of the case.
    """
    grouped: dict[Key, dict[tuple[Group, Kind], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tables["ranges"].to_pylist():
        if tuple(row.get(name) for name in KEYS) in left_out:
            continue
        kind = (0, None) if row.get("kind") is None else (row["kind"], row["kernels"])
        group = (row.get("group") or row["annotation"], row.get("level") or 0)
        grouped[row["run"], row["case"]][group, kind].append(row)
    bare = {(row["run"], row["case"]) for row in _bare(tables)}
    lines: list[RangeLine] = []
    for key, by_line in grouped.items():
        rows = [row for members in by_line.values() for row in members]
        if key in bare or any(not row.get("forward", True) or row.get("kind") for row in rows):
            longest = sorted(by_line, key=lambda line: -sum(row["cpu_time_us"] for row in by_line[line]))[:LINES]
            kinds: dict[Group, list[Kind]] = defaultdict(list)
            for group, kind in sorted(by_line, key=lambda line: line[1][0]):
                kinds[group].append(kind)
            for group, kind in by_line:
                if (group, kind) in longest:
                    of_group = kinds[group]
                    lines.append(_line(key, by_line[group, kind], group, of_group.index(kind), len(of_group)))
    return tuple(lines)


def whole_files(tables: Mapping[str, pa.Table]) -> tuple[WholeFile, ...]:
    """The files of each case that is a bare trace, one for each process; similar ranks are listed once.

    Ranks are similar if their counts are equal and their device times differ by at most 5 %.
    """
    kernels: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in tables["kernels"].to_pylist():
        kernels[row["run"], row["case"], row["process"]].append(row)
    listed: Counter[Key] = Counter()
    files = []
    for row, *others in fold(map(_likeness, (row for row in _bare(tables) if row.get("totals")))):
        key = row["run"], row["case"]
        if listed[key] < FILES:
            listed[key] += 1
            ranks = tuple(each["rank"] for each in (row, *others) if each.get("rank") is not None)
            files.append(replace(_file(row, kernels[*key, row["process"]]), ranks=ranks))
    return tuple(files)


def _likeness(row: Row) -> tuple[Row, object, float, tuple[float, ...]]:
    """A row of `cases` as an argument of `fold`; one without a rank is similar to no other."""
    totals = row["totals"]
    time = totals.get("device_time_us") or 0.0
    own = row["process"] if row.get("rank") is None else None
    counts = tuple(totals.get(name) for name in TOTALS if not name.endswith("_us"))
    return row, (row["run"], row["case"], own, counts), time, (time,)


def _bare(tables: Mapping[str, pa.Table]) -> list[Row]:
    return [row for row in tables["cases"].to_pylist() if row.get("bare")]


def _line(key: Key, rows: list[Row], group: Group, kind: int, kinds: int) -> RangeLine:
    return RangeLine(
        run=key[0],
        case=key[1],
        annotation=group[0],
        count=len(rows),
        kernels=_usual(rows, "kernels"),
        memcpys=_usual(rows, "memcpys"),
        memsets=_usual(rows, "memsets"),
        cpu_time_us=median(row.get("cpu_time_us") for row in rows),
        device_time_us=median(row.get("device_time_us") for row in rows),
        device_busy_us=median(row.get("device_busy_us") for row in rows),
        inferred=any(row.get("inferred") for row in rows),
        forward=any(row.get("forward") for row in rows),
        labels=tuple(dict.fromkeys(row["label"] for row in rows if row.get("label") is not None)),
        level=group[1],
        kind=kind,
        kinds=kinds,
    )


def _usual(rows: list[Row], name: str) -> int | None:
    """The most frequent value of a column."""
    return Counter(row.get(name) for row in rows).most_common(1)[0][0]


def _file(row: Row, kernels: list[Row]) -> WholeFile:
    totals = row["totals"]
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


TOTALS = ("kernels", "memcpys", "memsets", "launches", "unattributed", "device_time_us", "device_busy_us")
