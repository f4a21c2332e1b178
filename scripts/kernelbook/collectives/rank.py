"""Extracts from one rank's trace what reading its job needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from kernelbook.collectives.model import CommunicationEvent, RankForward, RankTrace, Work
from kernelbook.collectives.operations import (
    POINT_TO_POINT,
    element_bytes,
    has_other_ranks,
    is_communication,
    operation,
)
from kernelbook.trace.columns import median
from kernelbook.trace.events import Message, integer
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.reading import TraceReading
from kernelbook.trace.tables import busy_times
from kernelbook.trace.timeline import Timeline
from kernelbook.trace.types import Flags, Ints

# --- time by kind, as unions of intervals ----------------------------------------------------------------------------
# The hidden part of communication is the overlap of HolisticTraceAnalysis' `get_comm_comp_overlap`; compute and idle
# time are those of its `get_temporal_breakdown`.


@dataclass(frozen=True)
class Split:
    """Times in ns, one entry per group; the fields are those of `model.RankForward`."""

    span: Ints
    compute: Ints
    communication: Ints
    hidden: Ints
    exposed: Ints
    copies: Ints
    idle: Ints


def split_time(
    start: Ints, end: Ints, device: Ints, group: Ints, count: int, communicates: Flags, copies: Flags
) -> Split:
    """Split the time of each of `count` groups; the last four arrays and `start` have one entry per activity.

    Several devices of a group are summed.
    """

    def busy(chosen: Flags) -> Ints:
        return busy_times(start[chosen], end[chosen], device[chosen], group[chosen], count)

    compute, communication = busy(~communicates & ~copies), busy(communicates)
    both, everything = busy(~copies), busy(np.ones(len(start), dtype=bool))
    span = _spans(start, end, device, group, count)
    hidden = compute + communication - both
    return Split(span, compute, communication, hidden, both - compute, everything - both, span - everything)


def _spans(start: Ints, end: Ints, device: Ints, group: Ints, count: int) -> Ints:
    """Time from the first start to the last end of each group on each of its devices."""
    total = np.zeros(count, dtype=np.int64)
    if not len(start):
        return total
    order = np.lexsort((device, group))
    lane = np.flatnonzero(np.concatenate(([True], (np.diff(group[order]) != 0) | (np.diff(device[order]) != 0))))
    length = np.maximum.reduceat(end[order], lane) - np.minimum.reduceat(start[order], lane)
    np.add.at(total, group[order][lane], length)
    return total


# --- traces of ranks -------------------------------------------------------------------------------------------------


_NUMBER = re.compile(r"\d+")
_OF_TORCH = re.compile(r"(?:nccl|rccl|xccl|ucc):")


def trace_of_rank(reading: TraceReading, rank: int) -> RankTrace | None:
    """As `rank_trace`; None for a job of one process, or if nothing shows that there are other ranks."""
    return rank_trace(reading, rank) if has_other_ranks(reading.world_size, reading.names) else None


def encode(trace: RankTrace) -> bytes:
    """The trace as bytes for `decode`."""
    return msgspec.msgpack.encode(trace)


def decode(content: bytes) -> RankTrace:
    """The trace that `encode` wrote. Raises msgspec.DecodeError for anything else."""
    return msgspec.msgpack.decode(content, type=RankTrace)


def rank_trace(reading: TraceReading, rank: int) -> RankTrace:
    """What the trace of this rank contributes to its job."""
    line, job = reading.timeline, reading.distributed or {}
    communicates = communication(line)
    events = _events(line, communicates, _groups(job))
    origin = int(line.start.min()) if len(line.start) else None
    return RankTrace(
        rank=rank,
        source=reading.source,
        world_size=reading.world_size,
        device=reading.device,
        truncated=reading.truncated,
        forwards=tuple(_forwards(line, communicates, events, rank)),
        events=tuple(events),
        origin=origin,
        file_start=line.file_start,
        kernels=_kernel_work(line, communicates),
        longest=_longest_kernels(line, communicates),
        cpu=reading.self_cpu_work(),
        shared_stream=_shared_stream(line, communicates),
    )


def communication(line: Timeline) -> Flags:
    """Per activity whether it moves data between ranks: by torch's record of it, or by the kernel's name."""
    by_name = np.array([is_communication(name) for name in line.names], dtype=bool)
    kernels: Flags = ~line.is_copy()
    return kernels & (by_name[line.name] | (line.message != MISSING)) if len(line.name) else kernels


# --- communication kernels --------------------------------------------------------------------------------------------


def _events(line: Timeline, communicates: Flags, groups: Mapping[str, tuple[int, ...]]) -> list[CommunicationEvent]:
    streams: dict[int, int] = {}
    events = []
    for row in np.flatnonzero(communicates).tolist():
        code = int(line.message[row])
        message = line.messages[code] if code != MISSING else None
        stream = int(line.stream[row])
        unnamed = f"stream {streams.setdefault(stream, len(streams) + 1)}"
        launch, index = int(line.launch_start[row]), int(line.forward[row])
        events.append(
            CommunicationEvent(
                operation=operation(_torch_name(line, row, message), line.names[line.name[row]]),
                group=(message and message.group) or unnamed,
                peers=_peers(message, groups),
                group_size=message.group_size if message else None,
                bytes=_bytes(message),
                start=int(line.start[row]),
                end=int(line.end[row]),
                window=int(line.window[row]),
                launch=None if launch == MISSING else launch,
                stream=None if stream == MISSING else stream,
                index=None if index < 0 else index,
                source=message.source_rank if message else None,
                destination=message.destination_rank if message else None,
            )
        )
    return events


def _torch_name(line: Timeline, row: int, message: Message | None) -> str | None:
    """torch's name of the collective: from its record or, in versions without one, from the range around the launch.

    The kernel's name may not state it: ncclDevKernel_Generic, or ncclDevKernel_SendRecv of an all-to-all.
    """
    if message and message.collective:
        return message.collective
    around = int(line.range[row])
    name = line.names[around] if around >= 0 else ""
    return name if _OF_TORCH.match(name) else None


def _bytes(message: Message | None) -> int | None:
    """NCCL's size of the operation: the larger of what goes in and what comes out."""
    width = element_bytes(message.dtype) if message else None
    counts = [count for count in (message.in_elements, message.out_elements) if count] if message else []
    return integer(max(counts) * width) if width and counts else None


def _peers(message: Message | None, groups: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The ranks of the group. torch cuts the list of a large group; the file's head has all of them."""
    text = (message and message.group_ranks) or ""
    if text and "..." not in text:
        return _ranks(_NUMBER.findall(text))
    return groups.get(message.group or "", ()) if message else ()


def _groups(job: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name -> ranks of the process groups in torch's distributedInfo."""
    listed = job.get("pg_config")
    groups = [group for group in listed if isinstance(group, dict)] if isinstance(listed, list) else []
    members = {str(group.get("pg_name")): group.get("ranks") for group in groups}
    return {name: _ranks(ranks) for name, ranks in members.items() if isinstance(ranks, list)}


def _ranks(values: Iterable[Any]) -> tuple[int, ...]:
    """The ranks in ascending order; values other than numbers of 64 bits are skipped."""
    numbers = (None if isinstance(value, bool) else integer(value) for value in values)
    return tuple(sorted(number for number in numbers if number is not None))


# --- figures of forwards ----------------------------------------------------------------------------------------------


def _forwards(line: Timeline, communicates: Flags, events: list[CommunicationEvent], rank: int) -> list[RankForward]:
    """A row for the whole file, then one for each forward; no rows if the file has no device activity."""
    if not len(line.start):
        return []
    place = np.full(int(line.forward_number.max(initial=-1)) + 2, -1)
    place[line.forward_number] = np.arange(len(line.forward_number))
    numbers: list[int | None] = [None, *line.forward_number.tolist()]
    whole = line.window
    rows = [_rows(line, communicates, events, rank, whole, int(whole.max(initial=0)) + 1)]
    per_forward = np.where(line.forward >= 0, place[np.maximum(line.forward, 0)], -1)
    rows.append(_rows(line, communicates, events, rank, per_forward, len(line.forward_number)))
    result = [summed(rows[0])]
    starts = ((line.forward_start - line.start.min()) / 1000).tolist()
    lengths = ((line.forward_end - line.forward_start) / 1000).tolist()
    for row, number, start, length in zip(rows[1], numbers[1:], starts, lengths, strict=True):
        result.append(replace(row, index=number, start_us=start, cpu_time_us=length))
    return result


def _rows(
    line: Timeline, communicates: Flags, events: list[CommunicationEvent], rank: int, group: Ints, count: int
) -> list[RankForward]:
    """A row for each group of activities; -1 is none."""
    chosen = group >= 0
    start, end, own = line.start[chosen], line.end[chosen], group[chosen]
    sends = np.zeros(len(group), dtype=bool)
    sends[np.flatnonzero(communicates)] = [event.operation in POINT_TO_POINT for event in events]
    is_comm, is_copy = communicates[chosen], line.is_copy()[chosen]
    split = split_time(start, end, line.device[chosen], own, count, is_comm, is_copy)
    moves = ~sends[chosen]
    without = split_time(start[moves], end[moves], line.device[chosen][moves], own[moves], count, is_comm[moves],
                         is_copy[moves])  # fmt: skip
    is_stage = bool(sends.any())
    length = (end - start) / 1000
    launch = line.launch_start[chosen]
    launched = ~is_comm & ~is_copy & (launch != MISSING)
    by_group = np.argsort(own, kind="stable")
    borders = np.searchsorted(own[by_group], np.arange(count + 1))
    rows = []
    for number in range(count):
        mine = by_group[borders[number] : borders[number + 1]]
        timed = mine[launched[mine]]
        delays = start[timed] - launch[timed]
        comm = mine[is_comm[mine]]
        busy = without.span[number] - without.idle[number]
        rows.append(
            RankForward(
                rank=rank,
                index=None,
                start_us=float(start[mine].min() - line.start.min()) / 1000 if len(mine) else None,
                cpu_time_us=None,
                **{f"{name}_us": float(getattr(split, name)[number]) / 1000 for name in Split.__dataclass_fields__},
                device_time_us=float(length[mine].sum()),
                communication_kernels=len(comm),
                communication_time_us=float(length[comm].sum()),
                launch_delay_us=median(delays) / 1000 if len(delays) else None,
                bubble_us=float(split.span[number] - busy) / 1000 if is_stage else None,
            )
        )
    return rows


def summed(rows: list[RankForward]) -> RankForward:
    """The sum of the windows of one process; the launch delay and the start are those of the first."""
    times = (*Split.__dataclass_fields__, "device_time", "communication_time")
    totals: dict[str, Any] = {f"{name}_us": sum(getattr(row, f"{name}_us") for row in rows) for name in times}
    bubbles = [row.bubble_us for row in rows if row.bubble_us is not None]
    totals["bubble_us"] = sum(bubbles) if bubbles else None
    return replace(rows[0], communication_kernels=sum(row.communication_kernels for row in rows), **totals)


def _kernel_work(line: Timeline, communicates: Flags) -> dict[str, Work]:
    """Name -> number and total time (µs) of the kernels that are no communication."""
    rows = ~communicates & ~line.is_copy()
    total = np.zeros(len(line.names), dtype=np.int64)
    np.add.at(total, line.name[rows], (line.end - line.start)[rows])
    count = np.bincount(line.name[rows], minlength=len(line.names))
    return {line.names[code]: (int(count[code]), float(total[code]) / 1000) for code in np.flatnonzero(count).tolist()}


def _longest_kernels(line: Timeline, communicates: Flags) -> dict[str, float]:
    rows = ~communicates & ~line.is_copy()
    longest = np.zeros(len(line.names), dtype=np.int64)
    np.maximum.at(longest, line.name[rows], (line.end - line.start)[rows])
    return {line.names[code]: float(longest[code]) / 1000 for code in np.unique(line.name[rows]).tolist()}


def _shared_stream(line: Timeline, communicates: Flags) -> bool:
    """Whether a stream runs communication and other kernels."""
    compute = ~communicates & ~line.is_copy()
    return not set(line.stream[communicates].tolist()).isdisjoint(line.stream[compute].tolist())


# --- several windows of one process as one ---------------------------------------------------------------------------


def joined(windows: Sequence[RankTrace], rank: int) -> RankTrace:
    """The windows of one process, in order of time, as the trace of this rank. Forwards are numbered on."""
    first = windows[0]
    events, before = [], 0
    forwards: list[RankForward] = []
    whole: list[RankForward] = []
    for number, window in enumerate(windows):
        later = ((window.origin or 0) - (first.origin or 0)) / 1000
        for event in window.events:
            index = None if event.index is None else event.index + before
            events.append(replace(event, window=number, index=index))
        for row in window.forwards:
            start = None if row.start_us is None else row.start_us + later
            index = None if row.index is None else row.index + before
            (whole if index is None else forwards).append(replace(row, rank=rank, start_us=start, index=index))
        before += sum(row.index is not None for row in window.forwards)
    rows = [summed(whole)] if whole else []
    return replace(
        first,
        rank=rank,
        truncated=any(window.truncated for window in windows),
        forwards=(*rows, *forwards),
        events=tuple(events),
        kernels=_together([window.kernels for window in windows]),
        longest={
            name: max(window.longest.get(name, 0.0) for window in windows)
            for name in dict.fromkeys(name for window in windows for name in window.longest)
        },
        cpu=_together([window.cpu for window in windows]),
        shared_stream=any(window.shared_stream for window in windows),
    )


def _together(parts: Sequence[Mapping[str, Work]]) -> Mapping[str, Work]:
    if len(parts) == 1:
        return parts[0]
    count: Counter[str] = Counter()
    time: dict[str, float] = {}
    for part in parts:
        for name, (number, length) in part.items():
            count[name] += number
            time[name] = time.get(name, 0.0) + length
    return {name: (count[name], time[name]) for name in time}
