"""`index.html`: one file, no network, scripts allowed by their hash alone."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from kernelbook import units
from kernelbook.report import ceilings, names, page_data, story, sweeps, text, trust, views
from kernelbook.report.also import also
from kernelbook.report.families import FAMILIES, family_of
from kernelbook.report.model import Edition
from kernelbook.report.traces import Links

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
BROKEN_CARDS = 12
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
        return text.NOT_AVAILABLE
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "duration": text.duration,
        "ratio": text.ratio,
        "share": text.share,
        "size": text.size,
        "number": text.number,
        **trust.CELLS,
        "clip": text.clip,
        "counts": text.counts,
        "one_time": text.one_time,
        "plural": text.plural,
        "error": units.error,
        "cost": text.cost,
        "lead": text.lead,
        "listed": text.listed,
        "inside": story.inside,
        "percent": lambda part: f"{part * 100:.3f}".rstrip("0").rstrip(".") + "%",
    }
    return env


def render(edition: Edition, created_utc: str, traces: Links) -> str:
    """The whole page."""
    arranged = views.workloads(edition)
    cells = [cell for workload in arranged for case in workload.cases for cell in case.present]
    index, blocks = page_data.build(edition, {cell.number: cell.anchor for cell in cells}, traces)
    verdict = story.verdict(edition)
    broken = views.guess_lines(verdict.broken)
    own = story.own_findings(edition)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            edition=edition,
            created_utc=created_utc,
            assets=assets(),
            workloads=arranged,
            cases=[case for workload in arranged for case in workload.cases],
            anchors={case.spec.case: case.anchor for workload in arranged for case in workload.cases},
            verdict=verdict,
            broken=views.seen(edition, broken[:BROKEN_CARDS]),
            broken_more=broken[BROKEN_CARDS:],
            subject=story.subject(edition, created_utc),
            headline_names=[story.short_name(case) for case in edition.headline],
            headlines=story.headlines(edition),
            asks_headline=story.asks_headline(edition),
            headline_refusals=story.headline_refusals(edition),
            findings=story.costliest(own),
            also=partial(also, findings=own),
            weighed=story.by_weight(own, FINDING_ROWS),
            trust_rows=edition.trust[:TRUST_ROWS],
            warnings=partial(story.warnings, edition),
            trust_said=trust.said(edition.trust),
            ceiling_lines=partial(ceilings.lines, edition.ceilings, edition.trust),
            longest=story.longest(edition),
            family=lambda act: family_of(act.category, act.family),
            shown=names.of_activity,
            sweep_chart=lambda sweep: Markup(sweeps.chart(sweep, sweeps.PAGE)),
            tallies=story.tallies(edition),
            environment_rows=views.environment_rows(edition.runs),
            troubled=story.troubles(edition),
            lost=story.lost(edition),
            fast=edition.headline[1],
            slow=edition.headline[0],
            index=Markup(index),
            blocks=[Markup(block) for block in blocks],
        )
    )
