"""CPU time by call: metadata ops, library calls, queries before a launch, buffers of the profiler."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernelbook.cases import CallTotal, CaseFacts
from kernelbook.extraction.measurement import MeasurementError, load_measurement
from kernelbook.judge.findings.costs import cpu_cost, cpu_note, part
from kernelbook.judge.findings.rules import CPU, SPENT, Finding, Scene, in_cases, rule, shares, subjects, times
from kernelbook.text.formatting import duration, plural

METADATA = {"aten::" + name for name in (
    "t", "transpose", "permute", "view", "reshape", "expand", "as_strided", "_unsafe_view", "_reshape_alias", "squeeze",
    "unsqueeze", "slice", "select", "narrow", "detach", "alias", "unbind", "split", "chunk", "numpy_T", "mT", "view_as",
    "expand_as", "unflatten", "flatten", "movedim", "swapaxes", "resolve_conj", "resolve_neg",
)}  # fmt: skip

_LIBRARY = (
    "It includes the call of a library, which chooses a kernel by heuristics (cuBLAS) or builds an execution plan "
    "(cuDNN). The cost is per call, not per element: use fewer, larger calls."
)
_PYTHON = (
    "It is not an op of torch but Python code, such as an autograd function with the launcher of a kernel. A Python "
    "profiler such as py-spy shows where its time goes."
)
_OTHER = "A native profiler such as perf or Nsight Systems shows where its time goes. The cost is per call."
#: Ops that call cuBLAS or cuDNN.
LIBRARY_OPS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_cudnn_attention_forward"}


@rule(
    "metadata-ops",
    "ops that only change sizes and strides take at least 5 % of the CPU time",
    "In {cases}, ops that only change sizes and strides take {shares} of a forward's CPU time, {times} under the "
    "profiler; they launch nothing.",
)
def metadata_ops(scene: Scene) -> Iterator[Finding]:
    """Reported from a twentieth of the CPU time."""
    facts = scene.facts
    cost = cpu_cost(facts, [total for total in facts.call_totals if total.name in METADATA and not total.kernels])
    if cost is None or (part(cost.time_us, facts.cpu_time_us) or 0) < 0.05:
        return
    ops = round(facts.cpu_cost((t for t in facts.call_totals if t.category == "op"), lambda total: total.count))
    changes, it = ("changes", "it launches nothing, and costs")
    if cost.count > 1:
        changes, it = ("change", "they launch nothing, and cost")
    took = f"{cost.span}{cost.span.over} of CPU time under the profiler"
    text = f"{cost.count} of {plural(ops, 'CPU op')} only {changes} sizes and strides: {it} {took}."
    remedy = "None needed if the device is the bottleneck; otherwise torch.compile removes most of them."
    yield cpu_note(scene, cost, text, remedy, theme="")


def _in_itself(group: Sequence[Finding]) -> str:
    names = subjects(group)
    spend, them = ("spend", "themselves") if "," in names else ("spends", "itself")
    return (
        f"In {in_cases(group)}, {names} {spend} {shares(group)} of a forward's CPU time in {them}, {times(group)} "
        "under the profiler: which the trace does not break down."
    )


@rule("library-call", "the self time of one op is at least a fifth of the CPU time", _in_itself)
def library_call(scene: Scene) -> Iterator[Finding]:
    """From the self time of an op, which the profiler does not break down; the cause is stated for known ops only."""
    facts = scene.facts
    launching = {t.name for t in facts.call_totals if t.category == "op" and t.kernels and not t.name.startswith("##")}
    for name in [name for name in dict.fromkeys(op.name for op in facts.ops) if name in launching]:
        cost = cpu_cost(facts, [total for total in facts.call_totals if total.name == name and total.category == "op"])
        if cost is None or cost.time_us < max(0.2 * (facts.cpu_time_us or float("inf")), 10.0):
            continue
        calls = f" over {cost.count} calls" if cost.count > 1 else ""
        text = (
            f"{name} spends {cost.span}{cost.span.over} of CPU time under the profiler in itself{calls}, not in child "
            "ops; the trace does not break it down."
        )
        remedy = _LIBRARY if name in LIBRARY_OPS else _OTHER if "::" in name else _PYTHON
        yield cpu_note(scene, cost, text, remedy, theme=remedy, subject=name)


@rule(
    "occupancy-query",
    "runtime calls that query the occupancy or attributes of a function before its launch",
    "In {cases}, runtime calls query occupancy or attributes of a kernel before its launch: {times} of CPU time a "
    "forward under the profiler.",
)
def occupancy_query(scene: Scene) -> Iterator[Finding]:
    """Counted as runtime calls, not as launches."""
    cost = cpu_cost(scene.facts, [*filter(_asks, scene.facts.call_totals)], self_time=False)
    if cost is None:
        return
    names = ", ".join(cost.parts)
    text = (
        f"{plural(cost.count, 'runtime call')} per forward to query occupancy or attributes before a launch: {names}."
    )
    remedy = (
        "None needed unless the CPU is the bottleneck: the library chooses its grid this way, and they launch nothing."
    )
    yield cpu_note(scene, cost, text, remedy, theme="")


def _asks(total: CallTotal) -> bool:
    patterns = ("*Occupancy*", "*FuncGetAttribute*")
    return total.category == "runtime" and any(fnmatch.fnmatchcase(total.name, pattern) for pattern in patterns)


@rule(
    "profiler-buffer",
    "the profiler allocated a buffer while it recorded",
    "In {cases} the profiler allocated buffers while it recorded: {times} of its own CPU time.",
)
def profiler_buffer(scene: Scene) -> Iterator[Finding]:
    """The time is that of the profiler: the launch that triggers the request takes much longer than others.

    torch lists it in ``key_averages()`` as a row outside every range.
    """
    rows = [row for row in profiler_rows(scene.facts) if "Buffer Request" in row["name"]]
    if not rows:
        return
    count, time_us = sum(row["count"] for row in rows), sum(row["cpu_time_us"] for row in rows)
    took = f"{duration(time_us)} of CPU time of its own, under the profiler"
    text = f"The profiler allocated {plural(count, 'buffer')} while it recorded: {took}."
    remedy = "Use medians, which exclude the forward concerned; a longer warm-up makes it rarer."
    evidence = f"{rows[0]['name']}: {count} ×"
    yield Finding("", "info", time_us, None, evidence, remedy, text, of=CPU, kind=SPENT, theme="")


def profiler_rows(facts: CaseFacts) -> list[dict[str, Any]]:
    """torch's ``key_averages()`` of the case, from the measurement beside its trace; empty without one."""
    if not facts.trace_path:
        return []
    return _key_averages(str(Path(facts.trace_path).with_name("measurement.json")))


@lru_cache(maxsize=256)
def _key_averages(path: str) -> list[dict[str, Any]]:
    try:
        return load_measurement(Path(path)).key_averages
    except MeasurementError:
        return []
