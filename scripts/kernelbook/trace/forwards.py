"""The device activities and the CPU events of each forward."""

from __future__ import annotations

import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import KERNEL, OP, Columns
from kernelbook.trace.frame import Column, Frame, microseconds, whole
from kernelbook.trace.inputs import RecordedInputs
from kernelbook.trace.nesting import NONE, depths, looked_up
from kernelbook.trace.tables import summed_by_row
from kernelbook.trace.types import Flags, Ints

#: By kind; driver calls are RUNTIME rows.
_CATEGORIES = ("annotation", "op", "runtime", "driver", "overhead")


def forward_activities(activities: Frame, attribution: Attribution, forwards: Ints, number: Ints) -> Frame:
    """The activities of the forwards, nested ranges included, after `index` and `position` (order of start).

    forwards: outermost ranges, as indices into `attribution.ranges`. number: the `index` of each.
    """
    place, activity = _of_forwards(attribution.activities_in_ranges(), attribution, forwards)
    own = {"index": Column(number[place]), "position": Column(_position(place))}
    inferred = attribution.on_other_thread(forwards[place], attribution.launch[activity])
    return Frame(own | activities.take(activity) | {"inferred": Column(inferred)})


def forward_calls(
    inputs: RecordedInputs, columns: Columns, attribution: Attribution, forwards: Ints, number: Ints
) -> Frame:
    """Every CPU event of the forwards, by start; `forwards` and `number` as in `forward_activities`.

    Events of other threads are those whose innermost range, inferred as for kernels, is or lies in the forward.
    Overhead, which has no thread, is inside the shortest event around it.
    `kernels` and `self_device_time_us` of an op are what it launched itself. The runtime call that launched it has the
    same figures, so sums must be over one category.
    """
    forest, device, overhead = attribution.forest, columns.device, columns.overhead
    rows = forest.rows
    place, row, beside = _events(columns, attribution, forwards)
    own = beside == NONE

    def either(of_row: Ints, of_overhead: Ints | int) -> Ints:
        """Per event the value of its CPU row, or that of its overhead."""
        values = of_overhead if isinstance(of_overhead, int) else looked_up(of_overhead, beside)
        return np.where(own, of_row[row], values)

    position = _position(place)
    parent = _parents(place, np.where(own, row, len(rows.start) + beside), np.where(own, forest.parent[row], row))
    kernels, time = _own_device_figures(columns, attribution)
    no_device = np.full(len(row), not len(device.start))
    kind, length = either(rows.kind, overhead.kind), either(forest.length, overhead.end - overhead.start)
    self_time = np.where(own, forest.self_time[row], length)
    inside = ~own & (parent != NONE)
    np.subtract.at(self_time, parent[inside], length[inside])
    start = either(rows.start, overhead.start) - rows.start[attribution.ranges[forwards]][place]
    ordinals = np.where(kind == OP, either(rows.ordinal, NONE), NONE)
    inferred = attribution.on_other_thread(forwards[place], row)
    return Frame(
        {
            "index": Column(number[place]),
            "depth": Column(depths(parent)),
            "parent": whole(looked_up(position, parent)),
            "position": Column(position),
            "category": Column(kind, names=_CATEGORIES),
            "name": Column(either(rows.name, overhead.name), names=columns.names),
            "start_us": microseconds(start),
            "duration_us": microseconds(length),
            "self_us": microseconds(np.maximum(self_time, 0)),
            "kernels": Column(either(kernels, 0), no_device),
            "self_device_time_us": microseconds(either(time, 0), no_device),
            "correlation": whole(either(rows.correlation, NONE)),
            "inputs": inputs.lists(ordinals),
            "thread": Column(_thread_numbers(place, inferred, rows.thread[row])),
            "inferred": Column(inferred),
        }
    )


def _events(columns: Columns, attribution: Attribution, forwards: Ints) -> tuple[Ints, Ints, Ints]:
    """(forward, CPU row, overhead or NONE) per event, by forward and start. The row of overhead is around it."""
    rows, overhead = attribution.forest.rows, columns.overhead
    around = attribution.forest.shortest_around(overhead)
    own, row = _of_forwards(attribution.rows_in_ranges(), attribution, forwards)
    other, beside = _of_forwards(attribution.ranges_around(around), attribution, forwards)
    events = (
        np.concatenate((own, other)),
        np.concatenate((row, around[beside])),
        np.concatenate((np.full(len(row), NONE), beside)),
    )
    start = np.concatenate((rows.start[row], overhead.start[beside]))
    order = np.lexsort((events[1], events[2], start, events[0]))
    return events[0][order], events[1][order], events[2][order]


def _of_forwards(pairs: tuple[Ints, Ints], attribution: Attribution, forwards: Ints) -> tuple[Ints, Ints]:
    """The pairs (range, item) that are of a forward, as (index into `forwards`, item), sorted."""
    place = np.full(len(attribution.ranges), NONE)
    place[forwards] = np.arange(len(forwards))
    place, item = place[pairs[0]], pairs[1]
    place, item = place[place != NONE], item[place != NONE]
    order = np.lexsort((item, place))
    return place[order], item[order]


def _parents(place: Ints, row: Ints, parent: Ints) -> Ints:
    """Per line (place, row) the line of its parent row in the same place, or NONE."""
    width = max(row.max(initial=0), parent.max(initial=0)) + 1
    key, parent_key = place * width + row, place * width + parent
    by_key = np.argsort(key)
    at = np.searchsorted(key, parent_key, sorter=by_key)
    line = by_key[np.minimum(at, len(key) - 1)] if len(key) else at
    return np.where((parent != NONE) & (key[line] == parent_key), line, NONE)


def _position(place: Ints) -> Ints:
    """Per row, sorted by `place`, the number of earlier rows of the same place."""
    return np.subtract(np.arange(len(place)), np.searchsorted(place, place, "left"))


def _thread_numbers(place: Ints, inferred: Flags, thread: Ints) -> Ints:
    """Per row the number of its thread within its forward: 0 is the forward's own, others count from 1."""
    pairs, pair = np.unique(np.stack((place, np.where(inferred, thread, NONE))), axis=1, return_inverse=True)
    first = np.searchsorted(pairs[0], pairs[0], "left")
    # The forward's own thread is number 0 even if it has no rows.
    has_own = pairs[1][first] == NONE if len(first) else first == NONE
    numbers: Ints = np.arange(len(first)) - first + ~has_own
    return numbers[pair.reshape(-1)]


def _own_device_figures(columns: Columns, attribution: Attribution) -> tuple[Ints, Ints]:
    """Per CPU row the kernels and the device time (ns) that it launched itself, for ops and for calls."""
    device, forest = columns.device, attribution.forest
    is_kernel = (device.category == KERNEL).astype(np.int64)
    kernels, time = (
        summed_by_row(forest, attribution.op, values) + summed_by_row(forest, attribution.launch, values)
        for values in (is_kernel, device.end - device.start)
    )
    return kernels, time
