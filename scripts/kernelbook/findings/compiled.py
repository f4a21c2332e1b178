"""torch.compile: what each call pays on the CPU, whether anything was fused, whether it was compiled again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kernelbook.case_facts import CallTotal
from kernelbook.findings.registry import CPU, Finding, Scene, cpu_cost, cpu_finding, cpu_severity, part, rule
from kernelbook.units import duration, plural

PER_CALL = re.compile(
    r"TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue|Torch-Compiled Region"
    r"|CompiledFunction$|## Call CompiledFxGraph|Inductor .*prologue",
    re.IGNORECASE,
)
REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")


@rule("compile-overhead", "ranges that torch.compile adds on the CPU in every call")
def compile_overhead(scene: Scene) -> Iterator[Finding]:
    """Guards, prologue and the compiled region's own time, against the eager twin where there is one."""
    on_device = scene.facts.on_device

    def per_call(total: CallTotal) -> bool:
        work = total.name.startswith("##") and not on_device  # there the compiled graph's own time is the work itself
        return total.category == "op" and bool(PER_CALL.search(total.name)) and not work

    cost = cpu_cost(scene.facts, per_call)
    if cost is None:
        return
    twin = scene.eager_twin()
    versus = ""
    if twin and scene.comparable(twin) and twin.cpu_time_us and scene.facts.cpu_time_us:
        own, eager = duration(scene.facts.cpu_time_us), duration(twin.cpu_time_us)
        versus = f" A forward takes {own} of it, eager {eager}."
    text = (
        f"torch.compile adds {plural(cost.count, 'profiler range')} to each call, {duration(cost.time_us)} of CPU time "
        f"under the profiler (cache look-up of Dynamo, prologue, compiled region).{versus}"
    )
    remedy = "It pays where the device saves more than that; mode='reduce-overhead' replays the launches as one graph."
    yield from cpu_finding(scene, "compile-overhead", cost, text, remedy)


@rule("compile-fused-nothing", "a compiled case runs the very kernels of its eager twin")
def compile_fused_nothing(scene: Scene) -> Iterator[Finding]:
    """By full name and number."""
    twin = scene.eager_twin()
    if twin is None or not twin.on_device or not scene.kernels or scene.facts.mode != "compile":
        return
    own = Counter(k.name for k in scene.kernels)
    theirs = Counter(k.name for k in twin.activities if k.category == "kernel")
    if own != theirs:
        return
    number = f"the very {'kernel' if len(scene.kernels) == 1 else f'{len(scene.kernels)} kernels'}"
    extra = (scene.facts.cpu_time_us or 0) - (twin.cpu_time_us or 0) if scene.comparable(twin) else 0.0
    cost = f", and costs {duration(extra)} more CPU time a call under the profiler" if extra > 0 else ""
    text = f"torch.compile fused nothing: it runs {number} of {twin.case}{cost}."
    share = part(max(extra, 0.0), scene.facts.cpu_time_us)
    evidence = ", ".join(k.label for k in scene.kernels)
    remedy = "Nothing is left to fuse here: leave it eager, or compile a larger part of the model."
    level = cpu_severity(scene.facts, share)
    yield Finding("compile-fused-nothing", level, max(extra, 0.0), share, evidence, remedy, text, of=CPU)


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
    yield from cpu_finding(scene, "recompiled", cost, text, remedy, info=True)
