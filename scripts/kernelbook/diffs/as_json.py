"""A diff as one JSON object, which diff.schema.json describes. Times are in µs, sizes in bytes; null is not known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kernelbook.cases import Activity, CaseFacts
from kernelbook.diffs.model import Diff
from kernelbook.judge.alignment import Step
from kernelbook.judge.comparisons import Comparison

SCHEMA = 1


def as_json(diff: Diff) -> dict[str, Any]:
    """The whole diff. Steps of kind `same` are left out; they are counted in `activities`."""
    return {
        "schema": SCHEMA,
        "a": diff.a,
        "b": diff.b,
        "equal": diff.equal,
        "comparisons": [_comparison(comparison) for comparison in diff.comparisons],
        "only_a": [_identity(case) for case in diff.only_a],
        "only_b": [_identity(case) for case in diff.only_b],
        "skipped": list(diff.skipped),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    ratio = comparison.ratio
    return {
        "a": _identity(comparison.a),
        "b": _identity(comparison.b),
        "refused": comparison.refused,
        "same_work": comparison.same_work,
        "activities": None if comparison.same_work is None else asdict(comparison.counts),
        "figures": [
            {"name": figure.name, "unit": figure.unit, "a": figure.a, "b": figure.b} for figure in comparison.figures
        ],
        "steps": [_step(step) for step in comparison.steps if step.kind != "same"],
        "ops": [{"kind": op.kind, "names": list(op.names), "self_us": op.self_us} for op in comparison.op_steps],
        "causes": [{**asdict(cause), "delta_us": cause.delta_us} for cause in comparison.causes],
        "rest_us": comparison.rest_us,
        "ratio": asdict(ratio) if ratio else None,
        "sentences": list(comparison.sentences),
    }


def _identity(case: CaseFacts) -> dict[str, Any]:
    return {
        "run": case.run or None,
        "case": case.case,
        "annotation": case.annotation,
        "status": case.status,
        "device": case.device,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "a": [_activity(activity) for activity in step.a],
        "b": [_activity(activity) for activity in step.b],
        "time_a_us": step.time_a_us if step.a else None,
        "time_b_us": step.time_b_us if step.b else None,
        "delta_us": step.delta_us,
    }


def _activity(activity: Activity) -> dict[str, Any]:
    return {
        "category": activity.category,
        "name": activity.name,
        "position": activity.position,
        "op_path": activity.launched_by,
        "duration_us": activity.duration_us,
    }
