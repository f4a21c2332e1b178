"""Words about figures: times, memory, shares of time and of the roof, occupancy, and calls that are counted."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from kernelbook.cases import CaseFacts, ProfiledForward, medians_by_process
from kernelbook.collectives.job import JobReading
from kernelbook.collectives.model import RankForward
from kernelbook.collectives.remarks import slowest, typical_forward
from kernelbook.config.spans import span
from kernelbook.judge.cost_model import kernel_costs
from kernelbook.judge.expectations.kernel_guesses import judge_counts, listed
from kernelbook.judge.expectations.ops import call_numbers
from kernelbook.judge.expectations.other_cases import FORWARD_TIME, PEAK_MEMORY
from kernelbook.judge.expectations.vocabulary import (
    COUNT,
    FIGURE,
    Observation,
    RunFacts,
    agreed,
    counts_of,
    figures_of,
    word,
)
from kernelbook.judge.occupancy import theoretical_occupancy
from kernelbook.judge.ratios import PROCESSES_DIFFER, by_process
from kernelbook.judge.time_line import SYNCHRONIZATION, kind_of_name
from kernelbook.judge.time_split import time_split
from kernelbook.text.formatting import duration, ends, plural, significant

#: Memcpys from the host to the device, as CUPTI and roctracer name them.
TO_DEVICE = re.compile(r"HtoD|HostToDevice")


def percent(value: float) -> str:
    return f"{value:.3g} %"


def judge_figure(values: Sequence[float], expected: Any, text: Callable[[float], str], evidence: str) -> Observation:
    """Judge a figure of each process: confirmed if it is in the range in all of them, broken if in none.

    values: one per process, at least one. Undecided if processes differ.
    """
    holds = [span(expected).holds(value) for value in values]
    held, observed = agreed(holds), text(median(values))
    over = f"{ends((text(min(values)), text(max(values))))} over {plural(len(values), 'process', 'processes')}"
    if held is None:
        split = f"in the range in {sum(holds)} of {len(holds)} processes"
        return Observation(None, PROCESSES_DIFFER, f"{evidence}: {over}; {split}")
    return Observation(held, observed, f"{evidence}: {observed if len(values) == 1 else over}")


@word(
    "forward_time_us",
    "Time of an unprofiled forward in µs: the median of each process.",
    FIGURE,
    needs_device=False,
)
def forward_time_us(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if no forward was timed without the profiler."""
    times = by_process(facts, FORWARD_TIME.column)
    if not times:
        return Observation(None, "not measured", "no forward was timed without the profiler")
    return judge_figure(times, value, FORWARD_TIME.text, "an unprofiled forward")


@word("peak_memory_mib", "Most device memory allocated while unprofiled forwards ran, in MiB.", FIGURE)
def peak_memory_mib(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if it was not measured."""
    sizes = by_process(facts, PEAK_MEMORY.column)
    if not sizes:
        return Observation(None, "not measured", "the peak of device memory was not measured")
    mebibytes = [size / 2**20 for size in sizes]
    return judge_figure(mebibytes, value, lambda size: f"{size:.1f} MiB", "peak of device memory")


@word(
    "idle_percent",
    "Share of an unprofiled forward in which the device is idle, in percent; of the trace if none was timed.",
    FIGURE,
)
def idle_percent(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """By process if forwards were timed; evidence: the longest causes of idle time."""
    split = time_split(facts)
    pairs = [(p.forward_time_us, p.device_busy_us) for p in facts.processes if p.merged]
    shares = [100 * max(1 - busy / whole, 0.0) for whole, busy in pairs if whole and busy is not None]
    if not shares and split:
        shares = [100 * sum(cause.time_us for cause in split.causes if cause.idle) / split.time_us]
    if not shares or split is None:
        return Observation(None, "not known", "the trace has no times of device activities")
    causes = [f"{each.name} {duration(each.time_us)}" for each in split.causes if each.idle][:3]
    evidence = f"idle share of the {split.source}" + (f" (longest: {', '.join(causes)})" if causes else "")
    return judge_figure(shares, value, percent, evidence)


@word(
    "collective_percent",
    "Share of the device time of one forward that kernels of collectives (NCCL, RCCL) take, in percent.",
    FIGURE,
)
def collective_percent(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """The median over the forwards of each process; undecided without device time."""
    shares = medians_by_process((f.process, _collective_share(f)) for f in facts.usual_forwards)
    values = [share for share in shares.values() if share is not None]
    if not values:
        return Observation(None, "no device time", "no forward has device time")
    evidence = f"share of collectives ({listed(facts.kernels_of('communication'))})"
    return judge_figure(values, value, percent, evidence)


def _collective_share(forward: ProfiledForward) -> float | None:
    """In percent; None without device time."""
    whole = sum(activity.duration_us for activity in forward.activities)
    return 100 * sum(a.duration_us for a in forward.of_family("communication")) / whole if whole else None


# --- of kernels ------------------------------------------------------------------------------------------------------


@word(
    "roof_percent",
    "Share of the roof in percent that each kernel whose name matches achieves: pattern (* and ?) to range.",
    figures_of("patterns of kernel names"),
)
def roof_percent(value: Mapping[str, Any], facts: CaseFacts, run: RunFacts) -> Observation:
    """Undecided if no kernel matches, or if the roof of one that matches is unknown."""
    costs = {cost.position: cost for cost in kernel_costs(facts, run.ceilings)}
    shares = {
        position: (100 * cost.share_of_roof, f"{percent(100 * cost.share_of_roof)} of the {cost.roof} roof")
        for position, cost in costs.items()
        if cost.share_of_roof is not None
    }
    return _of_kernels(value, facts, shares, "share of the roof")


@word(
    "occupancy_percent",
    "Occupancy in percent of each kernel whose name matches: pattern (* and ?) to range. Achieved, where the case has "
    "counters; else as the trace estimates it.",
    figures_of("patterns of kernel names"),
)
def occupancy_percent(value: Mapping[str, Any], facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if no kernel matches, or if one has no occupancy; evidence: also the occupancy that resources allow."""
    reported = {}
    for kernel in facts.activities:
        counted = facts.measured.get(kernel.position)
        achieved = counted.occupancy_percent if counted else None
        share = kernel.occupancy_percent if achieved is None else achieved
        if share is not None:
            theory = theoretical_occupancy(kernel, facts.device_properties)
            allowed = "" if theory is None else f" of {percent(theory)} that its resources allow"
            source = "" if achieved is None else " (measured by Nsight Compute)"
            reported[kernel.position] = (share, f"{percent(share)}{allowed}{source}")
    return _of_kernels(value, facts, reported, "occupancy")


def _of_kernels(
    value: Mapping[str, Any], facts: CaseFacts, figures: Mapping[int, tuple[float, str]], what: str
) -> Observation:
    """Judge a figure of the kernels that match each pattern; ``figures``: position -> (figure, text)."""
    holds, missing, observed, evidence = [], [], [], []
    for pattern, expected in value.items():
        matched = [kernel for kernel in facts.kernels_of() if fnmatch.fnmatchcase(kernel.name, pattern)]
        if not matched:
            missing.append(f"no kernel matches {pattern}")
        for kernel in matched:
            if kernel.position not in figures:
                missing.append(f"{kernel.label} has no {what}")
                continue
            figure, text = figures[kernel.position]
            holds.append(span(expected).holds(figure))
            observed.append(percent(figure))
            evidence.append(f"{kernel.label}: {text}")
    held = False if False in holds else None if missing else True
    facts_in_words = "; ".join(dict.fromkeys([*evidence, *missing]))
    return Observation(held, "not known" if held is None else ", ".join(dict.fromkeys(observed)), facts_in_words)


# --- calls that are counted ------------------------------------------------------------------------------------------


@word(
    "synchronizations",
    "How many calls of one forward wait for the device: cudaStreamSynchronize, cudaEventSynchronize ...",
    COUNT,
)
def synchronizations(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if the trace has no calls of the CUDA runtime; evidence: each with its op and time."""
    forwards = call_numbers(facts, "runtime")
    if not any(forwards):
        return Observation(None, "not recorded", "the trace has no calls of the CUDA runtime or driver")
    counts = [sum(n for name, n in of_one.items() if kind_of_name(name) == SYNCHRONIZATION) for of_one in forwards]
    split = time_split(facts)
    waits = [wait for wait in split.waits if wait.kind == SYNCHRONIZATION] if split else []
    evidence = ", ".join(f"{w.count} × {w.name} in {w.op or 'no op'}, {duration(w.time_us)}" for w in waits)
    return judge_counts(counts, value, "synchronization", "synchronizations", evidence or "none")


@word("copies_to_device", "How many memcpys of one forward go from the host to the device.", COUNT)
def copies_to_device(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    counts = [sum(_to_device(a.category, a.name) for a in forward.activities) for forward in facts.forwards]
    copies = [a for a in facts.activities if _to_device(a.category, a.name)]
    evidence = "; ".join(f"{name} in {op or 'no op'}" for name, op in dict.fromkeys((a.name, a.op) for a in copies))
    return judge_counts(counts, value, "copy to the device", "copies to the device", evidence or "none")


def _to_device(category: str, name: str) -> bool:
    return category == "memcpy" and TO_DEVICE.search(name) is not None


@word("graph_breaks", "How many graph breaks torch.compile counted in one process.", COUNT, needs_device=False)
def graph_breaks(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if torch.compile reported nothing; evidence: the reasons."""
    reasons = [p.dynamo.graph_breaks for p in facts.processes if p.merged and p.dynamo]
    counted = [each for each in reasons if each is not None]
    evidence = "; ".join(f"{count} × {reason}" for reason, count in sum(map(Counter, counted), Counter()).items())
    return _compiled([sum(each.values()) for each in counted], value, "graph breaks", evidence)


@word("recompilations", "How often torch.compile compiled again in one process.", COUNT, needs_device=False)
def recompilations(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if torch.compile reported nothing."""
    counts = [p.dynamo.recompiles for p in facts.processes if p.merged and p.dynamo]
    return _compiled([count for count in counts if count is not None], value, "recompilations", "")


def _compiled(counts: Sequence[int], expected: Any, what: str, reasons: str) -> Observation:
    if not counts:
        return Observation(None, "not recorded", f"no process reported {what} of torch.compile")
    observation = judge_figure(counts, expected, lambda count: f"{count:g}", f"{what} in a process")
    return Observation(observation.held, observation.observed, "; ".join(filter(None, [observation.evidence, reasons])))


# --- ranks of a job --------------------------------------------------------------------------------------------------


NO_RANKS = Observation(None, "no ranks", "the case has no ranks whose traces were read together")
PERCENT = {"type": "number", "minimum": 0, "must": "a number of percent"}


@word("collectives", "How many collectives of each operation one forward runs, on every rank.", counts_of("operations"))
def collectives(value: Mapping[str, Any], facts: CaseFacts, _: RunFacts) -> Observation:
    """Broken if a forward of any rank has another number; undecided without collectives in forwards."""
    counts = [count for report in facts.jobs for count in _counts(report.job)]
    if not counts:
        return NO_RANKS
    holds = all(span(expected).holds(count[name]) for name, expected in value.items() for count in counts)
    names = dict.fromkeys([*value, *(name for count in counts for name in count)])
    observed = ", ".join(f"{name}: {ends([*map(str, sorted(count[name] for count in counts))])}" for name in names)
    return Observation(holds, observed, f"in each of {len(counts)} forwards of all ranks")


def _counts(job: JobReading) -> Iterator[Counter[str]]:
    """The operations of each forward of each rank."""
    for row in job.forwards:
        if row.index is not None:
            yield Counter(
                each.operation for each in job.collectives if (each.rank, each.index) == (row.rank, row.index)
            )


@word(
    "overlap_percent", "Share of the communication of a forward that compute hides, in percent; slowest rank.", FIGURE
)
def overlap_percent(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided without communication. Evidence: the range over the ranks."""
    return _of_slowest(value, facts, "hidden share of communication", _overlap)


@word(
    "exposed_percent",
    "Share of a forward in which communication runs and no compute, in percent; slowest rank.",
    FIGURE,
)
def exposed_percent(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Judged by the time from the first to the last device activity. Evidence: the range over the ranks."""
    return _of_slowest(value, facts, "share of exposed communication", _exposed)


def _overlap(row: RankForward) -> float | None:
    return 100 * row.hidden_us / row.communication_us if row.communication_us else None


def _exposed(row: RankForward) -> float | None:
    return 100 * row.exposed_us / row.span_us if row.span_us else None


def _of_slowest(value: Any, facts: CaseFacts, what: str, figure: Callable[[RankForward], float | None]) -> Observation:
    values: list[float] = []
    over: list[float] = []
    for report in facts.jobs:
        job = report.job
        rows = {rank: row for rank in job.ranks if (row := typical_forward(job.forwards, rank)) is not None}
        figures = {rank: number for rank, row in rows.items() if (number := figure(row)) is not None}
        rank = slowest(job.forwards)
        if rank in figures:
            values.append(figures[rank])
            over += figures.values()
    if not values:
        return NO_RANKS
    spread = ends([*map(percent, sorted(over))])
    return judge_figure(values, value, percent, f"{what}, slowest rank ({spread} over the ranks)")


@word(
    "bus_gb_s",
    "Bus bandwidth in GB/s by NCCL's convention, without waiting: operation to range, as all_reduce: {min: 300}.",
    figures_of("operations"),
)
def bus_gb_s(value: Mapping[str, Any], facts: CaseFacts, _: RunFacts) -> Observation:
    """The median over the collectives of each operation; undecided if one is unknown, as without sizes."""
    holds: list[bool] = []
    observed, evidence = [], []
    for name, expected in value.items():
        rows = [row for report in facts.jobs for row in report.job.collectives if row.operation == name]
        rates = [row.bus_gb_s for row in rows if row.bus_gb_s is not None]
        if not rates:
            return Observation(None, "not known", f"the traces have no size or no transfer time of {name}")
        holds.append(span(expected).holds(median(rates)))
        observed.append(f"{name}: {significant(median(rates))} GB/s")
        links = {row.link_gb_s for row in rows if row.link_gb_s}
        link = f", NVLink has {significant(max(links))}" if links else ""
        best = {row.measured_gb_s for row in rows if row.measured_gb_s}
        link += f", a sweep reached {significant(max(best))}" if best else ""
        evidence.append(f"{name}: {significant(min(rates))} to {significant(max(rates))} GB/s{link}")
    return Observation(all(holds), ", ".join(observed), "; ".join(evidence))


@word(
    "ranks_equal_within_percent",
    "How much longer than the rank that computes least any rank may compute in a forward, in percent.",
    PERCENT,
)
def ranks_equal_within_percent(value: float, facts: CaseFacts, _: RunFacts) -> Observation:
    """Compares the medians over the forwards of each rank; undecided with fewer than two ranks."""
    apart = []
    for report in facts.jobs:
        job = report.job
        rows = (typical_forward(job.forwards, rank) for rank in job.ranks)
        times = [row.compute_us for row in rows if row is not None and row.compute_us]
        if len(times) > 1:
            apart.append(100 * (max(times) / min(times) - 1))
    if not apart:
        return NO_RANKS
    held = agreed(each <= value for each in apart)
    return Observation(held, percent(median(apart)), "largest over smallest compute time of a rank, less one")
