"""torch.compile: graph breaks, compilations inside a forward, missing compiled code or CUDA graphs, missed fusions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from kernelbook.cases import Activity, CallTotal, CaseFacts
from kernelbook.judge.findings.costs import (
    LEAST_WORK,
    began_inside,
    cpu_cost,
    cpu_note,
    described,
    idle_of_launches,
    note,
    part,
    positions,
    timed,
    total,
)
from kernelbook.judge.findings.rules import DEVICE, FORWARD, RECOVERABLE, Finding, Scene, rule
from kernelbook.judge.findings.waits import LEAST_SHARE, READING_OPS
from kernelbook.judge.fusions import unfused_kernels
from kernelbook.judge.time_line import COMPILE, SYNCHRONIZATION, range_kind
from kernelbook.judge.time_split import Cause, TimeSplit
from kernelbook.text.formatting import duration, plural

REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")
#: Ranges of Dynamo and Inductor while they compile; other ranges call compiled code.
COMPILING = re.compile(r"\(dynamo_timed\)|^_compile|compile_fx|async_compile|build_guards")
#: Ops that another op around them explains.
INNER_OPS = {"aten::_local_scalar_dense", "aten::copy_"}
#: Modes of torch.compile that use CUDA graphs.
GRAPH_MODES = ("reduce-overhead", "max-autotune")
MOST_LOGGED = 3


@rule("graph-breaks", "a forward enters more than one compiled region")
def graph_breaks(scene: Scene) -> Iterator[Finding]:
    """Each break returns to Python between two regions. The time is the idle time in torch.compile's own code.

    The text names ops between the regions, and the time of those that wait for the device.
    """
    regions, split = scene.compiled_regions, scene.split
    if len(regions) < 2:
        return
    between = [op.name for op in scene.facts.ops if "::" in op.name and not began_inside(op.start_us, regions)]
    common = ", ".join(name for name, _ in Counter(n for n in between if n not in INNER_OPS).most_common(3))
    time_us = split.of_kind(COMPILE) if split else None
    breaks = plural(len(regions) - 1, "graph break")
    text = (
        f"The forward enters {len(regions)} compiled regions: {breaks}{f', with {common} between' if common else ''}."
        f"{_waits_between(split)}{_logged_breaks(scene.facts)}"
    )
    if any(name in READING_OPS for name in between):
        remedy = "Remove .item() and bool() on tensors, which break the graph and wait for the device."
    else:
        remedy = "TORCH_LOGS=graph_breaks names each cause; torch.compile(fullgraph=True) refuses them."
    evidence = f"{len(regions)} ranges named Torch-Compiled Region"
    yield timed(scene, FORWARD, time_us, text, remedy, evidence, RECOVERABLE)


def _waits_between(split: TimeSplit | None) -> str:
    """A sentence about the synchronizations of ops that read values; empty without any."""
    waits = [w for w in split.waits if w.kind == SYNCHRONIZATION and w.op in READING_OPS] if split else []
    count, time_us = sum(wait.count for wait in waits), sum(wait.time_us for wait in waits)
    between = f"{plural(count, 'wait')} for the device, {duration(time_us)} in all"
    return f" Values are read between them: {between}." if count else ""


def _logged_breaks(facts: CaseFacts) -> str:
    """A sentence with the commonest reasons that Dynamo counted; empty without any."""
    counted: Counter[str] = Counter()
    for process in facts.processes:
        counted.update((process.dynamo.graph_breaks if process.dynamo else None) or {})
    reasons = "; ".join(reason for reason, _ in counted.most_common(MOST_LOGGED))
    return f" torch logged: {reasons}." if reasons else ""


@rule("compiled-in-forward", "torch.compile compiles inside a profiled forward")
def compiled_in_forward(scene: Scene) -> Iterator[Finding]:
    """A recompilation, or a first call that was not warmed up."""
    split, causes = scene.split, _compiling(scene)
    time_us = sum(cause.time_us for cause in causes)
    if not split or time_us < LEAST_SHARE * split.time_us:
        return
    again = ", ".join(f"{frame}/{number}" for frame, number in _later_compilations(scene.facts))
    text = f"torch.compile compiles inside this forward, for {duration(time_us)} of it."
    text += f" It is a recompilation of a frame (region {again})." if again else ""
    remedy = (
        "Warm up with all shapes; where shapes vary use dynamic=True or mark_dynamic. TORCH_LOGS=recompiles names "
        "the guard that failed."
    )
    evidence = "; ".join(f"{cause.name[:48]} {duration(cause.time_us)}" for cause in causes[:5])
    yield timed(scene, FORWARD, time_us, text, remedy, evidence, RECOVERABLE)


def _compiling(scene: Scene) -> list[Cause]:
    """The causes of idle time in which Dynamo and Inductor compile."""
    causes = scene.split.causes if scene.split else ()
    return [cause for cause in causes if cause.kind == COMPILE and COMPILING.search(cause.name)]


def _later_compilations(facts: CaseFacts) -> list[tuple[str, str]]:
    """(frame, number) of the regions of recompiled frames: region N/M with M > 0 is a later compilation of frame N."""
    matches = (REGION.search(total.name) for total in facts.call_totals if total.category == "op")
    return list(dict.fromkeys((m[1], m[2]) for m in matches if m and int(m[2]) > 0))


@rule("recompiled", "a frame was compiled more than once")
def recompiled(scene: Scene) -> Iterator[Finding]:
    """Skipped if compiled-in-forward reports it."""

    def again(total: CallTotal) -> bool:
        match = REGION.search(total.name)
        return total.category == "op" and match is not None and int(match[2]) > 0

    spent = cpu_cost(scene.facts, [*filter(again, scene.facts.call_totals)])
    if spent is None or _compiling(scene):
        return
    text = (
        f"The compiled region is {', '.join(name.partition(': ')[2] for name in spent.parts)}: the frame was "
        "recompiled because a guard failed, most often on a shape, a stride or a value."
    )
    remedy = (
        "Mark dynamic dimensions (torch._dynamo.mark_dynamic, dynamic=True), or keep shapes and strides constant. "
        "TORCH_LOGS=recompiles prints the guard that failed."
    )
    yield cpu_note(scene, spent, text, remedy)


@rule("not-compiled", "a case of mode compile whose forwards run no compiled code")
def not_compiled(scene: Scene) -> Iterator[Finding]:
    """From a note of the measurement, else from the ranges and kernels of the trace.

    Dynamo skipped the frame, as it does for a break inside a loop or a with block; or the backend is eager.
    """
    facts, warning = scene.facts, scene.facts.note("not_compiled")
    if warning:
        text = f"{warning.message[:1].upper()}{warning.message[1:]}.{_logged_breaks(facts)}"
        evidence = f"{plural(warning.count, 'profiled forward')}"
    elif facts.mode == "compile" and facts.calls and not _runs_compiled_code(scene):
        text = (
            "The forward ran eagerly, although its mode is compile: no compiled region and no Triton kernel is in it."
            f"{_logged_breaks(facts)}"
        )
        evidence = f"{plural(len(facts.ops), 'op')}, none inside a range of torch.compile"
    else:
        return
    remedy = "TORCH_LOGS=graph_breaks says why Dynamo skipped the frame; torch.compile(fullgraph=True) refuses to."
    yield Finding("", "high", None, None, evidence, remedy, text)


def _runs_compiled_code(scene: Scene) -> bool:
    """Whether the forward has ranges of torch.compile, kernels that Inductor generated, or a CUDA graph's launch."""
    ranges = any(range_kind(call.name) == COMPILE for call in scene.facts.calls)
    return ranges or any(kernel.graph or kernel.decoded.library == "Triton" for kernel in scene.kernels)


@rule("no-cuda-graph", "a case that asks torch.compile for CUDA graphs and replays none")
def no_cuda_graph(scene: Scene) -> Iterator[Finding]:
    """Mode reduce-overhead or max-autotune, or the option triton.cudagraphs; a replay is one launch of many kernels.

    The time is the idle time of the forward, if the device waits for the CPU.
    """
    facts = scene.facts
    options = facts.compile_options
    asked = options.get("mode") in GRAPH_MODES or (options.get("options") or {}).get("triton.cudagraphs") is True
    replays = any(a.graph or "GraphLaunch" in (a.launch_api or "") for a in scene.activities)
    if not asked or replays or not scene.kernels or facts.device_type == "cpu":
        return
    idle = idle_of_launches(scene, facts.launches or 0)
    waits = f", and the device waits {duration(idle)} for the CPU" if idle else ""
    by = f"mode {options['mode']}" if options.get("mode") in GRAPH_MODES else "option triton.cudagraphs"
    text = (
        f"CUDA graphs were asked for ({by}), and the forward replays none: "
        f"{plural(facts.launches or 0, 'launch', 'launches')}{waits}.{_logged_skips(facts)}"
    )
    remedy = (
        "TORCH_LOGS=cudagraphs says why they were skipped: inputs that are changed in place, tensors on the CPU, "
        "dynamic shapes."
    )
    launches = ", ".join(dict.fromkeys(activity.launch_api or "an unknown call" for activity in scene.kernels))
    evidence = f"kernels launched by {launches}"
    if idle:
        yield timed(scene, FORWARD, idle, text, remedy, evidence)
    else:
        yield replace(note(evidence, remedy, text), severity="low")


def _logged_skips(facts: CaseFacts) -> str:
    """A sentence with what torch logged about skipped CUDA graphs; empty without any."""
    lines = (line for process in facts.processes if process.dynamo for line in process.dynamo.log)
    skips = list(dict.fromkeys(line.strip() for line in lines if "cudagraph" in line.lower()))[:MOST_LOGGED]
    return f" torch logged: {'; '.join(skips)}." if skips else ""


@rule(
    "not-fused",
    "two kernels that Inductor generated run one after the other, take over 5 % of the device time, and Inductor's log "
    "says why it did not fuse them",
)
def not_fused(scene: Scene) -> Iterator[Finding]:
    """The saving of a fusion is unknown: it avoids the traffic between the two if their loops fit together."""
    reasons = unfused_kernels(scene.facts)
    in_order = sorted(scene.kernels, key=lambda kernel: kernel.start_us or 0.0)
    work_of: dict[tuple[str, str], list[Activity]] = {}
    for one, other in pairwise(in_order):
        if (one.name, other.name) in reasons:
            work_of.setdefault((one.name, other.name), []).extend((one, other))
    for pair, work in work_of.items():
        share = part(total(work), scene.device_time_us)
        if (share or 0.0) < LEAST_WORK:
            continue
        names = " and ".join(f"{kernel.label}{scene.computed_ops(kernel)}" for kernel in work[:2])
        text = (
            f"{names} run one after the other, {duration(total(work))} together, and were not fused. Inductor logged: "
            f"{'; '.join(reasons[pair])}."
        )
        remedy = (
            "Change what it logged, where the model allows it (the order of ops, sizes, a reduction over another "
            "dimension); TORCH_LOGS=fusion shows the whole log."
        )
        listed, where = described(work), positions(work)
        yield timed(scene, DEVICE, total(work), text, remedy, listed, where=where, level="low")
