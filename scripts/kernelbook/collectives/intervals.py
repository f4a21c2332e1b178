"""Compute, communication, copies and idle time of groups of device activities, as unions of intervals.

The hidden part of communication is the overlap of HolisticTraceAnalysis' `get_comm_comp_overlap`; compute and idle time
are those of its `get_temporal_breakdown`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbook.trace.tables import busy_times
from kernelbook.trace.types import Flags, Ints


@dataclass(frozen=True)
class Split:
    """Times in ns, one entry per group; the fields are those of `model.RankForward`."""

    span: Ints
    compute: Ints
    communication: Ints
    hidden: Ints
    exposed: Ints
    copies: Ints
    idle: Ints


def split_time(
    start: Ints, end: Ints, device: Ints, group: Ints, count: int, communicates: Flags, copies: Flags
) -> Split:
    """Split the time of each of `count` groups; the last four arrays and `start` have one entry per activity.

    Several devices of a group are summed.
    """

    def busy(chosen: Flags) -> Ints:
        return busy_times(start[chosen], end[chosen], device[chosen], group[chosen], count)

    compute, communication = busy(~communicates & ~copies), busy(communicates)
    both, everything = busy(~copies), busy(np.ones(len(start), dtype=bool))
    span = _spans(start, end, device, group, count)
    hidden = compute + communication - both
    return Split(span, compute, communication, hidden, both - compute, everything - both, span - everything)


def _spans(start: Ints, end: Ints, device: Ints, group: Ints, count: int) -> Ints:
    """Time from the first start to the last end of each group on each of its devices."""
    total = np.zeros(count, dtype=np.int64)
    if not len(start):
        return total
    order = np.lexsort((device, group))
    lane = np.flatnonzero(np.concatenate(([True], (np.diff(group[order]) != 0) | (np.diff(device[order]) != 0))))
    length = np.maximum.reduceat(end[order], lane) - np.minimum.reduceat(start[order], lane)
    np.add.at(total, group[order][lane], length)
    return total
