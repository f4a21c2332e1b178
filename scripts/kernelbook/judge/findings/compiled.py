"""torch.compile: CPU time of its wrapper in each call, whether anything was fused, recompilations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from kernelbook.cases import Call, CallTotal, CaseFacts
from kernelbook.judge.clock import bound_of, bounds_by_process
from kernelbook.judge.findings.costs import (
    CpuCost,
    TimeRange,
    began_inside,
    cpu_cost,
    cpu_note,
    cpu_paced,
    cpu_severity,
    cpu_span,
    idle_by_process,
    note,
    part,
    severity,
    span_of,
)
from kernelbook.judge.findings.overhead import WRAPPER_RANGE, cpu_words, waits_in, wrapper_remedy
from kernelbook.judge.findings.peers import loses_for_nothing, loss_to_eager, unfused_twin
from kernelbook.judge.findings.rules import CPU, FORWARD, RECOVERABLE, SPENT, Finding, Scene, in_cases, rule, times
from kernelbook.judge.findings.waits import READING_OPS
from kernelbook.judge.time_line import COMPILE, SYNCHRONIZATION
from kernelbook.judge.time_split import TimeSplit
from kernelbook.text.units import duration, plural

REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")
UNPACED = "None needed while the device is the bottleneck."
#: Ops that another op around them explains.
INNER_OPS = {"aten::_local_scalar_dense", "aten::copy_"}


def _wrappers(group: Sequence[Finding]) -> str:
    return (
        f"In {in_cases(group)} torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region "
        f"itself) takes {times(group)} of CPU time a forward under the profiler. The forward is bound by the device, "
        "so "
        "this costs no forward time."
    )


@rule("compile-overhead", "CPU time of torch.compile's wrapper in every call", _wrappers)
def compile_overhead(scene: Scene) -> Iterator[Finding]:
    """Guards, prologue and self time of the compiled region, without the code that Inductor generated.

    Time and share are those under the profiler. If CPU time is forward time, the severity follows from the part that an
    unprofiled forward can lose, which is at most the idle time of the device.
    """
    facts = scene.facts
    cost = cpu_cost(facts, lambda total: total.category == "op" and bool(WRAPPER_RANGE.search(total.name)))
    paced = cpu_paced(facts)
    # compile-fused-nothing and graph-breaks report it with its cause
    if cost is None or (paced and loses_for_nothing(scene)) or len(_regions(scene)) > 1:
        return
    lost = _lost(facts, cost) if paced else cost.span
    text = (
        "torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region itself) takes "
        f"{cost.span}{cost.span.over} of CPU time in each call under the profiler."
    )
    if lost.time_us < cost.span.time_us:
        text += f" An unprofiled forward loses at most the {lost} for which its device is idle."
    hidden = bound_of(facts)[0] == "gpu"
    if hidden:
        text += " The forward is bound by the device, so this costs no forward time."
    text += _against_eager(scene)
    remedy = UNPACED if hidden else wrapper_remedy(scene)
    share = part(cost.time_us, facts.cpu_time_us)
    weight = share if facts.forward_time_us is None else part(lost.time_us, facts.forward_time_us)
    yield Finding(
        "compile-overhead", cpu_severity(facts, weight), cost.time_us, share, cost.evidence, remedy, text, of=CPU,
        kind=SPENT, time_low_us=cost.span.low_us, time_high_us=cost.span.high_us, theme="" if hidden else None,
    )  # fmt: skip


def _lost(facts: CaseFacts, cost: CpuCost) -> TimeRange:
    """Upper bound of the time that an unprofiled forward loses, over the processes."""
    idle = idle_by_process(facts) if facts.on_device else {}
    return span_of(min(time, idle.get(process, time)) for process, time in cost.by_process.items()) or cost.span


def _against_eager(scene: Scene) -> str:
    """CPU time of a forward against eager's, over the processes."""
    twin = scene.eager_twin()
    own, eager = cpu_span(scene.facts), cpu_span(twin) if twin and scene.comparable(twin) else None
    if own is None or eager is None:
        return ""
    if own.low_us <= eager.high_us and eager.low_us <= own.high_us:
        return f" A whole forward takes {own} of CPU time, eager {eager}: the processes overlap."
    return f" A whole forward takes {own} of CPU time, eager {eager}."


@rule("compile-fused-nothing", "a compiled case runs the same kernels as its eager twin")
def compile_fused_nothing(scene: Scene) -> Iterator[Finding]:
    """By full name and count. The cost is that of an unprofiled forward, if every process is slower than eager.

    It then replaces the other findings about idle time: eager was measured, so this time can be saved.
    """
    twin = unfused_twin(scene)
    if twin is None:
        return
    facts, loss = scene.facts, loss_to_eager(scene)
    number = f"the same {'kernel' if len(scene.kernels) == 1 else f'{len(scene.kernels)} kernels'}"
    text = f"torch.compile fused nothing: it runs {number} as {twin.case}"
    evidence = ", ".join(k.label for k in scene.kernels)
    if loss is None:
        remedy = "Compile a larger part of the model; nothing is left to fuse here."
        yield note("compile-fused-nothing", evidence, remedy, f"{text}.")
        return
    mine, eager = loss.mine, loss.eager
    text += f", and an unprofiled forward takes {mine}{mine.over} against {eager}.{_waiting(facts)}"
    remedy = "Leave it eager, or compile a larger part of the model; nothing is left to fuse here."
    share = part(loss.time_us, facts.forward_time_us)
    yield Finding(
        "compile-fused-nothing", severity(share), loss.time_us, share, evidence, remedy, text, of=FORWARD,
        kind=RECOVERABLE, time_low_us=mine.low_us - eager.high_us, time_high_us=mine.high_us - eager.low_us,
    )  # fmt: skip


def _waiting(facts: CaseFacts) -> str:
    """A sentence about the device waiting for the CPU; empty if it does not."""
    behind = [process for process, bound in bounds_by_process(facts).items() if bound == "launches"]
    if not behind or not cpu_paced(facts):
        return ""
    return (
        f" Overhead-bound (launch-bound){waits_in(facts, behind)}: the device is busy for "
        f"{duration(facts.device_busy_us)} of it and waits for the CPU{cpu_words(facts)}."
    )


@rule("graph-breaks", "a forward enters more than one compiled region")
def graph_breaks(scene: Scene) -> Iterator[Finding]:
    """Each break returns to Python between two regions. The time is the idle time in torch.compile's own code.

    Ops between the regions that wait for the device are named with how long they do.
    """
    regions, split = _regions(scene), scene.split
    if len(regions) < 2:
        return
    between = [op.name for op in scene.facts.ops if "::" in op.name and not began_inside(op.start_us, regions)]
    common = ", ".join(name for name, _ in Counter(n for n in between if n not in INNER_OPS).most_common(3))
    time_us = split.of_kind(COMPILE) if split else None
    share = part(time_us, split.time_us) if split else None
    breaks = plural(len(regions) - 1, "graph break")
    text = (
        f"The forward enters {len(regions)} compiled regions: {breaks}{f', with {common} between' if common else ''}."
        f"{_waits_between(split)}"
    )
    if any(name in READING_OPS for name in between):
        remedy = "Remove .item() and bool() on tensors, which break the graph and wait for the device."
    else:
        remedy = "TORCH_LOGS=graph_breaks names each cause; torch.compile(fullgraph=True) refuses them."
    evidence = f"{len(regions)} ranges named Torch-Compiled Region"
    yield Finding("graph-breaks", severity(share), time_us, share, evidence, remedy, text, of=FORWARD, kind=RECOVERABLE)


def _regions(scene: Scene) -> list[Call]:
    return [call for call in scene.facts.calls if call.name.startswith("Torch-Compiled Region")]


def _waits_between(split: TimeSplit | None) -> str:
    """A sentence about the synchronizations of ops that read values; empty without any."""
    waits = [w for w in split.waits if w.kind == SYNCHRONIZATION and w.op in READING_OPS] if split else []
    count, time_us = sum(wait.count for wait in waits), sum(wait.time_us for wait in waits)
    between = f"{plural(count, 'wait')} for the device, {duration(time_us)} in all"
    return f" Values are read between them: {between}." if count else ""


@rule("recompiled", "a frame was compiled more than once")
def recompiled(scene: Scene) -> Iterator[Finding]:
    """Region N/M with M > 0 is a later compilation of frame N."""

    def again(total: CallTotal) -> bool:
        match = REGION.search(total.name)
        return total.category == "op" and match is not None and int(match.group(2)) > 0

    cost = cpu_cost(scene.facts, again)
    if cost is None:
        return
    text = (
        f"The compiled region is {', '.join(name.partition(': ')[2] for name in cost.parts)}: the frame was "
        "recompiled because a shape, stride or value that a guard had fixed changed."
    )
    remedy = (
        "Mark dynamic dimensions (torch._dynamo.mark_dynamic, dynamic=True), or keep shapes and strides constant. "
        "TORCH_LOGS=recompiles prints the guard that failed."
    )
    yield from cpu_note(scene, "recompiled", cost, text, remedy)
