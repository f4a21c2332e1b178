"""Every page of the site as (path, text); nothing is written."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelbook.charts.drawing import with_theme
from kernelbook.charts.lines import number
from kernelbook.history.site.feed import atom_feed, latest_json
from kernelbook.history.site.news import advice, failures, lasting, merged, urgent, when, worst_first
from kernelbook.history.site.trends import SPARK_NIGHTS, trends
from kernelbook.history.site.views import Book, Night, signed
from kernelbook.sources.fingerprint import files_digest
from kernelbook.text.formatting import csv_cell, unbroken

TEMPLATES = Path(__file__).parent / "templates"
PACKAGE = Path(__file__).parents[2]
MADE_WITH = ("charts", "history", "text")
RECENT = 12


@dataclass(frozen=True)
class Site:
    """Values that all pages share.

    url: address of the site, for the feed; None makes its links relative. docs: address of the docs, or their path from
    the first page.
    """

    title: str
    published: str  # UTC, RFC 3339
    url: str | None = None
    damaged: int = 0
    docs: str | None = None

    def docs_from(self, up: str) -> str | None:
        """The link to the docs from a page whose way to the first page is `up`."""
        return self.docs if self.docs is None or "://" in self.docs else up + self.docs


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=False,
        auto_reload=False,
    )
    environment.filters |= {"number": number, "signed": signed}
    environment.filters |= {"merged": merged, "when": when, "advice": advice, "failures": failures}
    environment.filters["unbroken"] = unbroken
    return environment


def pages(
    book: Book, site: Site, reports: Collection[str], before: Path | None = None
) -> Iterator[tuple[str, str | None]]:
    """(path, text) of all files of the site without the reports; the text is None if that in `before` is up to date.

    reports: nights whose report is published beside their page. before: the published version. A page states a digest
    of all that it was made from, so that it is rendered again only if that changed.
    """
    nights = list(book.nights())
    all_trends = sorted(trends(book), key=lambda trend: (trend.line, trend.case))

    def page(template: str, up: str, **values: object) -> str:
        shared = {"site": site, "book": book, "rules": book.rules, "reports": reports, "up": up, "inputs": ""}
        return _environment().get_template(template).render(shared | values)

    def renewed(path: str, template: str, inputs: object, **values: object) -> str | None:
        """The page two folders below the first one; None if it states these inputs already."""
        shared = (_code(), site.title, site.docs, book.rules)
        digest = hashlib.sha256(repr((shared, inputs)).encode()).hexdigest()[:16]
        if before and _states(before / path, digest):
            return None
        return page(template, "../../", inputs=digest, **values)

    pressing = urgent(book, RECENT)
    others = [event for event in book.events if event not in pressing]
    recent = [event for group in merged(others)[:RECENT] for event in group]
    lists = {"pressing": pressing, "recent": recent, "lasting": lasting(book)}
    yield "index.html", page("index.html", "", nights=nights, **lists)
    for at, night in enumerate(nights):
        older, newer = nights[at + 1] if at + 1 < len(nights) else None, nights[at - 1] if at else None
        events = [event for group in worst_first(book, merged(night.events)) for event in group]
        inputs = [(event, book.tone(event), book.event_link(event), book.versions(event)) for event in events]
        around = (older and older.edition, newer and newer.edition, night.edition in reports)
        values = {"night": night, "older": older, "newer": newer, "events": events}
        text = renewed(night.link, "night.html", (night, inputs, around), **values)
        yield night.link, text
        table = f"nights/{night.edition}/cases.csv"
        yield table, None if before and text is None and (before / table).is_file() else cases_csv(night)
        if not newer:
            yield "latest.html", page("night.html", "", **values)
    lines = [(line, list(group)) for line, group in groupby(all_trends, key=lambda trend: trend.line)]
    yield "trends/index.html", page("trends.html", "../", lines=lines, spark_nights=SPARK_NIGHTS)
    for trend in all_trends:
        yield trend.link, renewed(trend.link, "trend.html", trend.inputs, trend=trend)
    yield "style.css", with_theme((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    yield "feed.xml", atom_feed(book, site.title, site.published, site.url)
    yield "latest.json", latest_json(nights[0] if nights else None, reports)
    if not nights:
        yield "latest.html", page("index.html", "", nights=[], **lists)


@cache
def _code() -> str:
    """A digest of the code and templates that pages are made with."""
    files = [path for name in MADE_WITH for path in (PACKAGE / name).rglob("*.*") if path.suffix != ".pyc"]
    return files_digest(files, PACKAGE)


def _states(page: Path, digest: str) -> bool:
    """Whether a page exists that was made from these inputs; base.html states them in its second line."""
    try:
        with page.open("rb") as file:
            return f'data-inputs="{digest}"'.encode() in file.read(200)
    except OSError:
        return False


def cases_csv(night: Night) -> str:
    """The cases of one night as CSV; missing values are empty, and text cannot become a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", "case", "status", "reason", "forward_time_us", "change", "device_time_us", "kernels"])
    for run in night.runs:
        for row in run.rows:
            figures = [row.forward_time_us, row.change, row.device_time_us]
            cells = [f"{figure:.6g}" if math.isfinite(figure) else "" for figure in figures]
            texts = [csv_cell(text) for text in (run.run, row.case, row.status, row.reason)]
            writer.writerow([*texts, *cells, row.kernels])
    return out.getvalue()
