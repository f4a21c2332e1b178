"""Trend charts as inline SVG that stretches with the page: colours come from the style sheet, labels are HTML.

The drawing has its own units (0-1000 by 0-100) and is stretched without keeping its proportions; strokes and dots do
not scale: a dot is a line of no length with round ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from kernelbook.text.units import NOT_AVAILABLE, significant

WIDTH, HEIGHT = 1000.0, 100.0
Scale = Callable[[Any], Any]  # a value, or an array of them, to drawing units
DOTS_UP_TO = 150
"""Nights up to which each has a dot; more would be a smear."""


@dataclass(frozen=True)
class Line:
    """Points of one series: `x` days, `y` values, shapes (n,); before the positions `breaks` the line is lifted."""

    x: np.ndarray
    y: np.ndarray
    breaks: tuple[int, ...] = ()
    levels: tuple[tuple[int, int, float], ...] = ()  # (first position, last position, level)


@dataclass(frozen=True)
class Mark:
    """Something that happened at day `x`: a line through the chart under a letter, or without one a short tick."""

    x: float
    letter: str
    text: str
    tone: str


@dataclass(frozen=True)
class Tick:
    """A label beside the chart: its place in percent from the top or the left, and what it says."""

    place: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One drawn chart."""

    svg: Markup
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    letters: tuple[tuple[float, Mark], ...]  # place in percent from the left


def draw(lines: Sequence[Line], marks: Sequence[Mark], label: str) -> Chart | None:
    """A chart of all lines on one scale; None where no line has a value. Values outside the scale stick to its edge."""
    lines = [line for line in lines if np.isfinite(line.y).any()]
    if not lines:
        return None
    low, high, steps = scale(np.concatenate([line.y[np.isfinite(line.y)] for line in lines]))
    first, last = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    span = max(last - first, 1.0)

    def across(x: Any) -> Any:
        return 8 + (x - first) / span * (WIDTH - 16)

    def down(y: Any) -> Any:
        return np.clip((high - y) / (high - low) * HEIGHT, 1.5, HEIGHT - 1.5)

    parts = [f'<path class="grid" d="{_rules([float(down(step)) for step in steps])}"/>']
    parts += [_mark(float(across(mark.x)), mark) for mark in marks]
    dotted = sum(len(line.x) for line in lines) <= DOTS_UP_TO
    for line in lines:
        parts += _line(line, across, down, dotted)
    head = f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
    return Chart(
        svg=Markup("".join([head, *parts, "</svg>"])),  # numbers and escaped text only
        y_ticks=tuple(Tick(float(down(step)), number(step)) for step in steps),
        x_ticks=_dates(first, last, across),
        letters=tuple((float(across(mark.x)) / 10, mark) for mark in marks if mark.letter),
    )


def _line(line: Line, across: Scale, down: Scale, dotted: bool) -> list[str]:
    finite = np.isfinite(line.y)
    xs, ys = across(line.x), down(np.where(finite, line.y, 0.0))
    lifted = set(line.breaks)
    path, dots, pen_up = [], [], True
    for at in np.flatnonzero(finite).tolist():
        pen_up = pen_up or at in lifted or not finite[at - 1]
        path.append(f"{'M' if pen_up else 'L'}{xs[at]:.1f} {ys[at]:.1f}")
        dots.append(f"M{xs[at]:.1f} {ys[at]:.1f}h0")
        pen_up = False
    parts = [f'<path class="line" d="{"".join(path)}"/>']
    for begin, end, level in line.levels:
        parts.append(f'<path class="level" d="M{xs[begin]:.1f} {float(down(level)):.1f}H{xs[end]:.1f}"/>')
    if dotted:
        parts.append(f'<path class="dots" d="{"".join(dots)}"/>')
    return parts


def _mark(x: float, mark: Mark) -> str:
    top = 0 if mark.letter else 95
    return f'<path class="mark {mark.tone}" d="M{x:.1f} {top}V100"><title>{escape(mark.text)}</title></path>'


def _rules(ys: Sequence[float]) -> str:
    return "".join(f"M0 {y:.1f}H1000" for y in ys)


def scale(values: np.ndarray) -> tuple[float, float, list[float]]:
    """Bottom, top and ruled values for a chart: lone spikes may fall outside, the last week never does."""
    inner = np.concatenate([np.percentile(values, [2, 98]), values[-7:]]) if len(values) > 20 else values
    low, high = float(inner.min()), float(inner.max())
    pad = max(0.15 * (high - low), 0.02 * abs(high), 1e-9)
    low, high = max(low - pad, 0.0), high + pad
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return low, high, [float(value) for value in np.arange(np.ceil(low / step) * step, high, step)]


def _dates(first: float, last: float, across: Scale) -> tuple[Tick, ...]:
    days = np.unique(np.linspace(first, last, 4).round().astype(int)) if last > first else np.array([int(first)])
    return tuple(Tick(float(across(day)) / 10, date.fromordinal(int(day)).isoformat()) for day in days)


def sparkline(y: np.ndarray) -> Markup:
    """A line without axes, for a row of a table; empty without values."""
    finite = y[np.isfinite(y)]
    if len(finite) < 2:
        return Markup("")
    low, high, _ = scale(finite)
    xs = 2 + np.arange(len(finite)) / (len(finite) - 1) * 96
    ys = np.clip((high - finite) / (high - low) * 24, 1, 23)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    head = '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">'
    return Markup(f'{head}<polyline points="{points}"/></svg>')


def number(value: float | None) -> str:
    """Four significant digits, no exponent: 0.0123, 1.234, 123.4, 12,345; `n/a` where missing."""
    return NOT_AVAILABLE if value is None or not np.isfinite(value) else significant(value, 4)
