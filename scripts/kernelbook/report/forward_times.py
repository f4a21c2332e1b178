"""The scatter of the forward times of a case: every unprofiled sample as a dot around the median."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import Chart, Panel, Tick, box, dots, nice_ticks, path, stretched
from kernelbook.edition.model import Edition, Run
from kernelbook.text import formatting
from kernelbook.text.formatting import quantile

REACH = 4.0  # times the usual interval, so that one noisy case does not flatten all the others
REACH_LIMITS = (0.03, 1.0)
#: Steps of the golden ratio distribute the dots evenly without overlap.
GOLDEN = 0.6180339887
NOTE = (
    "Each dot is one forward, timed without a profiler, as its distance from the median. Band: 5 to 95 %. Red: the "
    "first of a process. At the edge: off the scale."
)


@dataclass(frozen=True)
class Spread:
    """Samples of one case on one run, µs; `first`: the first sample of each process.

    The median is that of the processes' medians, as everywhere in the report; `low` and `high` are the 5 and 95 %
    quantiles of all samples together. `cell`: the number of the case and run in the edition.
    """

    row: CaseFacts
    run: Run
    cell: int
    values: tuple[float, ...]
    first: tuple[float, ...]
    median: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """The larger distance of the interval's ends from the median, as a part of the median."""
        return max(self.high / self.median - 1, 1 - self.low / self.median)


def spreads(edition: Edition, workload: str) -> tuple[Spread, ...]:
    """Cases in config order, runs in edition order; those without samples are left out."""
    rows = edition.rows_of(workload)
    return tuple(_spread(row, run, cell) for row, run, cell in rows if any(values for _, values in row.samples))


def _spread(row: CaseFacts, run: Run, cell: int) -> Spread:
    processes = [values for _, values in row.samples if values]
    values = tuple(value for process in processes for value in process)
    median = statistics.median(statistics.median(process) for process in processes)
    low, high = (quantile(values, share) or 0.0 for share in (0.05, 0.95))
    return Spread(row, run, cell, values, tuple(process[0] for process in processes), median, low, high)


def reach_of(rows: tuple[Spread, ...]) -> float:
    """Half the length of the axis around the median, as a part of the median."""
    usual = statistics.median(spread.reach for spread in rows)
    return min(max(usual * REACH, REACH_LIMITS[0]), REACH_LIMITS[1])


def chart(rows: tuple[Spread, ...], title: str, anchors: Mapping[str, str]) -> Chart | None:
    """The samples of the workload `title` on one scale; None if there are none."""
    if not rows:
        return None
    several = len({spread.run.run for spread in rows}) > 1
    reach = reach_of(rows)
    panels = tuple(
        Panel(
            _drawing(spread, reach),
            formatting.clip(spread.row.case, 48),
            formatting.clip(spread.run.run, 24) if several else "",
            anchor=anchors.get(spread.row.case, ""),
            height=26,
            end=formatting.duration(spread.median),
        )
        for spread in rows
    )
    ticks = tuple(
        Tick(0.5 + tick / reach / 200, f"{tick:+g} %" if tick else "median")
        for tick in nice_ticks(-reach * 100, reach * 100, 6)
    )
    return Chart(f"forward-times-{title}", "spread", f"Forward times of {title}, one by one", panels, ticks, (), NOTE)


def _drawing(spread: Spread, reach: float) -> Markup:
    def place(value: float) -> float:
        return round(min(max(500 + (value / spread.median - 1) / reach * 500, 4), 996))

    firsts = set(spread.first)
    points = [
        (place(value), 18 + round(64 * (i * GOLDEN % 1)), value in firsts) for i, value in enumerate(spread.values)
    ]
    parts = (
        path("band", box(place(spread.low), place(spread.high), 15, 85)),
        path("sample", dots((x, y) for x, y, first in points if not first)),
        path("first-sample", dots((x, y) for x, y, first in points if first)),
        path("median", "M500 8V92"),
    )
    label = f"Forward times of {spread.row.case} on {spread.run.run}: median {formatting.duration(spread.median)}"
    return stretched(parts, label, cell=spread.cell, reach=f"{reach:.5g}", median=f"{spread.median:.6g}")
