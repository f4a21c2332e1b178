"""The report as Markdown: `summary.md` for a comment, `report.md` for a repository, and `details.md` of each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import jinja2

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import Chart
from kernelbook.charts.svg_file import svg_file
from kernelbook.edition.model import Edition
from kernelbook.kernel_names import built_for
from kernelbook.report import case_views, listings, table
from kernelbook.report.styles import file_style
from kernelbook.report.templating import context, environment
from kernelbook.text import formatting
from kernelbook.text.formatting import Markdown, slug

#: Largest number of rows of a chart in a file.
FIGURE_ROWS = 60
#: Most characters of summary.md; and the numbers of (rows, concerns) that are tried until it fits.
SUMMARY_LIMIT = 10_000
SUMMARY_SIZES = ((60, 5), (30, 5), (15, 5), (8, 3), (0, 1), (0, 0))


@cache
def templates() -> jinja2.Environment:
    """The environment of the Markdown templates, each of which is compiled once in a process."""
    return environment(
        formatting.markdown, autoescape=False, filters={"code": formatting.code, "block": formatting.block}
    )


def render(edition: Edition, created_utc: str, output: Path) -> dict[str, str]:
    """Name of each file -> its text; everything but `Markdown` is escaped. Charts are written to `output`/figures."""
    values = context(edition, created_utc)
    anchors, folder = values["anchors"], output / "figures"
    case_rows = listings.cases.case_rows(values["workloads"])
    values |= {
        "figures": {work.name: _figures(work, anchors, folder) for work in values["workloads"]},
        "kernels_of": partial(_kernels, edition),
        "render": table.markdown,
        "short_rows": [row for row in case_rows if not (row.each and row.each.run.took(row.each.row))],
        "foremost": _foremost,
    }

    def written(name: str, **more: int) -> str:
        return templates().get_template(f"{name}.j2").render(values | more).rstrip() + "\n"

    tried = (written("summary.md", rows=rows, lines=lines) for rows, lines in SUMMARY_SIZES)
    summary = next(text for text in tried if len(text) <= SUMMARY_LIMIT)
    return {"summary.md": summary} | {name: written(name) for name in ("report.md", "details.md")}


def _foremost(rows: Sequence[listings.cases.CaseRow], limit: int) -> list[listings.cases.CaseRow]:
    """At most `limit` rows in their order: first those that broke or failed, then each case on its first run."""
    seen: set[str] = set()

    def rank(row: listings.cases.CaseRow) -> int:
        first = row.case.anchor not in seen
        seen.add(row.case.anchor)
        return 0 if row.bad else 1 if first else 2

    ranks = [(rank(row), place) for place, row in enumerate(rows)]
    return [rows[place] for place in sorted(place for _, place in sorted(ranks)[:limit])]


def _kernels(edition: Edition, row: CaseFacts) -> table.Table:
    costs = edition.kernel_costs.get(row.key, {})
    capability = next((run.capability for run in edition.runs if run.run == row.run), None)
    return listings.case.kernels(
        row, lambda activity: costs.get(activity.position), lambda activity: built_for(activity.decoded, capability)
    )


def _figures(work: case_views.WorkloadView, anchors: dict[str, str], folder: Path) -> list[tuple[str, Markdown]]:
    """(title, path) of each chart of a workload, written to `folder`. Paths are made of slugs and need no escaping."""
    figures = []
    folder.mkdir(parents=True, exist_ok=True)
    for chart in work.charts(anchors):
        short = _shortened(chart)
        more = "" if short == chart else f", {len(short.panels)} of {len(chart.panels)} rows; the page has them all"
        file = folder / f"{slug(chart.name)}.svg"
        file.write_text(svg_file(short, file_style()), encoding="utf-8")
        figures.append((f"{chart.title}{more}", Markdown(f"{folder.name}/{file.name}")))
    return figures


def _shortened(chart: Chart) -> Chart:
    """The chart if it fits a file, else as many rows of its first run as fit."""
    if len(chart.panels) <= FIGURE_ROWS:
        return chart
    first = tuple(panel for panel in chart.panels if panel.group == chart.panels[0].group)
    return replace(chart, panels=first[:FIGURE_ROWS])
