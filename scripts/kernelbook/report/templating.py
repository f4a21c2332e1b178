"""What the page and its Markdown twin share: one Jinja environment, and what the templates of both are given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from kernelbook.edition.model import Edition
from kernelbook.kernel_names import labels
from kernelbook.report import case_views, ceilings_section, listings, story, trust_section, wording
from kernelbook.report.also import also
from kernelbook.report.families import family_of
from kernelbook.text import formatting, units

TEMPLATES = Path(__file__).parent / "templates"
#: So many broken guesses are shown with what ran instead.
BROKEN_SEEN = 12
FILTERS = {
    "duration": formatting.duration,
    "ratio": formatting.ratio,
    "share": formatting.share,
    "size": formatting.size,
    "clip": formatting.clip,
    "counts": wording.counts,
    "one_time": wording.one_time,
    "plural": formatting.plural,
    "error": units.error,
    "cost": wording.cost,
    "lead": formatting.lead,
    "listed": formatting.listed,
    "inside": story.inside,
}


def environment(finalize: Callable[[Any], Any], autoescape: bool, **filters: Callable[..., Any]) -> jinja2.Environment:
    """Templates in which every value passes `finalize` as it is printed, with these filters beside the common ones."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= FILTERS | filters
    return env


def context(edition: Edition, created_utc: str) -> dict[str, Any]:
    """What both templates are given."""
    arranged = case_views.workloads(edition)
    verdict = story.verdict(edition)
    broken = case_views.guess_lines(verdict.broken)
    own = story.own_findings(edition)
    return {
        "edition": edition,
        "created_utc": created_utc,
        "workloads": arranged,
        "cases": [case for workload in arranged for case in workload.cases],
        "verdict": verdict,
        "broken": broken,
        "broken_seen": case_views.seen(edition, broken[:BROKEN_SEEN]),
        "subject": story.subject(edition, created_utc),
        "asks_headline": story.asks_headline(edition),
        "headlines": story.headlines(edition),
        "headline_names": [edition.label_of(case) for case in edition.headline or ()],
        "headline_refusals": story.headline_refusals(edition),
        "slow": edition.headline and edition.headline[0],
        "fast": edition.headline and edition.headline[1],
        "findings": story.costliest(own),
        "also": partial(also, findings=own),
        "longest": story.longest(edition),
        "warnings": partial(story.warnings, edition),
        "trust_said": trust_section.said(edition.trust),
        "ceiling_lines": partial(ceilings_section.lines, edition.ceilings, edition.trust),
        "environment_rows": case_views.environment_rows(edition.runs),
        "troubled": story.troubles(edition),
        "lost": story.lost(edition),
        "shown": labels.activity_label,
        "listings": listings,
        "anchors": {case.spec.case: case.anchor for workload in arranged for case in workload.cases},
        "family": lambda act: family_of(act.category, act.family),
    }
