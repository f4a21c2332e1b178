"""Collects batches of events into columns of numbers: the only part of a trace that is kept in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from kernelbook.trace.events import Args, Event, Message, identity, message_of
from kernelbook.trace.numbers import MISSING, counts_of, floats_of, integers_of, sizes_of, spans_of, stream_of
from kernelbook.trace.types import Flags, Floats, Ints

# Kinds of CPU rows and of device activities, and the categories of torch's current and older formats for them.
ANNOTATION, OP, RUNTIME, DRIVER, OVERHEAD = 0, 1, 2, 3, 4  # driver calls become RUNTIME rows
KERNEL, MEMCPY, MEMSET = 0, 1, 2
CATEGORY_NAMES = ("kernel", "memcpy", "memset")
_CPU = {
    "user_annotation": ANNOTATION, "cpu_op": OP, "operator": OP, "runtime": RUNTIME, "driver": DRIVER,
    "overhead": OVERHEAD,
}  # fmt: skip
_DEVICE = {
    "kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
}
# Known categories that are neither work nor a launch: spans over other rows, waits, counters, flows.
_IGNORED = {
    "gpu_user_annotation", "python_function", "cpu_instant_event", "cuda_sync", "trace", "ac2g", "async",
    "fwdbwd", "forward_backward", "cuda_profiler_range", "collective_comm", "gpu_pm_counter", "external_correlation",
    "cuda_event", "async_cpu_to_gpu", "async_gpu",
}  # fmt: skip
_STEP = "ProfilerStep#"
_PAUSE_NS = 10_000  # between two windows of one process: more than any tolerance
_APART_NS = 3600 * 10**9  # events of one profiler window are never this far apart


def cpu_kind(category: str | None) -> int | None:
    """Kind of a CPU row, or None for any other category. `*_runtime` and `*_driver` cover every vendor's calls."""
    plain = (category or "").lower()
    return _CPU.get(plain.rpartition("_")[2] if plain.endswith(("_runtime", "_driver")) else plain)


class _Codes(dict[Any, int]):
    """Numbers its keys in the order of their first appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code

    def of(self, keys: Iterable[Any], count: int) -> Ints:
        return np.fromiter(map(self.__getitem__, keys), np.int32, count)


@dataclass
class CpuRows:
    """Ops, annotations and runtime calls, one row each, in file order. Times in ns since `Columns.origin`.

    thread: index into `threads`, a sorted list of (pid, tid).
    number: correlation id of a runtime call, External id of any other row, which both count up; MISSING if not given.
    driver: whether the row is a driver call.
    step: whether the row is a ProfilerStep#N annotation.
    ordinal: position of the row among all CPU rows of the files.
    message: index into `Columns.messages`; MISSING for rows that are no collectives.
    """

    threads: list[tuple[int | str, int | str]]
    kind: Ints
    name: Ints
    thread: Ints
    start: Ints
    end: Ints
    number: Ints
    driver: Flags
    step: Flags
    ordinal: Ints
    message: Ints

    @cached_property
    def correlation(self) -> Ints:
        """Correlation id of each runtime call; MISSING for other rows."""
        return np.where(self.kind == RUNTIME, self.number, MISSING)

    def take(self, order: Ints | Flags) -> CpuRows:
        arrays = [getattr(self, name)[order] for name in self.__dataclass_fields__ if name != "threads"]
        return CpuRows(self.threads, *arrays)

    def processes(self) -> tuple[list[int | str], Ints]:
        """(pids, per row an index into them)."""
        codes = _Codes()
        of_thread = codes.of((pid for pid, _ in self.threads), len(self.threads))
        return list(codes), of_thread[self.thread] if len(of_thread) else self.thread


@dataclass
class DeviceRows:
    """Device activities, one row each, by start. Times as in CpuRows; MISSING where the file has no valid number.

    sizes: grid and block, six numbers per row. occupancy: percent, NaN where missing.
    lane: index into `lanes`, a list of (pid of the event, device), which keeps merged processes apart.
    message: as in CpuRows.
    """

    lanes: list[tuple[int | str, int | str]]
    category: Ints
    name: Ints
    start: Ints
    end: Ints
    device: Ints
    stream: Ints
    correlation: Ints
    sizes: Ints
    registers: Ints
    shared_memory: Ints
    bytes: Ints
    occupancy: Floats
    lane: Ints
    message: Ints


@dataclass
class Columns:
    """All that is kept of a trace.

    overhead: what CUPTI reports beside the calls, on no thread of the program: loading a kernel, a full launch queue, a
        buffer of the profiler.
    names: the names that the rows refer to, in alphabetical order.
    origin: start of the earliest event of the main span, in ns of the file's own clock.
    windows: start of each file of the process, in ns since `origin`.
    shifts: how much later (ns) the events of each file are placed than its own clock says.
    messages: what torch recorded about collectives; rows refer to it.
    malformed: number of events without a valid time. unknown: number of events of each unknown category.
    categories: categories of all complete events, as spelled in the file.
    """

    cpu: CpuRows
    device: DeviceRows
    overhead: CpuRows
    names: list[str]
    origin: int
    windows: Ints
    shifts: Ints
    messages: list[Message]
    malformed: int
    unknown: dict[str, int]
    categories: frozenset[str]


class ColumnBuilder:
    """Builds `Columns` from batches of events."""

    def __init__(self) -> None:
        self._names = _Codes()
        self._threads = _Codes()
        self._lanes = _Codes()
        self._messages = _Codes()
        self._cpu_kinds: dict[str | None, int] = {}
        self._device_kinds: dict[str | None, int] = {}
        self._categories: set[str | None] = set()
        self._unknown: dict[str | None, int] = {}
        self._malformed = 0
        self._cpu: list[tuple[Any, ...]] = []  # one tuple of columns per batch
        self._device: list[tuple[Any, ...]] = []
        self._cpu_events = 0
        self._finished = (0, 0)  # number of batches that belong to earlier windows
        self._windows: list[int] = []
        self._shifts: list[int] = []
        self._window_end = 0

    def add(self, events: Sequence[Event]) -> None:
        complete = [event for event in events if event.ph == "X"]
        for category in {event.cat for event in complete} - self._categories:
            self._classify(category)
        for event in complete if self._unknown else ():
            if event.cat in self._unknown:
                self._unknown[event.cat] += 1
        cpu_kinds, device_kinds = self._cpu_kinds, self._device_kinds
        if cpu := [event for event in complete if event.cat in cpu_kinds]:
            self._add_cpu(cpu)
        if device_kinds and (device := [event for event in complete if event.cat in device_kinds]):
            self._add_device(device)

    def end_window(self) -> None:
        """Start a new file of the same process. Its events follow the earlier ones after a short pause."""
        cpu, device = self._cpu[self._finished[0] :], self._device[self._finished[1] :]
        times = [part[3:5] for part in cpu] + [part[2:4] for part in device]
        self._finished = (len(self._cpu), len(self._device))
        starts = [part[3][part[0] != OVERHEAD] for part in cpu] + [part[2] for part in device]
        first, last = main_span(np.concatenate([np.empty(0, np.int64), *starts]))
        shift = self._window_end - first if self._windows else 0
        self._windows.append(first + shift)
        self._shifts.append(shift)
        for start, end in times:
            self._window_end = max(self._window_end, int(end[start <= last].max(initial=0)) + shift + _PAUSE_NS)
            start += shift
            end += shift

    def _classify(self, category: str | None) -> None:
        self._categories.add(category)
        plain = (category or "").lower()
        kind = cpu_kind(category)
        if kind is not None:
            self._cpu_kinds[category] = kind
        elif plain in _DEVICE:
            self._device_kinds[category] = _DEVICE[plain]
        elif plain not in _IGNORED:
            self._unknown[category] = 0

    def _add_cpu(self, events: list[Event]) -> None:
        start, end, valid = spans_of(events)
        ordinal = np.arange(self._cpu_events, self._cpu_events + len(events))
        self._cpu_events += len(events)
        if not valid.all():
            self._malformed += int((~valid).sum())
            events = list(compress(events, valid))
            start, end, ordinal = start[valid], end[valid], ordinal[valid]
        count = len(events)
        kinds = [self._cpu_kinds[event.cat] for event in events]
        numbers = [
            None if (args := event.args) is None else args.correlation if kind >= RUNTIME else args.external_id
            for event, kind in zip(events, kinds, strict=True)
        ]
        name = self._names.of([event.name or "" for event in events], count)
        thread = self._threads.of([(event.pid, event.tid) for event in events], count)
        message = self._message_codes([event.args for event in events])
        self._cpu.append((np.array(kinds, np.int8), name, thread, start, end, integers_of(numbers), ordinal, message))

    def _add_device(self, events: list[Event]) -> None:
        start, end, valid = spans_of(events)
        if not valid.all():
            self._malformed += int((~valid).sum())
            events = list(compress(events, valid))
            start, end = start[valid], end[valid]
        count = len(events)
        no_args = Args()
        args = [event.args or no_args for event in events]
        devices = [a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)]
        streams = [a.stream if a.stream is not None else stream_of(e.tid) for a, e in zip(args, events, strict=True)]
        self._device.append(
            (
                np.array([self._device_kinds[event.cat] for event in events], np.int8),
                self._names.of([event.name or "" for event in events], count),
                start,
                end,
                integers_of(devices),
                integers_of(streams),
                integers_of([a.correlation for a in args]),
                sizes_of(args),
                counts_of([a.registers for a in args]),
                counts_of([a.shared_memory for a in args]),
                counts_of([a.bytes for a in args]),
                floats_of([a.occupancy for a in args]),
                self._lanes.of(zip([event.pid for event in events], devices, strict=True), count),
                self._message_codes(args),
            )
        )

    def _message_codes(self, args: Sequence[Args | None]) -> Ints:
        """Per event the code of what its arguments state about a collective, or MISSING."""
        codes = np.full(len(args), MISSING, np.int32)
        for place, each in enumerate(args):
            if each is not None and each.collective is not None and (message := message_of(each)):
                codes[place] = self._messages[message]
        return codes

    def finish(self) -> Columns:
        """The columns, with times relative to the earliest event of the main span."""
        self.end_window()
        cpu_types = (np.int8, np.int32, np.int32, np.int64, np.int64, np.int64, np.int64, np.int32)
        kind, name, thread, start, end, number, ordinal, message = _concatenated(self._cpu, cpu_types)
        device = _concatenated(self._device, (np.int8, np.int32) + (np.int64,) * 9 + (np.float64, np.int32, np.int32))
        origin = self._windows[0]
        for times in (start, end, device[2], device[3]):
            times -= origin
        is_step = np.fromiter((text.startswith(_STEP) for text in self._names), bool, len(self._names))
        driver = kind == DRIVER
        kind[driver] = RUNTIME
        step = is_step[name] & (kind < RUNTIME)
        kind[step] = ANNOTATION  # older formats call the step an operator
        names, place = _sorted_codes(list(self._names))
        device[1] = place[device[1]]
        threads, place_of_thread = _sorted_codes([_identities(thread) for thread in self._threads])
        rows = CpuRows(
            threads, kind, place[name], place_of_thread[thread], start, end, number, driver, step, ordinal, message
        )
        return Columns(
            cpu=rows.take(kind != OVERHEAD),
            device=self._device_rows(device),
            overhead=rows.take(kind == OVERHEAD),
            names=names,
            origin=origin,
            windows=np.array(self._windows) - origin,
            shifts=np.array(self._shifts),
            messages=list(self._messages),
            malformed=self._malformed,
            unknown={str(category): count for category, count in self._unknown.items()},
            categories=frozenset(category for category in self._categories if category),
        )

    def _device_rows(self, columns: list[Any]) -> DeviceRows:
        """The activities by start, device and stream."""
        category, name, start, end, device, stream, correlation = columns[:7]
        order = ordered((start,), (device, stream, correlation, end, category, name))
        columns[7] = columns[7].reshape(-1, 6)
        return DeviceRows([_identities(lane) for lane in self._lanes], *(column[order] for column in columns))


def ordered(keys: Sequence[Ints], ties: Sequence[Ints | Flags]) -> Ints:
    """Order of rows by `keys` and, for the few rows where all of those are equal, by `ties`. First keys first."""
    order: Ints = np.lexsort(keys[::-1])
    tied = np.zeros(len(order) + 1, dtype=bool)
    tied[1:-1] = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
    rows = order[tied[1:] | tied[:-1]]
    order[tied[1:] | tied[:-1]] = rows[np.lexsort([key[rows] for key in (*ties[::-1], *keys[::-1])])]
    return order


def _sorted_codes(values: Sequence[Any]) -> tuple[list[Any], Ints]:
    """(the distinct values in order, per value its place there). Numbers are before text."""
    in_order = sorted(set(values), key=_sort_key)
    place = {value: index for index, value in enumerate(in_order)}
    return in_order, np.array([place[value] for value in values], dtype=np.int32)


def _sort_key(value: str | tuple[int | str, ...]) -> Any:
    return value if isinstance(value, str) else [(isinstance(part, str), part) for part in value]


def _identities(ids: tuple[Any, Any]) -> tuple[int | str, int | str]:
    """The same process or thread, written as a number and as text, is one."""
    return identity(ids[0]), identity(ids[1])


def main_span(starts: Ints) -> tuple[int, int]:
    """First and last start (ns) of the largest set of events without a gap of an hour between neighbours."""
    if not len(starts):
        return 0, 0
    if starts.max() - starts.min() <= _APART_NS:
        return int(starts.min()), int(starts.max())
    ordered = np.sort(starts)
    last = np.append(np.flatnonzero(np.diff(ordered) > _APART_NS), len(ordered) - 1)
    first = np.append(0, last[:-1] + 1)
    largest = len(first) - 1 - int(np.argmax((last - first)[::-1]))  # the latest of equals: a missing time is 0
    return int(ordered[first[largest]]), int(ordered[last[largest]])


# As np.unique and np.median, which import numpy.ma: that takes longer than reading a small trace.
def distinct(values: Ints) -> Ints:
    """The sorted distinct values."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def median(values: Ints) -> float:
    ordered, middle = np.sort(values), len(values) // 2
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _concatenated(parts: list[tuple[Any, ...]], types: tuple[type, ...]) -> list[Any]:
    """The columns of all parts joined; `types` are those of the empty columns where there is no part."""
    if not parts:
        return [np.empty(0, dtype) for dtype in types]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
