"""A diff as text for a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from kernelbook.diffs import listings
from kernelbook.diffs.model import Diff
from kernelbook.judge.comparisons import Comparison
from kernelbook.report.table import Table
from kernelbook.text.formatting import visible

#: Largest number of rows of a table in the terminal; --json and --output have all.
MOST_ROWS = 25
KIND_STYLES = {"added": "green", "removed": "red", "replaced": "yellow", "fused": "yellow", "split": "yellow"}


def show(console: Console, diff: Diff) -> None:
    """Print both sides, an overview if there are several ranges, and each comparison."""
    for letter, source in (("A", diff.a), ("B", diff.b)):
        console.print(Text(f"{letter}  {visible(source)}", style="bold"), soft_wrap=True)
    for line in diff.skipped:
        console.print(Text(f"skipped: {visible(line)}", style="yellow"), soft_wrap=True)
    if len(diff.comparisons) > 1:
        console.print()
        _print_table(console, listings.overview(diff))
    for comparison in diff.comparisons:
        _show_comparison(console, comparison)
    for letter, cases in (("A", diff.only_a), ("B", diff.only_b)):
        if cases:
            names = ", ".join(visible(listings.name(case)) for case in cases)
            console.print(Text(f"only in {letter}: {names}"), soft_wrap=True)


def _show_comparison(console: Console, comparison: Comparison) -> None:
    console.print()
    console.print(Text(visible(listings.title(comparison)), style="bold"), soft_wrap=True)
    console.print(Text(f"  {listings.verdict(comparison)}"), soft_wrap=True)
    for sentence in comparison.sentences:
        console.print(Text(f"  {visible(sentence)}"), soft_wrap=True)
    for each in listings.tables(comparison):
        console.print()
        _print_table(console, each)


def _print_table(console: Console, table: Table) -> None:
    rich = RichTable(title=visible(table.caption), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in table.columns:
        rich.add_column(visible(column.title), justify="right" if column.right else "left", overflow="fold")
    for line in table.lines[:MOST_ROWS]:
        cells = [Text(visible(cell.text)) for cell in line.cells]
        rich.add_row(*cells, style=KIND_STYLES.get(line.cells[0].text, ""))
    console.print(rich)
    if len(table.lines) > MOST_ROWS:
        console.print(Text(f"  and {len(table.lines) - MOST_ROWS} more rows: see --json or --output"))
