"""How the forward times of a case scatter: what the figure of unprofiled samples shows."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Edition, Run
from kernelbook.text.units import quantile

REACH = 4.0  # times the usual interval: one restless case must not flatten all the others
REACH_LIMITS = (0.03, 1.0)


@dataclass(frozen=True)
class Spread:
    """Samples of one case on one run, µs; `first` holds the first sample of each process.

    The median is that of the processes' medians, as everywhere in the report; `low` and `high` are the 5 and 95 %
    quantiles of all samples together.
    """

    row: CaseFacts
    run: Run
    values: tuple[float, ...]
    first: tuple[float, ...]
    median: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        return max(self.high / self.median - 1, 1 - self.low / self.median)


def spreads(edition: Edition, workload: str) -> tuple[Spread, ...]:
    """Cases in config order, runs in edition order; those without samples are left out."""
    rows = edition.by_key()
    pairs = [
        (rows.get((run.run, spec.case)), run)
        for spec in edition.cases
        if spec.workload == workload
        for run in edition.runs
    ]
    return tuple(_spread(row, run) for row, run in pairs if row and any(values for _, values in row.samples))


def _spread(row: CaseFacts, run: Run) -> Spread:
    values = [value for _, listed in row.samples for value in listed]
    first = tuple(listed[0] for _, listed in row.samples if listed)
    median = statistics.median(statistics.median(listed) for _, listed in row.samples if listed)
    low, high = (quantile(values, share) or 0.0 for share in (0.05, 0.95))
    return Spread(row, run, tuple(values), first, median, low, high)


def reach(shown: tuple[Spread, ...]) -> float:
    """How far from the median the figure's axis goes, as a part of the median."""
    usual = statistics.median(spread.reach for spread in shown)
    return min(max(usual * REACH, REACH_LIMITS[0]), REACH_LIMITS[1])
