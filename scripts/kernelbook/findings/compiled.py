"""torch.compile: what each call pays on the CPU, whether anything was fused, whether it was compiled again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from kernelbook.case_facts import CallTotal, CaseFacts
from kernelbook.findings.costs import (
    CpuCost,
    Span,
    cpu_cost,
    cpu_note,
    cpu_paced,
    cpu_severity,
    cpu_span,
    forward_span,
    idle_by_process,
    note,
    part,
    severity,
    span_of,
)
from kernelbook.findings.overhead import WRAPPER_RANGE
from kernelbook.findings.registry import CPU, FORWARD, RECOVERABLE, SPENT, Finding, Scene, Told, rule
from kernelbook.findings.together import in_cases, times

REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")
#: A forward that is slower by less than this share than its eager twin is not told as a cost.
LEAST_LOSS = 0.02


def _wrappers(group: Sequence[Told]) -> str:
    return (
        f"In {in_cases(group)} torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region "
        f"itself) takes {times(group)} of CPU time a forward under the profiler. The device sets the pace there: it "
        "costs no forward time."
    )


@rule("compile-overhead", "ranges in which torch.compile's wrapper spends CPU time in every call", _wrappers)
def compile_overhead(scene: Scene) -> Iterator[Finding]:
    """Guards, prologue and the compiled region's own time; not the code that Inductor wrote, which does the launching.

    Where the CPU sets the pace, at most the time for which an unprofiled forward leaves the device idle.
    """
    facts = scene.facts
    cost = cpu_cost(facts, lambda total: total.category == "op" and bool(WRAPPER_RANGE.search(total.name)))
    if cost is None:
        return
    paced = cpu_paced(facts)
    span = _capped(facts, cost) if paced else cost.span
    text = (
        "torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region itself) takes "
        f"{cost.span}{cost.span.over} of CPU time in each call under the profiler."
    )
    if span.time_us < cost.span.time_us:
        text += f" An unprofiled forward can lose no more than the {span} for which its device is idle."
    if not paced:
        text += " The device sets the pace: it costs no forward time."
    text += _against_eager(scene)
    remedy = "It pays where the device saves more than that: compile a larger part of the model, or leave it eager."
    share = part(span.time_us, facts.cpu_time_us)
    yield Finding(
        "compile-overhead", cpu_severity(facts, share), span.time_us, share, cost.evidence, remedy, text, of=CPU,
        kind=SPENT, time_low_us=span.low_us, time_high_us=span.high_us, theme=None if paced else "",
    )  # fmt: skip


def _capped(facts: CaseFacts, cost: CpuCost) -> Span:
    idle = idle_by_process(facts) if facts.on_device else {}
    return span_of(min(time, idle.get(process, time)) for process, time in cost.by_process.items()) or cost.span


def _against_eager(scene: Scene) -> str:
    """The CPU time of a whole forward against eager's, said only where all processes agree which takes more."""
    twin = scene.eager_twin()
    own, eager = cpu_span(scene.facts), cpu_span(twin) if twin and scene.comparable(twin) else None
    if own is None or eager is None:
        return ""
    if own.low_us <= eager.high_us and eager.low_us <= own.high_us:
        return f" A whole forward takes {own} of CPU time, eager {eager}: the processes overlap."
    return f" A whole forward takes {own} of CPU time, eager {eager}."


@rule("compile-fused-nothing", "a compiled case runs the very kernels of its eager twin")
def compile_fused_nothing(scene: Scene) -> Iterator[Finding]:
    """By full name and number. Its cost is that of an unprofiled forward, where every process is slower than eager."""
    twin = scene.eager_twin()
    if twin is None or not twin.on_device or not scene.kernels or scene.facts.mode != "compile":
        return
    own = Counter(k.name for k in scene.kernels)
    theirs = Counter(k.name for k in twin.activities if k.category == "kernel")
    if own != theirs:
        return
    number = f"the very {'kernel' if len(scene.kernels) == 1 else f'{len(scene.kernels)} kernels'}"
    text = f"torch.compile fused nothing: it runs {number} of {twin.case}"
    evidence = ", ".join(k.label for k in scene.kernels)
    remedy = "Nothing is left to fuse here: leave it eager, or compile a larger part of the model."
    mine = forward_span(scene.facts)
    eager = forward_span(twin) if scene.comparable(twin) else None
    extra = mine.time_us - eager.time_us if mine and eager else 0.0
    share = part(extra, scene.facts.forward_time_us)
    if not mine or not eager or mine.low_us <= eager.high_us or (share or 0.0) < LEAST_LOSS:
        yield note("compile-fused-nothing", evidence, remedy, f"{text}.")
        return
    text += f", and an unprofiled forward takes {mine}{mine.over} against {eager}."
    yield Finding(
        "compile-fused-nothing", severity(share), extra, share, evidence, remedy, text, of=FORWARD, kind=RECOVERABLE,
        time_low_us=mine.low_us - eager.high_us, time_high_us=mine.high_us - eager.low_us,
    )  # fmt: skip


@rule("recompiled", "a frame was compiled more than once")
def recompiled(scene: Scene) -> Iterator[Finding]:
    """Region N/M with M > 0 is the second compilation, or a later one, of frame N."""

    def again(total: CallTotal) -> bool:
        found = REGION.search(total.name)
        return total.category == "op" and found is not None and int(found.group(2)) > 0

    cost = cpu_cost(scene.facts, again)
    if cost is None:
        return
    text = (
        f"The compiled region is {', '.join(name.partition(': ')[2] for name in cost.parts)}: the frame was "
        "compiled again, since a shape, stride or value that Inductor had fixed has changed."
    )
    remedy = "Mark what varies (torch._dynamo.mark_dynamic, dynamic=True), or keep shapes and strides the same."
    yield from cpu_note(scene, "recompiled", cost, text, remedy)
