"""The cost model held against what Nsight Compute measured: bytes, limiter and occupancy of each kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import pyarrow as pa

from kernelbook.cases import CaseFacts
from kernelbook.cases.records import schema_of, table_of
from kernelbook.counters import KernelCounters
from kernelbook.counters.limiter import COMPUTE, MEMORY
from kernelbook.judge.cost_model import KernelCost, roof
from kernelbook.judge.occupancy import achievable_occupancy

#: Shorter kernels move little, and their model is not judged.
LEAST_US = 5.0
#: Side of the model's roof -> the limiter that ncu's rule would name.
SIDES = {roof.COMPUTE: COMPUTE, roof.MEMORY: MEMORY, roof.L2: MEMORY}
FIRST = ("run", "case", "position", "name", "status", "reason")
SCHEMA = pa.schema(
    sorted(schema_of(KernelCounters), key=lambda c: FIRST.index(c.name) if c.name in FIRST else len(FIRST))
)


def against_model(facts: CaseFacts, costs: Iterable[KernelCost]) -> tuple[KernelCounters, ...]:
    """The counters of a case with what the cost model and the trace state about the same kernels."""
    by_position = {cost.position: cost for cost in costs}
    activities = {activity.position: activity for activity in facts.activities}
    rows = []
    for row in facts.counters:
        if row.position is not None and row.position in facts.measured:
            activity, cost = activities[row.position], by_position.get(row.position)
            row = replace(row, estimated_occupancy_percent=achievable_occupancy(activity, facts.device_properties))
            row = _with_cost(row, cost) if cost else row
        rows.append(row)
    return tuple(rows)


def _with_cost(row: KernelCounters, cost: KernelCost) -> KernelCounters:
    side = SIDES.get(cost.roof or "")
    comparable = side is not None and row.limiter in (COMPUTE, MEMORY)
    return replace(
        row,
        modelled_bytes=cost.bytes,
        modelled_limiter=cost.roof,
        agrees=row.limiter == side if comparable else None,
        flops=cost.flops,
        intensity=cost.measured_intensity,
    )


def counters_table(cases: Iterable[CaseFacts]) -> pa.Table:
    """The rows of all cases, in order of launch."""
    return table_of((row for facts in cases for row in facts.counters), SCHEMA)


def compared(rows: Iterable[KernelCounters]) -> list[KernelCounters]:
    """The kernels of at least `LEAST_US` whose bytes are both modelled and measured, the nearest to 1 first."""
    long = (row for row in rows if (row.trace_duration_us or 0.0) >= LEAST_US and row.bytes_ratio)
    return sorted(long, key=_factor)


def _factor(row: KernelCounters) -> float:
    """How far modelled and measured bytes lie apart, as a factor of at least 1."""
    ratio = row.bytes_ratio or 1.0
    return max(ratio, 1 / ratio)


def trust_columns(rows: Sequence[KernelCounters]) -> dict[str, Any]:
    """The columns of the table `trust` about counters; None where none were asked for."""
    if not rows:
        return dict.fromkeys(("counted_kernels", "bytes_ratio", "limiters_compared", "limiters_agree"))
    ratios = [row.bytes_ratio for row in compared(rows) if row.bytes_ratio]
    judged = [row.agrees for row in rows if row.agrees is not None]
    return {
        "counted_kernels": sum(row.status == "joined" for row in rows),
        "bytes_ratio": median(ratios) if ratios else None,
        "limiters_compared": len(judged),
        "limiters_agree": sum(judged),
    }
