"""A case swept over values of a parameter: time and kernel count over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import Chart, Key, Label, Panel, Tick, stretched
from kernelbook.charts.lines import Axis, Curve, bars, from_zero, lines_drawing
from kernelbook.edition.model import ConfiguredCase, Edition, Run
from kernelbook.report import phrases
from kernelbook.text import formatting

NOTE = "{of} over {parameter}: device time solid, unprofiled forward time dashed; below, the kernels of one forward."
#: (time, class of its line)
TIMES = (("device_time_us", ""), ("forward_time_us", " dashed"))
COLOURS = 3


@dataclass(frozen=True)
class SweptRun:
    """One run over the values; None if that value was not measured."""

    run: Run
    rows: tuple[CaseFacts | None, ...]

    def times(self, name: str) -> list[float | None]:
        """The time `name` at each value, µs."""
        return [getattr(row, name) if row else None for row in self.rows]

    @property
    def kernels(self) -> list[int | None]:
        """The kernels of a forward at each value."""
        return [row.kernels if row else None for row in self.rows]


@dataclass(frozen=True)
class Sweep:
    """One case over the values of one parameter, in the order of the configuration."""

    of: str
    parameter: str
    values: tuple[str, ...]
    runs: tuple[SweptRun, ...]


def sweeps(edition: Edition, workload: str) -> tuple[Sweep, ...]:
    """The sweeps of the workload's cases with at least one measured value."""
    groups: dict[tuple[str, str], list[ConfiguredCase]] = {}
    for spec in edition.cases:
        if spec.workload == workload and spec.sweep:
            groups.setdefault((str(spec.sweep["of"]), str(spec.sweep["parameter"])), []).append(spec)
    rows = {key: row for key, row in edition.by_key().items() if row.status == "ok"}
    made = []
    for (of, parameter), specs in groups.items():
        swept = (SweptRun(run, tuple(rows.get((run.run, spec.case)) for spec in specs)) for run in edition.runs)
        measured = tuple(run for run in swept if any(run.rows))
        if measured:
            values = tuple(phrases.parameter(parameter, spec.sweep["value"]) for spec in specs if spec.sweep)
            made.append(Sweep(of, parameter, values, measured))
    return tuple(made)


def chart(sweep: Sweep) -> Chart | None:
    """Times of all runs on one scale, and the kernels of each below; None if there is no time."""
    times = [time for run in sweep.runs for name, _ in TIMES for time in run.times(name) if time]
    if not times:
        return None
    scale, count = from_zero(times), len(sweep.values)
    ticks = tuple(Tick(scale.down(step) / 100, formatting.duration(step)) for step in scale.steps)
    panels = [Panel(_times(sweep, scale), height=190, y_ticks=ticks)]
    panels += [_kernels(run, number) for number, run in enumerate(sweep.runs)]
    name = f"sweep-{sweep.of}-{sweep.parameter}"
    of, parameter = formatting.clip(sweep.of, 60), formatting.clip(sweep.parameter, 40)
    values = tuple(Tick((place + 0.5) / count, formatting.clip(value, 12)) for place, value in enumerate(sweep.values))
    keys = tuple(Key(f"key-{number % COLOURS}", run.run.run) for number, run in enumerate(sweep.runs))
    note = NOTE.format(of=of, parameter=parameter)
    return Chart(name, "sweep", f"{of} over {parameter}", tuple(panels), values, keys, note)


def _times(sweep: Sweep, scale: Axis) -> Markup:
    places = np.arange(len(sweep.values), dtype=float)
    lines = [
        Curve(
            places, np.array([time or np.nan for time in run.times(name)], dtype=float), css=f"run-{i % COLOURS}{dash}"
        )
        for i, run in enumerate(sweep.runs)
        for name, dash in TIMES
    ]
    return lines_drawing(lines, scale, (-0.5, len(places) - 0.5), _in_words(sweep))


def _kernels(run: SweptRun, number: int) -> Panel:
    counts = run.kernels
    most = max((count for count in counts if count), default=1)
    heights = [None if count is None else count * 0.6 for count in counts]
    labels = tuple(
        Label(
            (place + 0.5) / len(counts),
            1 - 0.6 * (count or 0) / most,
            formatting.NOT_AVAILABLE if count is None else str(count),
        )
        for place, count in enumerate(counts)
    )
    label = f"Kernels of a forward on {run.run.run}: {', '.join(each.text for each in labels)}"
    drawing = stretched([bars(heights, most, f"bar bar-{number % COLOURS}")], label)
    return Panel(drawing, "kernels", formatting.clip(run.run.run, 24), height=54, labels=labels)


def _in_words(sweep: Sweep) -> str:
    """The times as text, for screen readers."""
    runs = []
    for run in sweep.runs:
        times = zip(sweep.values, run.times("forward_time_us"), strict=True)
        values = ", ".join(f"{value}: {formatting.duration(time)}" for value, time in times)
        runs.append(f"{run.run.run}: forward time at {sweep.parameter} {values}")
    return "; ".join(runs)
