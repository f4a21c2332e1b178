"""The colours and typefaces of the page, of the site of nights and of charts in files, as custom properties."""

from __future__ import annotations

import re
from pathlib import Path

from kernelbook.charts.drawing import CHART_STYLE

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
