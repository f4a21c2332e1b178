"""Where CPU time goes by call: metadata ops, library calls, queries before a launch, the profiler's own buffers."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from kernelbook.cases import CallTotal, CaseFacts
from kernelbook.extraction.measurement import MeasurementError, load_measurement
from kernelbook.judge.findings.costs import cpu_cost, cpu_note, part
from kernelbook.judge.findings.rules import CPU, SPENT, Finding, Scene, in_cases, rule, shares, subjects, times
from kernelbook.text.units import duration, plural

METADATA = {"aten::" + name for name in (
    "t", "transpose", "permute", "view", "reshape", "expand", "as_strided", "_unsafe_view", "_reshape_alias", "squeeze",
    "unsqueeze", "slice", "select", "narrow", "detach", "alias", "unbind", "split", "chunk", "numpy_T", "mT", "view_as",
    "expand_as", "unflatten", "flatten", "movedim", "swapaxes", "resolve_conj", "resolve_neg",
)}  # fmt: skip

_LIBRARY = (
    "Each holds the call of a library, which chooses a kernel by heuristics (cuBLAS) or needs an execution plan "
    "(cuDNN): paid per call, not per element."
)
_PYTHON = (
    "It is no op of torch: Python code such as an autograd function, with the launcher of the kernel in it. A Python "
    "profiler shows what it is; a CUDA graph replays without it."
)
_OTHER = "A profiler of native code shows what it is; it is paid per call."
#: Ops whose implementation is known to call cuBLAS or cuDNN.
LIBRARY_OPS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_cudnn_attention_forward"}


def _views(group: Sequence[Finding]) -> str:
    return (
        f"In {in_cases(group)}, ops that only change sizes and strides take {shares(group)} of a forward's CPU time, "
        f"{times(group)} under the profiler; they launch nothing."
    )


@rule("metadata-ops", "ops that only change sizes and strides take a share of the CPU time", _views)
def metadata_ops(scene: Scene) -> Iterator[Finding]:
    """Told from a twentieth of the CPU time on."""
    facts = scene.facts
    cost = cpu_cost(facts, lambda total: total.name in METADATA and not total.kernels)
    if cost is None or (part(cost.time_us, facts.cpu_time_us) or 0) < 0.05:
        return
    ops = round(facts.cpu_cost(lambda total: total.category == "op", lambda total: total.count))
    changes, it = ("changes", "it launches nothing, and costs")
    if cost.count > 1:
        changes, it = ("change", "they launch nothing, and cost")
    took = f"{cost.span}{cost.span.over} of CPU time under the profiler"
    text = f"{cost.count} of {plural(ops, 'CPU op')} only {changes} sizes and strides: {it} {took}."
    remedy = "Free where the device is the bottleneck; elsewhere torch.compile removes most of them."
    yield from cpu_note(scene, "metadata-ops", cost, text, remedy, theme="")


def _in_itself(group: Sequence[Finding]) -> str:
    names = subjects(group)
    spend, them = ("spend", "themselves") if "," in names else ("spends", "itself")
    return (
        f"In {in_cases(group)}, {names} {spend} {shares(group)} of a forward's CPU time in {them}, {times(group)} "
        "under the profiler: time that the trace does not break down."
    )


@rule("library-call", "the calls of one op spend a fifth of the CPU time themselves, in no child op", _in_itself)
def library_call(scene: Scene) -> Iterator[Finding]:
    """The fat bar: what an op does in itself, the profiler does not look into; a cause is named for known ops alone."""
    facts = scene.facts
    launching = {t.name for t in facts.call_totals if t.category == "op" and t.kernels and not t.name.startswith("##")}
    for name in [name for name in dict.fromkeys(op.name for op in facts.ops) if name in launching]:
        cost = cpu_cost(facts, partial(_is_op, name))
        if cost is None or cost.time_us < max(0.2 * (facts.cpu_time_us or float("inf")), 10.0):
            continue
        calls = f" over {cost.count} calls" if cost.count > 1 else ""
        text = (
            f"{name} spends {cost.span}{cost.span.over} of CPU time under the profiler in itself{calls}, not in child "
            "ops: time that the trace does not break down."
        )
        remedy = _LIBRARY if name in LIBRARY_OPS else _OTHER if "::" in name else _PYTHON
        yield from cpu_note(scene, "library-call", cost, text, remedy, theme=remedy, subject=name)


def _is_op(name: str, total: CallTotal) -> bool:
    return total.category == "op" and total.name == name


def _queries(group: Sequence[Finding]) -> str:
    return (
        f"In {in_cases(group)}, runtime calls ask how a kernel fits before its launch: {times(group)} of CPU time a "
        "forward under the profiler."
    )


@rule("occupancy-query", "a runtime call asks for occupancy or attributes of a function before its launch", _queries)
def occupancy_query(scene: Scene) -> Iterator[Finding]:
    """Counted as runtime calls, never as launches."""
    cost = cpu_cost(scene.facts, _asks, self_time=False)
    if cost is None:
        return
    names = ", ".join(cost.parts)
    text = f"{plural(cost.count, 'runtime call')} a forward to ask how a kernel fits before its launch: {names}."
    remedy = "The library chooses its grid so; they launch nothing, and a CUDA graph does without them."
    yield from cpu_note(scene, "occupancy-query", cost, text, remedy, theme="")


def _asks(total: CallTotal) -> bool:
    patterns = ("*Occupancy*", "*FuncGetAttribute*")
    return total.category == "runtime" and any(fnmatch.fnmatchcase(total.name, pattern) for pattern in patterns)


def _buffers(group: Sequence[Finding]) -> str:
    return f"In {in_cases(group)} the profiler asked for buffers while it recorded: {times(group)} of its own CPU time."


@rule("profiler-buffer", "the profiler asked for a buffer while it recorded", _buffers)
def profiler_buffer(scene: Scene) -> Iterator[Finding]:
    """Time of the profiler, not of the program: the launch that triggers the request takes far longer than others.

    torch lists it in ``key_averages()`` as a row of its own, outside every range.
    """
    rows = [row for row in profiler_rows(scene.facts) if "Buffer Request" in row["name"]]
    if not rows:
        return
    count, time_us = sum(row["count"] for row in rows), sum(row["cpu_time_us"] for row in rows)
    took = f"{duration(time_us)} of CPU time of its own, under the profiler"
    text = f"The profiler asked for {plural(count, 'buffer')} while it recorded: {took}."
    remedy = "Leave the forward it fell into out of CPU times; medians already do. Longer warm-up makes it rarer."
    evidence = f"{rows[0]['name']}: {count} x"
    yield Finding("profiler-buffer", "info", time_us, None, evidence, remedy, text, of=CPU, kind=SPENT, theme="")


def profiler_rows(facts: CaseFacts) -> list[dict[str, Any]]:
    """torch's own ``key_averages()`` of the case, as the measurement beside its trace has them; empty without one."""
    if not facts.trace_path:
        return []
    return _key_averages(str(Path(facts.trace_path).with_name("measurement.json")))


@lru_cache(maxsize=256)
def _key_averages(path: str) -> list[dict[str, Any]]:
    try:
        return load_measurement(Path(path)).key_averages
    except MeasurementError:
        return []
