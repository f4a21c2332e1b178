"""The device activities of one process on the clock of its file, with what was recorded about collectives."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import CATEGORY_NAMES, Columns
from kernelbook.trace.events import Message
from kernelbook.trace.implausible import ImplausibleTimes
from kernelbook.trace.nesting import NONE, looked_up
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.types import Flags, Ints


class Timeline(msgspec.Struct, frozen=True):
    """Device activities by start, and the complete forwards. Times in ns on the clock of the file.

    Activities with an impossible start are left out.

    Per activity:
        name: index into `names`. category: index into `CATEGORY_NAMES`.
        window: number of its file. forward: number of its forward, -1 for none.
        launch_start, launch_end: of the call that queued it; MISSING if it is not in the file.
        range: index into `names` of the innermost range around its launch, -1 for none.
        message: index into `messages`, MISSING for none. It is that of the kernel, or of the op around its launch.
    Per forward: forward_number, forward_start and forward_end (of the range on the CPU).
    file_start: the earliest event of the first file.
    """

    names: Sequence[str]
    messages: Sequence[Message]
    name: Ints
    category: Ints
    device: Ints
    stream: Ints
    window: Ints
    start: Ints
    end: Ints
    launch_start: Ints
    launch_end: Ints
    forward: Ints
    range: Ints
    message: Ints
    forward_number: Ints
    forward_start: Ints
    forward_end: Ints
    file_start: int

    def is_copy(self) -> Flags:
        """Per activity whether it is a memcpy or memset."""
        copies: Flags = self.category != CATEGORY_NAMES.index("kernel")
        return copies


def make_timeline(
    columns: Columns, attribution: Attribution, implausible: ImplausibleTimes, forwards: Ints, number: Ints
) -> Timeline:
    """forwards: the complete ones, as indices into `attribution.ranges`. number: the `index` of each."""
    device, rows, launch = columns.device, attribution.forest.rows, attribution.launch
    with_message = attribution.forest.innermost(rows.message != MISSING)
    of_launch = looked_up(rows.message, looked_up(with_message, launch))
    window = np.maximum(np.searchsorted(columns.windows, device.start, "right") - 1, 0)
    to_clock = columns.origin - columns.shifts[window]
    launch_start, launch_end = looked_up(rows.start, launch), looked_up(rows.end, launch)
    own = attribution.ranges[forwards]
    place = _forward_of(attribution, forwards)
    possible = ~implausible.apart
    activities = {
        "name": device.name,
        "category": device.category,
        "device": device.device,
        "stream": device.stream,
        "window": window,
        "start": device.start + to_clock,
        "end": device.end - implausible.excess + to_clock,
        "launch_start": np.where(launch == NONE, MISSING, launch_start + to_clock),
        "launch_end": np.where(launch == NONE, MISSING, launch_end + to_clock),
        "forward": looked_up(number, place),
        "range": looked_up(rows.name[attribution.ranges], attribution.range_of),
        "message": np.where(device.message == MISSING, of_launch, device.message),
    }
    return Timeline(
        names=columns.names,
        messages=columns.messages,
        **{column: values[possible] for column, values in activities.items()},
        forward_number=number,
        forward_start=rows.start[own] + _clock_of(columns, rows.start[own]),
        forward_end=rows.end[own] + _clock_of(columns, rows.start[own]),
        file_start=columns.origin,
    )


def _clock_of(columns: Columns, start: Ints) -> Ints:
    """What must be added (ns) to times of the trace for those of the file that holds `start`."""
    window = np.maximum(np.searchsorted(columns.windows, start, "right") - 1, 0)
    return np.subtract(columns.origin, columns.shifts[window])


def _forward_of(attribution: Attribution, forwards: Ints) -> Ints:
    """Per activity the index of its forward, or NONE."""
    index = np.full(len(attribution.ranges), NONE)
    index[forwards] = np.arange(len(forwards))
    result = np.full(len(attribution.launch), NONE)
    ranges, activity = attribution.activities_in_ranges()
    of_forward = index[ranges] != NONE
    result[activity[of_forward]] = index[ranges[of_forward]]
    return result
