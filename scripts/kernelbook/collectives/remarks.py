"""Remarks about a job, in sentences: the straggler first, then the cost of communication and its causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any

from kernelbook.collectives.job import JobReading, read_job
from kernelbook.collectives.model import Collective, RankForward, RankTrace
from kernelbook.collectives.operations import ALIKE
from kernelbook.collectives.stragglers import CPU, DEVICE, Straggler, further_kernels, queued_us
from kernelbook.text.formatting import at_border, duration, percent, plural, significant

LEAST_SHARE = 0.1  # of a forward, for exposed communication and bubbles
HOST_IDLE, HOST_DELAY_US = 0.2, 100.0
SMALL_BYTES, FEWEST_SMALL = 1 << 20, 4
QUEUED_SHARE = 0.05
EXTRA_WORK, LONGER_WORK = 0.02, 1.25
_NAME = 60
#: Collectives that take this many times as long on one rank as on another wait for that one.
MUCH_LONGER = 2.0


@dataclass(frozen=True)
class Remark:
    """A fact about a job. rule: its name. rank: the rank concerned, None for all. time_us: its cost per forward of
    that rank, and share: the part of the span of that forward; both None if it costs no time of its own."""

    rule: str
    text: str
    remedy: str
    rank: int | None = None
    time_us: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class JobReport:
    """A job and the remarks about it, the most important first. lead: the sentence that comes first."""

    job: JobReading
    remarks: tuple[Remark, ...]

    @property
    def lead(self) -> str:
        ranks = plural(len(self.job.ranks), "rank") + (f" of {self.job.world_size}" if self.job.incomplete else "")
        if self._leads_in_spite:
            return f"{ranks}: {self.remarks[0].text} Their clocks could not be joined: {self.job.refused}."
        if self.job.refused:
            return f"{ranks}: {self.job.refused}."
        if self.remarks:
            return self.remarks[0].text
        return f"{ranks}: no rank comes last to collectives clearly more often than the others."

    @property
    def further(self) -> tuple[Remark, ...]:
        return self.remarks if self.job.refused and not self._leads_in_spite else self.remarks[1:]

    @property
    def _leads_in_spite(self) -> bool:
        """Whether the first remark is about unequal work although the ranks have no common clock."""
        return bool(self.job.refused and self.remarks and self.remarks[0].rule == "unequal-work")


def report_job(traces: Sequence[RankTrace]) -> JobReport:
    """Read the ranks of one job together. traces: of different ranks, in any order."""
    job = read_job(traces)
    typical = {rank: each for rank in job.ranks if (each := typical_forward(job.forwards, rank)) is not None}
    shared = sorted(trace.rank for trace in traces if trace.shared_stream)
    cut = {trace.rank for trace in traces if trace.truncated}  # missing events say nothing about the rank
    whole = {} if cut else {trace.rank: trace for trace in traces}
    if typical and not any(row.compute_us for row in typical.values()):  # a benchmark of collectives
        costs = tuple(_rates(job))
    else:
        costs = (*_exposed(job, typical), *_serialised(job, shared))
    return JobReport(
        job,
        (
            *_straggler(job, typical),
            *_wrong_order(job),
            *costs,
            *_host_bound({rank: row for rank, row in typical.items() if rank not in cut}),
            *_unequal_work(job, typical, whole),
            *_bubbles(typical),
            *_small_messages(job),
        ),
    )


def typical_forward(forwards: Sequence[RankForward], rank: int) -> RankForward | None:
    """The medians over the forwards of one rank, or the figures of its whole file if it has no forwards."""
    own = [row for row in forwards if row.rank == rank]
    rows = [row for row in own if row.index is not None and row.span_us > 0] or own
    if not rows:
        return None
    times = [field.name for field in fields(RankForward) if field.name.endswith("_us")]
    values = {name: [value for row in rows if (value := getattr(row, name)) is not None] for name in times}
    middle: dict[str, Any] = {name: median(own) if own else None for name, own in values.items()}
    return replace(rows[0], **middle)


def slowest(forwards: Sequence[RankForward]) -> int | None:
    """The rank whose forwards take longest: by their span on the device, or else by their range on the CPU."""
    typical = {rank: typical_forward(forwards, rank) for rank in dict.fromkeys(row.rank for row in forwards)}
    times = {rank: max(each.span_us, each.cpu_time_us or 0.0) for rank, each in typical.items() if each}
    return max(times, key=lambda rank: (times[rank], -rank), default=None)


# --- the straggler ----------------------------------------------------------------------------------------------------


def _straggler(job: JobReading, typical: Mapping[int, RankForward]) -> Iterator[Remark]:
    straggler = job.straggler
    if straggler is None:
        return
    whole = {rank: row for rank in job.ranks if (row := job.of_rank(rank)) is not None and row.device_time_us}
    shares = {rank: (row.waiting_us or 0.0) / row.device_time_us for rank, row in whole.items()}
    waiter = max((rank for rank in shares if rank != straggler.rank), key=lambda rank: shares[rank], default=None)
    among = "" if not job.incomplete else f" of the {len(job.ranks)} that have a trace here"
    what = f"{(straggler.operation or 'collective').replace('_', '-')}s"
    text = (
        f"rank {straggler.rank} comes last{among} to {straggler.last} of {straggler.matched} {what}, "
        f"by {duration(straggler.late_us)} in the median, because {_cause(straggler)}"
    )
    if waiter is not None:
        text += f"; rank {waiter} spends {percent(shares[waiter])} of its device time waiting"
    forward = typical.get(waiter) if waiter is not None else None
    waited = forward.waiting_us if forward else None
    share = waited / forward.span_us if forward and waited and forward.span_us else None
    yield Remark("straggler", f"{text}.", _remedy(straggler), straggler.rank, waited, share)


def _cause(straggler: Straggler) -> str:
    kernel = (
        f"{_short(straggler.kernel)} takes {duration(straggler.kernel_us)} longer there" if straggler.kernel else ""
    )
    if straggler.side == CPU:
        call = f" ({_short(straggler.call)} takes {duration(straggler.call_us)} longer there)"
        return "its CPU queues work too late" + (call if straggler.named_call else "")
    if straggler.side == DEVICE:
        return kernel if straggler.named_kernel else "its GPU is still busy with earlier work"
    return kernel if straggler.named_kernel else "of something that its trace does not show: it has no launches"


def _remedy(straggler: Straggler) -> str:
    if straggler.side == CPU:
        return (
            f"Find what the CPU of rank {straggler.rank} does before it launches: data loading, synchronizations, "
            "other processes on its cores. Pin each rank to cores of its own; torch.compile and CUDA graphs need less "
            "CPU time to launch."
        )
    return f"Give rank {straggler.rank} as much work as the others have, or a GPU with the same clocks."


# --- what communication costs -----------------------------------------------------------------------------------------


def _exposed(job: JobReading, typical: Mapping[int, RankForward]) -> Iterator[Remark]:
    rank = slowest(job.forwards)
    row = typical.get(rank) if rank is not None else None
    if row is None or not row.span_us or row.exposed_us < LEAST_SHARE * row.span_us:
        return
    share = row.exposed_us / row.span_us
    among = f", the slowest of {len(typical)}" if len(typical) > 1 else ""
    waits = f"; {duration(row.waiting_us)} of its communication is waiting for other ranks" if row.waiting_us else ""
    text = (
        f"communication without compute beside it takes {duration(row.exposed_us)} of {duration(row.span_us)} "
        f"({percent(share)}) on rank {row.rank}{among}; {duration(row.hidden_us)} is hidden"
    )
    remedy = (
        "Start communication earlier or make it smaller: overlap it with backward (DDP buckets, FSDP prefetch), "
        "accumulate gradients under no_sync(), or reduce in a smaller type."
    )
    yield Remark("exposed-communication", f"{text}{waits}.", remedy, row.rank, row.exposed_us, share)


def _rates(job: JobReading) -> Iterator[Remark]:
    """For forwards that run only collectives: the median bus bandwidth of the largest size."""
    rated = [row for row in job.collectives if row.bus_gb_s is not None and row.bytes]
    if not rated:
        return
    operation, size, link = max(
        ((row.operation, row.bytes, row.link_gb_s) for row in rated), key=lambda row: row[1] or 0
    )
    rate = median(row.bus_gb_s or 0.0 for row in rated if (row.operation, row.bytes) == (operation, size))
    of_link = f", {percent(rate / link)} of the {significant(link)} GB/s of NVLink in one direction" if link else ""
    what = f"{_described(operation.replace('_', '-'), size)} at {significant(rate)} GB/s of bus bandwidth{of_link}"
    remedy = "Compare it with all_reduce_perf of nccl-tests, or its like for the operation, on the same GPUs."
    yield Remark("bus-bandwidth", f"the forwards run collectives and nothing else: {what}.", remedy)


def _host_bound(typical: Mapping[int, RankForward]) -> Iterator[Remark]:
    """A device that is idle while kernels start soon after their launch waits for the CPU."""
    bound = {
        rank: row
        for rank, row in typical.items()
        if row.span_us
        and row.idle_us >= HOST_IDLE * row.span_us
        and row.launch_delay_us is not None
        and row.launch_delay_us < HOST_DELAY_US
    }
    if not bound:
        return
    worst = max(bound.values(), key=lambda row: row.idle_us / row.span_us)
    share = worst.idle_us / worst.span_us
    others = f" ({len(bound)} of {len(typical)} ranks do so)" if len(bound) > 1 else ""
    text = (
        f"under the profiler the device of rank {worst.rank} waits for the CPU for {duration(worst.idle_us)} "
        f"({percent(share)}) of a forward{others}; its kernels start {duration(worst.launch_delay_us)} after their "
        "launch in the median."
    )
    remedy = "Launch fewer kernels (torch.compile, CUDA graphs, fused optimizers), and remove synchronizations."
    yield Remark("host-bound-rank", text, remedy, worst.rank, worst.idle_us, share)


def _bubbles(typical: Mapping[int, RankForward]) -> Iterator[Remark]:
    stages = {rank: row for rank, row in typical.items() if row.bubble_us is not None and row.span_us}
    if len(stages) < 2:
        return
    worst = max(stages.values(), key=lambda row: (row.bubble_us or 0.0) / row.span_us)
    share = (worst.bubble_us or 0.0) / worst.span_us
    if share >= LEAST_SHARE:
        text = (
            f"rank {worst.rank} has a pipeline bubble of {duration(worst.bubble_us)} ({percent(share)}) in a forward: "
            "it is idle, or only sends and receives."
        )
        remedy = "Use more microbatches, an interleaved or zero-bubble schedule, or stages with equal work."
        yield Remark("pipeline-bubble", text, remedy, worst.rank, worst.bubble_us, share)


# --- why --------------------------------------------------------------------------------------------------------------


def _wrong_order(job: JobReading) -> Iterator[Remark]:
    for each in job.disorders[:1]:
        expected, observed = (_described(*signature) for signature in (each.expected, each.observed))
        more = f" ({len(job.disorders)} lists of collectives differ)" if len(job.disorders) > 1 else ""
        text = (
            f"rank {each.rank} runs the collectives of group {each.group} in another order: number {each.sequence + 1} "
            f"is {observed}, and {expected} elsewhere{more}."
        )
        remedy = "Call collectives of a group in the same order on all ranks; another order hangs or mixes up data."
        yield Remark("collective-order", text, remedy, each.rank)
    for pair in job.group_disorders[:1]:
        earlier, later = (
            f"{each.operation} {each.sequence + 1} of group {each.group}" for each in (pair.earlier, pair.later)
        )
        ranks = len({each.rank for each in job.group_disorders})
        more = f" ({ranks} ranks differ from rank {pair.other})" if ranks > 1 else ""
        text = (
            f"rank {pair.rank} launches collectives of two groups in another order than rank {pair.other}{more}: "
            f"{earlier} before {later}."
        )
        remedy = (
            "Launch the collectives of all groups in one order on every rank: in another order, each of two ranks can "
            "wait for the other for ever."
        )
        yield Remark("collective-order", text, remedy, pair.rank)


def _described(operation: str, size: int | None) -> str:
    return operation + (f" of {_size(size)}" if size is not None else "")


def _unequal_work(
    job: JobReading, typical: Mapping[int, RankForward], traces: Mapping[int, RankTrace]
) -> Iterator[Remark]:
    if len(traces) < 2:
        return
    extra = {rank: further_kernels(rank, traces) for rank in traces}
    rank = max(extra, key=lambda each: extra[each].time_us)
    further, own = extra[rank], sum(time for _, time in traces[rank].kernels.values())
    remedy = "Give every rank the same work: equal batches and lengths, equal shards, no work of one rank alone."
    what = f"rank {rank} runs {plural(round(further.count), 'kernel')} more than the others"
    if further.name is not None and own and further.time_us >= EXTRA_WORK / 2 * own:
        forwards = max(sum(row.rank == rank and row.index is not None for row in job.forwards), 1)
        text = f"{what}, most of all {_short(further.name)}: {duration(further.time_us)} in its file."
        span = typical[rank].span_us if rank in typical else None
        each_us = further.time_us / forwards
        yield Remark("unequal-work", text, remedy, rank, each_us, each_us / span if span else None)
        return
    late = job.straggler.late_total_us if job.straggler and job.straggler.rank == rank else 0.0
    if further.name is not None and own and further.most_us >= EXTRA_WORK / 2 * own and further.most_us < late:
        text = (
            f"{what} ({_short(further.name)}), of at most {duration(further.most_us)} in its file: only "
            f"{percent(further.most_us / late)} of the time by which it is late."
        )
        yield Remark("unequal-work", text, remedy, rank)
        return
    compute = {rank: row.compute_us for rank, row in typical.items() if row.compute_us}
    if len(compute) > 1 and max(compute.values()) >= LONGER_WORK * min(compute.values()):
        most, least = max(compute, key=lambda r: compute[r]), min(compute, key=lambda r: compute[r])
        waits = {rank: typical[rank].waiting_us or 0.0 for rank in (most, least)}
        if waits[most] <= waits[least]:
            text = f"rank {most} computes for {duration(compute[most])}, rank {least} for {duration(compute[least])}."
            text += _waits_by_length(typical[most], typical[least]) if job.refused else ""
            longer, span = compute[most] - compute[least], typical[most].span_us
            yield Remark("unequal-work", text, remedy, most, longer, longer / span if span else None)


def _waits_by_length(late: RankForward, early: RankForward) -> str:
    """A sentence if the lengths of collectives show, without a common clock, which of two ranks waits for the other."""
    same = late.communication_kernels == early.communication_kernels
    if not same or early.communication_time_us < MUCH_LONGER * late.communication_time_us:
        return ""
    return (
        f" The collectives of rank {early.rank} take {duration(early.communication_time_us)}, those of rank "
        f"{late.rank} {duration(late.communication_time_us)}. A kernel of a collective lasts from when its own rank "
        f"arrives: rank {early.rank} waits for rank {late.rank}. Look at the compute of rank {late.rank}, not at the "
        "communication."
    )


def _serialised(job: JobReading, shared: Sequence[int]) -> Iterator[Remark]:
    if shared:
        text = (
            f"on {plural(len(shared), 'rank')} (first rank {shared[0]}) a stream runs both communication and compute: "
            "neither can overlap with the other."
        )
        yield Remark(
            "collectives-serialised", text, "Run collectives asynchronously, on a stream of their own.", shared[0]
        )
        return
    if job.refused:  # how long the transfer ahead itself waited is unknown
        return
    by_rank: dict[int, list[Collective]] = {rank: [] for rank in job.ranks}
    for row in job.collectives:
        by_rank[row.rank].append(row)
    queued = {rank: queued_us(own) for rank, own in by_rank.items()}
    rank = max(job.ranks, key=lambda each: queued[each])
    whole = job.of_rank(rank)
    if whole is None or not whole.span_us or queued[rank] < QUEUED_SHARE * whole.span_us:
        return
    groups = {row.group for row in job.collectives if row.rank == rank}
    across = f" of {len(groups)} process groups" if len(groups) > 1 else ""
    share = queued[rank] / whole.span_us
    text = (
        f"collectives{across} are queued behind one another on one stream of rank {rank}: they were launched "
        f"{duration(queued[rank])} ({percent(share)} of the time) before the transfers ahead of them ended."
    )
    remedy = "Use one process group a stream for what is independent, or fewer and larger collectives."
    yield Remark("collectives-serialised", text, remedy, rank, None, share)


def _small_messages(job: JobReading) -> Iterator[Remark]:
    rank = job.ranks[0] if job.ranks else None
    own = [row for row in job.collectives if row.rank == rank and row.bytes and row.operation in ALIKE]
    small = [row for row in own if (row.bytes or 0) < SMALL_BYTES]
    forwards = max(len({row.index for row in own if row.index is not None}), 1)
    if len(small) < FEWEST_SMALL * forwards or 2 * len(small) < len(own):
        return
    sizes, times = median(row.bytes or 0 for row in small), [r.transfer_us for r in small if r.transfer_us is not None]
    rates = [row.bus_gb_s for row in small if row.bus_gb_s is not None]
    rate = f", at {significant(median(rates))} GB/s in the median" if rates else ""
    text = (
        f"{len(small)} of {len(own)} collectives carry less than 1 MiB, {_size(round(sizes))} in the median{rate}: "
        "their latency costs more than their data."
    )
    remedy = "Put more into each: a larger bucket_cap_mb in DDP, larger modules in FSDP, coalesced collectives."
    total = sum(times) / forwards if times else None
    yield Remark("small-collectives", text, remedy, None, total)


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{significant(count / size)} {unit}"
    return f"{count} bytes"


def _short(name: str | None) -> str:
    plain = (name or "").removeprefix("void ").replace("(anonymous namespace)::", "")
    return at_border(plain.partition("<")[0].partition("(")[0] or plain, _NAME)
