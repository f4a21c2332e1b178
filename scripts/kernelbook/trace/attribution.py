"""Which launch, op and annotated range every device activity belongs to.

The join is correlation id -> launch -> rows around the launch on its own process and thread. `External id` is never
used: on real traces it equals unrelated ids by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbook.trace.columns import ANNOTATION, OP, Columns, CpuRows
from kernelbook.trace.launches import Launches, join_launches
from kernelbook.trace.nesting import NONE, TOLERANCE_NS, Forest, is_open, nest


@dataclass
class Attribution:
    """Rows of the forest that device activities and ranges belong to; NONE where there is none.

    launches: which calls queued activities. op: per activity the innermost op around its call.
    ranges: forest rows of the annotated ranges (no profiler steps), in order of start.
    range_of: per activity the innermost range, as an index into `ranges`; inferred: whether that range is on another
    thread than the launch. enclosing: per range the range that contains it, as an index into `ranges`; open_around:
    the innermost that was open when it began.
    """

    forest: Forest
    launches: Launches
    op: np.ndarray
    ranges: np.ndarray
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
        activity = np.flatnonzero(self.range_of != NONE)
        current = self.range_of[activity]
        ranges, activities = [current], [activity]
        while current.size:
            current = self.open_around[current]
            keep = current != NONE
            current, activity = current[keep], activity[keep]
            still_open = is_open(self.forest.rows, self.ranges[current], self.launch[activity])
            ranges.append(current[still_open])
            activities.append(activity[still_open])
        return np.concatenate(ranges), np.concatenate(activities)


def attribute(columns: Columns) -> Attribution:
    """Nest the CPU rows and find where every activity was launched from."""
    forest = nest(columns.cpu)
    rows = forest.rows
    launches = join_launches(forest, columns.device)
    launch = launches.call
    launched = launch != NONE
    op = np.full(len(launch), NONE)
    op[launched] = forest.innermost(rows.kind == OP)[launch[launched]]
    is_range = (rows.kind == ANNOTATION) & ~rows.step
    ranges = np.flatnonzero(is_range)
    ranges = ranges[np.lexsort((ranges, rows.start[ranges]))]
    rank = np.full(len(rows.start), NONE)
    rank[ranges] = np.arange(len(ranges))
    around = _ranked(rank, forest.innermost(is_range))
    parents = forest.parent[ranges]
    open_around = np.where(parents == NONE, NONE, around[parents]) if len(ranges) else parents
    enclosing = _ranked(rank, forest.around(is_range, ranges))
    range_of = np.full(len(launch), NONE)
    range_of[launched] = around[launch[launched]]
    inferred = np.zeros(len(launch), dtype=bool)
    orphans = np.flatnonzero(launched & (range_of == NONE))
    if orphans.size and ranges.size:
        range_of[orphans] = _open_elsewhere(rows, ranges, launch[orphans])
        inferred[orphans] = range_of[orphans] != NONE
    return Attribution(forest, launches, op, ranges, range_of, inferred, enclosing, open_around)


def _ranked(rank: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Rows as their ranks; NONE stays."""
    return np.where(row == NONE, NONE, rank[row]) if len(row) else row


def _open_elsewhere(rows: CpuRows, ranges: np.ndarray, launches: np.ndarray) -> np.ndarray:
    """Per launch the range of another thread of its process that was open around it; the one that began last."""
    known = {pid: code for code, pid in enumerate(dict.fromkeys(pid for pid, _ in rows.threads))}
    pids = np.array([known[pid] for pid, _ in rows.threads])
    best = np.full(len(launches), NONE)
    start, end = rows.start[launches], rows.end[launches]
    for thread in np.unique(rows.thread[ranges]):
        mine = np.flatnonzero(rows.thread[ranges] == thread)  # in order of start, as indices into ranges
        starts, ends = rows.start[ranges[mine]], rows.end[ranges[mine]]
        eligible = (pids[rows.thread[launches]] == pids[thread]) & (rows.thread[launches] != thread)
        candidate = np.where(eligible, np.searchsorted(starts, start, "right") - 1, NONE)
        outer = _enclosing(starts, ends)
        while True:
            closed = np.flatnonzero((candidate != NONE) & (ends[candidate] + TOLERANCE_NS < end))
            if not closed.size:
                break
            candidate[closed] = outer[candidate[closed]]
        found = np.flatnonzero(candidate != NONE)
        chosen = mine[candidate[found]]
        nearer = (best[found] == NONE) | (rows.start[ranges[best[found]]] <= rows.start[ranges[chosen]])
        best[found[nearer]] = chosen[nearer]
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
