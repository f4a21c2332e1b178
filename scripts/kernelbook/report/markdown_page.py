"""`report.md`: the page's twin for a repository or a pull request, with static figures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Edition
from kernelbook.kernel_names import built_for
from kernelbook.report import case_views, figures, listings, table
from kernelbook.report.sweeps import FILE, chart
from kernelbook.report.templating import context, environment
from kernelbook.text import formatting
from kernelbook.text.formatting import Markdown, slug

FIGURE_ROWS = 60


def render(edition: Edition, created_utc: str, output: Path) -> str:
    """The report's text, in which all is escaped that is not `Markdown` already; figures go into `output`/figures."""
    given = context(edition, created_utc)
    given |= {
        "figures": {work.name: _figures(work, output / "figures") for work in given["workloads"]},
        "kernels_of": partial(_kernels, edition),
        "render": table.markdown,
    }
    env = environment(formatting.markdown, autoescape=False, code=formatting.code, block=formatting.block, raw=Markdown)
    return env.get_template("report.md.j2").render(given)


def _kernels(edition: Edition, row: CaseFacts) -> table.Table:
    costs = edition.kernel_costs.get(row.key, {})
    capability = next((run.capability for run in edition.runs if run.run == row.run), None)
    return listings.kernels(
        row, lambda activity: costs.get(activity.position), lambda activity: built_for(activity.decoded, capability)
    )


def _figures(work: case_views.WorkloadView, folder: Path) -> list[tuple[str, Markdown]]:
    """(title, path) of each figure of a workload. Paths are made of slugs and need no escaping."""
    made = []
    if work.figure:
        strips = _fewer(work.figure.strips)
        svg = figures.strips_svg(replace(work.figure, strips=strips))
        path = figures.write(folder, f"strips-{slug(work.name)}", svg)
        made.append((f"Kernel strips of {work.title}{_part(strips, work.figure.strips)}", Markdown(path)))
    if work.spreads:
        spreads = _fewer(work.spreads)
        path = figures.write(folder, f"forward-times-{slug(work.name)}", figures.spreads_svg(spreads))
        title = f"Forward times of {work.title}, one by one{_part(spreads, work.spreads)}"
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
