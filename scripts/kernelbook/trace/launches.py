"""Which runtime or driver call queued each device activity: the join on the correlation id.

The ids count up within a process, so a file that was merged from several processes may have an id once in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelbook.trace.columns import MISSING, RUNTIME, CpuRows, DeviceRows
from kernelbook.trace.nesting import NONE, Forest

_LAUNCHES = ("launch", "memcpy", "memset")  # in the names of calls that put something on the device, of any vendor


@dataclass(frozen=True)
class Launches:
    """call: per activity the row of the call that queued it, NONE where that is not known.

    disputed: per activity whether calls of several processes have its id and nothing tells which of them it was.
    launching: per CPU row whether it is a call with at least one activity.
    """

    call: np.ndarray
    disputed: np.ndarray
    launching: np.ndarray


def join_launches(forest: Forest, device: DeviceRows) -> Launches:
    """Join every activity to its call, within the process that the activity's device belongs to."""
    rows = forest.rows
    calls = outer_calls(forest)
    calls = calls[rows.correlation[calls] != MISSING]
    pids, process = rows.processes()
    callers = np.unique(process[calls])
    joined = np.stack([_latest_earlier(rows, calls[process[calls] == caller], device) for caller in callers] or [
        np.full(len(device.start), NONE)
    ])  # fmt: skip
    candidates = joined != NONE
    if len(callers) > 1:
        owner = _owners(device, [pids[caller] for caller in callers], candidates)
        candidates &= (owner == NONE) | (np.arange(len(callers))[:, None] == owner)
    number = candidates.sum(axis=0)
    call = np.where(number == 1, joined[candidates.argmax(axis=0), np.arange(len(number))], NONE)
    launching = np.zeros(len(rows.start), dtype=bool)
    launching[joined[candidates]] = True
    return Launches(call, number > 1, launching)


def launching(names: Sequence[str]) -> np.ndarray:
    """Per name whether a call of that name puts something on the device."""
    return np.array([any(word in name.lower() for word in _LAUNCHES) for name in names], dtype=bool)


def outer_calls(forest: Forest) -> np.ndarray:
    """The rows of all calls, without the driver call that a runtime call made under its own correlation id."""
    rows = forest.rows
    calls = np.flatnonzero(rows.kind == RUNTIME)
    above = forest.parent[calls]
    ids = rows.correlation[calls]
    inner = (above != NONE) & (rows.kind[above] == RUNTIME) & (rows.correlation[above] == ids) & (ids != MISSING)
    return calls[~inner]


def _latest_earlier(rows: CpuRows, calls: np.ndarray, device: DeviceRows) -> np.ndarray:
    """Per activity the call of one process with its id.

    A process gives out an id once; where its file holds several runs, the last call that began before the activity.
    """
    calls = calls[np.lexsort((rows.start[calls], rows.correlation[calls]))]
    ids = rows.correlation[calls]
    first = np.searchsorted(ids, device.correlation, "left")
    last = np.searchsorted(ids, device.correlation, "right") - 1
    call = np.full(len(first), NONE)
    present = last >= first
    call[present] = calls[first[present]]
    for activity in np.flatnonzero(last > first):
        candidates = calls[first[activity] : last[activity] + 1]
        earlier = np.searchsorted(rows.start[candidates], device.start[activity], "right")
        call[activity] = candidates[max(earlier - 1, 0)]
    return call


def _owners(device: DeviceRows, callers: list[int | str], candidates: np.ndarray) -> np.ndarray:
    """Per activity the process that its device belongs to, as a row of `candidates`; NONE where nothing tells.

    torch writes the device's number as an activity's pid. Where it is the pid of a process instead, that is the one;
    else, the one whose calls alone have ids that no other process has and that ran on the device.
    """
    owner = np.full(len(device.lanes), NONE)
    certain = candidates.sum(axis=0) == 1
    for lane, (pid, number) in enumerate(device.lanes):
        if pid != number and pid in callers:
            owner[lane] = callers.index(pid)
        else:
            seen = np.flatnonzero(candidates[:, certain & (device.lane == lane)].any(axis=1))
            owner[lane] = seen[0] if len(seen) == 1 else NONE
    return owner[device.lane]
