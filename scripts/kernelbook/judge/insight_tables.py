"""The tables of an insight: expectations, findings, comparisons, costs, ceilings, clock, time_split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from kernelbook.cases import Activity
from kernelbook.cases.records import schema_of
from kernelbook.judge.alignment import OpStep, Step
from kernelbook.judge.clock import Clock
from kernelbook.judge.comparisons import Comparison, rest_text, step_text
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.time_split import Cause, TimeSplit

Row = Mapping[str, Any]

_KEYS = schema_of(ForwardCost).names[:2]
EXPECTATIONS = schema_of(Judgement)
FINDINGS = schema_of(Finding, "positions", "theme", "subject")
CLOCK = schema_of(Clock)
CEILINGS = schema_of(Ceiling)
COSTS = pa.unify_schemas(
    [
        pa.schema([(name, pa.string()) for name in (*_KEYS, "scope")]),
        *map(schema_of, (ForwardCost, KernelCost, GemmCost)),
    ]
)
TIME_SPLIT = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "case", "source")),
        *schema_of(Cause, "positions"),
        ("share", pa.float64()),
    ]
)
COMPARISONS = pa.schema(
    [
        *((name, pa.string()) for name in ("run_a", "case_a", "run_b", "case_b", "scope", "kind")),
        *((name, pa.list_(pa.string())) for name in ("a", "b")),
        *((name, pa.float64()) for name in ("time_a_us", "time_b_us", "delta_us", "share")),
        *((name, pa.float64()) for name in ("ratio", "ratio_low", "ratio_high", "p_value")),
        ("verdict", pa.string()),
        ("text", pa.string()),
    ]
)


def table(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly these columns; keys that a row lacks become null."""
    return pa.Table.from_pylist(
        [{name: _stable(row.get(name)) for name in schema.names} for row in rows], schema=schema
    )


def _stable(value: Any) -> Any:
    """A float to twelve digits: sum() adds with other rounding from Python 3.12 on, and tables are the same on all."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def split_rows(split: TimeSplit) -> list[Row]:
    """A row for each cause, longest first."""
    case = {"run": split.run, "case": split.case, "source": split.source}
    return [case | asdict(cause) | {"share": cause.time_us / split.time_us} for cause in split.causes]


def cost_rows(forward: ForwardCost, kernels: Iterable[KernelCost], gemms: Iterable[GemmCost]) -> list[Row]:
    """A row for the forward, then one for each kernel of known traffic, then one for each product."""
    keys = {"run": forward.run, "case": forward.case}
    rows: list[Row] = [{**asdict(forward), "scope": "forward"}]
    rows += [{**keys, **asdict(kernel), "scope": "kernel"} for kernel in kernels]
    return rows + [{**asdict(gemm), "scope": "GEMM"} for gemm in gemms]


def comparison_rows(comparison: Comparison) -> list[Row]:
    """A row of summary, one for each difference of activities and one for the rest of it, one for each of ops, and one
    for each kind of cause.
    """
    a, b = comparison.a, comparison.b
    pair = {"run_a": a.run, "case_a": a.case, "run_b": b.run, "case_b": b.case}
    rows = [_summary(comparison)]
    rows += [_step_row(step, a.device_time_us) for step in comparison.steps if step.kind != "same"]
    rows += _rest_row(comparison)
    rows += [_op_row(op) for op in comparison.op_steps]
    rows += [
        {"scope": "cause", "kind": c.kind, "time_a_us": c.time_a_us, "time_b_us": c.time_b_us, "delta_us": c.delta_us}
        for c in comparison.causes
    ]
    return [{**pair, **row} for row in rows]


def _summary(comparison: Comparison) -> dict[str, Any]:
    ratio = comparison.ratio
    row: dict[str, Any] = {
        "scope": "summary",
        "kind": "refused" if comparison.refused else "ratio",
        "time_a_us": comparison.a.device_time_us,
        "time_b_us": comparison.b.device_time_us,
        "text": f"{comparison.title}: {' '.join(comparison.sentences)}",
    }
    if ratio:
        row |= {"ratio": ratio.ratio, "ratio_low": ratio.low, "ratio_high": ratio.high}
        row |= {"p_value": ratio.p_value, "verdict": ratio.verdict}
    return row


def _step_row(step: Step, whole_us: float | None) -> dict[str, Any]:
    return {
        "scope": "activity",
        "kind": step.kind,
        "a": _labels(step.a),
        "b": _labels(step.b),
        "time_a_us": step.time_a_us if step.a else None,
        "time_b_us": step.time_b_us if step.b else None,
        "delta_us": step.delta_us,
        "share": step.delta_us / whole_us if whole_us else None,
        "text": step_text(step, whole_us),
    }


def _rest_row(comparison: Comparison) -> list[dict[str, Any]]:
    """What makes the differences of the activities add up to that of the device times; none of next to nothing."""
    rest, whole = comparison.rest_us, comparison.a.device_time_us
    text = rest_text(rest, comparison.steps) if rest is not None else ""
    if not text or rest is None or not whole:
        return []
    return [{"scope": "activity", "kind": "rest", "delta_us": rest, "share": rest / whole, "text": text}]


def _op_row(op: OpStep) -> dict[str, Any]:
    side, sign = ("a", -1) if op.kind == "removed" else ("b", 1)
    times = {f"time_{side}_us": op.self_us, "delta_us": sign * op.self_us}
    text = f"{op.kind.capitalize()}: {', '.join(op.names)}."
    return {"scope": "op", "kind": op.kind, side: op.names, **times, "text": text}


def _labels(activities: Iterable[Activity]) -> list[str] | None:
    return [activity.label for activity in activities] or None
