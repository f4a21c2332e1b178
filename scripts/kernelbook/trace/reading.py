"""`read_trace`: from a trace file to its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kernelbook.trace.annotations import Annotations, AnnotationSummary
from kernelbook.trace.attribution import Attribution, attribute
from kernelbook.trace.building import ColumnBuilder
from kernelbook.trace.columns import ANNOTATION, Columns, distinct
from kernelbook.trace.events import WITH_COLLECTIVES, NotDecodedError, integer
from kernelbook.trace.files import device_name
from kernelbook.trace.forwards import forward_activities, forward_calls
from kernelbook.trace.frame import Column, Frame, whole
from kernelbook.trace.implausible import ImplausibleTimes, find_implausible_times
from kernelbook.trace.inputs import RecordedInputs
from kernelbook.trace.nesting import NONE, looked_up
from kernelbook.trace.ranges import RangeGroups, group_ranges, incomplete_ranges, selected_names
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
)
from kernelbook.trace.timeline import Timeline, make_timeline
from kernelbook.trace.types import Flags, Ints, Totals, TraceWarning
from kernelbook.trace.warnings import collect_warnings

if TYPE_CHECKING:
    import pyarrow as pa

# glibc returns freed arrays of 128 KiB or more to the system, and the next ones cost a page fault per 4 KiB, a tenth of
# the time of a reading. Freeing a larger array raises that limit to its size, 32 MiB at most. This one is not touched.
np.empty((32 << 20) - (1 << 16), np.uint8)


class TraceReading(msgspec.Struct, frozen=True, dict=True):
    """The content of one trace. Times in tables are float µs since the earliest event; null means not in the file.

    source: path of the file, as passed. windows: paths of further files of its process.
    annotation: name or glob of the selected ranges, or None.
    device: name of the first device. device_properties: of all devices; values that are not numbers are None.
    distributed: torch's distributedInfo.
    truncated: whether a file ends too early.
    groups: how the ranges are grouped, and which are the forwards.
    incomplete: per range whether it extends past the end of a truncated file, so its device figures may be too low.
    steps: number of ProfilerStep#N annotations.
    categories: categories of all complete events, as spelled in the file.
    bare_array: whether the top level of the file is the array of events.
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
    groups: RangeGroups
    incomplete: Flags
    steps: int
    categories: frozenset[str]
    bare_array: bool
    _columns: Columns
    _attribution: Attribution
    _figures: RangeFigures
    _implausible: ImplausibleTimes
    _readers: Sequence[EventReader]
    _inputs: RecordedInputs

    def select(self, annotation: str | None) -> TraceReading:
        """The same trace with other ranges selected, without reading its file again."""
        return _reading(self._readers, self._columns, self._inputs, self.source, self.windows, annotation)

    @cached_property
    def ranges(self) -> pa.Table:
        """One row per `user_annotation`, by start; profiler steps only if they are selected.

        `parent` is the row of the enclosing range.
        """
        return self.frames["ranges"].to_arrow()

    @cached_property
    def kernels(self) -> pa.Table:
        """Activities of the whole file, one row per name and category."""
        return self.frames["kernels"].to_arrow()

    @cached_property
    def ops(self) -> pa.Table:
        """Ops of the whole file, one row per name."""
        return self.frames["ops"].to_arrow()

    @cached_property
    def activities(self) -> pa.Table:
        """Every device activity of the file, by start. `range` is a row of `ranges`."""
        return self._activities.to_arrow()

    @cached_property
    def frames(self) -> dict[str, Frame]:
        """`ranges`, `kernels` and `ops` and, with an annotation, `range_kernels` and `range_ops`, as NumPy columns.

        The last two are as `kernels` and `ops`, of the selected ranges only.
        """
        columns, attribution = self._columns, self._attribution
        frames = {
            "ranges": range_table(columns, attribution, self._implausible, self._figures, self.groups),
            "kernels": kernel_table(columns),
            "ops": op_table(columns, attribution),
        }
        if self.annotation is None:
            return frames
        selected = self.groups.selected
        group, activity = attribution.activities_in_ranges()
        frames["range_kernels"] = kernel_table(columns, distinct(activity[selected[group]]))
        group, row = attribution.rows_in_ranges()
        frames["range_ops"] = op_table(columns, attribution, distinct(row[selected[group]]))
        return frames

    @cached_property
    def _activities(self) -> Frame:
        return activity_table(self._columns, self._attribution, self._implausible)

    @cached_property
    def device_use(self) -> Frame:
        """Every device activity with the columns that show how the device was used; far cheaper than `activities`."""
        return device_table(self._columns, self._attribution)

    @property
    def world_size(self) -> int | None:
        """Ranks of the job, as the file states it."""
        value = (self.distributed or {}).get("world_size")
        number = integer(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
        return number if number is not None and number > 0 else None

    @property
    def names(self) -> Sequence[str]:
        """Names of kernels, ranges, ops and calls."""
        return self._columns.names

    @cached_property
    def timeline(self) -> Timeline:
        """Every device activity on the clock of the file, and the complete forwards."""
        forwards = np.flatnonzero((self.forward_number >= 0) & ~self.incomplete)
        number = self.forward_number[forwards]
        return make_timeline(self._columns, self._attribution, self._implausible, forwards, number)

    def self_cpu_work(self) -> dict[str, tuple[int, float]]:
        """Name -> number of ops and runtime calls of this name, and their CPU time (µs) without what they call."""
        forest, names = self._attribution.forest, self._columns.names
        calls = forest.rows.kind != ANNOTATION
        total = np.zeros(len(names), dtype=np.int64)
        np.add.at(total, forest.rows.name[calls], forest.self_time[calls])
        count = np.bincount(forest.rows.name[calls], minlength=len(names))
        return {names[code]: (int(count[code]), float(total[code]) / 1000) for code in np.flatnonzero(count).tolist()}

    def annotations(self) -> list[AnnotationSummary]:
        """Summaries of the selected ranges or, without an annotation, of all."""
        selected = self.groups.selected | (self.annotation is None)
        return Annotations(
            self._columns, self._attribution, self._implausible, self._figures, self.groups, self.incomplete
        ).summaries(selected)

    def tables(self) -> dict[str, pa.Table]:
        """All `frames` and the activities, as Arrow tables.

        With an annotation, `ranges` are the selected ones, and the `range` of an activity in no selected range is null.
        """
        frames = self.frames | {"activities": self._activities}
        if self.annotation is not None:
            frames["ranges"], place = select_ranges(frames["ranges"], self.groups.selected)
            own_range = whole(looked_up(place, self._attribution.range_of))
            frames["activities"] = Frame(frames["activities"] | {"range": own_range})
        return {name: frame.to_arrow() for name, frame in frames.items()}

    def beside_forwards(self) -> Frame:
        """Ranges of other threads that were open inside a forward. They are no part of it, nor is their work."""
        around, forwards = self._attribution.beside(), self.groups.is_forward
        while not (done := (around == NONE) | forwards[around]).all():
            around[~done] = self._attribution.open_around[around[~done]]
        return self.frames["ranges"].take((around != NONE) & ~self.groups.selected)

    @cached_property
    def forward_number(self) -> Ints:
        """Per range the number of the forward that it is, from 0; -1 for every other range."""
        number = np.full(len(self.incomplete), -1)
        number[self.groups.is_forward] = np.arange(self.groups.is_forward.sum())
        return number

    def complete_ranges(self) -> pa.Table:
        """`ranges` without incomplete ones; the `index` of a forward is its number."""
        ranges, number = self.frames["ranges"], self.forward_number
        index = Column(np.where(number >= 0, number, ranges["index"].values))
        return select_ranges(Frame(ranges | {"index": index}), ~self.incomplete)[0].to_arrow()

    def forwards(self) -> tuple[pa.Table, pa.Table]:
        """(activities, calls) of the complete forwards, with the columns of `Activity` and `Call` in `cases.facts`.

        The inputs of calls come from a second pass over the file.
        """
        forwards = np.flatnonzero((self.forward_number >= 0) & ~self.incomplete)
        number = self.forward_number[forwards]
        activities = forward_activities(self._activities, self._attribution, forwards, number)
        calls = forward_calls(self._inputs, self._columns, self._attribution, forwards, number)
        return activities.to_arrow(), calls.to_arrow()


def read_trace(path: str | Path, annotation: str | None = None, windows: Sequence[str | Path] = ()) -> TraceReading:
    """Read a torch.profiler trace of any torch version, plain or gzipped, complete or damaged.

    annotation: name of the ranges that are the forwards, or a glob; see `ranges.group_ranges` for the default.
    windows: further traces of the same process, in order of time. They are read as if they followed one another
    without a pause, so times are right only within a window.

    Raises TraceError if a file cannot be read or is not a torch trace.
    """
    files = [Path(file) for file in (path, *windows)]
    try:
        columns = _read_columns(readers := [EventReader(file) for file in files])
    except NotDecodedError:  # a collective in a file that is not known to be of a distributed job
        columns = _read_columns(readers := [EventReader(file, decode=WITH_COLLECTIVES) for file in files])
    return _reading(readers, columns, RecordedInputs(files), str(path), tuple(map(str, windows)), annotation)


def _reading(
    readers: Sequence[EventReader],
    columns: Columns,
    inputs: RecordedInputs,
    source: str,
    windows: tuple[str, ...],
    annotation: str | None,
) -> TraceReading:
    names, steps = selected_names(columns, annotation)
    attribution = attribute(columns, steps)
    implausible = find_implausible_times(columns, attribution)
    figures = compute_ranges(columns, attribution)
    incomplete = incomplete_ranges(columns, attribution, [reader.truncated for reader in readers])
    has_device = len(columns.device.start) > 0
    time = figures.device_time if has_device else attribution.forest.length[attribution.ranges]
    doubtful = incomplete | implausible.cpu_apart[attribution.ranges]
    groups = group_ranges(columns, attribution, time, doubtful, annotation, names)
    metadata = readers[0].metadata
    distributed = metadata.get("distributedInfo")
    return TraceReading(
        source=source,
        windows=windows,
        annotation=annotation,
        device=device_name(metadata),
        device_properties=_device_properties(metadata.get("deviceProperties")),
        distributed=distributed if isinstance(distributed, dict) else None,
        truncated=any(reader.truncated for reader in readers),
        warnings=collect_warnings(readers, columns, attribution, implausible, figures, groups, incomplete),
        totals=compute_totals(columns, attribution, implausible),
        groups=groups,
        incomplete=incomplete,
        steps=int(attribution.forest.rows.step.sum()),
        categories=columns.categories,
        bare_array=readers[0].bare_array,
        _columns=columns,
        _attribution=attribution,
        _figures=figures,
        _implausible=implausible,
        _readers=readers,
        _inputs=inputs,
    )


def _read_columns(readers: Iterable[EventReader]) -> Columns:
    builder = ColumnBuilder()
    for number, reader in enumerate(readers):
        if number:
            builder.end_window()
        for events in reader.batches():
            builder.add(events)
            del events  # free them before the next batch is decoded
    return builder.finish()


def _device_properties(devices: Any) -> list[dict[str, Any]]:
    """The properties of each device. Values other than `name` that are not numbers are None."""
    return [
        {key: value if key == "name" or _is_number(value) else None for key, value in device.items()}
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and integer(value) is not None
