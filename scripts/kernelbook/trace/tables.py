"""The tables of a reading, as Arrow: ranges, kernels, ops and activities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from kernelbook.trace.arrow import microseconds, numbers, strings, texts, triples
from kernelbook.trace.attribution import Attribution
from kernelbook.trace.busy import busy_time, busy_times
from kernelbook.trace.columns import CATEGORY_NAMES, KERNEL, MEMCPY, MEMSET, MISSING, OP, Columns
from kernelbook.trace.groups import RangeGroups
from kernelbook.trace.nesting import NONE, Forest, looked_up
from kernelbook.trace.plausible import Doubts
from kernelbook.trace.types import Totals

PATH_SEPARATOR = " > "
EVERY = slice(None)


def whole(values: np.ndarray) -> pa.Array:
    """Whole numbers; MISSING is null."""
    return numbers(values, values == MISSING)


def compute_totals(columns: Columns, found: Attribution, doubts: Doubts) -> Totals:
    """Figures of the whole file."""
    device = columns.device
    if not len(device.start):
        return Totals(*[None] * len(fields(Totals)))
    count = np.bincount(device.category, minlength=3)
    attributed = int((found.launch != NONE).sum())
    return Totals(
        kernels=int(count[KERNEL]),
        memcpys=int(count[MEMCPY]),
        memsets=int(count[MEMSET]),
        launches=int(found.launches.launching.sum()),
        attributed=attributed,
        unattributed=len(device.start) - attributed,
        device_time_us=int((device.end - device.start).sum()) / 1000,
        device_busy_us=busy_time(device.start, device.end, device.device) / 1000,
        implausible_us=int(doubts.excess.sum()) / 1000,
    )


@dataclass(frozen=True)
class RangeFigures:
    """Device figures per range, nested ranges included; times in ns."""

    kernels: np.ndarray
    memcpys: np.ndarray
    memsets: np.ndarray
    launches: np.ndarray
    device_time: np.ndarray
    device_busy: np.ndarray
    inferred: np.ndarray


def compute_ranges(columns: Columns, found: Attribution) -> RangeFigures:
    """Count and sum up what the launches inside each range ran."""
    device = columns.device
    count = len(found.ranges)
    group, activity = found.within()
    category = device.category[activity]
    start, end = device.start[activity], device.end[activity]
    rows = len(found.forest.parent)
    launched = np.unique(group * rows + found.launch[activity]) // max(rows, 1)
    time = np.zeros(count, dtype=np.int64)
    np.add.at(time, group, end - start)
    inferred = np.zeros(count, dtype=bool)
    inferred[group[found.inferred[activity]]] = True
    return RangeFigures(
        kernels=np.bincount(group[category == KERNEL], minlength=count),
        memcpys=np.bincount(group[category == MEMCPY], minlength=count),
        memsets=np.bincount(group[category == MEMSET], minlength=count),
        launches=np.bincount(launched, minlength=count),
        device_time=time,
        device_busy=busy_times(start, end, device.device[activity], group, count),
        inferred=inferred,
    )


def range_table(
    columns: Columns, found: Attribution, doubts: Doubts, figures: RangeFigures, groups: RangeGroups
) -> pa.Table:
    """One row per range, in order of start; figures include what is nested."""
    rows, ranges = found.forest.rows, found.ranges
    nothing = np.full(len(ranges), not len(columns.device.start))
    threads = [rows.threads[thread] for thread in rows.thread[ranges]]
    return pa.table(
        {
            "annotation": texts(rows.name[ranges], columns.names),
            "index": numbers(occurrence(rows.name[ranges])),
            "kernels": numbers(figures.kernels, nothing),
            "memcpys": numbers(figures.memcpys, nothing),
            "memsets": numbers(figures.memsets, nothing),
            "launches": numbers(figures.launches, nothing),
            "cpu_time_us": microseconds(found.forest.length[ranges]),
            "device_time_us": microseconds(figures.device_time, nothing),
            "device_busy_us": microseconds(figures.device_busy, nothing),
            "inferred": numbers(figures.inferred),
            "start_us": microseconds(rows.start[ranges], doubts.cpu_apart[ranges]),
            "parent": whole(found.enclosing),
            "pid": whole(_numeric(pid for pid, _ in threads)),
            "tid": whole(_numeric(tid for _, tid in threads)),
            "group": texts(groups.family, groups.names),
            "label": strings(groups.label),
            "level": numbers(groups.level),
            "kind": numbers(groups.kind),
            "forward": numbers(groups.is_forward),
        }
    )


def select_ranges(ranges: pa.Table, keep: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """(the ranges to keep, per range the row there of the innermost kept one that it is or lies in, -1 for none)."""
    parents = [NONE if parent is None else parent for parent in ranges["parent"].to_pylist()]
    place: list[int] = []
    for parent, kept, own in zip(parents, keep.tolist(), (np.cumsum(keep) - 1).tolist(), strict=True):
        place.append(own if kept else place[parent] if parent != NONE else NONE)
    places = np.array(place, dtype=np.int64)
    parent = whole(looked_up(places, np.array(parents, dtype=np.int64)))
    ranges = ranges.set_column(ranges.column_names.index("parent"), "parent", parent)
    return ranges.filter(numbers(keep)), places


def occurrence(codes: np.ndarray) -> np.ndarray:
    """How many equal codes came before each."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.searchsorted(ordered, ordered, "left")
    result = np.empty(len(codes), dtype=np.int64)
    result[order] = np.arange(len(codes)) - first
    return result


def _spelling(codes: np.ndarray, names: list[str]) -> np.ndarray:
    """Per name its place in the alphabet among the others, so that ties do not hang on the order of events."""
    place = {name: index for index, name in enumerate(sorted({names[code] for code in codes.tolist()}))}
    return np.array([place[names[code]] for code in codes.tolist()], dtype=np.int64)


def _numeric(values: Iterable[int | str]) -> np.ndarray:
    return np.array([value if isinstance(value, int) else MISSING for value in values], dtype=np.int64)


def kernel_table(columns: Columns, activities: np.ndarray | slice = EVERY) -> pa.Table:
    """One row per name and category of the given activities, the longest total first."""
    device = columns.device
    length = (device.end - device.start)[activities]
    key = device.name[activities].astype(np.int64) * 3 + device.category[activities]
    order = np.lexsort((length, key))
    key, length = key[order], length[order]
    keys, first, count = np.unique(key, return_index=True, return_counts=True)
    last = first + count - 1
    total = np.add.reduceat(length, first) if len(keys) else length
    median = (length[first + (count - 1) // 2] + length[first + count // 2]) / 2 if len(keys) else length
    ranked = np.lexsort((keys % 3, _spelling(keys // 3, columns.names), -total))
    return pa.table(
        {
            "name": texts(keys[ranked] // 3, columns.names),
            "category": texts(keys[ranked] % 3, list(CATEGORY_NAMES)),
            "count": numbers(count[ranked]),
            "total_us": microseconds(total[ranked]),
            "median_us": microseconds(median[ranked]),
            "min_us": microseconds(length[first[ranked]]),
            "max_us": microseconds(length[last[ranked]]),
        }
    )


def op_table(columns: Columns, found: Attribution, chosen: np.ndarray | slice = EVERY) -> pa.Table:
    """One row per op name, the longest CPU time first, counted as torch's `key_averages()` counts.

    An op that is its namesake's only child is folded into it (torch.autograd.profiler_util, `_remove_dup_nodes`).
    `device_time_us` and `kernels` include what child ops launched. chosen: the CPU rows whose ops count.
    """
    forest, device = found.forest, columns.device
    rows = forest.rows
    time, is_kernel = device.end - device.start, (device.category == KERNEL).astype(np.int64)
    own_time = summed_by_row(forest, found.op, time)
    all_time = forest.summed(summed_by_row(forest, found.launch, time))
    all_kernels = forest.summed(summed_by_row(forest, found.launch, is_kernel))
    is_op = np.zeros(len(rows.kind), dtype=bool)
    is_op[chosen] = rows.kind[chosen] == OP
    counted = is_op & ~_folded(forest, is_op)
    count = len(columns.names)

    def by_name(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        total = np.zeros(count, dtype=np.int64)
        np.add.at(total, rows.name[chosen], values[chosen])
        return total

    calls = np.bincount(rows.name[counted], minlength=count)
    cpu_time = by_name(forest.length, counted)
    present = np.flatnonzero(calls)
    present = present[np.lexsort((_spelling(present, columns.names), -cpu_time[present]))]
    nothing = np.full(len(present), not len(device.start))

    def device_figure(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return by_name(values, chosen)[present]

    return pa.table(
        {
            "name": texts(present, columns.names),
            "count": numbers(calls[present]),
            "cpu_time_us": microseconds(cpu_time[present]),
            "self_cpu_time_us": microseconds(by_name(forest.self_time, is_op)[present]),
            "device_time_us": microseconds(device_figure(all_time, counted), nothing),
            "self_device_time_us": microseconds(device_figure(own_time, is_op), nothing),
            "kernels": numbers(device_figure(all_kernels, counted), nothing),
        }
    )


def summed_by_row(forest: Forest, owner: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Per CPU row the sum of the values that it owns. owner: per value a row, NONE where it has none."""
    total = np.zeros(len(forest.parent), dtype=np.int64)
    np.add.at(total, owner[owner != NONE], values[owner != NONE])
    return total


def _folded(forest: Forest, is_op: np.ndarray) -> np.ndarray:
    """Ops that are the only child of an op of their own name."""
    parent, name = forest.holder, forest.rows.name
    inside = parent != NONE
    children = np.bincount(parent[inside], minlength=len(parent))
    folded = is_op & inside
    above = parent[folded]
    folded[folded] = is_op[above] & (name[above] == name[folded]) & (children[above] == 1)
    return folded


def activity_table(columns: Columns, found: Attribution, doubts: Doubts) -> pa.Table:
    """One row a device activity of the file, in order of start.

    launch_delay_us: from the start of the launch call to the start of the activity. start_us and launch_delay_us are
    null where the file's times cannot be.
    """
    device, rows = columns.device, found.forest.rows
    launched = found.launch != NONE
    launch = np.where(launched, found.launch, 0)
    if not len(rows.start):  # a file without CPU rows: nothing to take from
        launch_start = launch_length = np.zeros(len(launch), dtype=np.int64)
    else:
        launch_start, launch_length = rows.start[launch], found.forest.length[launch]
    op_name = np.full(len(launch), NONE)
    has_op = found.op != NONE
    op_name[has_op] = rows.name[found.op[has_op]]

    return pa.table(
        {
            "category": texts(device.category, list(CATEGORY_NAMES)),
            "name": texts(device.name, columns.names),
            "start_us": microseconds(device.start, doubts.apart),
            "duration_us": microseconds(device.end - device.start),
            "device": whole(device.device),
            "stream": whole(device.stream),
            "correlation": whole(device.correlation),
            "launch_api": texts(_launch_names(found), columns.names),
            "launch_start_us": microseconds(launch_start, ~launched),
            "launch_duration_us": microseconds(launch_length, ~launched),
            "launch_delay_us": microseconds(device.start - launch_start, ~launched | doubts.no_delay),
            "op": texts(op_name, columns.names),
            "op_path": op_paths(columns, found),
            "range": whole(found.range_of),
            "grid": triples(device.sizes[:, :3], device.sizes[:, 0] == MISSING),
            "block": triples(device.sizes[:, 3:], device.sizes[:, 3] == MISSING),
            "registers_per_thread": whole(device.registers),
            "shared_memory_bytes": whole(device.shared_memory),
            "occupancy_percent": numbers(device.occupancy, ~np.isfinite(device.occupancy)),
            "bytes": whole(device.bytes),
            "graph": numbers(_graph_launched(found)),
            "inferred": numbers(found.inferred),
        }
    )


def device_table(columns: Columns, found: Attribution) -> pa.Table:
    """The few columns of `activity_table` that tell how the device was used; cheap whatever the trace's size.

    launch: the number of the call, to count activities of the same one.
    """
    device = columns.device
    return pa.table(
        {
            "category": texts(device.category, list(CATEGORY_NAMES)),
            "device": whole(device.device),
            "stream": whole(device.stream),
            "launch": whole(found.launch),
            "launch_api": texts(_launch_names(found), columns.names),
            "graph": numbers(_graph_launched(found)),
        }
    )


def _launch_names(found: Attribution) -> np.ndarray:
    """Per activity the code of the name of its launch, NONE where that is not in the file."""
    names = np.full(len(found.launch), NONE)
    launched = found.launch != NONE
    names[launched] = found.forest.rows.name[found.launch[launched]]
    return names


def _graph_launched(found: Attribution) -> np.ndarray:
    """Per activity whether its launch has others too."""
    _, place, count = np.unique(found.launch, return_inverse=True, return_counts=True)
    return (count[place] > 1) & (found.launch != NONE)


def op_paths(columns: Columns, found: Attribution) -> pa.Array:
    """Per activity the ops around its launch, outermost first, or null."""
    rows, parent = found.forest.rows, found.forest.parent
    above = found.forest.innermost(rows.kind == OP)
    ops, place = np.unique(found.op, return_inverse=True)
    paths: list[str] = []
    for op in ops.tolist():
        path: list[str] = []
        while op != NONE:
            path.append(columns.names[rows.name[op]])
            op = above[parent[op]] if parent[op] != NONE else NONE
        paths.append(PATH_SEPARATOR.join(reversed(path)))
    return texts(np.where(found.op == NONE, NONE, place), paths)
