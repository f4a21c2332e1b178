"""Which CPU row lies inside which: one sort, then sweeps over whole columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelbook.trace.columns import RUNTIME, CpuRows

TOLERANCE_NS = 1000  # a child may end this much after its parent: timestamps near 1.7e15 µs are that coarse
NONE = -1


@dataclass
class Forest:
    """CPU rows in order (thread, start, outermost first), so that a row's descendants follow it without a gap.

    parent: row of the innermost row around this one on its thread, NONE at the top.
    """

    rows: CpuRows
    parent: np.ndarray

    @cached_property
    def length(self) -> np.ndarray:
        return self.rows.end - self.rows.start

    @cached_property
    def depth(self) -> np.ndarray:
        """Number of rows around each row, by doubling the stride of the walk towards the root."""
        depth = (self.parent != NONE).astype(np.int64)
        ancestor = self.parent.copy()
        while (climbing := np.flatnonzero(ancestor != NONE)).size:
            above = ancestor[climbing]
            depth[climbing] += depth[above]
            ancestor[climbing] = ancestor[above]
        return depth

    @cached_property
    def self_time(self) -> np.ndarray:
        """Length less that of the direct children (ops, annotations and runtime calls), never negative."""
        inside = self.parent != NONE
        children = np.bincount(self.parent[inside], weights=self.length[inside], minlength=len(self.parent))
        return np.maximum(self.length - children.astype(np.int64), 0)

    def innermost(self, marked: np.ndarray) -> np.ndarray:
        """Per row the nearest marked row among itself and the rows around it, NONE where there is none."""
        own = np.arange(len(self.parent))
        nearest = np.where(marked | (self.parent == NONE), own, self.parent)
        while True:
            further = nearest[nearest]
            if np.array_equal(further, nearest):
                break
            nearest = further
        return np.where(marked[nearest], nearest, NONE) if len(own) else nearest

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Per row the sum of `values` (integers) over itself and all its descendants."""
        total = values.astype(np.int64)
        by_depth = np.argsort(self.depth, kind="stable")
        borders = np.searchsorted(self.depth[by_depth], np.arange(1, self.depth.max(initial=0) + 1))
        for level in reversed(np.split(by_depth, borders)[1:]):
            np.add.at(total, self.parent[level], total[level])
        return total


def nest(cpu: CpuRows) -> Forest:
    """Sort the rows and find every row's parent.

    Equal starts: what ends last is outside, except that a runtime call is never around an op.
    """
    order = np.lexsort((-cpu.end, cpu.kind == RUNTIME, cpu.start, cpu.thread))
    rows = cpu.take(order)
    return Forest(rows, _parents(rows))


def _parents(rows: CpuRows) -> np.ndarray:
    """The nearest earlier row that contains each row.

    Where the row before does not contain this one, nothing between it and its own candidate can either: it would
    have to contain the row before, or end before this one starts. So candidates jump to their candidates' candidates.
    """
    count = len(rows.start)
    candidate = np.arange(-1, count - 1)
    if count == 0:
        return candidate
    candidate[np.flatnonzero(np.diff(rows.thread, prepend=rows.thread[0] - 1))] = NONE
    pending = np.flatnonzero(candidate != NONE)
    while pending.size:
        above = candidate[pending]
        pending = pending[~contains(rows, above, pending)]
        candidate[pending] = candidate[candidate[pending]]
        pending = pending[candidate[pending] != NONE]
    return candidate


def contains(rows: CpuRows, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Whether row `outer`, which starts no later, is around row `inner` (elementwise)."""
    start, end = rows.start[inner], rows.end[inner]
    outer_end = rows.end[outer]
    # In whole µs an event of no length may sit on its parent's end, and a parent of no length on its child's start.
    touching = (start == outer_end) & ((end == start) | (rows.start[outer] == outer_end))
    return ((start < outer_end) | touching) & (end <= outer_end + TOLERANCE_NS)
