"""The style sheets of the page and of charts in files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from kernelbook.charts.drawing import CHART_STYLE, TOKENS, light_colours, with_theme
from kernelbook.report.families import FAMILIES

ASSETS = Path(__file__).parent / "assets"
STYLES = ("page.css", "summary.css", "strips.css", "tables.css", "details.css", "print.css")
#: Rules for charts in files, in addition to those of their drawings.
FILE_RULES = """
text{font:400 12px "DejaVu Sans","Helvetica Neue",Arial,sans-serif;fill:var(--ink)}.soft{fill:var(--soft)}
.paper{fill:var(--raised)}.strip-bar text{display:none}.strip-bar .hatch,.hatch{fill:url(#kb-hatch);stroke:none}
.hatch-line{stroke:var(--raised)}
"""


def page_style() -> str:
    """The page's style sheet."""
    parts = [(ASSETS / name).read_text(encoding="utf-8") for name in STYLES]
    return with_theme("\n".join((_family_tokens(), *parts, _family_rules())))


def compact(text: str) -> str:
    """A style sheet or script without indentation, comment lines and unneeded line breaks."""
    text = re.sub(r"(?m)^[ \t]+|^[ \t]*(//.*|/\*.*\*/)?\n", "", text)
    return re.sub(r"(?<=[{;,])\n", "", text)


@cache
def file_style() -> str:
    """The style of charts in files: light, without custom properties, which some viewers do not support."""
    style = CHART_STYLE.read_text(encoding="utf-8") + _family_rules() + FILE_RULES
    colours = light_colours(TOKENS + _family_tokens())
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"var\((--[\w-]+)\)", lambda match: colours[match[1]], style)).strip()


def _family_tokens() -> str:
    """One colour and one ink for each family, by theme."""
    tokens = "".join(
        f"--f-{f.key}: light-dark({f.light}, {f.dark}); --t-{f.key}: light-dark({f.inks[0]}, {f.inks[1]});"
        for f in FAMILIES
    )
    return f":root{{{tokens}}}"


def _family_rules() -> str:
    """CSS rules that use the colours: fills of segments (f-), backgrounds (b-) and fills of labels (t-)."""
    return "".join(
        f".f-{f.key}{{fill:var(--f-{f.key})}}.b-{f.key}{{background-color:var(--f-{f.key});color:var(--t-{f.key})}}"
        f".t-{f.key}{{fill:var(--t-{f.key})}}"
        for f in FAMILIES
    )
