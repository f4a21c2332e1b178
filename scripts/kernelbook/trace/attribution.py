"""Which launch, op and annotated range each device activity belongs to.

An activity is joined to its launch by correlation id, and the launch to the rows around it on its own process and
thread. `External id` is not used: on real traces it equals unrelated ids by chance. Correlation ids count up within a
process, so a file merged from several processes may have an id once in each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from kernelbook.trace.columns import ANNOTATION, OP, RUNTIME, Columns, CpuRows, DeviceRows, distinct
from kernelbook.trace.nesting import NONE, Forest, contains, is_open, looked_up, parents
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.types import Flags, Ints

#: Ranges that torch itself opens around parts of a step, also on autograd's threads.
_OF_TORCH = re.compile(
    r"Optimizer\.\w+#|enumerate\(DataLoader\)#|(?:nccl|rccl|gloo|mpi|ucc|xccl|hccl):|FSDP::"
    r"|DistributedDataParallel\.forward|FullyShardedDataParallel\.|## Call CompiledFxGraph|Torch-Compiled Region"
)
_LAUNCHES = ("launch", "memcpy", "memset")  # part of the name of every vendor's calls that queue work


class Attribution(msgspec.Struct, frozen=True):
    """Links from activities and CPU rows to rows of `forest` and to ranges; NONE if there is no link.

    Per activity:
        launch: row of the call that queued it.
        ambiguous: whether calls of several processes have its correlation id and nothing tells them apart.
        op: row of the innermost op around its launch.
        range_of: innermost range around its launch, as an index into `ranges`.
        inferred: whether that range is on another thread than the launch.
    Per row of `forest`:
        launching: whether it is a call with at least one activity.
        op_of_row: the innermost op around it; an op belongs to itself.
        range_of_row: as `range_of`; a range belongs to itself.
    Per range:
        ranges: its row; ranges are in order of start.
        enclosing: the range that contains it, as an index into `ranges`.
        open_around: the innermost range of its thread that was open when it began.
        Both are a range of another thread for one that torch opens if no other range of its thread is open.
    """

    forest: Forest
    launch: Ints
    ambiguous: Flags
    op: Ints
    range_of: Ints
    inferred: Flags
    launching: Flags
    op_of_row: Ints
    range_of_row: Ints
    ranges: Ints
    enclosing: Ints
    open_around: Ints

    def activities_in_ranges(self) -> tuple[Ints, Ints]:
        """Pairs (range, activity) for the range of each activity and every other range open around its launch."""
        return self._pairs(self.range_of, self.launch)

    def rows_in_ranges(self) -> tuple[Ints, Ints]:
        """Pairs (range, CPU row), likewise; without the range's own row."""
        ranges, row = self._pairs(self.range_of_row, np.arange(len(self.range_of_row)))
        inside = self.ranges[ranges] != row
        return ranges[inside], row[inside]

    def ranges_around(self, row: Ints) -> tuple[Ints, Ints]:
        """Pairs (range, place in `row`) for the range of each of these CPU rows and every other one open around it."""
        return self._pairs(looked_up(self.range_of_row, row), row)

    def on_other_thread(self, ranges: Ints, row: Ints) -> Flags:
        """Per pair (range, CPU row) whether they are on different threads."""
        threads = self.forest.rows.thread
        different: Flags = threads[self.ranges[ranges]] != threads[row]
        return different

    def beside(self) -> Ints:
        """Per range, the range of another thread of its process open around it; NONE for a nested range."""
        outermost = np.flatnonzero(self.open_around == NONE)
        around = np.full(len(self.ranges), NONE)
        around[outermost] = _range_on_other_thread(self.forest.rows, self.ranges, self.ranges[outermost])
        return around

    def _pairs(self, innermost: Ints, row: Ints) -> tuple[Ints, Ints]:
        """Pairs (range, item): the innermost range of each item and those around it. `row`: where the item begins."""
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
    """Nest the CPU rows and link every activity. `steps`: whether ProfilerStep#N annotations are ranges."""
    rows = columns.cpu
    forest = Forest(rows, parents(rows))
    launch, ambiguous, launching = _join_launches(forest, columns.device)
    op_of_row = forest.innermost(rows.kind == OP)
    is_range = (rows.kind == ANNOTATION) & (steps | ~rows.step)
    ranges = np.flatnonzero(is_range)
    ranges = ranges[np.lexsort((ranges, rows.start[ranges]))]
    index = np.full(len(rows.start), NONE)
    index[ranges] = np.arange(len(ranges))
    range_of_row = looked_up(index, forest.innermost(is_range))
    open_around = looked_up(range_of_row, forest.parent[ranges])
    enclosing = looked_up(index, forest.around(is_range, ranges))
    part, whole = _parts_on_other_threads(columns, rows, ranges, open_around)
    open_around[part] = enclosing[part] = whole
    outside = np.flatnonzero(range_of_row == NONE)
    range_of_row[outside] = _range_on_other_thread(rows, ranges, outside)
    inferred = np.zeros(len(rows.start), dtype=bool)
    inferred[outside] = range_of_row[outside] != NONE
    return Attribution(
        forest=forest,
        launch=launch,
        ambiguous=ambiguous,
        op=looked_up(op_of_row, launch),
        range_of=looked_up(range_of_row, launch),
        inferred=looked_up(inferred, launch) == 1,
        launching=launching,
        op_of_row=op_of_row,
        range_of_row=range_of_row,
        ranges=ranges,
        enclosing=enclosing,
        open_around=open_around,
    )


def _parts_on_other_threads(columns: Columns, rows: CpuRows, ranges: Ints, open_around: Ints) -> tuple[Ints, Ints]:
    """(outermost ranges that torch opens, the user's range of another thread around each or NONE).

    Autograd's threads run the collectives, FSDP hooks and compiled graphs of backward inside ranges of torch's own.
    These are parts of the training step around them. Ranges of the user stay apart: they may be work of their own.
    """
    names = rows.name[ranges]
    is_torch = np.zeros(len(columns.names), dtype=bool)
    is_torch[[code for code in distinct(names).tolist() if _OF_TORCH.match(columns.names[code])]] = True
    part = np.flatnonzero(is_torch[names] & (open_around == NONE))
    users = np.flatnonzero(~is_torch[names])
    whole = looked_up(users, _range_on_other_thread(rows, ranges[users], ranges[part]))
    earlier = rows.start[ranges[whole]] < rows.start[ranges[part]]  # else each of two could be inside the other
    return part, np.where(earlier, whole, NONE)


def queues_work(names: Sequence[str]) -> Flags:
    """Per name of a call, whether such calls put work on the device."""
    return np.array([any(word in name.lower() for word in _LAUNCHES) for name in names], dtype=bool)


def outer_calls(forest: Forest) -> Ints:
    """Rows of all calls except driver calls that a runtime call made under its own correlation id."""
    rows = forest.rows
    calls = np.flatnonzero(rows.kind == RUNTIME)
    above = forest.parent[calls]
    ids = rows.correlation[calls]
    inner = (above != NONE) & (rows.kind[above] == RUNTIME) & (rows.correlation[above] == ids) & (ids != MISSING)
    return np.compress(~inner, calls)


def _join_launches(forest: Forest, device: DeviceRows) -> tuple[Ints, Flags, Flags]:
    """(per activity its call, per activity whether it is ambiguous, per row whether it is the call of an activity)."""
    rows = forest.rows
    calls = outer_calls(forest)
    calls = calls[rows.correlation[calls] != MISSING]
    pids, process = rows.processes()
    callers = distinct(process[calls])
    joined = np.full((max(len(callers), 1), len(device.start)), NONE)
    for place, caller in enumerate(callers):
        joined[place] = _latest_earlier(rows, calls[process[calls] == caller], device)
    candidates: Flags = joined != NONE
    if len(callers) > 1:
        owner = _owners(device, [pids[caller] for caller in callers], candidates)
        candidates &= (owner == NONE) | (np.arange(len(callers))[:, None] == owner)
    count = candidates.sum(axis=0)
    launch = np.where(count == 1, joined[candidates.argmax(axis=0), np.arange(len(count))], NONE)
    launching = np.zeros(len(rows.start), dtype=bool)
    launching[joined[candidates]] = True
    return launch, count > 1, launching


def _latest_earlier(rows: CpuRows, calls: Ints, device: DeviceRows) -> Ints:
    """Per activity the call of one process with its id.

    A process uses an id once. Where a file holds several runs, the last call that began before the activity is taken.
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
        earlier = int(np.searchsorted(rows.start[candidates], device.start[activity], "right"))
        call[activity] = candidates[max(earlier - 1, 0)]
    return call


def _owners(device: DeviceRows, callers: list[int | str], candidates: Flags) -> Ints:
    """Per activity the process that uses its device, as a row of `candidates`; NONE if it is not known.

    torch writes the device's number as the pid of an activity. If a pid is that of a process instead, it is that
    process. Otherwise it is the only process whose calls have ids that occur in no other process and on this device.
    """
    owner = np.full(len(device.lanes), NONE)
    certain = candidates.sum(axis=0) == 1
    for lane, (pid, number) in enumerate(device.lanes):
        if pid != number and pid in callers:
            owner[lane] = callers.index(pid)
        else:
            users = np.flatnonzero(candidates[:, certain & (device.lane == lane)].any(axis=1))
            owner[lane] = users[0] if len(users) == 1 else NONE
    return owner[device.lane]


def _range_on_other_thread(rows: CpuRows, ranges: Ints, outside: Ints) -> Ints:
    """Per row of `outside`, the range of another thread of its process that was open around it, or NONE.

    Of several, the one that began last; of those that began together, the first to end, then the one whose thread has
    the first id. outside: rows in no range of their own thread. Returns indices into `ranges`.
    """
    codes = {pid: code for code, pid in enumerate(dict.fromkeys(pid for pid, _ in rows.threads))}
    pids = np.array([codes[pid] for pid, _ in rows.threads], dtype=np.int64)
    best = np.full(len(outside), NONE)
    thread = rows.thread[outside]
    nearness = np.unique(np.stack((rows.start[ranges], -rows.end[ranges])), axis=1, return_inverse=True)[1].reshape(-1)
    for owner in distinct(rows.thread[ranges]):
        own = np.flatnonzero(rows.thread[ranges] == owner)  # in order of start, as indices into ranges
        starts, ends = rows.start[ranges[own]], rows.end[ranges[own]]
        places = np.flatnonzero((pids[thread] == pids[owner]) & (thread != owner))
        candidate = np.searchsorted(starts, rows.start[outside[places]], "right") - 1
        outer = _enclosing(starts, ends)
        pending = np.flatnonzero(candidate != NONE)
        while pending.size:
            pending = pending[~contains(rows, ranges[own[candidate[pending]]], outside[places[pending]])]
            candidate[pending] = outer[candidate[pending]]
            pending = pending[candidate[pending] != NONE]
        places, chosen = places[candidate != NONE], own[candidate[candidate != NONE]]
        nearer = (best[places] == NONE) | (nearness[best[places]] < nearness[chosen])
        best[places[nearer]] = chosen[nearer]
    return best


def _enclosing(starts: Ints, ends: Ints) -> Ints:
    """Per interval, in order of start, the nearest earlier one that ends later."""
    outer = np.full(len(starts), NONE)
    stack: list[int] = []
    for index, end in enumerate(ends.tolist()):
        while stack and ends[stack[-1]] <= end:
            stack.pop()
        outer[index] = stack[-1] if stack else NONE
        stack.append(index)
    return outer
