"""Tables of a folder of traces: kernels over all of them, families, and a row for each trace."""

from __future__ import annotations

from statistics import median

from kernelbook.kernel_names.labels import kernel_label, labels
from kernelbook.kernel_names.top_kernels import TopRow
from kernelbook.report.openings import MOST_FILES, TOP, Folder, TraceRows
from kernelbook.report.table import Anchors, Part, Table, TableColumn, case_link, figure, share, table, time, words

LABEL = 64


def kernels(folder: Folder) -> Table:
    """The names with the longest total over all traces."""
    rows = folder.kernels[:TOP]
    short_names = dict(zip(rows, labels([row.name for row in rows], LABEL), strict=True))
    columns: tuple[TableColumn[TopRow], ...] = (
        words("kernel", lambda row: Part(short_names[row], "code", row.name)),
        words("family", lambda row: row.family),
        *_sums(folder),
        time("longest", lambda row: row.max_us),
        figure("traces", lambda row: row.files),
    )
    caption = (
        f"Kernels, memcpys and memsets over all traces: {min(TOP, len(folder.kernels))} of {len(folder.kernels):,}"
    )
    return table("top-kernels", caption, columns, folder.kernels[:TOP])


def families(folder: Folder) -> Table:
    """The families over all traces."""
    columns: tuple[TableColumn[TopRow], ...] = (
        words("family", lambda row: row.name),
        *_sums(folder),
        figure("traces", lambda row: row.files),
    )
    return table("top-families", "Families over all traces", columns, folder.families)


def _sums(folder: Folder) -> tuple[TableColumn[TopRow], ...]:
    return (
        figure("count", lambda row: row.count, lambda count: f"{count:,}"),
        time("total", lambda row: row.total_us),
        share("share", lambda row: row.total_us / folder.total_us if folder.total_us else None),
    )


def traces(folder: Folder, anchors: Anchors) -> Table:
    """A row for each trace, in the order of the folder; similar ranks of a job share one."""
    several = len({row.run for row in folder.traces}) > 1
    ranks = any(row.process.rank is not None for row in folder.traces)
    rows = folder.rows
    columns: list[TableColumn[TraceRows]] = [words("trace", lambda row: case_link(row.first.process.case, anchors))]
    columns += [words("run", lambda row: row.first.run)] if several else []
    columns += [words("rank", lambda row: row.ranks)] if ranks else []
    columns += [
        words("device", lambda row: row.first.process.device, 40),
        figure("kernels", lambda row: row.first.kernels, lambda count: f"{count:,}"),
        time("device time", lambda row: median(row.times_us) if row.times_us else None),
        share("share of all", lambda row: _part(row, folder)),
        words("longest", lambda row: kernel_label("kernel", row.first.longest).short if row.first.longest else None),
    ]
    count = len(folder.traces)
    rows_text = f"{count:,}" if len(rows) <= MOST_FILES else f"{MOST_FILES} rows of {count:,}"
    alike = "; ranks with the same kernels, within 5 %, share a row of medians" if len(rows) < count else ""
    return table("traces", f"Traces, whole files: {rows_text}{alike}", columns, rows[:MOST_FILES])


def _part(row: TraceRows, folder: Folder) -> float | None:
    return sum(row.times_us) / folder.total_us if row.times_us and folder.total_us else None
