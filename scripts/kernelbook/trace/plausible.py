"""Device activities whose times cannot be, and how much device time is in doubt for it.

The profiler and the exporters sometimes write a wrong time: 0 where CUPTI collected none, an end that lies seconds too
late, a device clock that is not the CPU's. Counts do not suffer from that, sums and windows do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.busy import main_span
from kernelbook.trace.columns import MISSING, Columns, CpuRows, DeviceRows
from kernelbook.trace.nesting import NONE

EARLY_NS = 10**6  # the device's clock may be off from the CPU's by less than this
LONG_NS = 10**9  # a shorter activity may outlast a window that ends without waiting for the device
OVERRUN_NS = 10**4  # timers tick in µs on some devices, and early versions of torch wrote whole µs
_USUAL = 5


@dataclass(frozen=True)
class Doubts:
    """What is wrong with the times of a file.

    overrun, too_long, early, apart: per activity, see the functions that find them. cpu_apart: per row of the forest.
    excess: ns of each activity that cannot be. no_delay: whether its start cannot be compared with that of its launch.
    other_clock: the device's times are of another clock than the CPU's. Lengths are right then, and nothing is in
    excess; delays and distances between the two sides are not known.
    """

    overrun: np.ndarray
    too_long: np.ndarray
    early: np.ndarray
    apart: np.ndarray
    cpu_apart: np.ndarray
    excess: np.ndarray
    no_delay: np.ndarray
    other_clock: bool

    @property
    def activities(self) -> np.ndarray:
        """Per activity whether any of its times is wrong."""
        return self.overrun | self.too_long | self.early | self.apart


def find_doubts(columns: Columns, found: Attribution) -> Doubts:
    """Judge the times of all activities and CPU rows."""
    device, rows = columns.device, found.forest.rows
    first, last = main_span(np.concatenate((rows.start, device.start)))
    apart, cpu_apart = ((start < first) | (start > last) for start in (device.start, rows.start))
    launched = np.flatnonzero(found.launch != NONE)
    no_delay = apart.copy()
    no_delay[launched] |= cpu_apart[found.launch[launched]]
    early, before = _early(device, rows, found.launch, ~no_delay)
    overrun, after_next = _overrun(device, _launched_by(rows, found.launch))
    too_long, beyond = _too_long(device, rows, found.launch, ~cpu_apart)
    shifted = int(early.sum()) > max(len(launched) // 2, 1)
    # CUPTI gives 0 for a time that it could not collect, which says nothing of the clock.
    elsewhere = bool(len(apart) and apart.all() and not (device.start + columns.origin == 0).any())
    nothing = np.zeros_like(before)
    misplaced = nothing if elsewhere else np.where(apart, device.end - device.start, nothing)
    excess = np.maximum.reduce([misplaced, nothing if shifted else before, after_next, beyond])
    return Doubts(
        overrun, too_long, early, apart, cpu_apart, excess, no_delay | early, other_clock=shifted or elsewhere
    )


def _early(
    device: DeviceRows, rows: CpuRows, launch: np.ndarray, comparable: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which activities began before the call that launched them, and how much of them lies before it (ns)."""
    early, before = np.zeros(len(launch), dtype=bool), np.zeros(len(launch), dtype=np.int64)
    launched = np.flatnonzero((launch != NONE) & comparable)
    called = rows.start[launch[launched]]
    early[launched] = device.start[launched] + EARLY_NS < called
    before[launched] = np.minimum(called, device.end[launched]) - device.start[launched]
    return early, np.where(early, before, 0)


def _launched_by(rows: CpuRows, launch: np.ndarray) -> np.ndarray:
    """Per activity a number of the process that launched it, NONE where that is not known and there are several."""
    pids, process = rows.processes()
    if len(pids) < 2:
        return np.zeros(len(launch), dtype=np.int64)
    return np.where(launch == NONE, NONE, process[launch])


def _overrun(device: DeviceRows, process: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which activities end after one that began later on their stream, and by how much they pass the next start (ns).

    Work of a stream begins and ends in order. With programmatic dependent launch the next kernel begins early, by
    as much as the length of the one before, but still ends after it. Activities of one launch, a graph, are not
    compared: older drivers give all branches of a graph the stream that it was launched on.
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
    # Per place the first of a later start and another launch on its lane; without a correlation id each is another.
    another = (np.diff(launch) != 0) | (launch[1:] == MISSING)
    new = new_lane | (another & (np.diff(start) != 0))
    following = np.append(np.flatnonzero(new) + 1, 0)[np.concatenate(([0], np.cumsum(new)))]
    compared = np.flatnonzero((lane[following] == lane) & (following > np.arange(count)))
    then = following[compared]
    # Per place the first end from there on in its lane. Ends are ranked, so that all lanes fit on one axis.
    by_end = np.argsort(end)
    rank = np.empty(count, dtype=np.int64)
    rank[by_end] = np.arange(count)
    first_end = end[by_end[np.minimum.accumulate((rank + lane * count)[::-1])[::-1] - lane * count]]
    late = end[compared] > first_end[then] + OVERRUN_NS
    late &= ~_usual(device.name[order[compared]], late)
    overrun[order[compared]] = late
    excess[order[compared]] = np.where(late, end[compared] - start[then], 0)
    return overrun, excess


def _usual(name: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Whether most activities of a name are marked, and five at least: that is how the file was made, no wrong time.

    Some exporters give several streams one id. What mostly runs beside other work has a stream of its own then.
    """
    often = np.bincount(name[marked], minlength=int(name.max(initial=0)) + 1)
    return ((often > np.bincount(name, minlength=len(often)) // 2) & (often >= _USUAL))[name]


def _too_long(device: DeviceRows, rows: CpuRows, launch: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which launched activities take longer than all CPU rows span, and a second at least; and by how much (ns)."""
    length = device.end - device.start
    if not kept.any():
        return np.zeros(len(length), dtype=bool), np.zeros_like(length)
    window = rows.end[kept].max() - rows.start[kept].min()
    too_long = (launch != NONE) & (length > max(window, LONG_NS))
    return too_long, np.where(too_long, length - window, 0)
