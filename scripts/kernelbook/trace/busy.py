"""How long devices were busy: unions of intervals."""

from __future__ import annotations

import numpy as np


def busy_time(start: np.ndarray, end: np.ndarray, device: np.ndarray) -> int:
    """Per device the length of the union of its intervals, devices summed (ns)."""
    return int(busy_times(start, end, device, np.zeros(len(start), dtype=np.int64), 1)[0])


def busy_times(start: np.ndarray, end: np.ndarray, device: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """`busy_time` of each of `count` groups; `group` says which group an interval belongs to.

    The lanes (group, device) are laid end to end on one axis, so that one running maximum serves them all.
    """
    total = np.zeros(count, dtype=np.int64)
    if not len(start):
        return total
    order = np.lexsort((start, device, group))
    start, end, device, group = start[order], end[order], device[order], group[order]
    new = np.ones(len(start), dtype=bool)
    new[1:] = (np.diff(group) != 0) | (np.diff(device) != 0)
    first = np.flatnonzero(new)
    extent = np.maximum.reduceat(end, first) - start[first]
    shift = (np.cumsum(extent) - extent - start[first])[np.cumsum(new) - 1]
    reach = np.maximum.accumulate(end + shift)
    covered = np.concatenate(([0], reach[:-1]))
    np.add.at(total, group, np.maximum(reach - np.maximum(start + shift, covered), 0))
    return total
