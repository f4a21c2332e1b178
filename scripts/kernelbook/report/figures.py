"""Static SVG figures for the Markdown report, drawn by matplotlib. The same input gives the same bytes."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from kernelbook.report.spreads import Spread, reach
from kernelbook.report.strips import Figure, Strip, nice_ticks
from kernelbook.text import formatting

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
BAND, DOT, RING = "#e4ebf3", "#2f66a3", "#ad2f1d"
GOLDEN = 0.6180339887  # steps of the golden ratio fall evenly and never twice on one place
SCATTER = 0.42  # of a row: how far the dots are spread


def label(strip: Strip | Spread, several_runs: bool) -> str:
    case = formatting.clip(strip.row.case, 40)
    return f"{case}  ({formatting.clip(strip.run.run, 24)})" if several_runs else case


def strips_svg(figure: Figure) -> str:
    """The kernel strips of one workload as one SVG document."""
    several = len({strip.run.run for strip in figure.strips}) > 1
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(11.0, ROW_INCHES * len(figure.strips) + 1.15), facecolor=PAPER, layout="constrained")
        axes = canvas.add_subplot()
        _draw_strips(axes, figure)
        axes.set_ylim(len(figure.strips) - 0.4, -0.6)
        axes.set_xlim(0, figure.scale_us * 1.3)
        axes.set_yticks(range(len(figure.strips)), [label(strip, several) for strip in figure.strips], color=INK)
        ticks = nice_ticks(figure.scale_us)
        axes.set_xticks(ticks, [formatting.axis(tick, figure.scale_us) for tick in ticks], color=FAINT)
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
            ncols=len(figure.families) if len(figure.families) <= 7 else -(-len(figure.families) // 2),
            frameon=False,
        )
        return _svg(canvas)


def _draw_strips(axes, figure: Figure) -> None:
    """All segments in few calls, since a call of matplotlib costs far more than a rectangle."""
    placed = [(y, strip, segment) for y, strip in enumerate(figure.strips) for segment in strip.segments]
    for hatched, thin in ((False, False), (False, True), (True, False), (True, True)):
        some = [(y, p, s) for y, p, s in placed if (s.family.hatched, s.thin) == (hatched, thin)]
        if not some:
            continue
        colours = [segment.family.light for _, _, segment in some]
        axes.barh(
            [y for y, _, _ in some],
            [segment.width * strip.total_us for _, strip, segment in some],
            left=[segment.left * strip.total_us for _, strip, segment in some],
            height=0.62,
            color=colours,
            edgecolor=colours if thin else PAPER,
            linewidth=0.2 if thin else 0.8,
            hatch="////" if hatched else None,
        )
    for y, strip in enumerate(figure.strips):
        room = figure.scale_us * 0.008
        axes.text(strip.total_us + room, y, strip.caption, va="center", ha="left", color=INK, fontsize=9.5)


def spreads_svg(shown: tuple[Spread, ...]) -> str:
    """Every unprofiled forward as a dot, as its distance from the median of its case, with the 5 to 95 % interval."""
    several = len({spread.run.run for spread in shown}) > 1
    limit = reach(shown) * 100
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(11.0, 0.34 * len(shown) + 1.0), facecolor=PAPER, layout="constrained")
        axes = canvas.add_subplot()
        _draw_spreads(axes, shown, limit)
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


def _draw_spreads(axes, shown: tuple[Spread, ...], limit: float) -> None:
    """Bands, dots, first samples and medians of all rows, each in one call."""
    rows = range(len(shown))
    lows = [away(spread, spread.low) for spread in shown]
    axes.barh(
        rows, [away(s, s.high) - low for s, low in zip(shown, lows, strict=True)], left=lows, height=0.6, color=BAND
    )
    dots = [
        (away(spread, value), y + SCATTER * (i * GOLDEN % 1 - 0.5))
        for y, spread in enumerate(shown)
        for i, value in enumerate(spread.values)
    ]
    inside = [(x, y) for x, y in dots if abs(x) <= limit]
    axes.scatter(*zip(*inside, strict=True), s=9, color=DOT, alpha=0.6, linewidths=0)
    for marker, edge in ((">", limit), ("<", -limit)):
        off = [y for x, y in dots if abs(x) > limit and (x > 0) == (edge > 0)]
        axes.plot([edge * 0.992] * len(off), off, marker, color=DOT, markersize=3.5)
    firsts = [(away(spread, value), y) for y, spread in enumerate(shown) for value in spread.first]
    clipped = [min(max(x, -limit * 0.985), limit * 0.985) for x, _ in firsts]
    axes.scatter(clipped, [y for _, y in firsts], s=34, facecolors="none", edgecolors=RING, linewidths=1.2, zorder=3)
    axes.vlines([0] * len(shown), [y - 0.32 for y in rows], [y + 0.32 for y in rows], color=INK, linewidth=1.3)
    for y, spread in enumerate(shown):
        axes.text(limit * 1.01, y, formatting.duration(spread.median), va="center", ha="left", color=INK, fontsize=9.5)


def away(spread: Spread, value: float) -> float:
    """Percent above the median."""
    return (value / spread.median - 1) * 100


def _svg(canvas: Canvas) -> str:
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def write(folder: Path, name: str, svg: str) -> str:
    """Write the figure and return its path as the Markdown report links it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return f"{folder.name}/{name}.svg"
