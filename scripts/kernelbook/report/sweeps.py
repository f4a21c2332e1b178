"""A case swept over values of a parameter: time and kernel count over them, as rows and as a chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Edition
from kernelbook.text import formatting

WIDTH, LEFT, RIGHT, TOP, TIMES, COUNTS, BOTTOM = 760, 78, 150, 16, 190, 54, 34
DECADES_FOR_LOG = 1.0
#: Colours of the page by name, and what they are in a figure of its own.
PAGE = {
    "ink": "var(--ink)",
    "soft": "var(--soft)",
    "line": "var(--line)",
    "runs": ("var(--a)", "var(--b)", "var(--held)"),
}
FILE = {
    "paper": "#ffffff",
    "ink": "#1c2027",
    "soft": "#565d68",
    "line": "#e3dfd6",
    "runs": ("#24568f", "#8a4b0f", "#1f6b48"),
}


@dataclass(frozen=True)
class Line:
    """One run over the values; None where that value was not measured."""

    run: str
    rows: tuple[CaseFacts | None, ...]

    def times(self, name: str) -> list[float | None]:
        """The figure `name` at each value."""
        return [getattr(row, name) if row else None for row in self.rows]


@dataclass(frozen=True)
class Sweep:
    """One case over the values of one parameter, in the order of the configuration."""

    of: str
    parameter: str
    values: tuple[str, ...]
    cases: tuple[str, ...]
    lines: tuple[Line, ...]


def sweeps(edition: Edition, workload: str) -> tuple[Sweep, ...]:
    """Every sweep of the workload's cases of which something was measured."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for spec in edition.cases:
        if spec.workload == workload and spec.sweep:
            key = (str(spec.sweep["of"]), str(spec.sweep["parameter"]))
            groups.setdefault(key, []).append((spec.case, str(spec.sweep["value"])))
    rows = {key: row for key, row in edition.by_key().items() if row.status == "ok"}
    found = []
    for (of, parameter), members in groups.items():
        cases = tuple(case for case, _ in members)
        lines = tuple(Line(run.run, tuple(rows.get((run.run, case)) for case in cases)) for run in edition.runs)
        lines = tuple(line for line in lines if any(line.rows))
        if lines:
            found.append(Sweep(of, parameter, tuple(value for _, value in members), cases, lines))
    return tuple(found)


def chart(sweep: Sweep, colours: Mapping[str, Any]) -> str:
    """The sweep as SVG: device time solid, forward time dashed, kernels of a forward below. Text is escaped."""
    known = [t for line in sweep.lines for name in TIME_NAMES for t in line.times(name) if t]
    if not known:
        return ""
    scale = _Scale(min(known), max(known))
    height = TOP + TIMES + COUNTS * len(sweep.lines) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
        f'font-family="sans-serif" font-size="12" aria-label="{escape(_said(sweep))}">'
    ]
    if "paper" in colours:
        parts.append(f'<rect width="{WIDTH}" height="{height}" fill="{colours["paper"]}"/>')
    for tick in scale.ticks():
        y = scale.y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colours["line"]}"/>')
        parts.append(_text(LEFT - 8, y + 4, formatting.duration(tick), colours["soft"], "end"))
    for place, value in enumerate(sweep.values):
        parts.append(_text(_x(sweep, place), height - 16, formatting.clip(value, 12), colours["ink"], "middle"))
    parts.append(_text(WIDTH - RIGHT + 12, height - 16, formatting.clip(sweep.parameter, 18), colours["soft"], "start"))
    for number, line in enumerate(sweep.lines):
        colour = colours["runs"][number % len(colours["runs"])]
        parts += _times(sweep, line, scale, colour)
        parts += _counts(sweep, line, TOP + TIMES + COUNTS * number, colour, colours["soft"])
    return "".join([*parts, "</svg>"])


@dataclass(frozen=True)
class _Scale:
    """Times on the vertical axis: from zero, or by powers of ten where they span more than one."""

    low: float
    high: float

    @property
    def log(self) -> bool:
        return math.log10(self.high / self.low) > DECADES_FOR_LOG

    def y(self, value: float) -> float:
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            part = (math.log10(value) - first) / (last - first)
        else:
            part = value / (self.high * 1.08)
        return TOP + TIMES * (1 - part)

    def ticks(self) -> list[float]:
        if self.log:
            return [10.0**e for e in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)]
        step = 10.0 ** math.floor(math.log10(self.high))
        step = next(step * part for part in (0.25, 0.5, 1.0, 2.0) if self.high / (step * part) <= 5)
        return [step * n for n in range(int(self.high / step) + 1)]


TIME_NAMES = ("device_time_us", "forward_time_us")


def _x(sweep: Sweep, place: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / len(sweep.values)


def _times(sweep: Sweep, line: Line, scale: _Scale, colour: str) -> list[str]:
    parts = []
    for name, dash in zip(TIME_NAMES, ("", ' stroke-dasharray="5 4"'), strict=True):
        points = [(_x(sweep, place), scale.y(t)) for place, t in enumerate(line.times(name)) if t]
        if not points:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return parts


def _counts(sweep: Sweep, line: Line, top: float, colour: str, soft: str) -> list[str]:
    """The kernels of a forward at each value, as numbers over a bar each."""
    counts: Sequence[int | None] = [row.kernels if row else None for row in line.rows]
    most = max((count for count in counts if count), default=1)
    parts = [_text(WIDTH - RIGHT + 12, top + COUNTS - 6, f"kernels, {formatting.clip(line.run, 14)}", soft, "start")]
    for place, count in enumerate(counts):
        x, bar = _x(sweep, place), 20 * (count or 0) / most
        parts.append(
            f'<rect x="{x - 11:.1f}" y="{top + COUNTS - bar:.1f}" width="22" height="{bar:.1f}" fill="{colour}"/>'
        )
        shown = formatting.NOT_AVAILABLE if count is None else str(count)
        parts.append(_text(x, top + COUNTS - bar - 5, shown, soft if count is None else colour, "middle"))
    return parts


def _text(x: float, y: float, words: str, colour: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'


def _said(sweep: Sweep) -> str:
    """The chart in words, for those who do not see it."""
    lines = []
    for line in sweep.lines:
        told = [
            f"{value}: {formatting.duration(t)}"
            for value, t in zip(sweep.values, line.times(TIME_NAMES[1]), strict=True)
        ]
        lines.append(f"{line.run}: forward time at {sweep.parameter} {', '.join(told)}")
    return formatting.visible("; ".join(lines))
