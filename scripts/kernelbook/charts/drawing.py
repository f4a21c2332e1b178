"""The parts of a chart: drawings that stretch, and the words beside them.

A drawing is an `<svg>` that fills its box. Its coordinates run from 0 to 1000 and from 0 to 100. Strokes keep their
width when it is stretched; a dot is a line of zero length with round ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from kernelbook.text.formatting import visible

#: The style of all drawings; its colours are custom properties of the page.
CHART_STYLE = Path(__file__).parent / "chart.css"
WIDTH, HEIGHT = 1000.0, 100.0
#: Ticks within this part of an end of the axis have their label inside.
END = 0.04


@dataclass(frozen=True)
class Tick:
    """A label of an axis. `place`: 0 to 1, from the left or from the top."""

    place: float
    text: str

    @property
    def side(self) -> str:
        """Where on the axis it is: first, last or inner."""
        return "first" if self.place < END else "last" if self.place > 1 - END else "inner"


@dataclass(frozen=True)
class Label:
    """Words over a drawing. `x`: of their middle, `y`: of their lower edge; 0 to 1, from the left and the top."""

    x: float
    y: float
    text: str
    css: str = ""


@dataclass(frozen=True)
class Key:
    """An entry of the legend. `css`: the class that fills its swatch."""

    css: str
    label: str
    hatched: bool = False


@dataclass(frozen=True)
class Panel:
    """A row of a chart: a drawing with its name before it and words behind it.

    group: what the name belongs to, in smaller letters. repeats: whether the row above has the same name. anchor: the
    target of the name's link. height: in px. part: the drawing's share of the chart's width. end, end_note: the words
    behind it.
    """

    drawing: Markup
    name: str = ""
    group: str = ""
    repeats: bool = False
    anchor: str = ""
    height: int = 22
    part: float = 1.0
    end: str = ""
    end_note: str = ""
    y_ticks: tuple[Tick, ...] = ()
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True)
class Chart:
    """Panels over one horizontal axis.

    css: its kind, a class on the page. `strips`, `spread` (forward times), `ranks` and `roofline` have styles and
    buttons of their own. title: its heading in Markdown and in the SVG file; on the page its note stands alone. note:
    how to read it, in a sentence or two.
    """

    name: str
    css: str
    title: str
    panels: tuple[Panel, ...]
    x_ticks: tuple[Tick, ...] = ()
    keys: tuple[Key, ...] = ()
    note: str = ""


def stretched(parts: Iterable[str], label: str, role: str = "img", **data: object) -> Markup:
    """A drawing of these elements. label: its description in words. data: its data- attributes.

    role: group for a drawing with links in it.
    """
    more = Markup("").join(Markup(' data-{}="{}"').format(name, value) for name, value in data.items())
    head = Markup('<svg class="plot" viewBox="0 0 1000 100" preserveAspectRatio="none" role="{}" aria-label="{}"{}>')
    return head.format(role, visible(label), more) + Markup("".join(parts)) + Markup("</svg>")


def path(css: str, shape: str, title: str = "") -> str:
    """A path of this shape; "" if the shape is empty."""
    inner = f"<title>{escape(visible(title))}</title>" if title else ""
    return f'<path class="{css}" d="{shape}">{inner}</path>' if shape else ""


def dots(points: Iterable[tuple[float, float]]) -> str:
    """The shape of a dot at each point."""
    return "".join(f"M{x:.4g} {y:.3g}z" for x, y in points)


def box(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{left:.4g} {top:g}H{right:.4g}V{bottom:g}H{left:.4g}z"


def nice_step(span: float, about: int = 5) -> float:
    """The smallest round step that divides `span` into at most `about` parts."""
    power = 10.0 ** math.floor(math.log10(span / about))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= span / about * 0.999)


def nice_ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Round values from `low` to `high`, at most about + 1."""
    if high <= low:
        return (low,)
    step = nice_step(high - low, about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(step * number for number in range(first, last + 1))


# --- colours ---------------------------------------------------------------------------------------------------------

TOKENS = (Path(__file__).parent / "tokens.css").read_text(encoding="utf-8")


def with_theme(style: str) -> str:
    """A style sheet together with the colours that it uses and the style of charts."""
    whole = f"{TOKENS}\n{style}\n{CHART_STYLE.read_text(encoding='utf-8')}"
    light = "".join(f"{token}:{colour};" for token, colour in light_colours(whole).items())
    # browsers older than 2024 lack light-dark() and get the light theme
    return f"{whole}@supports not (color: light-dark(#000, #fff)){{:root{{{light}}}}}\n"


def light_colours(style: str) -> dict[str, str]:
    """Custom property -> its light colour, for each property with a light and a dark one."""
    return dict(re.findall(r"(--[\w-]+): light-dark\(([^,()]+),", style))
