"""Batches of events to columns of numbers: what is kept of a trace, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, compress
from operator import attrgetter
from typing import Any

import numpy as np

from kernelbook.trace.busy import main_span
from kernelbook.trace.events import Args, Event, identity, integer, number

# Kinds of rows on the CPU, and of activities on a device; the new schema's categories and the old one's.
ANNOTATION, OP, RUNTIME = 0, 1, 2
KERNEL, MEMCPY, MEMSET = 0, 1, 2
CATEGORY_NAMES = ("kernel", "memcpy", "memset")
_CPU = {"user_annotation": ANNOTATION, "cpu_op": OP, "operator": OP, "runtime": RUNTIME, "driver": RUNTIME}
_DEVICE = {
    "kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
}
# Known, and neither work nor a launch: spans over other rows, waits, the profiler's own time, counters, flows.
_IGNORED = {
    "gpu_user_annotation", "python_function", "cpu_instant_event", "cuda_sync", "overhead", "trace", "ac2g", "async",
    "fwdbwd", "forward_backward", "cuda_profiler_range", "collective_comm", "gpu_pm_counter", "external_correlation",
    "cuda_event", "async_cpu_to_gpu", "async_gpu",
}  # fmt: skip
_STEP = "ProfilerStep#"
MISSING = -1
_PID, _TID = attrgetter("pid"), attrgetter("tid")
_PAUSE_NS = 10_000  # between two windows of one process, more than any tolerance
_LONGEST_US = 1e13  # 115 days: an end without a start
_FARTHEST_US = 9e15  # about 285 years of µs; more does not fit into integer ns


def cpu_kind(category: str | None) -> int | None:
    """The kind of a CPU row, None for every other category. The ending tells the runtimes and drivers of any vendor."""
    plain = (category or "").lower()
    return _CPU.get(plain.rpartition("_")[2] if plain.endswith(("_runtime", "_driver")) else plain)


class _Codes(dict):
    """Numbers its keys in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code

    def of(self, keys: Iterable[Any]) -> np.ndarray:
        return np.fromiter(map(self.__getitem__, keys), dtype=np.int32)


@dataclass
class CpuRows:
    """One row an op, annotation or runtime call, in the file's order. Times in ns since `origin` of the columns.

    thread: index into `threads` ((pid, tid)). correlation: of runtime calls, MISSING where there is none.
    step: whether the row is the profiler's own step annotation. ordinal: the row's place among all CPU rows read.
    """

    kind: np.ndarray
    name: np.ndarray
    thread: np.ndarray
    start: np.ndarray
    end: np.ndarray
    correlation: np.ndarray
    step: np.ndarray
    ordinal: np.ndarray
    threads: list[tuple[int | str, int | str]]

    def take(self, order: np.ndarray) -> CpuRows:
        columns = (self.kind, self.name, self.thread, self.start, self.end, self.correlation, self.step, self.ordinal)
        return CpuRows(*(column[order] for column in columns), threads=self.threads)

    def processes(self) -> tuple[list[int | str], np.ndarray]:
        """The processes, and per row which of them it is of."""
        codes = _Codes()
        of_thread = codes.of(pid for pid, _ in self.threads)
        return list(codes), of_thread[self.thread] if len(of_thread) else self.thread


@dataclass
class DeviceRows:
    """One row a device activity, in order of start. Times as in CpuRows; MISSING where the file has no valid number.

    sizes: grid and block, six numbers a row. occupancy: percent, NaN where missing.
    lane: index into `lanes` (the event's own pid, the device's number), by which merged processes are told apart.
    """

    category: np.ndarray
    name: np.ndarray
    start: np.ndarray
    end: np.ndarray
    device: np.ndarray
    stream: np.ndarray
    correlation: np.ndarray
    sizes: np.ndarray
    registers: np.ndarray
    shared_memory: np.ndarray
    bytes: np.ndarray
    occupancy: np.ndarray
    lane: np.ndarray
    lanes: list[tuple[int | str, int | str]]


@dataclass
class Columns:
    """All that is kept of a trace. `origin` is the earliest event of its main span in ns of the file's own clock.

    windows: where each file of the process begins, ns since origin. categories: of all complete events, as spelled.
    """

    cpu: CpuRows
    device: DeviceRows
    names: list[str]
    origin: int
    windows: np.ndarray
    malformed: int
    unknown: dict[str, int]
    categories: frozenset[str]


class ColumnBuilder:
    """Takes batches of events and keeps their numbers."""

    def __init__(self) -> None:
        self._names = _Codes()
        self._threads = _Codes()
        self._lanes = _Codes()
        self._kinds: dict[str | None, int] = {}
        self._categories: dict[str | None, int] = {}
        self._seen: set[str | None] = set()
        self._unknown: dict[str, int] = {}
        self._malformed = 0
        self._cpu: list[tuple[np.ndarray, ...]] = []
        self._device: list[tuple[np.ndarray, ...]] = []
        self._read = 0
        self._ended = (0, 0)  # parts of windows that have ended
        self._windows: list[int] = []
        self._until = 0

    def add(self, events: list[Event]) -> None:
        complete = [event for event in events if event.ph == "X"]
        for category in {event.cat for event in complete} - self._seen:
            self._learn(category)
        if self._unknown:
            for event in complete:
                if event.cat in self._unknown:
                    self._unknown[event.cat] += 1
        kinds, categories = self._kinds, self._categories
        if cpu := [event for event in complete if event.cat in kinds]:
            self._add_cpu(cpu)
        if categories and (device := [event for event in complete if event.cat in categories]):
            self._add_device(device)

    def end_window(self) -> None:
        """What is added next is of another file of the same process, and is laid right behind what was added so far."""
        cpu, device = self._cpu[self._ended[0] :], self._device[self._ended[1] :]
        times = [part[3:5] for part in cpu] + [part[2:4] for part in device]
        self._ended = (len(self._cpu), len(self._device))
        first, last = main_span(np.concatenate([np.empty(0, np.int64), *(start for start, _ in times)]))
        shift = self._until - first if self._windows else 0
        self._windows.append(first + shift)
        for start, end in times:
            self._until = max(self._until, int(end[start <= last].max(initial=0)) + shift + _PAUSE_NS)
            start += shift
            end += shift

    def _learn(self, category: str | None) -> None:
        """Decide once what a category is."""
        self._seen.add(category)
        plain = (category or "").lower()
        kind = cpu_kind(category)
        if kind is not None:
            self._kinds[category] = kind
        elif plain in _DEVICE:
            self._categories[category] = _DEVICE[plain]
        elif plain not in _IGNORED:
            self._unknown[category] = 0

    def _add_cpu(self, events: list[Event]) -> None:
        start, end, valid = _times(events)
        ordinal = np.arange(self._read, self._read + len(events))
        self._read += len(events)
        if not valid.all():
            self._malformed += int((~valid).sum())
            events = list(compress(events, valid))
            start, end, ordinal = start[valid], end[valid], ordinal[valid]
        kinds = self._kinds
        kind = np.fromiter((kinds[event.cat] for event in events), dtype=np.int8)
        correlation = np.full(len(events), MISSING)
        calls = kind == RUNTIME
        if calls.any():
            correlation[calls] = _integers([e.args.correlation if e.args else None for e in compress(events, calls)])
        name = self._names.of([event.name or "" for event in events])
        thread = self._threads.of(zip(map(_PID, events), map(_TID, events), strict=True))
        self._cpu.append((kind, name, thread, start, end, correlation, ordinal))

    def _add_device(self, events: list[Event]) -> None:
        start, end, valid = _times(events)
        if not valid.all():
            self._malformed += int((~valid).sum())
            events = list(compress(events, valid))
            start, end = start[valid], end[valid]
        categories = self._categories
        category = np.fromiter((categories[event.cat] for event in events), dtype=np.int8)
        name = self._names.of([event.name or "" for event in events])
        nothing = Args()
        args = [event.args or nothing for event in events]
        devices = [a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)]
        streams = [a.stream if a.stream is not None else _stream(e.tid) for a, e in zip(args, events, strict=True)]
        self._device.append(
            (
                category, name, start, end, _integers(devices), _integers(streams),
                _integers([a.correlation for a in args]), _sizes(args), _counts([a.registers for a in args]),
                _counts([a.shared_memory for a in args]), _counts([a.bytes for a in args]),
                _floats([a.occupancy for a in args]), self._lanes.of(zip(map(_PID, events), devices, strict=True)),
            )
        )  # fmt: skip

    def finish(self) -> Columns:
        """The columns, with every time counted from the earliest event of the main span."""
        self.end_window()
        cpu = _joined(self._cpu, (np.int8, np.int32, np.int32, np.int64, np.int64, np.int64, np.int64))
        kind, name, thread, start, end, correlation, ordinal = cpu
        empty = (np.int8, np.int32) + (np.int64,) * 9 + (np.float64, np.int32)
        device = _joined(self._device, empty)
        device[7] = device[7].reshape(-1, 6)
        origin = self._windows[0]
        for column in (start, end, device[2], device[3]):
            column -= origin
        steps = np.fromiter((key.startswith(_STEP) for key in self._names), dtype=bool, count=len(self._names))
        step = steps[name] & (kind != RUNTIME)
        kind[step] = ANNOTATION  # the old schema calls the step an operator
        thread, threads = self._merged_threads(thread)
        order = np.lexsort((device[5], device[4], device[2]))  # by start, device, stream
        lanes = [(identity(pid), identity(number)) for pid, number in self._lanes]
        rows = DeviceRows(*(column[order] for column in device), lanes=lanes)
        return Columns(
            cpu=CpuRows(kind, name, thread, start, end, correlation, step, ordinal, threads),
            device=rows,
            names=list(self._names),
            origin=origin,
            windows=np.array(self._windows) - origin,
            malformed=self._malformed,
            unknown={str(category): count for category, count in self._unknown.items()},
            categories=frozenset(filter(None, self._seen)),
        )

    def _merged_threads(self, thread: np.ndarray) -> tuple[np.ndarray, list[tuple[int | str, int | str]]]:
        """The same thread written as a number and as a string is one thread."""
        merged = _Codes()
        codes = merged.of((identity(pid), identity(tid)) for pid, tid in self._threads)
        return codes[thread] if len(codes) else thread, list(merged)


def _times(events: list[Event]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends in ns, and which of them are valid: finite, not negative, and not longer than any program ran."""
    start = _floats([event.ts for event in events])
    length = _floats([event.dur for event in events])
    with np.errstate(invalid="ignore"):
        valid = (start >= 0) & (length >= 0) & (length < _LONGEST_US) & (start + length < _FARTHEST_US)
    if not valid.all():
        start = np.where(valid, start, 0)
        length = np.where(valid, length, 0)
    begin = _nanoseconds(start)
    return begin, begin + _nanoseconds(length), valid


def _nanoseconds(microseconds: np.ndarray) -> np.ndarray:
    """Exact for every float: 1.7e15 µs times 1000 would lose the fraction."""
    whole = np.floor(microseconds)
    return whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)


def _floats(values: list[Any]) -> np.ndarray:
    """Floats; NaN for what is no number."""
    try:
        return np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return np.array([number(value) for value in values], dtype=np.float64)


def _integers(values: list[Any]) -> np.ndarray:
    """Integers of 64 bits; MISSING for anything else."""
    try:
        return np.array([MISSING if value is None else value for value in values], dtype=np.int64)
    except (ValueError, TypeError, OverflowError):
        return np.array([MISSING if (found := integer(value)) is None else found for value in values], dtype=np.int64)


def _counts(values: list[Any]) -> np.ndarray:
    """Integers that cannot be negative."""
    found = _integers(values)
    return np.where(found < 0, MISSING, found)


def _sizes(args: list[Args]) -> np.ndarray:
    """Grid and block, six numbers a row; the three of one that is no size are MISSING."""
    none = [MISSING] * 3
    triples = [size if size and len(size) == 3 else none for a in args for size in (a.grid, a.block)]
    sizes = _integers(list(chain.from_iterable(triples))).reshape(-1, 3)
    sizes[(sizes < 1).any(axis=1)] = MISSING
    return sizes.reshape(-1, 6)


def _stream(tid: int | str | None) -> int | str | None:
    return tid.removeprefix("stream ") if isinstance(tid, str) else tid


def _joined(parts: list[tuple[np.ndarray, ...]], empty: tuple[type, ...]) -> list[np.ndarray]:
    if not parts:
        return [np.empty(0, dtype) for dtype in empty]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
