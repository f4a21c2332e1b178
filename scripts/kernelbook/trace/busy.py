"""Intervals on devices: how long they were busy, and the time that a file is about."""

from __future__ import annotations

import numpy as np

APART_NS = 3600 * 10**9  # events of one window of the profiler never lie so far apart


def busy_time(start: np.ndarray, end: np.ndarray, device: np.ndarray) -> int:
    """Per device the length of the union of its intervals, devices summed (ns)."""
    return int(busy_times(start, end, device, np.zeros(len(start), dtype=np.int64), 1)[0])


def busy_times(start: np.ndarray, end: np.ndarray, device: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """`busy_time` of each of `count` groups; `group` says which group an interval belongs to.

    One running maximum serves all lanes (group, device): it runs over the ranks of the ends, lane after lane, since
    the ends themselves, with a wrong time among them, may be too large to be laid end to end.
    """
    total = np.zeros(count, dtype=np.int64)
    size = len(start)
    if not size:
        return total
    order = np.lexsort((start, device, group))
    start, end, device, group = start[order], end[order], device[order], group[order]
    new_lane = np.concatenate(([True], (np.diff(group) != 0) | (np.diff(device) != 0)))
    lane = np.cumsum(new_lane) * size
    by_end = np.argsort(end)
    rank = np.empty(size, dtype=np.int64)
    rank[by_end] = np.arange(size)
    reach = end[by_end[np.maximum.accumulate(rank + lane) - lane]]
    covered = np.where(new_lane, start, np.concatenate((start[:1], reach[:-1])))
    np.add.at(total, group, np.maximum(reach - np.maximum(start, covered), 0))
    return total


def main_span(starts: np.ndarray) -> tuple[int, int]:
    """First and last start (ns) of the most events that have no gap of an hour between them."""
    if not len(starts):
        return 0, 0
    if starts.max() - starts.min() <= APART_NS:
        return int(starts.min()), int(starts.max())
    ordered = np.sort(starts)
    last = np.append(np.flatnonzero(np.diff(ordered) > APART_NS), len(ordered) - 1)
    first = np.append(0, last[:-1] + 1)
    most = len(first) - 1 - int(np.argmax((last - first)[::-1]))  # of equal ones the latest: a missing time is 0
    return int(ordered[first[most]]), int(ordered[last[most]])
