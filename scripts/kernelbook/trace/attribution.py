"""Which launch, op and annotated range every device activity belongs to.

The join is correlation id -> launch -> rows around the launch on its own process and thread. `External id` is never
used: on real traces it equals unrelated ids by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbook.trace.columns import ANNOTATION, OP, Columns, CpuRows
from kernelbook.trace.launches import Launches, join_launches
from kernelbook.trace.nesting import NONE, Forest, contains, is_open, looked_up, nest


@dataclass
class Attribution:
    """Rows of the forest that device activities and ranges belong to; NONE where there is none.

    launches: which calls queued activities. op: per activity the innermost op around its call.
    ranges: forest rows of the annotated ranges, in order of start.
    range_of_row: per forest row the innermost range, itself included, as an index into `ranges`; row_inferred: whether
    that range is on another thread. range_of, inferred: the same per activity, as for its launch.
    enclosing: per range the range that contains it, as an index into `ranges`; open_around: the innermost that was open
    when it began; both on its own thread.
    """

    forest: Forest
    launches: Launches
    op: np.ndarray
    ranges: np.ndarray
    range_of_row: np.ndarray
    row_inferred: np.ndarray
    range_of: np.ndarray
    inferred: np.ndarray
    enclosing: np.ndarray
    open_around: np.ndarray

    @property
    def launch(self) -> np.ndarray:
        """Per activity the row of the call that queued it, NONE where that is not known."""
        return self.launches.call

    def within(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (range, activity): each activity once for its own range and for each other that was open around it."""
        return self._open_ranges(self.range_of, self.launch)

    def rows_within(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (range, CPU row) likewise; a range's own row is not inside it."""
        ranges, row = self._open_ranges(self.range_of_row, np.arange(len(self.range_of_row)))
        inside = self.ranges[ranges] != row
        return ranges[inside], row[inside]

    def beside(self) -> np.ndarray:
        """Per range the range of another thread of its process that was open around it, NONE inside one of its own."""
        alone = np.flatnonzero(self.open_around == NONE)
        around = np.full(len(self.ranges), NONE)
        around[alone] = _open_elsewhere(self.forest.rows, self.ranges, self.ranges[alone])
        return around

    def _open_ranges(self, innermost: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (range, item) of items that begin with a CPU row, from the innermost range of each outwards."""
        item = np.flatnonzero(innermost != NONE)
        current = innermost[item]
        ranges, items = [current], [item]
        while current.size:
            current = self.open_around[current]
            keep = current != NONE
            current, item = current[keep], item[keep]
            still_open = is_open(self.forest.rows, self.ranges[current], row[item])
            ranges.append(current[still_open])
            items.append(item[still_open])
        return np.concatenate(ranges), np.concatenate(items)


def attribute(columns: Columns, steps: bool = False) -> Attribution:
    """Nest the CPU rows and find where every activity was launched from.

    steps: whether the profiler's steps (ProfilerStep#N) are ranges.
    """
    forest = nest(columns.cpu)
    rows = forest.rows
    launches = join_launches(forest, columns.device)
    launch = launches.call
    is_range = (rows.kind == ANNOTATION) & (steps | ~rows.step)
    ranges = np.flatnonzero(is_range)
    ranges = ranges[np.lexsort((ranges, rows.start[ranges]))]
    rank = np.full(len(rows.start), NONE)
    rank[ranges] = np.arange(len(ranges))
    range_of_row = looked_up(rank, forest.innermost(is_range))
    open_around = looked_up(range_of_row, forest.parent[ranges])
    outside = np.flatnonzero(range_of_row == NONE)
    range_of_row[outside] = _open_elsewhere(rows, ranges, outside)
    row_inferred = np.zeros(len(rows.start), dtype=bool)
    row_inferred[outside] = range_of_row[outside] != NONE
    return Attribution(
        forest=forest,
        launches=launches,
        op=looked_up(forest.innermost(rows.kind == OP), launch),
        ranges=ranges,
        range_of_row=range_of_row,
        row_inferred=row_inferred,
        range_of=looked_up(range_of_row, launch),
        inferred=looked_up(row_inferred, launch) == 1,
        enclosing=looked_up(rank, forest.around(is_range, ranges)),
        open_around=open_around,
    )


def _open_elsewhere(rows: CpuRows, ranges: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Per row the range of another thread of its process that was open around it; of several the one that began last.

    Of those that began at once, the first to end; then that of the first thread in the order of their spelled ids.
    outside: rows that lie in no range of their own thread. The result indexes `ranges`, NONE where there is none.
    """
    known = {pid: code for code, pid in enumerate(dict.fromkeys(pid for pid, _ in rows.threads))}
    pids = np.array([known[pid] for pid, _ in rows.threads], dtype=np.int64)
    best = np.full(len(outside), NONE)
    thread = rows.thread[outside]
    nearness = np.unique(np.stack((rows.start[ranges], -rows.end[ranges])), axis=1, return_inverse=True)[1].reshape(-1)
    for owner in sorted(np.unique(rows.thread[ranges]), key=lambda code: str(rows.threads[code])):
        mine = np.flatnonzero(rows.thread[ranges] == owner)  # in order of start, as indices into ranges
        starts, ends = rows.start[ranges[mine]], rows.end[ranges[mine]]
        places = np.flatnonzero((pids[thread] == pids[owner]) & (thread != owner))
        candidate = np.searchsorted(starts, rows.start[outside[places]], "right") - 1
        outer = _enclosing(starts, ends)
        pending = np.flatnonzero(candidate != NONE)
        while pending.size:
            pending = pending[~contains(rows, ranges[mine[candidate[pending]]], outside[places[pending]])]
            candidate[pending] = outer[candidate[pending]]
            pending = pending[candidate[pending] != NONE]
        places, chosen = places[candidate != NONE], mine[candidate[candidate != NONE]]
        nearer = (best[places] == NONE) | (nearness[best[places]] < nearness[chosen])
        best[places[nearer]] = chosen[nearer]
    return best


def _enclosing(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Per interval (in order of start) the nearest earlier one that ends later."""
    outer = np.full(len(starts), NONE)
    stack: list[int] = []
    for index, end in enumerate(ends.tolist()):
        while stack and ends[stack[-1]] <= end:
            stack.pop()
        outer[index] = stack[-1] if stack else NONE
        stack.append(index)
    return outer
