"""Merges the processes of one case: decides which ones count, computes their figures, and notes the others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

from kernelbook.cases.facts import CaseFacts
from kernelbook.cases.medians import median
from kernelbook.cases.process import CaseColumns, Process
from kernelbook.text.formatting import duration, number_ranges, plural, quantile
from kernelbook.trace.types import TraceWarning

TIMES = ("cpu_time_us", "device_time_us", "device_busy_us", "forward_time_us")
#: The code of the note that names the processes that failed.
FAILED_PROCESSES = "failed_processes"
#: A note is made where the medians of processes differ by more than this share of the smallest.
APART_FROM = 0.1
#: (process, rank) -> length of a forward on that rank, in µs.
Spans = Mapping[tuple[int, int | None], float]


def merge_processes(processes: Sequence[Process], spans: Spans | None = None) -> CaseFacts:
    """The case of these processes, without its forwards.

    A job of several ranks has one row for each rank: its figures are those of the slowest rank, and a note states the
    spread. spans: (process, rank) -> length of a forward on that rank (µs), from the traces of all ranks together.
    Good processes are merged if they ran on a machine like that of the first good one: the same device and driver, for
    a CPU the same number of threads. GPUs of one model are alike. A note names each process that failed or ran
    elsewhere. Times are medians over the merged processes; forward_p05_us and forward_p95_us are quantiles of all their
    forwards.
    """
    rows = sorted(processes, key=lambda process: (process.process, process.rank or 0))
    jobs = [list(job) for _, job in groupby(rows, key=lambda process: process.job)]
    ordered = [slowest_rank(job, spans or {}) for job in jobs]
    ordered += [row for job in jobs for row in job if row.bare and row.status != "ok" and row not in ordered]
    good = [process for process in ordered if process.status == "ok"]
    first = (good or ordered)[0]
    alike = [process for process in good if process.conditions.machine == first.conditions.machine]
    bad = [process for process in ordered if process.status != "ok"]
    notes = [
        *_failed(bad, len(ordered), bool(good)),
        *_elsewhere(good, first),
        *_apart(alike),
        *_ranks(jobs, spans or {}),
        *_warnings(rows),
    ]
    columns = {field.name: getattr(first, field.name) for field in fields(CaseColumns)}
    columns |= _times(alike)
    if not good:
        columns |= _outcome(bad)
    merged = {(process.process, process.rank) for process in alike}

    def marked(processes: Sequence[Process]) -> tuple[Process, ...]:
        return tuple(
            replace(p, merged=(p.process, p.rank) in merged, log_tail=p.log_tail if p.status == "failed" else ())
            for p in processes
        )

    return CaseFacts(
        **columns,
        notes=tuple(notes),
        processes=marked(ordered),
        ranks=marked([row for row in rows if row.rank is not None]),
    )


def slowest_rank(job: Sequence[Process], spans: Spans) -> Process:
    """The rank of one job that failed first, else the one whose forward takes longest.

    The time is that of the unprofiled forward, else its span in the trace, else the time that the device was busy, else
    the time of the range on the CPU. A bare trace that cannot be read does not make the others fail.
    """
    failed = [rank for rank in job if rank.status != "ok"]
    good = [rank for rank in job if rank.status == "ok"]
    if failed and not (failed[0].bare and good):
        return failed[0]

    def length(rank: Process) -> float:
        span = spans.get((rank.process, rank.rank))
        times = (rank.forward_time_us, span, rank.device_busy_us, rank.cpu_time_us)
        return next((time for time in times if time is not None), 0.0)

    return max(good, key=length)


def _times(processes: Sequence[Process]) -> dict[str, float | None]:
    """Medians over processes, and quantiles of all forwards; a single process without forwards keeps its quantiles.

    A first call that had to compile is never merged with one that used the compile cache.
    """
    times = {name: median(getattr(process, name) for process in processes) for name in TIMES}
    cache = processes[0].inductor_cache if processes else None
    times["first_call_us"] = median(p.first_call_us for p in processes if p.inductor_cache == cache)
    pooled = [time for process in processes for time in process.forward_times_us]
    for name, share in (("forward_p05_us", 0.05), ("forward_p95_us", 0.95)):
        times[name] = quantile(pooled, share) if pooled or len(processes) != 1 else getattr(processes[0], name)
    return times


# --- notes ------------------------------------------------------------------------------------------------------------


def _outcome(bad: Sequence[Process]) -> dict[str, Any]:
    """Status and reason of a case without a good process."""
    failed = [process for process in bad if process.status == "failed"] or list(bad)
    return {"status": failed[0].status, "reason": _reasons(failed)}


def _reasons(processes: Sequence[Process]) -> str | None:
    """The reason that all processes share, else each reason with its processes."""
    by_reason: dict[str | None, list[int]] = {}
    for process in processes:
        by_reason.setdefault(process.reason, []).append(process.process)
    if len(by_reason) == 1:
        return next(iter(by_reason))
    return "; ".join(f"{_numbered(who)}: {why or 'no reason given'}" for why, who in by_reason.items())


def _numbered(numbers: Sequence[int]) -> str:
    return f"process {numbers[0]}" if len(numbers) == 1 else f"processes {', '.join(map(str, numbers))}"


def _failed(bad: Sequence[Process], number: int, some_good: bool) -> list[TraceWarning]:
    """A note where some of the processes failed, not all."""
    if not bad or not some_good:
        return []
    reasons = _reasons(bad) or "no reason given"
    if len({process.reason for process in bad}) == 1:
        reasons = f"{_numbered([process.process for process in bad])}: {reasons}"
    text = f"{len(bad)} of {plural(number, 'process', 'processes')} failed: {reasons}"
    return [TraceWarning(FAILED_PROCESSES, len(bad), text)]


def _elsewhere(good: Sequence[Process], first: Process) -> list[TraceWarning]:
    """A note on each good process that ran on another machine than the first."""
    notes = []
    for process in good:
        if process.conditions.machine != first.conditions.machine:
            machine, first_machine = (
                " with ".join(part or "unknown" for part in p.conditions.machine) for p in (process, first)
            )
            text = (
                f"process {process.process} ran on {machine}, the first on {first_machine}: "
                "it is in no figure of the case"
            )
            notes.append(TraceWarning("other_machine", 1, text))
    return notes


def _ranks(jobs: Sequence[Sequence[Process]], spans: Spans) -> list[TraceWarning]:
    """A note on each job of several ranks that succeeded: the rank that its figures are from, and the spread."""
    notes = []
    for job in jobs:
        slowest = slowest_rank(job, spans)
        if len(job) > 1 and slowest.status == "ok":
            text = f"figures are those of rank {slowest.rank}, the slowest of {len(job)} ranks"
            times = [rank.forward_time_us for rank in job if rank.forward_time_us is not None]
            if len(times) == len(job):
                text += f": a forward takes {duration(min(times))} to {duration(max(times))}"
            busy = [rank.device_time_us for rank in job if rank.device_time_us is not None]
            if len(busy) > 1:
                text += f"; device time {duration(min(busy))} to {duration(max(busy))} over the ranks"
            of_process = f"process {slowest.process}: " if len(jobs) > 1 else ""
            notes.append(TraceWarning("ranks", len(job), of_process + text))
    return notes


def _apart(alike: Sequence[Process]) -> list[TraceWarning]:
    """A note if the medians of the processes differ, which says whether their GPUs explain it."""
    medians = [statistics.median(process.forward_times_us) for process in alike if process.forward_times_us]
    if len(medians) < 2 or not min(medians) or max(medians) / min(medians) <= 1 + APART_FROM:
        return []
    text = (
        f"the medians of {len(medians)} processes lie {max(medians) / min(medians) - 1:.0%} apart, "
        f"{duration(min(medians))} to {duration(max(medians))}: the 5 to 95 % interval spans them all"
    )
    return [TraceWarning("processes_apart", len(medians), text.replace("%", " %", 1) + _by_gpu(alike))]


def _by_gpu(alike: Sequence[Process]) -> str:
    """Which processes ran on which GPU, if the GPUs differ by more than the processes on any one of them.

    Otherwise how far the processes on one GPU differ. Empty if all ran on one GPU, or if the GPUs are unknown.
    """
    by_gpu: dict[str, dict[int, float]] = {}
    for process in alike:
        if process.gpu_id and process.forward_times_us:
            by_gpu.setdefault(process.gpu_id, {})[process.process] = statistics.median(process.forward_times_us)
    if len(by_gpu) < 2:
        return ""
    within = {gpu: max(of_one.values()) / min(of_one.values()) for gpu, of_one in by_gpu.items()}
    middles = [statistics.median(of_one.values()) for of_one in by_gpu.values()]
    widest = max(within, key=lambda gpu: within[gpu])
    if within[widest] < max(middles) / min(middles):
        return "; " + ", ".join(f"{_numbered([*of_one])} ran on GPU {gpu}" for gpu, of_one in by_gpu.items())
    times = by_gpu[widest].values()
    return f"; GPU {widest} alone spans {duration(min(times))} to {duration(max(times))}"


def _warnings(processes: Sequence[Process]) -> list[TraceWarning]:
    """The warnings of all processes and ranks, equal ones once; each names its processes unless all have it."""
    having: dict[tuple[str, str], list[Process]] = {}
    counts: dict[tuple[str, str], int] = {}
    for process in processes:
        for note in process.warnings:
            having.setdefault((note.code, note.message), []).append(process)
            counts.setdefault((note.code, note.message), note.count)
    total = len(processes)
    return [
        TraceWarning(code, counts[code, text], text if len(who) == total else f"{text} ({_listed(who, total)})")
        for (code, text), who in having.items()
    ]


def _listed(who: Sequence[Process], total: int) -> str:
    if all(process.rank is None for process in who):
        return f"{_numbered([process.process for process in who])} of {total}"
    if all(process.bare for process in who):  # one file for each rank: the number of the process says nothing
        return f"rank {number_ranges([process.rank for process in who if process.rank is not None])}"
    return ", ".join(f"rank {process.rank} of process {process.process}" for process in who)
