"""The outermost ranges of each name in short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.busy import busy_time
from kernelbook.trace.columns import Columns
from kernelbook.trace.groups import RangeGroups
from kernelbook.trace.nesting import NONE
from kernelbook.trace.plausible import Doubts
from kernelbook.trace.tables import RangeFigures

COUNTS = ("kernels", "memcpys", "memsets", "launches")
MOST_KINDS = 5  # lines of one group; the last is for all works that are rarer


@dataclass(frozen=True)
class AnnotationSummary:
    """The outermost ranges of one family that did the same work. Counts are (lowest, highest) over the ranges, times
    medians, None "not in the file".

    annotation: the family's name; labels: what tells its names apart, if there are several. nested: how many of its
    ranges lie in others of its group. kind, kinds: which work of how many its ranges did, from 0, the commonest first.
    From `MOST_KINDS` works on the rarer ones are put together: kind is None then, and so are the medians.
    busy_share: their device busy time over the time from the first range's start to the end of the last
    range or activity, per device in use: 0 to 1. launch_delay_us: median over its activities, from the start of the
    launch call to the start of the activity. Both are without times that cannot be.
    """

    annotation: str
    ranges: int
    counts: dict[str, tuple[int, int] | None]
    cpu_time_us: float | None
    device_time_us: float | None
    device_busy_us: float | None
    busy_share: float | None
    launch_delay_us: float | None
    inferred: bool
    labels: tuple[str, ...] = ()
    nested: int = 0
    kind: int | None = 0
    kinds: int = 1


def groups_of(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(code, the rows that have it in their order), codes in order of first appearance."""
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    parts = np.split(order, first[1:]) if len(found) else []
    yield from sorted(zip(found.tolist(), parts, strict=True), key=lambda each: each[1][0])


def summarize_annotations(
    columns: Columns,
    found: Attribution,
    doubts: Doubts,
    figures: RangeFigures,
    groups: RangeGroups,
    cut: np.ndarray,
    shown: np.ndarray,
) -> list[AnnotationSummary]:
    """Of the ranges to be shown (one flag per range), family by family, and in a family by kind of work.

    Ranges that are `cut` are left out; where there are no others, the CPU time alone is kept.
    """
    line = np.full(len(cut), NONE)
    lines: list[tuple[np.ndarray, int | None, int]] = []
    for family, outer in groups_of(np.where(shown & (groups.level == 0), groups.family, NONE)):
        kinds = np.unique(groups.kind[outer]) if family != NONE else []
        for number, kind in enumerate(kinds[:MOST_KINDS]):
            rarer = number == MOST_KINDS - 1 and len(kinds) > MOST_KINDS
            rows = outer[groups.kind[outer] >= kind] if rarer else outer[groups.kind[outer] == kind]
            line[rows] = len(lines)
            lines.append((rows, None if rarer else number, len(kinds)))
    ranges, activity = found.within()
    activities = dict(groups_of(line[ranges]))
    nothing = np.empty(0, dtype=np.int64)
    summaries = []
    for number, (rows, kind, kinds) in enumerate(lines):
        whole = _whole(rows, ranges, activity, activities.get(number, nothing), cut)
        summaries.append(_of_family(_summary(columns, found, doubts, figures, *whole), groups, rows, kind, kinds))
    return summaries


def _of_family(
    summary: AnnotationSummary, groups: RangeGroups, rows: np.ndarray, kind: int | None, kinds: int
) -> AnnotationSummary:
    """The summary of these ranges, with what is known of their family and their work."""
    family = groups.family[rows[0]]
    labels = (groups.label[row] for row in rows.tolist())
    medians = ("cpu_time_us", "device_time_us", "device_busy_us", "launch_delay_us") if kind is None else ()
    return replace(
        summary,
        annotation=groups.names[family],
        labels=tuple(dict.fromkeys(label for label in labels if label is not None)),
        nested=int(((groups.family == family) & (groups.level > 0)).sum()),
        kind=kind,
        kinds=kinds,
        **dict.fromkeys(medians),
    )


def _whole(
    rows: np.ndarray, group: np.ndarray, activity: np.ndarray, pairs: np.ndarray, cut: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The ranges and activities of one annotation to look at, and whether their device figures are to be had."""
    kept = rows[~cut[rows]]
    if not len(kept):
        return rows, np.empty(0, dtype=np.int64), False
    return kept, np.unique(activity[pairs[~cut[group[pairs]]]]), True


def _summary(
    columns: Columns,
    found: Attribution,
    doubts: Doubts,
    figures: RangeFigures,
    ranges: np.ndarray,
    mine: np.ndarray,
    whole: bool,
) -> AnnotationSummary:
    device, rows = columns.device, found.forest.rows
    own = found.ranges[ranges]
    timed = mine[~doubts.no_delay[mine]]
    delays = (device.start[timed] - rows.start[found.launch[timed]])[found.launch[timed] != NONE]
    known = whole and len(device.start) > 0

    def median(values: np.ndarray) -> float | None:
        return float(np.median(values)) / 1000 if known and len(values) else None

    return AnnotationSummary(
        annotation=columns.names[rows.name[own[0]]],
        ranges=len(ranges),
        counts={name: _span(getattr(figures, name)[ranges]) if known else None for name in COUNTS},
        cpu_time_us=float(np.median(found.forest.length[own])) / 1000,
        device_time_us=median(figures.device_time[ranges]),
        device_busy_us=median(figures.device_busy[ranges]),
        busy_share=_busy_share(columns, found, doubts, own, mine) if known else None,
        launch_delay_us=median(delays),
        inferred=bool(figures.inferred[ranges].any()),
    )


def _busy_share(
    columns: Columns, found: Attribution, doubts: Doubts, own: np.ndarray, mine: np.ndarray
) -> float | None:
    """Of the ranges in these rows and these activities, as far as their times can be; None where no time is left."""
    device, rows = columns.device, found.forest.rows
    own = own[~doubts.cpu_apart[own]]
    timed = mine[~doubts.apart[mine]]
    if not len(own) or len(mine) > len(timed) == 0:
        return None
    start, end, index = device.start[timed], (device.end - doubts.excess)[timed], device.device[timed]
    wall = max(rows.end[own].max(), end.max(initial=0)) - rows.start[own].min()
    wall *= max(len(np.unique(index)), 1)
    return float(min(busy_time(start, end, index) / wall, 1.0)) if wall else None


def _span(counts: np.ndarray) -> tuple[int, int]:
    return int(counts.min()), int(counts.max())
