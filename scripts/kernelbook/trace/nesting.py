"""Which CPU row lies inside which: one sort, then sweeps over whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelbook.trace.columns import RUNTIME, CpuRows

TOLERANCE_NS = 1000  # a child may end this much after its parent: timestamps near 1.7e15 µs are that coarse
NONE = -1


def looked_up(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The value at each place, NONE where the place is NONE."""
    found = np.full(len(places), NONE)
    known = places != NONE
    found[known] = values[places[known]]
    return found


def depths(parent: np.ndarray) -> np.ndarray:
    """Number of items around each item, by doubling the stride of the walk towards the root."""
    depth = (parent != NONE).astype(np.int64)
    ancestor = parent.copy()
    while (climbing := np.flatnonzero(ancestor != NONE)).size:
        above = ancestor[climbing]
        depth[climbing] += depth[above]
        ancestor[climbing] = ancestor[above]
    return depth


def summed_up(parent: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Per item the sum of `values` (integers) over itself and all items in it."""
    total, depth = values.astype(np.int64), depths(parent)
    by_depth = np.argsort(depth, kind="stable")
    borders = np.searchsorted(depth[by_depth], np.arange(1, depth.max(initial=0) + 1))
    for level in reversed(np.split(by_depth, borders)[1:]):
        np.add.at(total, parent[level], total[level])
    return total


@dataclass
class Forest:
    """CPU rows in order (thread, start, outermost first), so that a row's descendants follow it without a gap.

    parent: the innermost row of the same thread that was open when this one began, NONE at the top. Where rows overlap
    without nesting, a row may end after its parent, and an ancestor may have ended before it began.
    """

    rows: CpuRows
    parent: np.ndarray

    @cached_property
    def length(self) -> np.ndarray:
        return self.rows.end - self.rows.start

    @cached_property
    def overlapping(self) -> np.ndarray:
        """The rows that began inside their parent and ended after it."""
        inside = np.flatnonzero(self.parent != NONE)
        return inside[~contains(self.rows, self.parent[inside], inside)]

    @cached_property
    def holder(self) -> np.ndarray:
        """Per row the innermost row that contains it from start to end, NONE where there is none."""
        every = np.arange(len(self.parent))
        return self._first_fit(every, self.parent.copy(), every, contains)

    @cached_property
    def self_time(self) -> np.ndarray:
        """Length less that of the rows directly inside (ops, annotations and runtime calls), never negative."""
        inside = self.holder != NONE
        children = np.bincount(self.holder[inside], weights=self.length[inside], minlength=len(self.holder))
        return np.maximum(self.length - children.astype(np.int64), 0)

    def innermost(self, marked: np.ndarray) -> np.ndarray:
        """Per row the nearest marked row among itself and the rows open when it began, NONE where there is none."""
        nearest = self._nearest(marked)
        return self._first_fit(nearest, nearest.copy(), np.arange(len(nearest)), is_open)

    def around(self, marked: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Per given row the innermost marked row around it that contains it to its end, NONE where there is none."""
        nearest = self._nearest(marked)
        return self._first_fit(nearest, looked_up(nearest, self.parent[row]), row, contains)

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Per row the sum of `values` (integers) over itself and the descendants that began while it was open."""
        total = summed_up(self.parent, values)
        for row, ancestor in self._closed_ancestors(np.flatnonzero(values)):
            np.subtract.at(total, ancestor, values[row])
        return total

    def _nearest(self, marked: np.ndarray) -> np.ndarray:
        """Per row the nearest marked row among itself and its ancestors, whether these are still open or not."""
        own = np.arange(len(self.parent))
        nearest = np.where(marked | (self.parent == NONE), own, self.parent)
        while not np.array_equal(nearest, further := nearest[nearest]):
            nearest = further
        return np.where(marked[nearest], nearest, NONE) if len(own) else nearest

    def _first_fit(
        self, nearest: np.ndarray, candidate: np.ndarray, row: np.ndarray, fits: Callable[..., np.ndarray]
    ) -> np.ndarray:
        """Move each row's candidate up, from marked row to marked row (`nearest`), until it fits the row."""
        pending = np.flatnonzero(candidate != NONE) if len(self.overlapping) else self.overlapping
        while (pending := pending[~fits(self.rows, candidate[pending], row[pending])]).size:
            candidate[pending] = looked_up(nearest, self.parent[candidate[pending]])
            pending = pending[candidate[pending] != NONE]
        return candidate

    def _closed_ancestors(self, row: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (row, ancestor) of the given rows and those of their ancestors that had ended when they began."""
        marked = np.zeros(len(self.parent), dtype=bool)
        marked[self.overlapping] = True
        row = row[self._nearest(marked)[row] != NONE] if len(self.overlapping) else self.overlapping
        ancestor = self.parent[row]
        while row.size:
            closed = ~is_open(self.rows, ancestor, row)
            yield row[closed], ancestor[closed]
            ancestor = self.parent[ancestor]
            row, ancestor = row[ancestor != NONE], ancestor[ancestor != NONE]


def nest(cpu: CpuRows) -> Forest:
    """Sort the rows and find every row's parent.

    Equal starts: what ends last is outside, except that a runtime call is never around an op.
    """
    order = np.lexsort((-cpu.end, cpu.kind == RUNTIME, cpu.start, cpu.thread))
    rows = cpu.take(order)
    return Forest(rows, _parents(rows))


def _parents(rows: CpuRows) -> np.ndarray:
    """The nearest earlier row that was open when each row began.

    Where the row before was not open, nothing between it and its own candidate can be: it would have been open when
    the row before began, or end before this one starts. So candidates jump to their candidates' candidates.
    """
    count = len(rows.start)
    candidate = np.arange(-1, count - 1)
    if count == 0:
        return candidate
    candidate[np.flatnonzero(np.diff(rows.thread, prepend=rows.thread[0] - 1))] = NONE
    pending = np.flatnonzero(candidate != NONE)
    while pending.size:
        above = candidate[pending]
        pending = pending[~is_open(rows, above, pending)]
        candidate[pending] = candidate[candidate[pending]]
        pending = pending[candidate[pending] != NONE]
    return candidate


def contains(rows: CpuRows, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Whether row `outer`, which starts no later, is around row `inner` from start to end (elementwise)."""
    start, end = rows.start[inner], rows.end[inner]
    outer_end = rows.end[outer]
    # In whole µs an event of no length may sit on its parent's end, and a parent of no length on its child's start.
    touching = (start == outer_end) & ((end == start) | (rows.start[outer] == outer_end))
    return ((start < outer_end) | touching) & (end <= outer_end + TOLERANCE_NS)


def is_open(rows: CpuRows, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Whether row `outer`, which starts no later, was open when row `inner` began (elementwise).

    Neighbours that overlap by no more than the tolerance are not inside each other.
    """
    return (rows.start[inner] + TOLERANCE_NS < rows.end[outer]) | contains(rows, outer, inner)
