"""Figures per annotation: the outermost ranges of each name, by the work that they did."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import Columns, distinct, median
from kernelbook.trace.implausible import ImplausibleTimes
from kernelbook.trace.nesting import NONE
from kernelbook.trace.ranges import RangeGroups
from kernelbook.trace.tables import RangeFigures, busy_time
from kernelbook.trace.types import COUNTS, Flags, Ints

MOST_KINDS = 5  # summaries of one family; the last covers all less frequent works


class AnnotationSummary(msgspec.Struct, frozen=True):
    """The outermost ranges of one family that did the same work. None if the file does not have the figure.

    annotation: name of the family. labels: what tells its names apart, if it has several.
    counts: (lowest, highest) of each of COUNTS over the ranges.
    cpu_time_us, device_time_us, device_busy_us: medians over the ranges.
    busy_share: device busy time divided by the time from the start of the first range to the end of the last range or
        activity and by the number of devices in use. Impossible times are left out.
    launch_delay_us: median over the activities, from the start of the launch call to the start of the activity.
    inferred: whether another thread launched some of the work.
    nested: number of ranges of the family inside others of its group.
    kind, kinds: number of the work, from 0, most frequent first, and number of works. From MOST_KINDS works on, the
        less frequent ones share a summary, whose `kind` and medians are None.
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


def groups_of(codes: Ints) -> Iterator[tuple[int, Ints]]:
    """(code, its rows in their order), in order of the first appearance of each code."""
    order = np.argsort(codes, kind="stable")
    values, first = np.unique(codes[order], return_index=True)
    parts = np.split(order, first[1:]) if len(values) else []
    yield from sorted(zip(values.tolist(), parts, strict=True), key=lambda group: int(group[1][0]))


class Annotations(msgspec.Struct, frozen=True):
    """Everything that the summaries are made of. `incomplete`: per range, see `ranges.incomplete_ranges`."""

    columns: Columns
    attribution: Attribution
    implausible: ImplausibleTimes
    figures: RangeFigures
    groups: RangeGroups
    incomplete: Flags

    def summaries(self, selected: Flags) -> list[AnnotationSummary]:
        """Summaries of the selected ranges, by family and kind of work.

        Incomplete ranges are left out; if there are no others, only the CPU time is given.
        """
        groups = self.groups
        part_of_range = np.full(len(selected), NONE)
        parts: list[tuple[Ints, int | None, int]] = []
        for family, outer in groups_of(np.where(selected & (groups.level == 0), groups.family, NONE)):
            kinds = distinct(groups.kind[outer]).tolist() if family != NONE else []
            for number, kind in enumerate(kinds[:MOST_KINDS]):
                rarer = number == MOST_KINDS - 1 and len(kinds) > MOST_KINDS
                rows = outer[groups.kind[outer] >= kind] if rarer else outer[groups.kind[outer] == kind]
                part_of_range[rows] = len(parts)
                parts.append((rows, None if rarer else number, len(kinds)))
        ranges, activity = self.attribution.activities_in_ranges()
        pairs = dict(groups_of(part_of_range[ranges]))
        summaries = []
        for number, (rows, kind_number, kind_count) in enumerate(parts):
            complete = rows[~self.incomplete[rows]]
            inside = pairs.get(number, np.empty(0, dtype=np.int64))
            inside = distinct(activity[inside[~self.incomplete[ranges[inside]]]])
            summaries.append(self._summary(rows, complete, inside, kind_number, kind_count))
        return summaries

    def _summary(self, rows: Ints, complete: Ints, activities: Ints, kind: int | None, kinds: int) -> AnnotationSummary:
        """rows: the ranges of the summary. complete: those that are not incomplete. activities: theirs."""
        device, figures, groups = self.columns.device, self.figures, self.groups
        has_device = len(complete) > 0 and len(device.start) > 0
        family = groups.family[rows[0]]
        labels = (groups.label[row] for row in rows.tolist())
        rows = complete if len(complete) else rows
        forest_rows = self.attribution.ranges[rows]
        launch = self.attribution.launch
        timed = activities[~self.implausible.no_delay[activities]]
        timed = timed[launch[timed] != NONE]
        delays = device.start[timed] - self.attribution.forest.rows.start[launch[timed]]

        def median_us(values: Ints, available: bool = has_device) -> float | None:
            return median(values) / 1000 if available and kind is not None and len(values) else None

        return AnnotationSummary(
            annotation=groups.names[family],
            ranges=len(rows),
            counts={name: _span(getattr(figures, name)[rows]) if has_device else None for name in COUNTS},
            cpu_time_us=median_us(self.attribution.forest.length[forest_rows], available=True),
            device_time_us=median_us(figures.device_time[rows]),
            device_busy_us=median_us(figures.device_busy[rows]),
            busy_share=self._busy_share(forest_rows, activities) if has_device else None,
            launch_delay_us=median_us(delays),
            inferred=bool(figures.inferred[rows].any()),
            labels=tuple(dict.fromkeys(label for label in labels if label is not None)),
            nested=int(((groups.family == family) & (groups.level > 0)).sum()),
            kind=kind,
            kinds=kinds,
        )

    def _busy_share(self, forest_rows: Ints, activities: Ints) -> float | None:
        """The busy share of these ranges and activities without impossible times; None if no time is left."""
        device, rows = self.columns.device, self.attribution.forest.rows
        own = forest_rows[~self.implausible.cpu_apart[forest_rows]]
        timed = activities[~self.implausible.apart[activities]]
        if not len(own) or len(activities) > len(timed) == 0:
            return None
        start, index = device.start[timed], device.device[timed]
        end = (device.end - self.implausible.excess)[timed]
        wall = max(rows.end[own].max(), end.max(initial=0)) - rows.start[own].min()
        wall *= max(len(distinct(index)), 1)
        return float(min(busy_time(start, end, index) / wall, 1.0)) if wall else None


def _span(counts: Ints) -> tuple[int, int]:
    return int(counts.min()), int(counts.max())
