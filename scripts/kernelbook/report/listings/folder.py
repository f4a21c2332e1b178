"""Tables of a folder of traces: kernels over all of them, families, and a row for each trace."""

from __future__ import annotations

from kernelbook.cases.top_kernels import TopRow
from kernelbook.kernel_names.labels import kernel_label, labels
from kernelbook.report.openings import MOST_FILES, TOP, Folder, TraceRow
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
    """A row for each trace, in the order of the folder."""
    several = len({row.run for row in folder.traces}) > 1
    ranks = any(row.process.rank is not None for row in folder.traces)
    columns: list[TableColumn[TraceRow]] = [words("trace", lambda row: case_link(row.process.case, anchors))]
    columns += [words("run", lambda row: row.run)] if several else []
    columns += [figure("rank", lambda row: row.process.rank)] if ranks else []
    columns += [
        words("device", lambda row: row.process.device, 40),
        figure("kernels", lambda row: row.kernels, lambda count: f"{count:,}"),
        time("device time", lambda row: row.device_time_us),
        share("share of all", lambda row: _part(row, folder)),
        words("longest", lambda row: kernel_label("kernel", row.longest).short if row.longest else None),
    ]
    count = len(folder.traces)
    caption = (
        f"Traces, whole files: {count}" if count <= MOST_FILES else f"Traces, whole files: {MOST_FILES} of {count:,}"
    )
    return table("traces", caption, columns, folder.traces[:MOST_FILES])


def _part(row: TraceRow, folder: Folder) -> float | None:
    return row.device_time_us / folder.total_us if row.device_time_us is not None and folder.total_us else None
