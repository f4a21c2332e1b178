"""`read_trace`: one trace file to its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kernelbook.trace.annotations import AnnotationSummary, summarize_annotations
from kernelbook.trace.arrow import numbers
from kernelbook.trace.attribution import Attribution, attribute
from kernelbook.trace.columns import ColumnBuilder, Columns
from kernelbook.trace.cut import cut_ranges
from kernelbook.trace.events import integer
from kernelbook.trace.files import device_name
from kernelbook.trace.forwards import forward_activities, forward_calls
from kernelbook.trace.groups import RangeGroups, chosen_names, group_ranges
from kernelbook.trace.nesting import NONE, looked_up
from kernelbook.trace.plausible import Doubts, find_doubts
from kernelbook.trace.reader import EventReader
from kernelbook.trace.tables import (
    RangeFigures,
    activity_table,
    compute_ranges,
    compute_totals,
    device_table,
    kernel_table,
    op_table,
    range_table,
    select_ranges,
    whole,
)
from kernelbook.trace.types import Totals, TraceWarning
from kernelbook.trace.warnings import collect_warnings


@dataclass(frozen=True)
class TraceReading:
    """What one trace says. Times are float µs, counted from the earliest event; null is "not in the file".

    source: the file as it was given; windows: further files of its process. device: name of the first device.
    truncated: a file ends too early. annotation: the name or glob of the ranges that were chosen, None for the longest.
    ranges: one row per `user_annotation`, in order of start, without the profiler's steps unless they were chosen;
    `parent` is a row of this table. groups: which of them are taken together, and which are the forwards.
    cut: per row of `ranges` whether it reaches past the end of a truncated file: its device figures may be too low.
    steps: number of the profiler's own spans (ProfilerStep#N).
    categories: of all complete events, as the file spells them. bare_array: whether the top level is their array.
    kernels, ops: the whole file, grouped by name. activities: every device activity, in order of start; `range` is a
    row of `ranges`, `launch_delay_us` runs from the start of the launch call to that of the activity.
    """

    source: str
    windows: tuple[str, ...]
    annotation: str | None
    device: str | None
    device_properties: list[dict[str, Any]]
    distributed: dict[str, Any] | None
    truncated: bool
    warnings: tuple[TraceWarning, ...]
    totals: Totals
    ranges: pa.Table
    groups: RangeGroups
    kernels: pa.Table
    ops: pa.Table
    cut: np.ndarray
    steps: int
    categories: frozenset[str]
    bare_array: bool
    _columns: Columns = field(repr=False)
    _attribution: Attribution = field(repr=False)
    _figures: RangeFigures = field(repr=False)
    _doubts: Doubts = field(repr=False)

    @cached_property
    def activities(self) -> pa.Table:
        """Every device activity of the file, in order of start; made when it is first asked for."""
        return activity_table(self._columns, self._attribution, self._doubts)

    @cached_property
    def device_use(self) -> pa.Table:
        """Every device activity with the columns that tell how the device was used: far cheaper than `activities`."""
        return device_table(self._columns, self._attribution)

    def annotations(self) -> list[AnnotationSummary]:
        """The chosen ranges in short or, without an annotation, all: by name, in the order in which they begin."""
        shown = self.groups.chosen | (self.annotation is None)
        return summarize_annotations(
            self._columns, self._attribution, self._doubts, self._figures, self.groups, self.cut, shown
        )

    @cached_property
    def range_kernels(self) -> pa.Table:
        """As `kernels`, of the chosen ranges alone."""
        group, activity = self._attribution.within()
        return kernel_table(self._columns, np.unique(activity[self.groups.chosen[group]]))

    @cached_property
    def range_ops(self) -> pa.Table:
        """As `ops`, of the chosen ranges alone."""
        group, row = self._attribution.rows_within()
        return op_table(self._columns, self._attribution, np.unique(row[self.groups.chosen[group]]))

    def tables(self) -> dict[str, pa.Table]:
        """ranges, kernels, ops and activities and, where an annotation chose ranges, range_kernels and range_ops.

        `ranges` are then the chosen ones, and the `range` of an activity that belongs to no other is null.
        """
        tables = {name: getattr(self, name) for name in ("ranges", "kernels", "ops", "activities")}
        if self.annotation is None:
            return tables
        tables["ranges"], place = select_ranges(self.ranges, self.groups.chosen)
        column = self.activities.column_names.index("range")
        of_activity = whole(looked_up(place, self._attribution.range_of))
        tables["activities"] = self.activities.set_column(column, "range", of_activity)
        return tables | {"range_kernels": self.range_kernels, "range_ops": self.range_ops}

    def beside_forwards(self) -> pa.Table:
        """The ranges of other threads that were open inside a forward: with all they did, they are no part of it."""
        around, forwards = self._attribution.beside(), self.groups.is_forward
        while not (done := (around == NONE) | forwards[around]).all():
            around[~done] = self._attribution.open_around[around[~done]]
        return self.ranges.filter(numbers((around != NONE) & ~self.groups.chosen))

    @cached_property
    def forward_number(self) -> np.ndarray:
        """Per row of `ranges` which forward it is, counted from 0; -1 for every other range."""
        number = np.full(len(self.cut), -1)
        number[self.groups.is_forward] = np.arange(self.groups.is_forward.sum())
        return number

    def forwards(self) -> tuple[pa.Table, pa.Table]:
        """(activities, calls) of the forwards; both are empty when there is none. One that is `cut` is left out.

        activities: the reading's columns after `index` (which forward) and `position` (order of start in it).
        calls: every CPU event of the forwards in order of start: index, depth (0: in no other event), parent (a
        position, or null), position, category (op, runtime, annotation), name, start_us (from the forward's start),
        duration_us, self_us, kernels and self_device_time_us (launched by itself, not by its child ops), correlation,
        the inputs as JSON text, thread (0: the forward's own) and inferred (it ran on another thread). The inputs come
        from a second pass over the file.
        """
        forwards = np.flatnonzero((self.forward_number >= 0) & ~self.cut)
        number = self.forward_number[forwards]
        activities = forward_activities(self.activities, self._attribution, forwards, number)
        files = [Path(file) for file in (self.source, *self.windows)]
        return activities, forward_calls(files, self._columns, self._attribution, forwards, number)


def read_trace(path: str | Path, annotation: str | None = None, windows: Sequence[str | Path] = ()) -> TraceReading:
    """Read a torch.profiler trace, plain or gzipped, sound or damaged, of any torch version.

    annotation: the name of the ranges that are the forwards, or a glob; `groups.group_ranges` says what is taken
    without one. windows: further traces of the same process, in the order of time. They are read as if they followed
    one another without a pause: times are right within a window only. Raises TraceError (one line, naming the file)
    when a file cannot be read or is no torch trace.
    """
    readers = [EventReader(file) for file in (path, *windows)]
    builder = ColumnBuilder()
    for number, reader in enumerate(readers):
        if number:
            builder.end_window()
        for events in reader.batches():
            builder.add(events)
            del events  # before the next ones are decoded
    reader = readers[0]
    columns = builder.finish()
    chosen, steps = chosen_names(columns, annotation)
    found = attribute(columns, steps)
    doubts = find_doubts(columns, found)
    figures = compute_ranges(columns, found)
    cut = cut_ranges(columns, found, [each.truncated for each in readers])
    time = figures.device_time if len(columns.device.start) else found.forest.length[found.ranges]
    groups = group_ranges(columns, found, time, cut | doubts.cpu_apart[found.ranges], annotation, chosen)
    properties = _device_properties(reader.metadata.get("deviceProperties"))
    distributed = reader.metadata.get("distributedInfo")
    return TraceReading(
        source=str(path),
        windows=tuple(str(file) for file in windows),
        annotation=annotation,
        device=device_name(reader.metadata),
        device_properties=properties,
        distributed=distributed if isinstance(distributed, dict) else None,
        truncated=any(each.truncated for each in readers),
        warnings=collect_warnings(readers, columns, found, doubts, figures, groups, cut),
        totals=compute_totals(columns, found, doubts),
        ranges=range_table(columns, found, doubts, figures, groups),
        groups=groups,
        kernels=kernel_table(columns),
        ops=op_table(columns, found),
        cut=cut,
        steps=int(found.forest.rows.step.sum()),
        categories=columns.categories,
        bare_array=reader.bare_array,
        _columns=columns,
        _attribution=found,
        _figures=figures,
        _doubts=doubts,
    )


def _device_properties(found: Any) -> list[dict[str, Any]]:
    """The properties per device; but for the name, what is no number is None."""
    devices = [device for device in found if isinstance(device, dict)] if isinstance(found, list) else []
    return [
        {key: value if key == "name" or _is_number(value) else None for key, value in device.items()}
        for device in devices
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and integer(value) is not None
