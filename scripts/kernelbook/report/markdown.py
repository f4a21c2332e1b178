"""`report.md`: the page's twin for a repository or a pull request, with static figures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from kernelbook import units
from kernelbook.report import ceilings, figures, names, story, text, trust, views
from kernelbook.report.also import also
from kernelbook.report.families import family_of
from kernelbook.report.model import CaseRun, Edition
from kernelbook.report.page import HERE
from kernelbook.report.sweeps import FILE, chart
from kernelbook.report.text import Markdown, slug

FIGURE_ROWS = 60
BROKEN_SEEN = 12


def environment() -> jinja2.Environment:
    """Every value that is not `Markdown` already is escaped as it is printed."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=False,
        finalize=text.markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "duration": text.duration,
        "ratio": text.ratio,
        "share": text.share,
        "clip": text.clip,
        "counts": text.counts,
        "one_time": text.one_time,
        "plural": text.plural,
        "code": text.code,
        "number": text.number,
        "size": text.size,
        "error": units.error,
        "cost": text.cost,
        "lead": text.lead,
        "listed": text.listed,
        "inside": story.inside,
        **trust.CELLS,
        "raw": Markdown,
    }
    return env


def render(edition: Edition, created_utc: str, output: Path) -> str:
    """The report's text; its figures are written into `output`/figures."""
    arranged = views.workloads(edition)
    verdict = story.verdict(edition)
    broken = views.guess_lines(verdict.broken)
    context: dict[str, Any] = {
        "edition": edition,
        "created_utc": created_utc,
        "workloads": arranged,
        "cases": [case for workload in arranged for case in workload.cases],
        "verdict": verdict,
        "broken": broken,
        "broken_seen": views.seen(edition, broken[:BROKEN_SEEN]),
        "headlines": story.headlines(edition),
        "asks_headline": story.asks_headline(edition),
        "subject": story.subject(edition, created_utc),
        "headline_names": [story.short_name(case) for case in edition.headline],
        "headline_refusals": story.headline_refusals(edition),
        "findings": story.costliest(story.own_findings(edition)),
        "longest": story.longest(edition),
        "also": partial(also, findings=story.own_findings(edition)),
        "environment_rows": views.environment_rows(edition.runs),
        "troubled": story.troubles(edition),
        "lost": story.lost(edition),
        "warnings": partial(story.warnings, edition),
        "trust_said": trust.said(edition.trust),
        "ceiling_lines": partial(ceilings.lines, edition.ceilings, edition.trust),
        "fast": edition.headline[1],
        "slow": edition.headline[0],
        "figures": {work.name: _figures(work, output / "figures") for work in arranged},
        "shown": names.of_activity,
        "family": lambda act: family_of(act.category, act.family),
        "total": _total,
    }
    return environment().get_template("report.md.j2").render(context)


def _total(row: CaseRun) -> float:
    return sum(act.usual_us for act in row.activities)


def _figures(work: views.WorkloadView, folder: Path) -> list[tuple[str, Markdown]]:
    """(title, path) of each figure of a workload. Paths are made of slugs and need no escaping."""
    made = []
    if work.figure:
        strips = _fewer(work.figure.strips)
        svg = figures.strips_svg(replace(work.figure, strips=strips))
        path = figures.write(folder, f"strips-{slug(work.name)}", svg)
        made.append((f"Kernel strips of {work.name}{_part(strips, work.figure.strips)}", Markdown(path)))
    if work.spreads:
        spreads = _fewer(work.spreads)
        path = figures.write(folder, f"forward-times-{slug(work.name)}", figures.spreads_svg(spreads))
        title = f"Forward times of {work.name}, one by one{_part(spreads, work.spreads)}"
        made.append((title, Markdown(path)))
    for sweep in work.sweeps:
        path = figures.write(folder, f"sweep-{slug(sweep.of)}-{slug(sweep.parameter)}", chart(sweep, FILE))
        made.append((f"{sweep.of} over {sweep.parameter}", Markdown(path)))
    return made


def _fewer(rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """What fits a static figure: all rows, or those of the first run, or as many of them as fit."""
    if len(rows) <= FIGURE_ROWS:
        return rows
    return tuple(row for row in rows if row.run == rows[0].run)[:FIGURE_ROWS]


def _part(shown: tuple[Any, ...], rows: tuple[Any, ...]) -> str:
    return "" if len(shown) == len(rows) else f", {len(shown)} of {len(rows)} rows; the page has them all"
