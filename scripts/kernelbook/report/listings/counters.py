"""The counters of a case's kernels as a table, for details.md; the page shows them in each kernel's row."""

from __future__ import annotations

from kernelbook.cases import CaseFacts, label
from kernelbook.counters import KernelCounters, facts_of
from kernelbook.report.table import Part, Table, TableColumn, cell, figure, table, time, words
from kernelbook.text import formatting


def _percent(value: float) -> str:
    return f"{value:.0f} %"


_COLUMNS: tuple[TableColumn[KernelCounters], ...] = (
    figure("", lambda row: row.position),
    words("kernel", lambda row: Part(label("kernel", row.name), "code") if row.name else None),
    time("under ncu", lambda row: row.duration_us),
    figure("DRAM read", lambda row: row.dram_read_bytes, formatting.size, "bytes"),
    figure("written", lambda row: row.dram_write_bytes, formatting.size, "bytes"),
    figure("modelled / DRAM", lambda row: row.bytes_ratio, formatting.ratio),
    figure("SM", lambda row: row.sm_percent, _percent),
    figure("tensor", lambda row: row.tensor_percent, _percent),
    figure("L2", lambda row: row.l2_percent, _percent),
    figure("DRAM", lambda row: row.dram_percent, _percent),
    figure("occupancy", lambda row: row.occupancy_percent, _percent),
    TableColumn("by the counters", lambda row: cell(row.sentence or row.reason, "; ".join(facts_of(row)) or None)),
)


def counters(row: CaseFacts) -> Table:
    """What Nsight Compute measured of each kernel of one forward."""
    return table(f"counters-{row.run}-{row.case}", f"Counters of one forward on {row.run}", _COLUMNS, row.counters)
