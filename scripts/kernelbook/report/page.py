"""`index.html`: one file without network access, whose only script is allowed by its hash."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from kernelbook.cases.comparability import refusal
from kernelbook.charts.drawing import Chart
from kernelbook.charts.svg_file import HATCH
from kernelbook.edition.model import Edition
from kernelbook.report import (
    findings_section,
    first_screen,
    listings,
    page_data,
    roofline,
    strips,
    table,
    versions,
)
from kernelbook.report.attached_traces import Links
from kernelbook.report.case_views import CellView
from kernelbook.report.output_code import CodeLinks
from kernelbook.report.strips import legend, percent
from kernelbook.report.styles import ASSETS, compact, page_style
from kernelbook.report.templating import BROKEN_CARDS, context, environment
from kernelbook.text import formatting

SCRIPTS = (
    *(
        "core.js",
        "data.js",
        "format.js",
        "tables.js",
        "strips.js",
        "cases.js",
        "guess.js",
        "lanes_model.js",
        "lanes_view.js",
    ),
    *("lanes.js", "perfetto.js", "align.js", "compare.js", "case.js", "charts.js", "main.js"),
)
FINDING_ROWS = 40
TRUST_ROWS = 300


@dataclass(frozen=True)
class Assets:
    style: Markup
    script: Markup
    policy: str


def assets() -> Assets:
    """The page's style sheet and script, and the Content-Security-Policy that allows only this script."""
    body = compact("\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS))
    script = f'(() => {{\n"use strict";\n{body}\n}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Assets(Markup(compact(page_style())), Markup(script), policy)


def _finalize(value: Any) -> Any:
    """`n/a` for None, and text with hidden characters made visible. Jinja escapes it afterwards."""
    if value is None:
        return formatting.NOT_AVAILABLE
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def templates() -> jinja2.Environment:
    """The environment of the page's templates, each of which is compiled once in a process."""
    return environment(_finalize, autoescape=True, filters={"percent": percent, "breakable": breakable, "dated": dated})


def render(edition: Edition, created_utc: str, traces: Links, code: CodeLinks | None = None) -> str:
    """The whole page. code: (run, case) -> path of Inductor's output code below the page's folder."""
    values = context(edition, created_utc)
    cells = [cell for case in values["cases"] for cell in case.present]
    index, blocks = page_data.build(edition, {cell.number: cell.anchor for cell in cells}, traces, code or {})
    env = templates()
    panel = env.get_template("_case.html.j2")
    weighed = findings_section.by_weight(findings_section.own_findings(edition), FINDING_ROWS)
    lines = enumerate((line for group in weighed for line in group.lines), 1)
    values |= {
        "assets": assets(),
        "hatch": Markup(HATCH),
        "render": table.html,
        "case_rows": listings.cases.case_rows(values["workloads"]),
        **_headline_chart(edition, values),
        "rooflines": _rooflines(edition, cells),
        "lineages": versions.lineages(edition),
        "lineage_chart": versions.chart,
        "legend": legend(strip for work in values["workloads"] for strip in work.strips),
        "broken_more": [line for case in values["broken_cases"][BROKEN_CARDS:] for line in case.lines],
        "weighed": weighed,
        "finding_anchors": {key: f"finding-{place}" for place, line in lines for key in line.keys},
        "trust_rows": edition.trust[:TRUST_ROWS],
        "tallies": first_screen.tallies(edition),
        "index": Markup(index),
        "blocks": [Markup(block) for block in blocks],
    }
    values["panels"] = {case.anchor: Markup(panel.render(values | {"case": case})) for case in values["cases"]}
    return env.get_template("page.html.j2").render(values)


def _headline_strips(edition: Edition, values: dict[str, Any]) -> tuple[strips.Strip, ...]:
    """The strips of the headline's run and workload, else of the first run that has any.

    Without a headline, the workload is that of its cases that ran, else that of the first concern.
    """
    drawn = [strip for work in values["workloads"] for strip in work.strips if not strip.row.ceiling]
    heads = [(head.run.run, head.fast.workload) for head in values["headlines"]]
    leading = (edition.headline or (), [concern.subject for concern in values["concerns"][:1]])
    named = ({strip.row.workload for strip in drawn if strip.row.case in cases} for cases in leading)
    works = {workload for _, workload in heads} or next(filter(None, named), set())

    def order(strip: strips.Strip) -> tuple[int, bool]:
        own = (strip.run.run, strip.row.workload)
        return heads.index(own) if own in heads else len(heads), strip.row.workload not in works

    chosen = min(drawn, key=order, default=None)
    return strips.of_run(edition, chosen.run.run, chosen.row.workload) if chosen else ()


def breakable(text: str) -> Markup:
    """The text as HTML in which long names may break after dots, underscores and opening brackets."""
    parts = re.split(r"(\S{25,})", _finalize(text))
    return Markup("").join(
        Markup("<wbr>").join(re.split(r"(?<=[._(])(?=\w)", part)) if long else escape(part)
        for part, long in zip(parts, itertools.cycle((False, True)))
    )


def dated(text: str) -> Markup:
    """The text as HTML in which no line breaks inside a date."""
    return Markup(re.sub(r"\d{4}-\d\d-\d\d", r'<span class="date">\g<0></span>', str(escape(_finalize(text)))))


def _headline_chart(edition: Edition, values: dict[str, Any]) -> dict[str, Any]:
    """The chart of the first screen; `bars`: its shortest and longest strip if it has no headline."""
    drawn = _headline_strips(edition, values)
    title = next(
        (work.title for work in values["workloads"] for s in work.strips if drawn and s.row is drawn[0].row), ""
    )
    first = next(iter(values["headlines"]), None)
    other = bool(drawn) and (first is None or first.run.run != drawn[0].run.run)
    ends = (drawn[0].row, drawn[-1].row) if other and len(drawn) > 1 else None
    comparable = ends and not ends[0].bare and refusal(ends[0].conditions, ends[1].conditions) is None
    return {
        "headline_chart": strips.headline_chart(edition, drawn, title, values["anchors"]),
        "headline_elsewhere": other,
        "bars": ends if comparable else None,
    }


def _rooflines(edition: Edition, cells: list[CellView]) -> list[Chart]:
    """The roofline of each run that has one."""
    anchors = {cell.row.key: cell.anchor for cell in cells}
    charts = (roofline.chart(edition, run.run, anchors) for run in edition.runs)
    return [chart for chart in charts if chart]
