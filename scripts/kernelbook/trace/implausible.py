"""Device activities whose times cannot be right, and the device time in doubt for it.

The profiler and other exporters sometimes write a wrong time: 0 if CUPTI collected none, an end that is seconds too
late, a device clock that differs from the CPU's. Counts are not affected; sums and windows are.
"""

from __future__ import annotations

import msgspec
import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import Columns, CpuRows, DeviceRows, main_span
from kernelbook.trace.nesting import NONE
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.types import Flags, Ints

EARLY_NS = 10**6  # the device's clock differs from the CPU's by less than this
LONG_NS = 10**9  # a shorter activity may outlast a window that ends without waiting for the device
OVERRUN_NS = 10**4  # timers tick in µs on some devices, and early versions of torch wrote whole µs
_USUAL = 5


class ImplausibleTimes(msgspec.Struct, frozen=True):
    """What is wrong with the times of a file.

    Per activity:
        overrun: ended after an activity that began later on its stream.
        too_long: took longer than all CPU rows span.
        early: began before its launch.
        apart: began hours away from most events.
        excess: the part of its duration that is impossible, in ns.
        no_delay: whether its start cannot be compared with that of its launch.
    Per CPU row:
        cpu_apart: began hours away from most events.
    other_clock: the device's times are on another clock than the CPU's. Durations are right then and `excess` is 0;
    only the distance between the two sides is not known.
    """

    overrun: Flags
    too_long: Flags
    early: Flags
    apart: Flags
    cpu_apart: Flags
    excess: Ints
    no_delay: Flags
    other_clock: bool

    @property
    def activities(self) -> Flags:
        """Per activity whether any of its times is wrong."""
        wrong: Flags = self.overrun | self.too_long | self.early | self.apart
        return wrong


def find_implausible_times(columns: Columns, attribution: Attribution) -> ImplausibleTimes:
    device, rows = columns.device, attribution.forest.rows
    first, last = main_span(np.concatenate((rows.start, device.start)))
    apart, cpu_apart = ((start < first) | (start > last) for start in (device.start, rows.start))
    launched = np.flatnonzero(attribution.launch != NONE)
    no_delay = apart.copy()
    no_delay[launched] |= cpu_apart[attribution.launch[launched]]
    early, before = _early(device, rows, attribution.launch, ~no_delay)
    overrun, after_next = _overrun(device, _launching_process(rows, attribution.launch))
    too_long, beyond = _too_long(device, rows, attribution.launch, ~cpu_apart)
    shifted = int(early.sum()) > max(len(launched) // 2, 1)
    # CUPTI writes 0 for a time that it could not collect, which does not mean another clock.
    elsewhere = bool(len(apart) and apart.all() and not (device.start + columns.origin == 0).any())
    zero = np.zeros_like(before)
    misplaced = zero if elsewhere else np.where(apart, device.end - device.start, zero)
    excess = np.maximum.reduce([misplaced, zero if shifted else before, after_next, beyond])
    return ImplausibleTimes(
        overrun, too_long, early, apart, cpu_apart, excess, no_delay | early, other_clock=shifted or elsewhere
    )


def _early(device: DeviceRows, rows: CpuRows, launch: Ints, comparable: Flags) -> tuple[Flags, Ints]:
    """(activities that began before their launch, how much of each lies before it in ns)."""
    early, before = np.zeros(len(launch), dtype=bool), np.zeros(len(launch), dtype=np.int64)
    launched = np.flatnonzero((launch != NONE) & comparable)
    called = rows.start[launch[launched]]
    early[launched] = device.start[launched] + EARLY_NS < called
    before[launched] = np.minimum(called, device.end[launched]) - device.start[launched]
    return early, np.where(early, before, 0)


def _launching_process(rows: CpuRows, launch: Ints) -> Ints:
    """Per activity a number of the process that launched it; NONE if it is not known and there are several."""
    pids, process = rows.processes()
    if len(pids) < 2:
        return np.zeros(len(launch), dtype=np.int64)
    return np.where(launch == NONE, NONE, process[launch])


def _overrun(device: DeviceRows, process: Ints) -> tuple[Flags, Ints]:
    """(activities that end after one that began later on their stream, by how much they pass its start in ns).

    Activities of a stream begin and end in order. With programmatic dependent launch a kernel begins while the one
    before runs, but still ends after it. Activities of one graph launch are not compared: older drivers report all
    branches of a graph on the stream that it was launched on.
    """
    overrun, excess = np.zeros(len(process), dtype=bool), np.zeros(len(process), dtype=np.int64)
    order = np.lexsort((device.end, device.start, process, device.stream, device.lane))
    order = order[device.stream[order] != MISSING]
    count = len(order)
    if count == 0:
        return overrun, excess
    start, end, launch = device.start[order], device.end[order], device.correlation[order]
    new_lane = np.any([np.diff(key[order]) != 0 for key in (device.lane, device.stream, process)], axis=0)
    lane = np.concatenate(([0], np.cumsum(new_lane)))
    # Per place, the first with a later start and another launch on its lane. Without correlation ids each is another.
    another = (np.diff(launch) != 0) | (launch[1:] == MISSING)
    new = new_lane | (another & (np.diff(start) != 0))
    following = np.append(np.flatnonzero(new) + 1, 0)[np.concatenate(([0], np.cumsum(new)))]
    compared = np.flatnonzero((lane[following] == lane) & (following > np.arange(count)))
    then = following[compared]
    # Per place, the first end from there on in its lane. Ends are ranked so that all lanes fit on one axis.
    by_end = np.argsort(end)
    rank = np.empty(count, dtype=np.int64)
    rank[by_end] = np.arange(count)
    first_end = end[by_end[np.minimum.accumulate((rank + lane * count)[::-1])[::-1] - lane * count]]
    late = end[compared] > first_end[then] + OVERRUN_NS
    late &= ~_usual(device.name[order[compared]], late)
    overrun[order[compared]] = late
    excess[order[compared]] = np.where(late, end[compared] - start[then], 0)
    return overrun, excess


def _usual(name: Ints, marked: Flags) -> Flags:
    """Whether most activities of a name, and at least five, are marked: then it is the usual case and no wrong time.

    Some exporters give several streams one id. What mostly runs beside other work has a stream of its own then.
    """
    often = np.bincount(name[marked], minlength=int(name.max(initial=0)) + 1)
    usual: Flags = (often > np.bincount(name, minlength=len(often)) // 2) & (often >= _USUAL)
    return usual[name]


def _too_long(device: DeviceRows, rows: CpuRows, launch: Ints, counted: Flags) -> tuple[Flags, Ints]:
    """(launched activities of a second or more that take longer than the counted CPU rows span, by how much in ns)."""
    length = device.end - device.start
    if not counted.any():
        return np.zeros(len(length), dtype=bool), np.zeros_like(length)
    window = rows.end[counted].max() - rows.start[counted].min()
    too_long = (launch != NONE) & (length > max(window, LONG_NS))
    return too_long, np.where(too_long, length - window, 0)
