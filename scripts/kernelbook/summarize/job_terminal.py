"""Prints a job of several ranks in a terminal: the sentence that comes first, its ranks, its collectives."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelbook.collectives.likeness import WITHIN, fold
from kernelbook.collectives.model import Collective, RankForward
from kernelbook.collectives.remarks import JobReport, typical_forward
from kernelbook.text.formatting import NOT_AVAILABLE, clip, duration, plural, share, visible
from kernelbook.text.units import number_ranges, significant

MOST_ROWS = 20
LONGEST_GROUP = 48
_COLUMNS = {
    "span": "span_us",
    "compute": "compute_us",
    "communication": "communication_us",
    "exposed": "exposed_us",
    "hidden": "hidden_us",
    "waiting": "waiting_us",
    "copies": "copies_us",
    "idle": "idle_us",
    "launch delay": "launch_delay_us",
}


def show_job(console: Console, report: JobReport) -> None:
    """Print a job. Ranks that are alike share a row; of the rows the first 20 are shown."""
    job = report.job
    console.print(Text(visible(report.lead), style="bold"), soft_wrap=True)
    error = f", clocks agree within {duration(job.clock_error_us)}" if job.clock_error_us is not None else ""
    here = plural(len(job.ranks), "rank") + (f" of {job.world_size}" if job.incomplete else "")
    console.print(Text(f"a job of {here}{error}"), soft_wrap=True)
    if report.remarks and not job.refused:
        console.print(Text(f"what to do: {visible(report.remarks[0].remedy)}"), soft_wrap=True)
    for warning in job.warnings:
        console.print(Text(f"warning {warning.code}: {visible(warning.message)}", style="yellow"), soft_wrap=True)
    for remark in report.further:
        console.print(Text(f"{remark.rule}: {visible(remark.text)}"), soft_wrap=True)
    if any(row.span_us for row in job.forwards):
        console.print(_rank_table(report))
    if job.collectives:
        console.print(_collective_table(job.collectives))
    console.print()


def _table(title: str, *columns: str) -> Table:
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=number > 0)
    return table


def _rank_table(report: JobReport) -> Table:
    job = report.job
    what = "medians over the forwards of each" if any(row.index is not None for row in job.forwards) else "whole files"
    typical = [row for rank in job.ranks if (row := typical_forward(job.forwards, rank)) is not None]
    groups = fold((row, None, row.span_us, _times(row)) for row in typical)
    alike = f"; ranks within {share(WITHIN)} of a forward share a row" if len(groups) < len(typical) else ""
    more = f"; the first {MOST_ROWS} rows" if len(groups) > MOST_ROWS else ""
    table = _table(f"Ranks ({what}{alike}{more})", "rank", *_COLUMNS)
    for rows in groups[:MOST_ROWS]:
        times = ([value for row in rows if (value := getattr(row, name)) is not None] for name in _COLUMNS.values())
        table.add_row(number_ranges(row.rank for row in rows), *(duration(_median(own)) for own in times))
    return table


def _times(row: RankForward) -> tuple[float, ...]:
    """What must be alike of two ranks: all times of a forward but the delay of launches, which has another scale."""
    return tuple(getattr(row, name) or 0.0 for title, name in _COLUMNS.items() if title != "launch delay")


def _collective_table(rows: Sequence[Collective]) -> Table:
    """A row for each group, operation and size; medians over the collectives, each with its longest wait."""
    kinds: dict[tuple[str, str, int | None], list[Collective]] = {}
    for row in rows:
        kinds.setdefault((row.operation, row.group, row.bytes), []).append(row)
    longest = sorted(kinds.items(), key=lambda item: -sum(row.duration_us for row in item[1]))
    more = f"; {len(kinds) - MOST_ROWS} more" if len(kinds) > MOST_ROWS else ""
    columns = ("group", "bytes", "kernels", "transfer", "longest wait", "bus GB/s", "of the link")
    table = _table(f"Collectives (medians{more})", "operation", *columns)
    for (operation, group, size), own in longest[:MOST_ROWS]:
        waits: dict[int, float] = {}
        for row in own:
            if row.sequence is not None and row.wait_us is not None:
                waits[row.sequence] = max(waits.get(row.sequence, 0.0), row.wait_us)
        rate = _median([row.bus_gb_s for row in own])
        link = _median([row.link_gb_s for row in own])
        table.add_row(
            operation,
            clip(group, LONGEST_GROUP),
            NOT_AVAILABLE if size is None else f"{size:,}",
            f"{len(own):,}",
            duration(_median([row.transfer_us for row in own])),
            duration(median(waits.values()) if waits else None),
            NOT_AVAILABLE if rate is None else significant(rate),
            NOT_AVAILABLE if rate is None or not link else share(rate / link),
        )
    return table


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None
