"""Which CPU row lies inside which, by sweeps over whole sorted columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import msgspec
import numpy as np

from kernelbook.trace.columns import CpuRows, distinct
from kernelbook.trace.types import Flags, Ints

TOLERANCE_NS = 1000  # a child may end this much after its parent: floats near 1.7e15 µs are that coarse
NONE = -1


def looked_up(values: Ints | Flags, places: Ints) -> Ints:
    """`values[places]`, with NONE where the place is NONE."""
    result = np.full(len(places), NONE)
    valid = places != NONE
    result[valid] = values[places[valid]]
    return result


def depths(parent: Ints) -> Ints:
    """Number of ancestors of each item. Doubles the stride of the walk towards the root in each step."""
    depth: Ints = np.asarray(parent != NONE, dtype=np.int64)
    ancestor = parent.copy()
    while (climbing := np.flatnonzero(ancestor != NONE)).size:
        above = ancestor[climbing]
        depth[climbing] += depth[above]
        ancestor[climbing] = ancestor[above]
    return depth


def _followed(following: Ints) -> Ints:
    """Per item the end of the chain that begins with it. following: the next item, of the last one itself."""
    further = np.empty_like(following)
    while not np.array_equal(following, np.take(following, following, out=further, mode="clip")):
        following, further = further, following
    return following


def by_depth(parent: Ints) -> list[Ints]:
    """The items with each number of ancestors, those with none first."""
    depth = depths(parent)
    count = np.bincount(depth)
    # NumPy sorts numbers of 16 bits much faster.
    order = np.argsort(depth.astype(np.int16) if len(count) < 1 << 15 else depth, kind="stable")
    return np.split(order, np.cumsum(count)[:-1])


def summed_up(parent: Ints, values: Ints) -> Ints:
    """Per item the sum of `values` over itself and its descendants."""
    total: Ints = values.astype(np.int64)
    for level in by_depth(parent)[:0:-1]:
        np.add.at(total, parent[level], total[level])
    return total


class Forest(msgspec.Struct, dict=True):
    """CPU rows and their parents. The rows are sorted so that the descendants of a row follow it without a gap.

    parent: the innermost row of the same thread that was open when the row began, or NONE. Where rows overlap without
    nesting, a row may end after its parent, and an ancestor may have ended before the row began.
    """

    rows: CpuRows
    parent: Ints

    @cached_property
    def length(self) -> Ints:
        return np.subtract(self.rows.end, self.rows.start)

    @cached_property
    def overlapping(self) -> Ints:
        """Rows that end after their parent."""
        rows, outer_end = self.rows, self.rows.end[self.parent]
        unsure = np.flatnonzero((self.parent != NONE) & ((rows.end > outer_end) | (rows.start >= outer_end)))
        return unsure[~contains(rows, self.parent[unsure], unsure)]

    @cached_property
    def _last(self) -> Ints:
        """Per row its last descendant, or the row itself."""
        last = np.arange(len(self.parent))
        inside = np.flatnonzero(self.parent != NONE)
        last[self.parent[inside]] = inside  # the last child of a row replaces the others
        return _followed(last)

    @cached_property
    def holder(self) -> Ints:
        """Per row the innermost row that contains it from start to end, or NONE."""
        if not len(self.overlapping):
            return self.parent
        rows = np.arange(len(self.parent))
        return self._first_match(rows, self.parent.copy(), rows, contains)

    @cached_property
    def self_time(self) -> Ints:
        """Length minus that of the rows directly inside, never negative."""
        inside = self.holder != NONE
        children = np.bincount(self.holder[inside], weights=self.length[inside], minlength=len(self.holder))
        self_time: Ints = np.maximum(self.length - children.astype(np.int64), 0)
        return self_time

    def innermost(self, marked: Flags) -> Ints:
        """Per row the nearest marked row among itself and the rows open when it began, or NONE."""
        nearest = self._nearest(marked)
        if not len(self.overlapping):
            return nearest
        return self._first_match(nearest, nearest.copy(), np.arange(len(nearest)), is_open)

    def around(self, marked: Flags, row: Ints) -> Ints:
        """For each of the given rows, the innermost marked row that contains it from start to end, or NONE."""
        nearest = self._nearest(marked)
        return self._first_match(nearest, looked_up(nearest, self.parent[row]), row, contains)

    def shortest_around(self, others: CpuRows) -> Ints:
        """For each of other rows, which have no thread, the shortest row that contains it, or NONE."""
        rows, shortest = self.rows, np.full(len(others.start), NONE)
        for thread in distinct(rows.thread) if len(others.start) else ():
            first, end = np.searchsorted(rows.thread, (thread, thread + 1))
            row = first + np.searchsorted(rows.start[first:end], others.start, "right") - 1
            row[row < first] = NONE
            while (ended := np.flatnonzero((row != NONE) & (rows.end[row] + TOLERANCE_NS < others.end))).size:
                row[ended] = self.parent[row[ended]]
            shorter = (row != NONE) & ((shortest == NONE) | (self.length[row] < self.length[shortest]))
            shortest[shorter] = row[shorter]
        return shortest

    def summed(self, values: Ints) -> Ints:
        """Per row the sum of `values` over itself and the descendants that began while it was open."""
        sums = np.concatenate(([0], np.cumsum(values)))
        total: Ints = sums[self._last + 1] - sums[:-1]
        for row, ancestor in self._closed_ancestors(np.flatnonzero(values)):
            np.subtract.at(total, ancestor, values[row])
        return total

    def _nearest(self, marked: Flags) -> Ints:
        """Per row the nearest marked row among itself and its ancestors, whether still open or not."""
        rows = np.arange(len(self.parent))
        nearest = _followed(np.where(marked | (self.parent == NONE), rows, self.parent))
        nearest[~marked[nearest]] = NONE
        return nearest

    def _first_match(
        self, nearest: Ints, candidate: Ints, row: Ints, matches: Callable[[CpuRows, Ints, Ints], Flags]
    ) -> Ints:
        """Move the candidate of each row up, from marked row to marked row (`nearest`), until it matches."""
        pending = np.flatnonzero(candidate != NONE) if len(self.overlapping) else self.overlapping
        while (pending := pending[~matches(self.rows, candidate[pending], row[pending])]).size:
            candidate[pending] = looked_up(nearest, self.parent[candidate[pending]])
            pending = pending[candidate[pending] != NONE]
        return candidate

    def _closed_ancestors(self, row: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (row, ancestor) of the given rows and those of their ancestors that ended before they began."""
        marked = np.zeros(len(self.parent), dtype=bool)
        marked[self.overlapping] = True
        row = row[self._nearest(marked)[row] != NONE] if len(self.overlapping) else self.overlapping
        ancestor = self.parent[row]
        while row.size:
            closed = ~is_open(self.rows, ancestor, row)
            yield row[closed], ancestor[closed]
            ancestor = self.parent[ancestor]
            row, ancestor = row[ancestor != NONE], ancestor[ancestor != NONE]


def parents(rows: CpuRows) -> Ints:
    """The nearest earlier row that was open when each row began.

    If the previous row was not open, no row between it and its own candidate can be: that row would have been open
    when the previous row began, or have ended before this one starts. So candidates jump to their candidates.
    """
    count = len(rows.start)
    candidate = np.arange(-1, count - 1)
    if count == 0:
        return candidate
    first = np.flatnonzero(np.diff(rows.thread, prepend=rows.thread[0] - 1))
    last_end = np.concatenate([np.maximum.accumulate(ends) for ends in np.split(rows.end, first[1:])])
    outermost = np.append(True, rows.start[1:] > last_end[:-1])
    outermost[first] = True
    candidate[outermost] = NONE
    pending = np.flatnonzero(~outermost[1:] & (rows.start[1:] + TOLERANCE_NS >= rows.end[:-1])) + 1  # else it is open
    while pending.size:
        pending = pending[~is_open(rows, candidate[pending], pending)]
        candidate[pending] = candidate[candidate[pending]]
        pending = pending[candidate[pending] != NONE]
    return candidate


def contains(rows: CpuRows, outer: Ints, inner: Ints) -> Flags:
    """Whether row `outer`, which starts no later, lies around row `inner` from start to end (elementwise)."""
    start, end, outer_end = rows.start[inner], rows.end[inner], rows.end[outer]
    inside: Flags = (start < outer_end) & (end <= outer_end + TOLERANCE_NS)
    # In whole µs, an event of no length may sit on its parent's end, and a parent of no length on its child's start.
    at = np.flatnonzero((start == outer_end) & (end <= outer_end + TOLERANCE_NS))
    inside[at] = (end[at] == start[at]) | (rows.start[outer[at]] == outer_end[at])
    return inside


def is_open(rows: CpuRows, outer: Ints, inner: Ints) -> Flags:
    """Whether row `outer`, which starts no later, was open when row `inner` began (elementwise).

    Neighbours that overlap by no more than the tolerance are not inside each other.
    """
    start, outer_end = rows.start[inner], rows.end[outer]
    still_open: Flags = start + TOLERANCE_NS < outer_end
    near = np.flatnonzero(~still_open & (start <= outer_end))
    still_open[near] = contains(rows, outer[near], inner[near])
    return still_open
