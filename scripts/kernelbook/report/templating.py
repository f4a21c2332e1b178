"""The Jinja environment and the values of the templates that the page and report.md share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from kernelbook.edition.model import Edition
from kernelbook.kernel_names import labels
from kernelbook.report import (
    case_views,
    counters_section,
    findings_section,
    first_screen,
    guess_strips,
    listings,
    openings,
    phrases,
    trust_section,
)
from kernelbook.report.families import family_of
from kernelbook.text import formatting

TEMPLATES = Path(__file__).parent / "templates"
#: Largest number of cases with a broken guess that are drawn.
BROKEN_CARDS = 12
FILTERS = {
    "duration": formatting.duration,
    "ratio": formatting.ratio,
    "share": formatting.share,
    "size": formatting.size,
    "clip": formatting.clip,
    "counts": phrases.counts,
    "plural": formatting.plural,
    "exact": formatting.exact,
    "cost": phrases.cost,
    "lead": formatting.lead,
    "listed": formatting.listed,
    "inside": phrases.inside,
    "on_runs": phrases.on_runs,
    "unbroken": formatting.unbroken,
    "ratios": phrases.ratios,
}


def environment(
    finalize: Callable[[Any], Any], autoescape: bool, filters: Mapping[str, Callable[..., Any]]
) -> jinja2.Environment:
    """A Jinja environment that applies `finalize` to every printed value; `filters` extend the common ones."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {**FILTERS, **filters}
    return env


def context(edition: Edition, created_utc: str) -> dict[str, Any]:
    """The values that both templates use."""
    arranged = case_views.workloads(edition)
    verdict = first_screen.verdict(edition)
    broken = case_views.guess_lines(verdict.broken)
    broken_cases = guess_strips.broken_cases(edition, broken)
    folder = openings.folder_of(edition)
    trust = (trust_section.of_traces if folder else trust_section.statements)(edition.trust)
    return {
        "edition": edition,
        "created_utc": created_utc,
        "workloads": arranged,
        "folder": folder,
        "words": edition.words[1:] if openings.job_lead(edition) else edition.words,
        "cases": [case for workload in arranged for case in workload.cases],
        "verdict": verdict,
        "broken": broken,
        "broken_cases": broken_cases,
        "broken_limit": BROKEN_CARDS,
        "differences": guess_strips.differences(broken_cases),
        "subject": first_screen.subject(edition, created_utc),
        "has_headline_case": first_screen.has_headline_case(edition),
        "headlines": first_screen.headlines(edition),
        "headline_names": [edition.label_of(case) for case in edition.headline or ()],
        "cpu_runs": openings.cpu_runs(edition),
        "headline_refusals": first_screen.headline_refusals(edition),
        "slow": edition.headline and edition.headline[0],
        "fast": edition.headline and edition.headline[1],
        "concerns": first_screen.concerns(edition),
        "concerns_title": first_screen.concerns_title(edition),
        "more_broken": first_screen.more_broken(edition),
        "warnings": partial(findings_section.warnings, edition),
        "trust_known": any(statement.has_figures for statement in trust),
        "trust_statements": (*trust, *counters_section.statements(edition.counters)),
        "ceiling_lines": partial(trust_section.ceiling_lines, edition.ceilings, edition.trust),
        "environment_rows": case_views.environment_rows(edition.runs),
        "troubled": first_screen.troubles(edition),
        "lost": first_screen.lost(edition),
        "label": labels.activity_label,
        "listings": listings,
        "anchors": {case.spec.case: case.anchor for workload in arranged for case in workload.cases},
        "family": lambda act: family_of(act.category, act.family),
    }
