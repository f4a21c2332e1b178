"""The data of the page's scripts: a small index, and a block for each case and run that is parsed when needed.

Names are stored once, in the index; rows are arrays with the columns `ACTIVITY`, `CALL` and `LABEL`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kernelbook.cases import Activity, Call, CaseFacts
from kernelbook.cases.comparability import Conditions, refusal
from kernelbook.counters import KernelCounters, facts_of
from kernelbook.edition.model import Edition
from kernelbook.judge.cost_model import KernelCost
from kernelbook.judge.time_line import TimeLine
from kernelbook.kernel_names import built_for, labels
from kernelbook.report.families import FAMILIES, family_of
from kernelbook.report.phrases import counts

ACTIVITY = (
    *("name", "family", "category", "start", "duration", "device", "stream", "op", "path", "correlation", "launch"),
    *("facts", "usual", "rate", "of_roof", "roof", "built_for", "sizes", "converts", "counted"),
)
CALL = (
    *("depth", "parent", "category", "name", "start", "duration", "self", "kernels", "device_time", "correlation"),
    *("shapes", "thread"),
)
#: Optional facts of an activity that the page shows beside its columns.
FACTS = (
    *("grid", "block", "registers_per_thread", "shared_memory_bytes", "occupancy_percent", "bytes", "graph"),
    *("launch_api", "launch_duration_us"),
)
LABEL = ("short", "what", "sentence", "precision", "details", "ops")


class Names:
    """Gives each distinct name a number."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._number: dict[str, int] = {}

    def number(self, name: str | None) -> int | None:
        if name is None:
            return None
        if name not in self._number:
            self._number[name] = len(self.listed)
            self.listed.append(name)
        return self._number[name]


def script_json(value: Any) -> str:
    """Strict JSON for a script element: every `<` is escaped, so that no text can close the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def build(
    edition: Edition,
    anchors: Mapping[int, str],
    traces: Mapping[tuple[str, str], Mapping[str, Any]],
    code: Mapping[tuple[str, str], str],
) -> tuple[str, list[str]]:
    """(index, blocks) as JSON text; `blocks[i]` and `anchors[i]` belong to `edition.case_runs[i]`.

    `traces`: (run, case) -> {"gz": base64 text} or {"href": path}; cases without a trace are absent.
    `code`: (run, case) -> path of Inductor's output code.
    """
    table = Names()
    kernels: dict[int, list[Any]] = {}
    capabilities = {run.run: run.capability for run in edition.runs}
    blocks = [
        _block(row, table, kernels, traces.get(row.key))
        | {"code": code.get(row.key)}
        | {"activities": _activities(row, edition.kernel_costs.get(row.key, {}), capabilities.get(row.run), table)}
        for row in edition.case_runs
    ]
    settings, reasons, table_of_refusals = refusals([row.conditions for row in edition.case_runs])
    limiters = {(cost.run, cost.case): cost.limiter for cost in edition.costs}
    index = {
        "columns": {"activity": ACTIVITY, "call": CALL, "label": LABEL},
        "names": table.listed,
        "kernels": {str(number): label for number, label in kernels.items()},
        "families": [[f.key, f.label, f.light, f.hatched] for f in FAMILIES],
        "runs": [{"run": r.run, "kind": r.kind} for r in edition.runs],
        "compared": [[c.run_a, c.case_a, c.run_b, c.case_b, c.text] for c in edition.compared],
        "headline": edition.headline or (),
        "baseline": edition.baseline_run,
        "cells": [
            _cell(row) | {"anchor": anchors.get(i), "setting": settings[i], "limiter": limiters.get(row.key)}
            for i, row in enumerate(edition.case_runs)
        ],
        "reasons": reasons,
        "refusals": table_of_refusals,
    }
    return script_json(index), [script_json(block) for block in blocks]


def refusals(settings: Sequence[Conditions]) -> tuple[list[int], list[str], list[list[int | None]]]:
    """(number of each cell's conditions, reasons, table): why cells with conditions i and j are not comparable.

    table[i][j] is the index of the reason, None if they are comparable.
    """
    distinct = list(dict.fromkeys(settings))
    numbers = {setting: number for number, setting in enumerate(distinct)}
    reasons = Names()
    table = [[reasons.number(refusal(a, b)) for b in distinct] for a in distinct]
    return [numbers[setting] for setting in settings], reasons.listed, table


def _cell(row: CaseFacts) -> dict[str, Any]:
    return {
        "run": row.run,
        "case": row.case,
        "workload": row.workload,
        "status": row.status,
        "kernels": row.kernels,
        "memcpys": row.memcpys,
        "memsets": row.memsets,
        "counts": counts(row),
        "device_us": _round(row.device_time_us),
        "forward_us": _round(row.forward_time_us),
        "cpu_us": _round(row.cpu_time_us),
        "p05": _round(row.forward_p05_us),
        "p95": _round(row.forward_p95_us),
        "drawn": bool(row.activities),
        "called": bool(row.calls),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _block(
    row: CaseFacts, table: Names, kernels: dict[int, list[Any]], trace: Mapping[str, Any] | None
) -> dict[str, Any]:
    for act in row.activities:
        number = table.number(act.name)
        if number is not None and number not in kernels:
            label = labels.kernel_label(act.category, act.name)
            ops = ",".join(label.ops)
            kernels[number] = [label.short, label.what, label.sentence, label.precision, label.details, ops]
    return {
        "calls": [_call(call, table, on_device=row.kernels is not None) for call in row.calls],
        "samples": [[process, [float(f"{v:.4g}") for v in values]] for process, values in row.samples],
        "earlier": _earlier(row),
        "trace": trace,
    }


def _earlier(row: CaseFacts) -> list[list[float]]:
    """[start, end] of each interval in which the device works for earlier forwards before it begins this one."""
    line = TimeLine.of(row)
    if line is None or not line.placed:
        return []
    first = line.placed[0].start
    spans = [(max(start, 0.0), min(end, first)) for start, end in line.busy_elsewhere]
    return [[round(start, 3), round(end, 3)] for start, end in spans if end > start]


def _activities(
    row: CaseFacts, costs: Mapping[int, KernelCost], capability: str | None, table: Names
) -> list[list[Any]]:
    """The activities of the representative forward, on a clock that starts with it."""
    forward = row.representative
    if forward is None:
        return []
    zero = forward.start_us or 0.0
    counted = {counters.position: _counted(counters) for counters in row.counters}
    rows = (
        _activity(act, median.duration_us, zero, costs.get(act.position), built_for(act.decoded, capability), table)
        for act, median in zip(forward.activities, row.activities, strict=True)
    )
    return [[*each, counted.get(act.position)] for each, act in zip(rows, forward.activities, strict=True)]


def _counted(row: KernelCounters) -> list[Any]:
    """The limiter, a sentence, the shares of the peaks of SMs, tensor pipe, L2 and DRAM in percent, further facts."""
    shares = (row.sm_percent, row.tensor_percent, row.l2_percent, row.dram_percent)
    facts = [*facts_of(row), *([row.duration_note] if row.duration_note else [])]
    return [row.limiter or row.status, row.sentence or row.reason, [_round(share) for share in shares], facts]


def _activity(
    act: Activity, median_us: float, zero: float, cost: KernelCost | None, built: str | None, table: Names
) -> list[Any]:
    facts = {name: getattr(act, name) for name in FACTS}
    family = FAMILIES.index(family_of(act.category, act.family))
    share = cost.share_of_roof if cost else None
    return [
        table.number(act.name),
        family,
        act.category,
        None if act.start_us is None else _round(act.start_us - zero),
        _round(act.duration_us),
        act.device,
        act.stream,
        table.number(act.op),
        table.number(act.launched_by),
        act.correlation,
        None if act.launch_start_us is None else _round(act.launch_start_us - zero),
        {name: value for name, value in facts.items() if value is not None},
        _round(median_us),
        _round(cost.gb_per_s if cost else None),
        None if share is None else round(share, 4),
        cost.roof if cost else None,
        table.number(built),
        act.tensor_sizes,
        table.number(act.converts),
    ]


def _call(call: Call, table: Names, on_device: bool) -> list[Any]:
    """A call's row; its launches are unknown if the trace has no device activity."""
    return [
        call.depth,
        call.parent,
        call.category,
        table.number(call.name),
        _round(call.start_us),
        _round(call.duration_us),
        _round(call.self_us),
        call.kernels if on_device else None,
        _round(call.self_device_time_us) if on_device else None,
        call.correlation,
        table.number(_shapes(call)),
        call.thread or 0,
    ]


def _shapes(call: Call) -> str | None:
    """The shapes of its inputs, `[]` for a number; None if none were recorded."""
    return json.dumps([each.tensors or each.shape or [] for each in call.inputs]) if call.inputs else None
