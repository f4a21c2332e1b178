"""CPU against device: launch-bound forwards, metadata ops, library calls, queries before a launch."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernelbook.case_facts import Activity, CallTotal, CaseFacts
from kernelbook.clock import bound_of
from kernelbook.findings.registry import (
    CPU,
    FORWARD,
    Finding,
    Scene,
    cpu_cost,
    cpu_finding,
    part,
    rule,
    severity,
)
from kernelbook.measurement import MeasurementError, load_measurement
from kernelbook.units import duration, plural

METADATA = {"aten::" + name for name in (
    "t", "transpose", "permute", "view", "reshape", "expand", "as_strided", "_unsafe_view", "_reshape_alias", "squeeze",
    "unsqueeze", "slice", "select", "narrow", "detach", "alias", "unbind", "split", "chunk", "numpy_T", "mT", "view_as",
    "expand_as", "unflatten", "flatten", "movedim", "swapaxes", "resolve_conj", "resolve_neg",
)}  # fmt: skip

_CUBLAS = "It holds the call of cuBLAS, which chooses a kernel by heuristics: paid per call, not per element."
_CUDNN = "It holds the call of cuDNN, which needs an execution plan: paid per call, not per element."
#: Ops whose implementation is known to call a library, and what is known of that call.
LIBRARY_OPS = {
    **dict.fromkeys(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"), _CUBLAS),
    "aten::_cudnn_attention_forward": _CUDNN,
}


@rule("overhead-bound", "an unprofiled forward takes over a tenth longer than the device works, and the CPU is why")
def overhead_bound(scene: Scene) -> Iterator[Finding]:
    """Says also where this case's kernels are the fastest of its workload, which the wall clock then hides."""
    facts = scene.facts
    bound, why = bound_of(facts)
    if bound != "launches" or facts.forward_time_us is None or facts.device_busy_us is None:
        return
    idle = facts.forward_time_us - facts.device_busy_us
    waits = plural(facts.launches or 0, "launch", "launches")
    text = f"Launch-bound: {why}; the other {duration(idle)} it waits for {waits} by the CPU.{_fastest(scene)}"
    remedy = "Give each launch more work, or launch less: CUDA graphs, torch.compile(mode='reduce-overhead')."
    share = part(idle, facts.forward_time_us)
    evidence = (
        f"forward {duration(facts.forward_time_us)} unprofiled, device busy {duration(facts.device_busy_us)}, "
        f"CPU {duration(facts.cpu_time_us)} as profiled, {plural(len(facts.ops), 'CPU op')}"
    )
    yield Finding("overhead-bound", severity(share), idle, share, evidence, remedy, text, of=FORWARD)


def _fastest(scene: Scene) -> str:
    """Whether no other kernels of this workload are faster; cases that run the very same kernels are no rivals."""
    own = Counter(kernel.name for kernel in scene.kernels)
    rivals = [p for p in scene.peers() if p.device_time_us and Counter(k.name for k in _kernels(p)) != own]
    if not rivals or not scene.facts.device_time_us:
        return ""
    if min(rival.device_time_us or 0.0 for rival in rivals) <= scene.facts.device_time_us:
        return ""
    second = min(rivals, key=lambda p: p.forward_time_us or float("inf"))
    gap = (second.device_time_us or 0.0) / scene.facts.device_time_us
    wall = (second.forward_time_us or 0.0) / (scene.facts.forward_time_us or 1.0)
    return (
        f" Yet its kernels are the fastest of this workload: {gap:.2f} x as fast as {second.case} on the device, "
        f"{wall:.2f} x on the wall clock."
    )


def _kernels(facts: CaseFacts) -> list[Activity]:
    return [a for a in facts.activities if a.category == "kernel"]


@rule("metadata-ops", "ops that only change sizes and strides take a share of the CPU time")
def metadata_ops(scene: Scene) -> Iterator[Finding]:
    """Told from a twentieth of the CPU time on."""
    facts = scene.facts
    cost = cpu_cost(facts, lambda total: total.name in METADATA and not total.kernels)
    if cost is None or (part(cost.time_us, facts.cpu_time_us) or 0) < 0.05:
        return
    ops = round(facts.cpu_cost(lambda total: total.category == "op", lambda total: total.count))
    does, it = ("changes", "it launches nothing, and costs")
    if cost.count > 1:
        does, it = ("change", "they launch nothing, and cost")
    text = (
        f"{cost.count} of {plural(ops, 'CPU op')} only {does} sizes and strides: {it} "
        f"{duration(cost.time_us)} of CPU time under the profiler."
    )
    remedy = "Free where the device is the bottleneck; where launches are, torch.compile removes most of them."
    yield from cpu_finding(scene, "metadata-ops", cost, text, remedy, info=True)


@rule("library-call", "the calls of one op spend a fifth of the CPU time themselves, in no child op")
def library_call(scene: Scene) -> Iterator[Finding]:
    """The fat bar: what an op does in itself, the profiler does not look into; a cause is named for known ops alone."""
    facts = scene.facts
    launching = {t.name for t in facts.call_totals if t.category == "op" and t.kernels and not t.name.startswith("##")}
    for name in [name for name in dict.fromkeys(op.name for op in facts.ops) if name in launching]:
        cost = cpu_cost(facts, lambda total, name=name: total.category == "op" and total.name == name)
        if cost is None or cost.time_us < max(0.2 * (facts.cpu_time_us or float("inf")), 10.0):
            continue
        calls = f" over {cost.count} calls" if cost.count > 1 else ""
        text = (
            f"{name} spends {duration(cost.time_us)} of CPU time under the profiler in itself{calls}, not in child "
            "ops: time in the op itself that the trace does not break down."
        )
        remedy = LIBRARY_OPS.get(name, "A profiler of native code shows what it is; it is paid per call.")
        yield from cpu_finding(scene, "library-call", cost, text, remedy, info=True)


@rule("occupancy-query", "a runtime call asks for occupancy or attributes of a function before it is launched")
def occupancy_query(scene: Scene) -> Iterator[Finding]:
    """Counted as runtime calls, never as launches."""
    cost = cpu_cost(scene.facts, _asks, self_time=False)
    if cost is None:
        return
    names = ", ".join(cost.parts)
    text = f"{plural(cost.count, 'runtime call')} a forward to ask how a kernel fits before its launch: {names}."
    remedy = "The library chooses its grid so; they launch nothing, and a CUDA graph does without them."
    yield from cpu_finding(scene, "occupancy-query", cost, text, remedy, info=True)


def _asks(total: CallTotal) -> bool:
    patterns = ("*Occupancy*", "*FuncGetAttribute*")
    return total.category == "runtime" and any(fnmatch.fnmatchcase(total.name, pattern) for pattern in patterns)


@rule("profiler-buffer", "the profiler asked for a buffer while it recorded")
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
    yield Finding("profiler-buffer", "info", time_us, None, f"{rows[0]['name']}: {count} x", remedy, text, of=CPU)


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
