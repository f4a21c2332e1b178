"""Prints summaries as tables in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelbook.collectives.likeness import WITHIN, fold
from kernelbook.collectives.model import Collective, RankForward
from kernelbook.collectives.remarks import JobReport, typical_forward
from kernelbook.kernel_names.labels import labels
from kernelbook.kernel_names.top_kernels import TopRow
from kernelbook.summarize.summary import Summary
from kernelbook.text.formatting import NOT_AVAILABLE, clip, duration, number_ranges, plural, share, significant, visible
from kernelbook.trace.annotations import AnnotationSummary
from kernelbook.trace.types import COUNTS

TOP = 10
MOST_ANNOTATIONS = 40
_NAME_WIDTH = 72
_LEAST_NAME_WIDTH = 24
_NARROW = 110
_INFERRED = " (inferred)"  # some of the work was launched by another thread
_VARIES = "varies"
_WIDTH_WITHOUT_TERMINAL = 160
_LEAST_WIDTH = 80


class _Output(Console):
    """A console that leaves a closed pipe to `kernelbook.command`, which exits with 0; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def output_console() -> Console:
    """Standard output; wide and without colours if it is not a terminal. Brackets and colons in names stay text.

    In a terminal narrower than 80 columns lines break, because columns that fit would cut the figures.
    """
    terminal = shutil.get_terminal_size().columns
    width = max(terminal, _LEAST_WIDTH) if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    no_color = None if sys.stdout.isatty() else True
    return _Output(width=width, highlight=False, markup=False, emoji=False, no_color=no_color)


def show(console: Console, summary: Summary) -> None:
    """Print the totals, warnings, notes, annotations, top kernels and top ops of one trace."""
    console.print(Text(visible(summary.source), style="bold"), soft_wrap=True)
    facts = [(summary.device and visible(summary.device)) or "no device named"]
    facts += [f"rank {summary.rank}"] if summary.rank is not None else []
    facts += ["whole file"] if summary.annotation is not None else []
    console.print(Text(", ".join(facts) + ": " + _totals(summary.totals)), soft_wrap=True)
    for warning in summary.warnings:
        console.print(Text(f"warning {warning.code}: {visible(warning.message)}", style="yellow"), soft_wrap=True)
    for note in summary.notes:
        console.print(Text(f"note {note.code}: {visible(note.message)}"), soft_wrap=True)
    if summary.annotations:
        console.print(_annotation_table(summary, console.width))
    chosen = f"the ranges {visible(summary.annotation or '')}"
    for kernels, ops, where in (
        (summary.range_kernels, summary.range_ops, chosen),
        (summary.kernels, summary.ops, "the whole file"),
    ):
        if kernels:
            console.print(_kernel_table(kernels, where, console.width))
        if ops:
            console.print(_op_table(ops, where, console.width))
    console.print()


def _totals(totals: dict[str, Any]) -> str:
    if totals["kernels"] is None:
        return f"device figures {NOT_AVAILABLE}"
    one = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset", "launches": "launch"}
    counts = ", ".join(plural(totals[name], one[name], name) for name in COUNTS)
    lost = f", {totals['unattributed']:,} unattributed" if totals["unattributed"] else ""
    times = f"device time {duration(totals['device_time_us'])}, busy {duration(totals['device_busy_us'])}"
    doubt = f", {duration(totals['implausible_us'])} of it implausible" if totals["implausible_us"] else ""
    return f"{counts}{lost}; {times}{doubt}"


def _table(title: str, width: int, first: str, *numbers: str) -> Table:
    """A table whose first column holds names; in a narrow terminal the headings take two lines."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(first, overflow="ellipsis", no_wrap=True, min_width=_LEAST_NAME_WIDTH)
    for name in numbers:
        table.add_column(name.replace(" ", "\n") if width < _NARROW else name, justify="right", no_wrap=True)
    return table


def _room(width: int) -> int:
    """Longest name, in characters."""
    return min(_NAME_WIDTH, max(_LEAST_NAME_WIDTH, width // 3))


def _name(value: str, width: int, note: str = "") -> Text:
    return Text(clip(value, _room(width) - len(note.partition("\n")[0])) + note)


def _annotation_table(summary: Summary, width: int) -> Table:
    """In a narrow terminal, the counts share a column."""
    annotations = summary.annotations
    left_out = len(annotations) - MOST_ANNOTATIONS
    more = f"; {left_out:,} more are in --json" if left_out > 0 else ""
    where = "the whole file" if summary.annotation is None else f"the name {visible(summary.annotation)}"
    title = f"Annotations of {where} (per outermost range: counts, and medians of times{more})"
    counts = ["/ ".join(COUNTS)] if width < _NARROW else COUNTS
    times = ("CPU time", "device time", "busy share", "launch delay")
    table = _table(title, width, "annotation", "ranges", *counts, *times)
    for each in annotations[:MOST_ANNOTATIONS]:
        spans = [_span(each.counts[column]) for column in COUNTS]
        table.add_row(
            _group(each, width),
            f"{each.ranges:,}",
            *(["/".join(spans)] if width < _NARROW else spans),
            *([_VARIES] * 2 if each.kind is None else map(duration, (each.cpu_time_us, each.device_time_us))),
            share(each.busy_share) if each.busy_share is not None else NOT_AVAILABLE,
            _VARIES if each.kind is None else duration(each.launch_delay_us),
        )
    return table


def _group(each: AnnotationSummary, width: int) -> Text:
    """The name and the kind of work, if there are several; the labels are on a line of their own."""
    which = f" [kind {each.kind + 1} of {each.kinds}]" if each.kind is not None else f" [rarer of {each.kinds} kinds]"
    nested = f" [{each.nested:,} more inside]" if each.nested else ""
    note = (which if each.kinds > 1 else "") + nested + (_INFERRED if each.inferred else "")
    labels = clip("; ".join(each.labels), _room(width) - 2)
    return _name(each.annotation, width, note + (f"\n  {labels}" if labels else ""))


def _span(counts: tuple[int, int] | None) -> str:
    if counts is None:
        return NOT_AVAILABLE
    low, high = counts
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _kernel_table(kernels: Sequence[dict[str, Any]], where: str, width: int) -> Table:
    title = _top("kernels, memcpys, memsets", len(kernels), where)
    total_us = sum(row["total_us"] for row in kernels)
    table = _table(title, width, "name", "count", "total", "share", "median", "max")
    short_names = labels([row["name"] for row in kernels[:TOP]], _room(width))
    for label, row in zip(short_names, kernels[:TOP], strict=True):
        part = row["total_us"] / total_us if total_us else 0.0
        times = (duration(row[name]) for name in ("median_us", "max_us"))
        table.add_row(Text(label), f"{row['count']:,}", duration(row["total_us"]), share(part), *times)
    return table


def top_table(what: str, rows: Sequence[TopRow], total_us: float, limit: int | None, width: int) -> Table:
    """Names or families over all traces; `total_us` is what shares are of."""
    count = len(rows) if limit is None else min(limit, len(rows))
    title = f"Top {count} of {len(rows):,} {what} of all files"
    table = _table(title, width, "name", "family", "count", "total", "share", "max", "files")
    short_names = labels([row.name for row in rows[:count]], _room(width))
    for label, row in zip(short_names, rows[:count], strict=True):
        part = share(row.total_us / total_us if total_us else 0.0)
        family = "" if row.family == row.name else row.family
        table.add_row(
            Text(label), family, f"{row.count:,}", duration(row.total_us), part, duration(row.max_us), f"{row.files:,}"
        )
    return table


def file_table(summaries: Sequence[Summary], limit: int | None, width: int) -> Table:
    """A row for each trace, by device time; those without any come last."""
    rows = sorted(summaries, key=lambda each: -(each.totals["device_time_us"] or -1.0))
    count = len(rows) if limit is None else min(limit, len(rows))
    folder = _common_folder([each.source for each in rows])
    below = f" below {visible(folder)}" if folder else ""
    title = f"{count} of {plural(len(rows), 'file')}{below}"
    table = _table(title, width, "file", "rank", "kernels", "device time", "device")
    for each in rows[:count]:
        kernels = NOT_AVAILABLE if each.totals["kernels"] is None else f"{each.totals['kernels']:,}"
        rank = "" if each.rank is None else str(each.rank)
        device = clip(each.device or NOT_AVAILABLE, 32)
        table.add_row(
            _name(each.source[len(folder) :].lstrip("/"), width),
            rank,
            kernels,
            duration(each.totals["device_time_us"]),
            Text(device),
        )
    return table


def _common_folder(files: Sequence[str]) -> str:
    """The innermost folder that holds all files; empty if the paths have none in common."""
    folders = [os.path.dirname(file) for file in files]
    return os.path.commonpath(folders) if len({os.path.isabs(folder) for folder in folders}) == 1 else ""


def _op_table(ops: Sequence[dict[str, Any]], where: str, width: int) -> Table:
    headings = ("count", "CPU time", "self CPU", "device time", "self device", "kernels")
    table = _table(_top("ops", len(ops), where), width, "op", *headings)
    for row in ops[:TOP]:
        columns = ("cpu_time_us", "self_cpu_time_us", "device_time_us", "self_device_time_us")
        kernels = NOT_AVAILABLE if row["kernels"] is None else f"{row['kernels']:,}"
        table.add_row(
            _name(row["name"], width), f"{row['count']:,}", *(duration(row[name]) for name in columns), kernels
        )
    return table


def _top(what: str, count: int, where: str) -> str:
    return f"Top {min(TOP, count)} of {count:,} {what} of {where}"


# --- jobs ------------------------------------------------------------------------------------------------------------


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
    """Print a job. Similar ranks share a row; the first 20 rows are printed."""
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


def _job_table(title: str, *columns: str) -> Table:
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
    table = _job_table(f"Ranks ({what}{alike}{more})", "rank", *_COLUMNS)
    for rows in groups[:MOST_ROWS]:
        times = ([value for row in rows if (value := getattr(row, name)) is not None] for name in _COLUMNS.values())
        table.add_row(number_ranges(row.rank for row in rows), *(duration(_median(own)) for own in times))
    return table


def _times(row: RankForward) -> tuple[float, ...]:
    """The times in which similar ranks must agree: all but the launch delay, which has another scale."""
    return tuple(getattr(row, name) or 0.0 for title, name in _COLUMNS.items() if title != "launch delay")


def _collective_table(rows: Sequence[Collective]) -> Table:
    """A row for each group, operation and size; medians over the collectives, each with its longest wait."""
    kinds: dict[tuple[str, str, int | None], list[Collective]] = {}
    for row in rows:
        kinds.setdefault((row.operation, row.group, row.bytes), []).append(row)
    longest = sorted(kinds.items(), key=lambda item: -sum(row.duration_us for row in item[1]))
    more = f"; {len(kinds) - MOST_ROWS} more" if len(kinds) > MOST_ROWS else ""
    columns = ("group", "bytes", "kernels", "transfer", "longest wait", "bus GB/s", "of the link")
    table = _job_table(f"Collectives (medians{more})", "operation", *columns)
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
