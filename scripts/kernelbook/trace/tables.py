"""The tables of a reading: ranges, kernels, ops and activities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

import msgspec
import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import CATEGORY_NAMES, KERNEL, MEMCPY, MEMSET, OP, Columns, distinct
from kernelbook.trace.frame import Column, Frame, Lists, listed, microseconds, texts, whole
from kernelbook.trace.implausible import ImplausibleTimes
from kernelbook.trace.nesting import NONE, Forest, by_depth, looked_up
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.ranges import RangeGroups
from kernelbook.trace.types import Flags, Ints, Totals

EVERY = slice(None)


def compute_totals(columns: Columns, attribution: Attribution, implausible: ImplausibleTimes) -> Totals:
    device = columns.device
    if not len(device.start):
        return Totals(*[None] * len(fields(Totals)))
    count = np.bincount(device.category, minlength=3)
    attributed = int((attribution.launch != NONE).sum())
    return Totals(
        kernels=int(count[KERNEL]),
        memcpys=int(count[MEMCPY]),
        memsets=int(count[MEMSET]),
        launches=int(attribution.launching.sum()),
        attributed=attributed,
        unattributed=len(device.start) - attributed,
        device_time_us=int((device.end - device.start).sum()) / 1000,
        device_busy_us=busy_time(device.start, device.end, device.device) / 1000,
        implausible_us=int(implausible.excess.sum()) / 1000,
    )


def busy_time(start: Ints, end: Ints, device: Ints) -> int:
    """Length of the union of each device's intervals, summed over the devices (ns)."""
    return int(busy_times(start, end, device, np.zeros(len(start), dtype=np.int64), 1)[0])


def busy_times(start: Ints, end: Ints, device: Ints, group: Ints, count: int) -> Ints:
    """`busy_time` of each of `count` groups. `group`: the group of each interval.

    One running maximum serves all lanes (group, device). It runs over the ranks of the ends, lane by lane: the ends
    themselves may be too large to be put on one axis when a wrong time is among them.
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


class RangeFigures(msgspec.Struct, frozen=True):
    """Device figures per range, including nested ranges. Times in ns."""

    kernels: Ints
    memcpys: Ints
    memsets: Ints
    launches: Ints
    device_time: Ints
    device_busy: Ints
    inferred: Flags


def compute_ranges(columns: Columns, attribution: Attribution) -> RangeFigures:
    device = columns.device
    count = len(attribution.ranges)
    group, activity = attribution.activities_in_ranges()
    category = device.category[activity]
    start, end = device.start[activity], device.end[activity]
    rows = len(attribution.forest.parent)
    launched = distinct(group * rows + attribution.launch[activity]) // max(rows, 1)
    time = np.zeros(count, dtype=np.int64)
    np.add.at(time, group, end - start)
    inferred = np.zeros(count, dtype=bool)
    inferred[group[attribution.on_other_thread(group, attribution.launch[activity])]] = True
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
    columns: Columns,
    attribution: Attribution,
    implausible: ImplausibleTimes,
    figures: RangeFigures,
    groups: RangeGroups,
) -> Frame:
    """One row per range, by start. Figures include nested ranges."""
    rows, ranges = attribution.forest.rows, attribution.ranges
    no_device = np.full(len(ranges), not len(columns.device.start))
    threads = [rows.threads[thread] for thread in rows.thread[ranges]]
    return Frame(
        {
            "annotation": Column(rows.name[ranges], names=columns.names),
            "index": Column(occurrence(rows.name[ranges])),
            "kernels": Column(figures.kernels, no_device),
            "memcpys": Column(figures.memcpys, no_device),
            "memsets": Column(figures.memsets, no_device),
            "launches": Column(figures.launches, no_device),
            "cpu_time_us": microseconds(attribution.forest.length[ranges]),
            "device_time_us": microseconds(figures.device_time, no_device),
            "device_busy_us": microseconds(figures.device_busy, no_device),
            "inferred": Column(figures.inferred),
            "start_us": microseconds(rows.start[ranges], implausible.cpu_apart[ranges]),
            "parent": whole(attribution.enclosing),
            "pid": whole(_numeric(pid for pid, _ in threads)),
            "tid": whole(_numeric(tid for _, tid in threads)),
            "group": Column(groups.family, names=groups.names),
            "label": texts(groups.label),
            "level": Column(groups.level),
            "kind": Column(groups.kind),
            "forward": Column(groups.is_forward),
        }
    )


def select_ranges(ranges: Frame, keep: Flags) -> tuple[Frame, Ints]:
    """(the ranges to keep, per range the row there of the innermost kept range that it is or lies in, or NONE)."""
    parents = ranges["parent"].values
    place: list[int] = []
    for parent, kept, own in zip(parents.tolist(), keep.tolist(), (np.cumsum(keep) - 1).tolist(), strict=True):
        place.append(own if kept else place[parent] if parent != NONE else NONE)
    places = np.array(place, dtype=np.int64)
    selected = Frame(ranges | {"parent": whole(looked_up(places, np.asarray(parents, dtype=np.int64)))})
    return selected.take(keep), places


def occurrence(codes: Ints) -> Ints:
    """Number of equal codes before each."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.searchsorted(ordered, ordered, "left")
    result = np.empty(len(codes), dtype=np.int64)
    result[order] = np.arange(len(codes)) - first
    return result


def _numeric(values: Iterable[int | str]) -> Ints:
    return np.array([value if isinstance(value, int) else MISSING for value in values], dtype=np.int64)


def kernel_table(columns: Columns, activities: Ints | slice = EVERY) -> Frame:
    """One row per name and category of the given activities, longest total first."""
    device = columns.device
    length = (device.end - device.start)[activities]
    key = device.name[activities].astype(np.int64) * 3 + device.category[activities]
    order = np.lexsort((length, key))
    key, length = key[order], length[order]
    keys, first, count = np.unique(key, return_index=True, return_counts=True)
    last = first + count - 1
    total = np.add.reduceat(length, first) if len(keys) else length
    median = (length[first + (count - 1) // 2] + length[first + count // 2]) / 2 if len(keys) else length
    ranked = np.argsort(-total, kind="stable")  # codes of names are in alphabetical order
    return Frame(
        {
            "name": Column(keys[ranked] // 3, names=columns.names),
            "category": Column(keys[ranked] % 3, names=CATEGORY_NAMES),
            "count": Column(count[ranked]),
            "total_us": microseconds(total[ranked]),
            "median_us": microseconds(median[ranked]),
            "min_us": microseconds(length[first[ranked]]),
            "max_us": microseconds(length[last[ranked]]),
        }
    )


def op_table(columns: Columns, attribution: Attribution, selected: Ints | slice = EVERY) -> Frame:
    """One row per op name, longest CPU time first, counted as torch's `key_averages()` counts.

    An op that is the only child of an op of its name is counted with it (torch.autograd.profiler_util,
    `_remove_dup_nodes`). `device_time_us` and `kernels` include what child ops launched.
    selected: the CPU rows whose ops count.
    """
    forest, device = attribution.forest, columns.device
    rows = forest.rows
    time, is_kernel = device.end - device.start, (device.category == KERNEL).astype(np.int64)
    own_time = summed_by_row(forest, attribution.op, time)
    all_time = forest.summed(summed_by_row(forest, attribution.launch, time))
    all_kernels = forest.summed(summed_by_row(forest, attribution.launch, is_kernel))
    is_op = np.zeros(len(rows.kind), dtype=bool)
    is_op[selected] = rows.kind[selected] == OP
    counted = is_op & ~_only_child_of_namesake(forest, is_op)

    def by_name(values: Ints, chosen: Flags) -> Ints:
        total = np.zeros(len(columns.names), dtype=np.int64)
        np.add.at(total, rows.name[chosen], values[chosen])
        return total

    calls = np.bincount(rows.name[counted], minlength=len(columns.names))
    cpu_time = by_name(forest.length, counted)
    present = np.flatnonzero(calls)
    present = present[np.argsort(-cpu_time[present], kind="stable")]
    no_device = np.full(len(present), not len(device.start))
    return Frame(
        {
            "name": Column(present, names=columns.names),
            "count": Column(calls[present]),
            "cpu_time_us": microseconds(cpu_time[present]),
            "self_cpu_time_us": microseconds(by_name(forest.self_time, is_op)[present]),
            "device_time_us": microseconds(by_name(all_time, counted)[present], no_device),
            "self_device_time_us": microseconds(by_name(own_time, is_op)[present], no_device),
            "kernels": Column(by_name(all_kernels, counted)[present], no_device),
        }
    )


def summed_by_row(forest: Forest, owner: Ints, values: Ints) -> Ints:
    """Per CPU row the sum of its values. `owner`: the row of each value, or NONE."""
    total = np.zeros(len(forest.parent), dtype=np.int64)
    np.add.at(total, owner[owner != NONE], values[owner != NONE])
    return total


def _only_child_of_namesake(forest: Forest, is_op: Flags) -> Flags:
    """Ops that are the only child of an op of their name."""
    parent, name = forest.holder, forest.rows.name
    inside: Flags = parent != NONE
    children = np.bincount(parent[inside], minlength=len(parent))
    only_child = is_op & inside
    above = parent[only_child]
    only_child[only_child] = is_op[above] & (name[above] == name[only_child]) & (children[above] == 1)
    return only_child


def activity_table(columns: Columns, attribution: Attribution, implausible: ImplausibleTimes) -> Frame:
    """One row per device activity, by start; impossible starts and launch delays are null."""
    device, rows = columns.device, attribution.forest.rows
    not_launched: Flags = attribution.launch == NONE
    launch = np.where(not_launched, 0, attribution.launch)
    if not len(rows.start):
        launch_start = launch_length = np.zeros(len(launch), dtype=np.int64)
    else:
        launch_start, launch_length = rows.start[launch], attribution.forest.length[launch]
    return Frame(
        {
            "category": Column(device.category, names=CATEGORY_NAMES),
            "name": Column(device.name, names=columns.names),
            "start_us": microseconds(device.start, implausible.apart),
            "duration_us": microseconds(device.end - device.start),
            "device": whole(device.device),
            "stream": whole(device.stream),
            "correlation": whole(device.correlation),
            "launch_api": Column(looked_up(rows.name, attribution.launch), names=columns.names),
            "launch_start_us": microseconds(launch_start, not_launched),
            "launch_duration_us": microseconds(launch_length, not_launched),
            "launch_delay_us": microseconds(device.start - launch_start, not_launched | implausible.no_delay),
            "op": Column(looked_up(rows.name, attribution.op), names=columns.names),
            "op_path": _op_paths(columns, attribution),
            "range": whole(attribution.range_of),
            "grid": _triples(device.sizes[:, :3]),
            "block": _triples(device.sizes[:, 3:]),
            "registers_per_thread": whole(device.registers),
            "shared_memory_bytes": whole(device.shared_memory),
            "occupancy_percent": Column(device.occupancy, ~np.isfinite(device.occupancy)),
            "bytes": whole(device.bytes),
            "graph": Column(_in_graph(attribution)),
            "inferred": Column(attribution.inferred),
        }
    )


def device_table(columns: Columns, attribution: Attribution) -> Frame:
    """The columns of `activity_table` that are cheap to make, and `launch`, a number of the call."""
    device = columns.device
    return Frame(
        {
            "category": Column(device.category, names=CATEGORY_NAMES),
            "device": whole(device.device),
            "stream": whole(device.stream),
            "launch": whole(attribution.launch),
            "launch_api": Column(looked_up(attribution.forest.rows.name, attribution.launch), names=columns.names),
            "graph": Column(_in_graph(attribution)),
        }
    )


def _in_graph(attribution: Attribution) -> Flags:
    """Per activity whether its launch has other activities."""
    _, place, count = np.unique(attribution.launch, return_inverse=True, return_counts=True)
    shared: Flags = (count[place] > 1) & (attribution.launch != NONE)
    return shared


def _op_paths(columns: Columns, attribution: Attribution) -> Lists:
    """Per activity the ops around its launch, outermost first; null without any."""
    rows, parent = attribution.forest.rows, attribution.forest.parent
    every = [distinct(attribution.op)]
    while (inner := every[-1][every[-1] != NONE]).size:
        every.append(distinct(looked_up(attribution.op_of_row, parent[inner])))
    ops = distinct(np.concatenate(every))  # an op comes after those around it
    ops = ops[ops != NONE]
    around = looked_up(attribution.op_of_row, parent[ops])
    outer = np.where(around == NONE, NONE, np.searchsorted(ops, around))
    path, paths = np.full(len(ops), NONE), list[list[int]]()
    for level in by_depth(outer):
        keys = looked_up(path, outer[level]) * len(columns.names) + rows.name[ops[level]]
        keys, of_key = np.unique(keys, return_inverse=True)
        path[level] = len(paths) + of_key
        for key in keys.tolist():
            above, name = divmod(key, len(columns.names))
            paths.append([*(paths[above] if above != NONE else ()), name])
    of_activity = looked_up(path, np.where(attribution.op == NONE, NONE, np.searchsorted(ops, attribution.op)))
    names = listed(paths, lambda codes: Column(np.array(codes, dtype=np.int64), names=columns.names))
    return names.take_or_null(of_activity)


def _triples(values: Ints) -> Lists:
    """Lists of three numbers, null if the first is MISSING. values: shape (rows, 3)."""
    first = np.arange(len(values)) * 3
    return Lists(first, np.where(values[:, 0] == MISSING, -1, 3), Column(values.reshape(-1)))
