"""Finds the rank that comes last to collectives, and why it is late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kernelbook.collectives.model import Collective, RankTrace, Work

CPU, DEVICE, UNKNOWN = "CPU", "device", "unknown"
#: A rank is the straggler if it comes last to more than this share of the collectives, or twice an even share.
MOST_LAST = 0.5
#: A kernel or op is named as a cause if it explains at least this share of the lateness.
LEAST_PART = 0.2


@dataclass(frozen=True)
class Straggler:
    """The rank that comes last most often.

    last: the number of the `matched` collectives to which it came last. late_us: how much later than the others it
    enters, the median over the matched ones. operation: the operation of all of them, or None. late_total_us: sum over
    those it came last to. side: CPU if for most of the lateness the collective was not queued, else device.
    unqueued: share of the lateness in which the collective was not queued.
    kernel, kernel_us: the kernel whose time exceeds that on the other ranks most, and by how much in the whole file.
    call, call_us: the same for the op or runtime call on the CPU.
    """

    rank: int
    last: int
    matched: int
    late_us: float
    late_total_us: float
    operation: str | None
    side: str
    unqueued: float | None
    kernel: str | None
    kernel_us: float | None
    call: str | None
    call_us: float | None

    @property
    def named_kernel(self) -> bool:
        """Whether the kernel explains a good part of the lateness."""
        return self.kernel_us is not None and self.kernel_us >= LEAST_PART * self.late_total_us

    @property
    def named_call(self) -> bool:
        return self.call_us is not None and self.call_us >= LEAST_PART * self.late_total_us


def find_straggler(ranks: Sequence[RankTrace], rows: Sequence[Collective], error_us: float | None) -> Straggler | None:
    """The straggler; None if no rank clearly comes last more often than others. error_us: error of the clocks."""
    rows = [row for row in rows if row.late_us is not None]
    mine = Counter(row.rank for row in rows)
    late = Counter(row.rank for row in rows if row.last_rank == row.rank)
    if not late:
        return None
    rank, last = max(late.items(), key=lambda item: (item[1], -item[0]))
    own = [row for row in rows if row.rank == rank]
    late_us = median(row.late_us or 0.0 for row in own)
    even = 1 / max(len(mine), 1)
    if last <= max(min(MOST_LAST, 2 * even), even) * mine[rank] or late_us <= 2 * (error_us or 0.0):
        return None
    behind = [row for row in own if row.last_rank == rank]
    total = sum(row.late_us or 0.0 for row in behind)
    unqueued = _unqueued(behind)
    operations = {row.operation for row in own}
    kernel, kernel_us = _excess(ranks, rank, lambda trace: trace.kernels)
    call, call_us = _excess(ranks, rank, lambda trace: trace.cpu)
    side = UNKNOWN if unqueued is None else CPU if unqueued >= 0.5 else DEVICE
    operation = operations.pop() if len(operations) == 1 else None
    return Straggler(
        rank, last, mine[rank], late_us, total, operation, side, unqueued, kernel, kernel_us, call, call_us
    )


def _unqueued(behind: Sequence[Collective]) -> float | None:
    """Share of the lateness in which the collective was not launched; None if launches are not recorded."""
    timed = [row for row in behind if row.unqueued_us is not None]
    late = sum(row.late_us or 0.0 for row in timed)
    return sum(row.unqueued_us or 0.0 for row in timed) / late if late > 0 else None


def _excess(
    ranks: Sequence[RankTrace], rank: int, work: Callable[[RankTrace], Mapping[str, Work]]
) -> tuple[str | None, float | None]:
    """(name, µs) of the work that takes longest on this rank compared with the median of the others.

    Work that runs more often counts at least the time of its additional calls: kernels that run beside communication
    are slower, so that the totals of waiting ranks are larger for the same work.
    """
    own = next(work(trace) for trace in ranks if trace.rank == rank)
    others = [work(trace) for trace in ranks if trace.rank != rank]
    more = {name: excess(done, [other.get(name, (0, 0.0)) for other in others]) for name, done in own.items()}
    name = max(more, key=lambda name: (more[name], name), default=None)
    return (name, more[name]) if name is not None and more[name] > 0 else (None, None)


def excess(own: Work, others: Sequence[Work]) -> float:
    """By how much (µs) work exceeds the median of the others, or the time of its additional calls if that is more."""
    further = own[0] - median(count for count, _ in others)
    longer = own[1] - median(time for _, time in others)
    return max(longer, further * own[1] / own[0] if own[0] else 0.0)


@dataclass(frozen=True)
class Further:
    """Kernels that a rank runs in addition to those of the others. name: of the longest. count: their number.

    time_us: their time, each as long as the mean of its name. most_us: the same, each as long as the longest.
    """

    name: str | None
    count: float
    time_us: float
    most_us: float


def further_kernels(rank: int, traces: Mapping[int, RankTrace]) -> Further:
    own, others = traces[rank], [trace.kernels for each, trace in traces.items() if each != rank]
    more: dict[str, float] = {}
    for name, (count, _) in own.kernels.items():
        further = count - median(other.get(name, (0, 0.0))[0] for other in others)
        if further > 0:
            more[name] = further
    times = {name: count * own.kernels[name][1] / own.kernels[name][0] for name, count in more.items()}
    longest = max(times, key=lambda each: (times[each], more[each]), default=None)
    most_us = sum(count * own.longest.get(name, 0.0) for name, count in more.items())
    return Further(longest, sum(more.values()), sum(times.values()), most_us)


def queued_us(rows: Sequence[Collective]) -> float:
    """How long (µs) launched collectives of one rank waited for the transfer of the previous one on their stream.

    The time that the previous one itself waited for other ranks does not count.
    """
    total = 0.0
    previous: dict[int | None, Collective] = {}
    for row in sorted(rows, key=lambda each: each.start_us):
        before = previous.get(row.stream)
        if before is not None and row.launch_us is not None:
            end = before.start_us + before.duration_us
            if row.start_us - end < 10:
                moving = before.start_us + (before.wait_us or 0.0)
                total += max(end - max(row.launch_us, moving), 0.0)
        previous[row.stream] = row
    return total
