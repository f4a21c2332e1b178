"""What charts are made of: drawings without a size of their own, and the words beside them.

A drawing is an `<svg>` that fills the box it is put into. Its own units run from 0 to 1000 and from 0 to 100; strokes
keep their width when it is stretched, and a dot is a line of no length with round ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from kernelbook.text.formatting import visible

#: The style of all drawings, in custom properties of the page that they are on.
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
        """Which end of the axis it is at: first, last or, for all others, inner."""
        return "first" if self.place < END else "last" if self.place > 1 - END else "inner"


@dataclass(frozen=True)
class Label:
    """Words over a drawing. `x`, `y`: 0 to 1, of their middle and their lower edge from the left and the top."""

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

    group: what the name is of, written smaller. repeats: whether the row above has the same name. anchor: what the name
    links to. height: in px. part: the part of the chart's width that the drawing takes. end, end_note: the words behind
    it.
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
    """Panels over one horizontal axis. `css`: its class on the page. `note`: how to read it, in a sentence or two."""

    name: str
    css: str
    title: str
    panels: tuple[Panel, ...]
    x_ticks: tuple[Tick, ...] = ()
    keys: tuple[Key, ...] = ()
    note: str = ""


def stretched(parts: Iterable[str], label: str, role: str = "img", **data: object) -> Markup:
    """A drawing of these elements. `label` says in words what it shows; `data` become data- attributes.

    role: group for a drawing with links in it.
    """
    more = Markup("").join(Markup(' data-{}="{}"').format(name, value) for name, value in data.items())
    head = Markup('<svg class="plot" viewBox="0 0 1000 100" preserveAspectRatio="none" role="{}" aria-label="{}"{}>')
    return head.format(role, visible(label), more) + Markup("".join(parts)) + Markup("</svg>")


def path(css: str, shape: str, title: str = "") -> str:
    """A path of this shape, or nothing where the shape is empty."""
    inner = f"<title>{escape(visible(title))}</title>" if title else ""
    return f'<path class="{css}" d="{shape}">{inner}</path>' if shape else ""


def dots(points: Iterable[tuple[float, float]]) -> str:
    """The shape of a dot at each point."""
    return "".join(f"M{x:.4g} {y:.3g}z" for x, y in points)


def box(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{left:.4g} {top:g}H{right:.4g}V{bottom:g}H{left:.4g}z"


def nice_step(span: float, about: int = 5, factors: tuple[float, ...] = (1, 2, 2.5, 5, 10)) -> float:
    """The least round step that divides `span` into about so many parts at most."""
    power = 10.0 ** math.floor(math.log10(span / about))
    return next(power * factor for factor in factors if power * factor >= span / about * 0.999)


def nice_ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Round values from `low` to `high`, about so many."""
    if high <= low:
        return (low,)
    step = nice_step(high - low, about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(step * number for number in range(first, last + 1))


# --- colours ---------------------------------------------------------------------------------------------------------


TOKENS = (Path(__file__).parent / "tokens.css").read_text(encoding="utf-8")


def with_theme(style: str) -> str:
    """A style sheet with the properties that it uses, and the style of charts."""
    whole = f"{TOKENS}\n{style}\n{CHART_STYLE.read_text(encoding='utf-8')}"
    light = "".join(f"{token}:{colour};" for token, colour in light_colours(whole).items())
    # browsers from before 2024 do not know light-dark(): they get the light theme
    return f"{whole}@supports not (color: light-dark(#000, #fff)){{:root{{{light}}}}}\n"


def light_colours(style: str) -> dict[str, str]:
    """The light one of each custom property that has a colour for either theme."""
    return dict(re.findall(r"(--[\w-]+): light-dark\(([^,()]+),", style))
