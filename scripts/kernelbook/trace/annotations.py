"""The ranges of each annotation in short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.busy import busy_time
from kernelbook.trace.columns import Columns
from kernelbook.trace.nesting import NONE
from kernelbook.trace.plausible import Doubts
from kernelbook.trace.tables import RangeFigures

COUNTS = ("kernels", "memcpys", "memsets", "launches")


@dataclass(frozen=True)
class AnnotationSummary:
    """The ranges of one name. Counts are (lowest, highest) over the ranges, times medians, None "not in the file".

    busy_share: the annotation's device busy time over the time from its first range's start to the end of its last
    range or activity, per device in use: 0 to 1. launch_delay_us: median over its activities, from the start of the
    launch call to the start of the activity. Both are without times that cannot be.
    """

    annotation: str
    ranges: int
    counts: dict[str, tuple[int, int] | None]
    cpu_time_us: float
    device_time_us: float | None
    device_busy_us: float | None
    busy_share: float | None
    launch_delay_us: float | None
    inferred: bool


def groups_of(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(code, the rows that have it in their order), codes in order of first appearance."""
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    parts = np.split(order, first[1:]) if len(found) else []
    yield from sorted(zip(found.tolist(), parts, strict=True), key=lambda each: each[1][0])


def summarize_annotations(
    columns: Columns, found: Attribution, doubts: Doubts, figures: RangeFigures, cut: np.ndarray
) -> list[AnnotationSummary]:
    """In the order in which the annotations first appear.

    Ranges that are `cut` are left out; an annotation that has no others keeps its CPU time alone.
    """
    codes = found.forest.rows.name[found.ranges]
    group, activity = found.within()
    activities = dict(groups_of(codes[group]))
    nothing = np.empty(0, dtype=np.int64)
    return [
        _summary(columns, found, doubts, figures, *_whole(rows, group, activity, activities.get(code, nothing), cut))
        for code, rows in groups_of(codes)
    ]


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
