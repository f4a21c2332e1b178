"""The columns of numbers that are all that is kept of a trace, and the categories of events that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from kernelbook.trace.events import Message
from kernelbook.trace.numbers import MISSING
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
_APART_NS = 3600 * 10**9  # events of one profiler window are never this far apart


@lru_cache
def cpu_kind(category: str | None) -> int | None:
    """Kind of a CPU row, or None for any other category. `*_runtime` and `*_driver` cover every vendor's calls."""
    plain = (category or "").lower()
    return _CPU.get(plain.rpartition("_")[2] if plain.endswith(("_runtime", "_driver")) else plain)


@lru_cache
def activity_category(category: str | None) -> int | None:
    """KERNEL, MEMCPY or MEMSET, or None for any other category."""
    return _DEVICE.get((category or "").lower())


def is_ignored(category: str | None) -> bool:
    """Whether events of the category are known to be neither work nor a launch."""
    return (category or "").lower() in _IGNORED


class CpuRows(msgspec.Struct, dict=True):
    """Ops, annotations and runtime calls, one row each, by (thread, start, outermost first).

    Times in ns since `Columns.origin`.

    thread: index into `threads`, a sorted list of (pid, tid).
    number: correlation id of a runtime call, External id of any other row, which both count up; MISSING if not given.
    driver: whether the row is a driver call.
    step: whether the row is a ProfilerStep#N annotation.
    ordinal: number of the row, counted over the ops of all files; MISSING for other rows.
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

    def processes(self) -> tuple[list[int | str], Ints]:
        """(pids, per row an index into them)."""
        codes: dict[int | str, int] = {}
        of_thread = np.array([codes.setdefault(pid, len(codes)) for pid, _ in self.threads], dtype=np.int32)
        return list(codes), of_thread[self.thread] if len(of_thread) else self.thread


class DeviceRows(msgspec.Struct):
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


class Columns(msgspec.Struct):
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


def ordered(keys: Sequence[Ints], ties: Sequence[Ints | Flags]) -> Ints:
    """Order of rows by `keys` and, for the few rows where all of those are equal, by `ties`. First keys first."""
    order: Ints = np.lexsort(keys[::-1])
    tied = np.zeros(len(order) + 1, dtype=bool)
    tied[1:-1] = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
    rows = order[tied[1:] | tied[:-1]]
    order[tied[1:] | tied[:-1]] = rows[np.lexsort([key[rows] for key in (*ties[::-1], *keys[::-1])])]
    return order


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
