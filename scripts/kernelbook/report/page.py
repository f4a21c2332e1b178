"""`index.html`: one file, no network, scripts allowed by their hash alone."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kernelbook.edition.model import Edition
from kernelbook.report import page_data, story, sweeps, table
from kernelbook.report.families import FAMILIES
from kernelbook.report.templating import BROKEN_SEEN, context, environment
from kernelbook.report.traces import Links
from kernelbook.text import formatting

HERE = Path(__file__).parent
STYLES = ("tokens.css", "page.css", "summary.css", "strips.css", "tables.css", "details.css", "print.css")
SCRIPTS = (
    "core.js",
    "data.js",
    "format.js",
    "tables.js",
    "strips.js",
    "matrix.js",
    "spread.js",
    "lanes_model.js",
    "lanes_view.js",
    "lanes.js",
    "perfetto.js",
    "align.js",
    "compare.js",
    "case.js",
    "svg.js",
    "main.js",
)
FINDING_ROWS = 40
TRUST_ROWS = 300


@dataclass(frozen=True)
class Assets:
    style: Markup
    script: Markup
    policy: str


def assets() -> Assets:
    """The page's one style sheet and one script, and the Content-Security-Policy that lets just that script run."""
    style = "\n".join((HERE / "assets" / name).read_text(encoding="utf-8") for name in STYLES) + _family_style()
    style += _for_older_browsers(style)
    parts = [(HERE / "assets" / name) for name in SCRIPTS]
    body = "\n".join(part.read_text(encoding="utf-8") for part in parts if part.is_file())
    script = f'(() => {{\n"use strict";\n{body}\n}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Assets(Markup(style), Markup(script), policy)


def _family_style() -> str:
    """One colour and one ink a family, and the classes that use them."""
    tokens = "".join(
        f"--f-{f.key}: light-dark({f.light}, {f.dark}); --t-{f.key}: light-dark({f.inks[0]}, {f.inks[1]});"
        for f in FAMILIES
    )
    rules = "".join(
        f".f-{f.key}{{fill:var(--f-{f.key})}}.b-{f.key}{{background-color:var(--f-{f.key})}}"
        f".t-{f.key}{{fill:var(--t-{f.key})}}"
        for f in FAMILIES
    )
    return f":root{{{tokens}}}{rules}\n"


def _for_older_browsers(style: str) -> str:
    """The light theme for browsers from before 2024, which do not know light-dark()."""
    tokens = re.findall(r"(--[\w-]+): light-dark\(([^,()]+),", style)
    return f"@supports not (color: light-dark(#000, #fff)){{:root{{{''.join(f'{k}:{v};' for k, v in tokens)}}}}}\n"


def _finalize(value: Any) -> Any:
    """Missing values are said to be so; text from outside shows its hidden characters. Escaping follows."""
    if value is None:
        return formatting.NOT_AVAILABLE
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(edition: Edition, created_utc: str, traces: Links) -> str:
    """The whole page."""
    given = context(edition, created_utc)
    cells = [cell for case in given["cases"] for cell in case.present]
    index, blocks = page_data.build(edition, {cell.number: cell.anchor for cell in cells}, traces)
    given |= {
        "assets": assets(),
        "render": table.html,
        "broken_more": given["broken"][BROKEN_SEEN:],
        "weighed": story.by_weight(story.own_findings(edition), FINDING_ROWS),
        "trust_rows": edition.trust[:TRUST_ROWS],
        "sweep_chart": lambda sweep: Markup(sweeps.chart(sweep, sweeps.PAGE)),
        "tallies": story.tallies(edition),
        "index": Markup(index),
        "blocks": [Markup(block) for block in blocks],
    }
    return environment(_finalize, autoescape=True, percent=_percent).get_template("page.html.j2").render(given)


def _percent(part: float) -> str:
    return f"{part * 100:.3f}".rstrip("0").rstrip(".") + "%"
