"""Words about the ranks of a job: which collectives, how much of them is hidden, how fast, how equal the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.collectives.job import JobReading
from kernelbook.collectives.model import RankForward
from kernelbook.collectives.remarks import slowest, typical_forward
from kernelbook.config.spans import span
from kernelbook.judge.expectations.figures import judge_figure, percent
from kernelbook.judge.expectations.vocabulary import (
    FIGURE,
    Observation,
    RunFacts,
    agreed,
    counts_of,
    figures_of,
    word,
)
from kernelbook.text.units import significant

NO_RANKS = Observation(None, "no ranks", "the case has no ranks whose traces were read together")
PERCENT = {"type": "number", "minimum": 0, "must": "a number of percent"}


@word("collectives", "How many collectives of each operation a forward has, on every rank.", counts_of("operations"))
def collectives(value: Mapping[str, Any], facts: CaseFacts, _: RunFacts) -> Observation:
    """Broken if a forward of any rank has another number; undecided without collectives in forwards."""
    counts = [count for report in facts.jobs for count in _counts(report.job)]
    if not counts:
        return NO_RANKS
    holds = all(span(expected).holds(count[name]) for name, expected in value.items() for count in counts)
    names = dict.fromkeys([*value, *(name for count in counts for name in count)])
    observed = ", ".join(f"{name}: {_ends([count[name] for count in counts])}" for name in names)
    return Observation(holds, observed, f"in each of {len(counts)} forwards of all ranks")


def _counts(job: JobReading) -> Iterator[Counter[str]]:
    """The operations of each forward of each rank."""
    for row in job.forwards:
        if row.index is not None:
            yield Counter(
                each.operation for each in job.collectives if (each.rank, each.index) == (row.rank, row.index)
            )


def _ends(counts: list[int]) -> str:
    return " to ".join(dict.fromkeys((str(min(counts)), str(max(counts)))))


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
    """Of the time from the first to the last device activity. Evidence: the range over the ranks."""
    return _of_slowest(value, facts, "share of exposed communication", _exposed)


def _overlap(row: RankForward) -> float | None:
    return 100 * row.hidden_us / row.communication_us if row.communication_us else None


def _exposed(row: RankForward) -> float | None:
    return 100 * row.exposed_us / row.span_us if row.span_us else None


def _of_slowest(value: Any, facts: CaseFacts, what: str, figure: Callable[[RankForward], float | None]) -> Observation:
    """Judge a figure of the slowest rank of each job."""
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
    ends = " to ".join(dict.fromkeys((percent(min(over)), percent(max(over)))))
    return judge_figure(values, value, percent, f"{what}, slowest rank ({ends} over the ranks)")


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
    """Compared are the medians over the forwards of each rank; undecided with fewer than two ranks."""
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
