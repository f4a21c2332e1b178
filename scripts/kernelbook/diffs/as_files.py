"""A diff as files: index.html, diff.md, diff.json, and its rows as tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from markupsafe import Markup

from kernelbook.diffs import listings
from kernelbook.diffs.as_json import as_json
from kernelbook.diffs.model import Diff
from kernelbook.judge.insight_tables import COMPARISONS, comparison_rows
from kernelbook.judge.insight_tables import table as rows_table
from kernelbook.report import table
from kernelbook.report.styles import compact, page_style
from kernelbook.text import formatting
from kernelbook.text.table_files import write_tables

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
PAGE = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    '<meta http-equiv="Content-Security-Policy" content="{}"><title>{}</title><style>{}</style></head>\n'
    "<body><main>\n{}\n</main></body></html>\n"
)


def write(diff: Diff, folder: Path) -> None:
    """Write the files into `folder`. Raises OSError if it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "diff.json").write_text(json.dumps(as_json(diff), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    (folder / "diff.md").write_text(markdown(diff), encoding="utf-8")
    (folder / "index.html").write_text(html(diff), encoding="utf-8")
    write_tables({"comparisons": comparisons_table(diff)}, folder / "tables")


def comparisons_table(diff: Diff) -> pa.Table:
    """The rows of all comparisons, with the columns of an edition's table `comparisons`."""
    rows = (row for comparison in diff.comparisons for row in comparison_rows(comparison))
    return rows_table(rows, COMPARISONS)


def markdown(diff: Diff) -> str:
    """The diff as Markdown."""
    lines = [f"# {formatting.markdown(_title(diff))}", ""]
    lines += [f"- {letter}: {formatting.code(source, 400)}" for letter, source in (("A", diff.a), ("B", diff.b))]
    lines += [f"- {formatting.markdown(line)}" for line in _notes(diff)]
    return "\n".join(lines) + "\n\n" + sections(diff)


def sections(diff: Diff) -> str:
    """An overview of several comparisons, and each comparison, as Markdown."""
    lines: list[str] = []
    if len(diff.comparisons) > 1:
        lines += [table.markdown(listings.overview(diff)), ""]
    for comparison in diff.comparisons:
        lines += [f"## {formatting.markdown(listings.title(comparison))}", ""]
        lines += [formatting.markdown(f"{listings.verdict(comparison)}."), ""]
        lines += [f"- {formatting.markdown(sentence)}" for sentence in comparison.sentences]
        for each in listings.tables(comparison):
            lines += ["", f"**{formatting.markdown(each.caption)}**", "", table.markdown(each)]
        lines.append("")
    return "\n".join(lines)


def html(diff: Diff) -> str:
    """The diff as one page without scripts and links to other files."""
    parts = [Markup("<h1>{}</h1>").format(formatting.visible(_title(diff)))]
    sides = (f"A: {diff.a}", f"B: {diff.b}", *_notes(diff))
    parts += [Markup("<p>{}</p>").format(formatting.visible(line)) for line in sides]
    if len(diff.comparisons) > 1:
        parts.append(table.html(listings.overview(diff)))
    for comparison in diff.comparisons:
        parts.append(Markup("<h2>{}</h2>").format(formatting.visible(listings.title(comparison))))
        lines = (f"{listings.verdict(comparison)}.", *comparison.sentences)
        parts += [Markup("<p>{}</p>").format(formatting.visible(line)) for line in lines]
        parts += [table.html(each) for each in listings.tables(comparison)]
    body = Markup("\n").join(parts)
    return str(PAGE.format(POLICY, formatting.visible(_title(diff)), Markup(compact(page_style())), body))


def _title(diff: Diff) -> str:
    return f"{Path(diff.b).name or diff.b} against {Path(diff.a).name or diff.a}"


def _notes(diff: Diff) -> list[str]:
    """Files that could not be read, and cases without a counterpart."""
    notes = [f"skipped: {line}" for line in diff.skipped]
    for letter, cases in (("A", diff.only_a), ("B", diff.only_b)):
        notes += [f"only in {letter}: {', '.join(map(listings.name, cases))}"] if cases else []
    return notes
