"""A chart as an SVG file: the drawings of its panels at fixed places, with the words beside them as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from kernelbook.charts.drawing import Chart, Key, Panel

PLOT, END, GAP, AXIS, KEY, SIDE = 640, 250, 9, 26, 24, 12
#: The pattern over segments that are not kernels.
HATCH = (
    '<defs><pattern id="kb-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path class="hatch-line" d="M0 0V5" stroke-width="3"/></pattern></defs>'
)
#: Largest width of a letter at font size 12 px, in px.
LETTER = 6.9
ANCHORS = {"first": "start", "inner": "middle", "last": "end"}


def svg_file(chart: Chart, style: str) -> str:
    """The chart as a document. `style`: rules for the classes of its drawings, without custom properties."""
    left = SIDE + GAP + LETTER * max((len(_name(panel)) for panel in chart.panels), default=0)
    left = max(left, SIDE + GAP + LETTER * max((len(t.text) for p in chart.panels for t in p.y_ticks), default=0))
    width = left + PLOT + END
    legend, y = _legend(chart.keys, width)
    body: list[str] = []
    for panel in chart.panels:
        body += _panel(panel, left, y)
        y += panel.height + GAP
    body += [_text(left + tick.place * PLOT, y + 9, tick.text, ANCHORS[tick.side], "soft") for tick in chart.x_ticks]
    y += AXIS if chart.x_ticks else 0
    words = [
        _text(SIDE, y + 14 + 16 * number, line, "start", "soft")
        for number, line in enumerate(_wrapped(chart.note, width))
    ]
    height = y + 10 + 16 * len(words)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img"><title>{escape(chart.title)}</title><style>{style}</style>{HATCH}'
        '<rect class="paper" width="100%" height="100%"/>'
    )
    return head + "".join([*legend, *body, *words, "</svg>"]) + "\n"


def _legend(keys: tuple[Key, ...], width: float) -> tuple[list[str], int]:
    """The swatches with their labels, and where the first panel begins."""
    x, y, parts = float(SIDE), 8, []
    for key in keys:
        room = 44 + LETTER * len(key.label)
        if x + room > width:
            x, y = float(SIDE), y + KEY - 4
        parts.append(f'<rect class="{key.css}" x="{x:.0f}" y="{y}" width="24" height="11"/>')
        parts += [f'<rect class="hatch" x="{x:.0f}" y="{y}" width="24" height="11"/>'] if key.hatched else []
        parts.append(_text(x + 30, y + 10, key.label, "start", "soft"))
        x += room
    return parts, y + KEY if keys else 12


def _panel(panel: Panel, left: float, y: float) -> Iterator[str]:
    middle = y + panel.height / 2 + 4
    yield _text(left - GAP, middle, _name(panel), "end")
    place = f'<svg x="{left:.1f}" y="{y:.0f}" width="{max(panel.part * PLOT, 2):.2f}" height="{panel.height}" '
    yield str(panel.drawing).replace("<svg ", place, 1)
    for tick in panel.y_ticks:
        yield _text(left - GAP, y + tick.place * panel.height + 4, tick.text, "end", "soft")
    for label in panel.labels:
        x = left + label.x * panel.part * PLOT
        yield _text(x, y + label.y * panel.height - 4, label.text, "middle", label.css)
    ends = [part for part in (panel.end, panel.end_note) if part]
    yield _text(left + panel.part * PLOT + GAP, middle, ", ".join(ends), "start")


def _name(panel: Panel) -> str:
    return f"{panel.name}  ({panel.group})" if panel.group and panel.name else panel.name or panel.group


def _wrapped(note: str, width: float) -> list[str]:
    letters = int((width - 2 * SIDE) / LETTER)
    return re.findall(rf".{{1,{letters}}}(?:\s|$)", note)


def _text(x: float, y: float, words: str, anchor: str, css: str = "") -> str:
    kind = Markup(' class="{}"').format(css) if css else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>' if words else ""
