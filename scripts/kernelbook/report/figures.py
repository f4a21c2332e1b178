"""Static SVG figures for the Markdown report, drawn by matplotlib. The same input gives the same bytes."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from kernelbook.report import text
from kernelbook.report.spreads import Spread, reach
from kernelbook.report.strips import Figure, Strip, nice_ticks

STYLE = {
    "svg.hashsalt": "kernelbook",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica Neue", "Arial", "sans-serif"],
    "font.size": 10,
    "hatch.linewidth": 0.8,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}
INK, FAINT, PAPER = "#22262e", "#59606b", "#ffffff"
ROW_INCHES = 0.42
SCATTER = 0.42  # of a row: how far the dots are spread


def label(strip: Strip | Spread, several_runs: bool) -> str:
    case = text.clip(strip.row.case, 40)
    return f"{case}  ({text.clip(strip.run.run, 24)})" if several_runs else case


def strips_svg(figure: Figure) -> str:
    """The kernel strips of one workload as one SVG document."""
    several = len({strip.run.run for strip in figure.strips}) > 1
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(11.0, ROW_INCHES * len(figure.strips) + 1.15), facecolor=PAPER, layout="constrained")
        axes = canvas.add_subplot()
        for y, strip in enumerate(figure.strips):
            _draw_strip(axes, y, strip, figure.scale_us)
        axes.set_ylim(len(figure.strips) - 0.4, -0.6)
        axes.set_xlim(0, figure.scale_us * 1.3)
        axes.set_yticks(range(len(figure.strips)), [label(strip, several) for strip in figure.strips], color=INK)
        ticks = nice_ticks(figure.scale_us)
        axes.set_xticks(ticks, [text.axis(tick, figure.scale_us) for tick in ticks], color=FAINT)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#e7e8ec", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("device time of one forward; each segment is one kernel, to scale", color=FAINT)
        canvas.legend(
            handles=[
                Patch(facecolor=f.light, edgecolor=PAPER, hatch="////" if f.hatched else None, label=f.label)
                for f in figure.families
            ],
            loc="outside upper center",
            ncols=min(len(figure.families), 10),
            frameon=False,
        )
        return _svg(canvas)


def _draw_strip(axes, y: int, strip: Strip, scale: float) -> None:
    for segment in strip.segments:
        wide = segment.scale_width > 0.004
        axes.barh(
            y,
            segment.width * strip.total_us,
            left=segment.left * strip.total_us,
            height=0.62,
            color=segment.family.light,
            edgecolor=PAPER if wide else segment.family.light,
            linewidth=0.8 if wide else 0.2,
            hatch="////" if segment.family.hatched else None,
        )
    axes.text(strip.total_us + scale * 0.008, y, strip.caption, va="center", ha="left", color=INK, fontsize=9.5)


def spreads_svg(shown: tuple[Spread, ...]) -> str:
    """Every unprofiled forward as a dot, as its distance from the median of its case, with the 5 to 95 % interval."""
    several = len({spread.run.run for spread in shown}) > 1
    limit = reach(shown) * 100
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(11.0, 0.34 * len(shown) + 1.0), facecolor=PAPER, layout="constrained")
        axes = canvas.add_subplot()
        for y, spread in enumerate(shown):
            _draw_spread(axes, y, spread, limit)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(-limit, limit)
        axes.set_yticks(range(len(shown)), [label(spread, several) for spread in shown], color=INK)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "median")
        axes.tick_params(axis="x", colors=FAINT)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#e7e8ec", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel(
            "one forward, unprofiled; band: 5 to 95 %; ring: first sample; at the edge: off the scale", color=FAINT
        )
        return _svg(canvas)


def _draw_spread(axes, y: int, spread: Spread, limit: float) -> None:
    def away(value: float) -> float:
        return (value / spread.median - 1) * 100

    places = [away(value) for value in spread.values]
    heights = [y + SCATTER * (i * 0.6180339887 % 1 - 0.5) for i in range(len(places))]
    inside = [(x, h) for x, h in zip(places, heights, strict=True) if abs(x) <= limit]
    axes.barh(y, away(spread.high) - away(spread.low), left=away(spread.low), height=0.6, color="#e4ebf3")
    axes.scatter(*zip(*inside, strict=True), s=9, color="#2f66a3", alpha=0.6, linewidths=0)
    for x in (x for x in places if abs(x) > limit):
        axes.plot(limit * 0.992 if x > 0 else -limit * 0.992, y, ">" if x > 0 else "<", color="#2f66a3", markersize=4)
    firsts = [min(max(away(value), -limit * 0.985), limit * 0.985) for value in spread.first]
    axes.scatter(firsts, [y] * len(firsts), s=34, facecolors="none", edgecolors="#ad2f1d", linewidths=1.2, zorder=3)
    axes.plot([0, 0], [y - 0.32, y + 0.32], color=INK, linewidth=1.3)
    axes.text(limit * 1.01, y, text.duration(spread.median), va="center", ha="left", color=INK, fontsize=9.5)


def _svg(canvas: Canvas) -> str:
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def write(folder: Path, name: str, svg: str) -> str:
    """Write the figure and return its path as the Markdown report links it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return f"{folder.name}/{name}.svg"
