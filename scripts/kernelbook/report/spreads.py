"""How the forward times of a case scatter: what the figure of unprofiled samples shows."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from kernelbook.report.model import CaseRun, Edition, Run

REACH = 4.0  # times the usual interval: one restless case must not flatten all the others
REACH_LIMITS = (0.03, 1.0)


@dataclass(frozen=True)
class Spread:
    """Samples of one case on one run, µs; `first` holds the first sample of each process."""

    row: CaseRun
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


def _spread(row: CaseRun, run: Run) -> Spread:
    values = [value for _, listed in row.samples for value in listed]
    first = tuple(listed[0] for _, listed in row.samples if listed)
    ordered = sorted(values)
    return Spread(
        row, run, tuple(values), first, statistics.median(values), quantile(ordered, 0.05), quantile(ordered, 0.95)
    )


def quantile(ordered: list[float], share: float) -> float:
    """Linear interpolation between the two nearest order statistics (Hyndman and Fan's type 7)."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def reach(shown: tuple[Spread, ...]) -> float:
    """How far from the median the figure's axis goes, as a part of the median."""
    usual = statistics.median(spread.reach for spread in shown)
    return min(max(usual * REACH, REACH_LIMITS[0]), REACH_LIMITS[1])
