"""The tables of an insight: expectations, findings, comparisons, costs, ceilings, clock, time_split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import pyarrow as pa

from kernelbook.cases import Activity
from kernelbook.cases.records import schema_of, table_of_rows
from kernelbook.judge.alignment import OpStep, Step
from kernelbook.judge.clock import Clock
from kernelbook.judge.comparisons import Comparison, rest_text, step_text
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.time_split import Cause, TimeSplit
from kernelbook.text.meaning import doc

Row = Mapping[str, Any]


@dataclass(frozen=True)
class CostKey:
    """The first columns of the table `costs`, before those of a forward, a kernel or a product."""

    run: str
    case: str
    scope: Annotated[str, doc("forward, kernel (or memcpy) whose traffic is known from recorded shapes, or GEMM.")]


@dataclass(frozen=True)
class SplitKey:
    """The first columns of the table `time_split`, before those of a cause."""

    run: str
    case: str
    source: Annotated[
        str,
        doc(
            "unprofiled forward: the time that is split was measured without the profiler, and the idle parts of the "
            "trace are scaled to it. trace: none was measured; the time is that from the start of the range to the end "
            "of its range and device work."
        ),
    ]
    share: Annotated[float, doc("Share of the forward's time.")]


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the table `comparisons`; which columns are filled depends on the scope."""

    run_a: Annotated[str, doc("Run of the first.")]
    case_a: Annotated[str, doc("Case of the first.")]
    run_b: Annotated[str, doc("Run of the second.")]
    case_b: Annotated[str, doc("Case of the second.")]
    scope: Annotated[str, doc("summary, activity, op or cause; what the row is about.")]
    kind: Annotated[
        str,
        doc(
            "For a summary, ratio or refused; for a difference, what became of the activity or op: changed, replaced, "
            "fused, split, added or removed, or rest, with which the differences of activities add up to that of the "
            "device times; for a cause, its kind, as in the table time_split."
        ),
    ]
    a: Annotated[tuple[str, ...] | None, doc("Names of what the first has at this position.")]
    b: Annotated[tuple[str, ...] | None, doc("Names of what the second has at this position.")]
    time_a_us: Annotated[float | None, doc("Time in the first.")]
    time_b_us: Annotated[float | None, doc("Time in the second.")]
    delta_us: Annotated[float | None, doc("The second time minus the first.")]
    share: Annotated[float | None, doc("The difference as a share of the device time of the first.")]
    ratio: Annotated[float | None, doc("Median forward time of b over that of a.")]
    ratio_low: Annotated[
        float | None, doc("Lower end of its 95 % interval (bootstrap over processes and the forwards in them).")
    ]
    ratio_high: Annotated[float | None, doc("Upper end of that interval.")]
    p_value: Annotated[
        float | None,
        doc("p value of the Mann-Whitney test over the medians of processes; empty with too few processes."),
    ]
    verdict: Annotated[
        str | None,
        doc(
            "slower, faster, about equal, processes differ, no difference shown, or not tested (one process on a side)."
        ),
    ]
    text: Annotated[str, doc("The difference in a sentence, or why times may not be compared.")]


EXPECTATIONS = schema_of(Judgement)
FINDINGS = schema_of(Finding, *Finding.INTERNAL)
CLOCK = schema_of(Clock)
CEILINGS = schema_of(Ceiling)
COSTS = pa.unify_schemas([schema_of(kind) for kind in (CostKey, ForwardCost, KernelCost, GemmCost)])
TIME_SPLIT = pa.unify_schemas([schema_of(SplitKey), schema_of(Cause, "positions")])
COMPARISONS = schema_of(ComparisonRow)


def table(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly these columns; keys that a row lacks become null."""
    return table_of_rows([{name: _stable(value) for name, value in row.items()} for row in rows], schema)


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
    """A summary, then rows for each difference of activities, their rest, each difference of ops and each cause."""
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
    """The part of the difference in device time that no difference of activities explains; empty if it is tiny."""
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
