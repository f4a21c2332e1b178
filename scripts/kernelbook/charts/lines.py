"""Line charts, for sweeps and trends: joined points, levels and marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from kernelbook.charts.drawing import HEIGHT, WIDTH, box, dots, nice_step, path, stretched
from kernelbook.text.formatting import NOT_AVAILABLE, significant

Floats = npt.NDArray[np.float64]
#: Curves with more points than this have no dots.
DOTS_UP_TO = 150
#: Values that span more powers of ten than this have a logarithmic axis.
DECADES_FOR_LOG = 1.0


@dataclass(frozen=True)
class Curve:
    """Points of one series, shapes (n,); NaN is missing. The line is interrupted before the positions `breaks`.

    levels: (first position, last position, value). css: classes of its line and dots. links: (address, words) of each
    dot; empty for dots without links.
    """

    x: Floats
    y: Floats
    breaks: tuple[int, ...] = ()
    levels: tuple[tuple[int, int, float], ...] = ()
    css: str = ""
    links: tuple[tuple[str, str], ...] = ()


def since(curve: Curve, first: float) -> Curve:
    """The part of a curve from x = `first` on. Its x must ascend."""
    skip = int(np.searchsorted(curve.x, first))
    return Curve(
        curve.x[skip:],
        curve.y[skip:],
        tuple(at - skip for at in curve.breaks if at > skip),
        tuple((max(a - skip, 0), b - skip, level) for a, b, level in curve.levels if b >= skip),
        curve.css,
        curve.links[skip:],
    )


@dataclass(frozen=True)
class Mark:
    """An event at `x`: a line through the chart under its letter; a short tick if it has no letter."""

    x: float
    letter: str
    text: str
    tone: str


@dataclass(frozen=True)
class Axis:
    """A vertical axis from `low` to `high` with grid lines at `steps`; logarithmic if `log` is set."""

    low: float
    high: float
    steps: tuple[float, ...]
    log: bool = False

    def down(self, value: float) -> float:
        """Distance of a value from the top, in units of the drawing; values outside the axis are drawn at its edge."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return min(max((high - at) / (high - low) * HEIGHT, 1.5), HEIGHT - 1.5)


def from_zero(values: Sequence[float]) -> Axis:
    """An axis for positive values: from zero, or logarithmic if they span more than `DECADES_FOR_LOG`."""
    low, high = min(values), max(values)
    if math.log10(high / low) > DECADES_FOR_LOG:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return Axis(10.0**first, 10.0**last, tuple(10.0**power for power in range(first, last + 1)), log=True)
    step = nice_step(high)
    return Axis(0.0, high * 1.08, tuple(step * number for number in range(int(high / step) + 1)))


def around(values: Floats) -> Axis:
    """An axis for the range of the values: lone spikes may fall outside, the last seven values never do."""
    inner = np.concatenate([np.percentile(values, [2, 98]), values[-7:]]) if len(values) > 20 else values
    low, high = float(inner.min()), float(inner.max())
    pad = max(0.15 * (high - low), 0.02 * abs(high), 1e-9)
    low, high = max(low - pad, 0.0), high + pad
    step = nice_step(high - low, 6)
    return Axis(low, high, tuple(float(value) for value in np.arange(np.ceil(low / step) * step, high, step)))


def across(x: float, first: float, last: float) -> float:
    """The place of `x` on an axis from `first` to `last`, in units."""
    return (x - first) / (last - first) * WIDTH


def lines_drawing(
    lines: Sequence[Curve], scale: Axis, ends: tuple[float, float], label: str, marks: Sequence[Mark] = ()
) -> Markup:
    """All curves in one drawing. ends: first and last value of the horizontal axis."""
    parts = [path("grid", "".join(f"M0 {scale.down(step):.1f}H1000" for step in scale.steps))]
    for mark in marks:
        top = 0 if mark.letter else 95
        parts.append(path(f"mark {mark.tone}", f"M{across(mark.x, *ends):.1f} {top}V100", mark.text))
    dotted = sum(len(line.x) for line in lines) <= DOTS_UP_TO
    for line in lines:
        parts += _line(line, scale, ends, dotted)
    return stretched(parts, label, role="group" if any(line.links for line in lines) else "img")


def _line(line: Curve, scale: Axis, ends: tuple[float, float], dotted: bool) -> list[str]:
    xs = [across(x, *ends) for x in line.x.tolist()]
    points = {at: (xs[at], scale.down(y)) for at, y in enumerate(line.y.tolist()) if math.isfinite(y)}
    joined = "".join(
        f"{'L' if at - 1 in points and at not in line.breaks else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in points.items()
    )
    levels = "".join(f"M{xs[a]:.1f} {scale.down(level):.1f}H{xs[b]:.1f}" for a, b, level in line.levels)
    parts = [path(f"line {line.css}".strip(), joined), path("level", levels)]
    if line.links:
        return [*parts, *(_linked(*line.links[at], point, dotted) for at, point in points.items())]
    return [*parts, path(f"dots {line.css}".strip(), dots(points.values()))] if dotted else parts


def _linked(link: str, words: str, point: tuple[float, float], dotted: bool) -> str:
    """A dot that links to a page. Without `dotted` it is visible only under the pointer."""
    dot = path("dots" if dotted else "dots hidden", dots([point]), words)
    return f'<a href="{escape(link)}">{dot}</a>'


def sparkline(y: Floats) -> Markup:
    """A line without axes, for a row of a table; empty for fewer than two values."""
    values = y[np.isfinite(y)]
    if len(values) < 2:
        return Markup("")
    scale = around(values)
    points = (f"{across(at, 0, len(values) - 1):.1f} {scale.down(float(v)):.1f}" for at, v in enumerate(values))
    drawing = f'<path class="line" d="M{"L".join(points)}"/>'
    return Markup(
        f'<svg class="spark" viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">{drawing}</svg>'
    )


def bars(heights: Sequence[float | None], most: float, css: str) -> str:
    """Bars at even distances, as one path. most: the value of a bar of full height; None leaves its place empty."""
    places = [(place + 0.5) * WIDTH / len(heights) for place in range(len(heights))]
    shapes = (box(x - 15, x + 15, HEIGHT * (1 - h / most), HEIGHT) for x, h in zip(places, heights, strict=True) if h)
    return path(css, "".join(shapes))


def number(value: float | None) -> str:
    """Four significant digits, no exponent: 0.0123, 1.234, 123.4, 12,345; `n/a` where missing."""
    return NOT_AVAILABLE if value is None or not math.isfinite(value) else significant(value, 4)
