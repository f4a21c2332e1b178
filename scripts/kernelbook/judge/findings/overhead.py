"""Overhead: forwards in which the device waits for the CPU, and the work of the CPU meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernelbook.cases import CallTotal, CaseFacts, median
from kernelbook.judge.clock import bound_of, bounds_by_process
from kernelbook.judge.findings import dynamo, products, waits
from kernelbook.judge.findings.costs import (
    cpu_cost,
    cpu_note,
    cpu_paced,
    cpu_span,
    device_span,
    forward_span,
    idle_span,
    note,
    part,
    process_medians,
    severity,
    timed,
)
from kernelbook.judge.findings.peers import loses_for_nothing, loss_to_eager, unfused_twin
from kernelbook.judge.findings.rules import FORWARD, RECOVERABLE, SEVERITIES, Finding, Scene, rule
from kernelbook.judge.time_line import OPTIMIZER, OVERHEAD
from kernelbook.text.formatting import duration, percent, plural

#: Parts of a forward's CPU time.
WRAPPER, OUTPUT_CODE = "torch.compile's wrapper", "Inductor's output code"
OPS, CALLS, PYTHON = "ATen ops", "calls of the CUDA API", "Python between the ops"
#: Ranges of torch.compile around a call: guards, prologues and the compiled region.
WRAPPER_RANGE = re.compile(
    r"TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue|Torch-Compiled Region"
    r"|CompiledFunction$|Inductor .*prologue",
    re.IGNORECASE,
)
#: The range of the code that Inductor generated, which allocates and launches.
OUTPUT_RANGE = "## Call CompiledFxGraph"
#: Rules that name a cause of idle time.
CAUSES = (
    waits.synchronization, waits.pageable_copy, waits.allocation, waits.data_loading, waits.optimizer_on_cpu,
    waits.cpu_op, waits.python_time, dynamo.graph_breaks, dynamo.compiled_in_forward,
)  # fmt: skip
#: Rules that name launches to spare.
SPARING = (products.products_apart, dynamo.no_cuda_graph)
AFTERWARDS = "Then give each op more work, for example by a larger batch."
#: Smaller parts of the CPU time are left out of texts.
LEAST_PART = 0.05


def _in_some(group: Sequence[Finding]) -> str:
    return (
        "Overhead-bound (launch-bound) in some processes and not in others: "
        f"{'; '.join(f'{f.case} in {f.subject}' for f in group)}."
    )


@rule(
    "overhead-bound",
    "an unprofiled forward takes over 10 % longer than the device is busy, and the CPU is busy longer than the device",
    _in_some,
)
def overhead_bound(scene: Scene) -> Iterator[Finding]:
    """With the number of processes, the parts of CPU time, and whether the kernels are the fastest of the workload."""
    facts = scene.facts
    bounds = bounds_by_process(facts)
    behind = [process for process, bound in bounds.items() if bound == "launches"]
    if not behind or (cpu_paced(facts) and loses_for_nothing(scene)):  # compile-fused-nothing reports the latter
        return
    if cpu_paced(facts):
        yield from _after_causes(scene, _waits(scene, behind))
        return
    whole, often = forward_span(facts), f"{len(behind)} of {len(bounds)} processes"
    if whole is None:
        return
    text = (
        f"Overhead-bound (launch-bound) in {often}: unprofiled forwards take {whole}{whole.over}, and the device is "
        f"busy for {duration(facts.device_busy_us)}."
    )
    remedy = "Compare the GPU, the CPU and the load of the machine between the processes."
    yield note(_figures(facts), remedy, text, theme="", subject=f"{often}, {whole.ends}")


def _after_causes(scene: Scene, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Drop the findings if most of the idle time is that of the optimizer, or of causes or launches of other rules.

    Otherwise they are less severe than the findings of these rules, since a CPU that waits for the device cannot launch
    ahead.
    """
    if scene.split and scene.split.of_kind(OPTIMIZER) > 0.5 * scene.split.idle_us:
        return
    causes = [cause for look in CAUSES for cause in look(scene) if cause.severity in ("high", "medium")]
    least = max((SEVERITIES.index(cause.severity) for cause in causes), default=None)
    explained = sum(cause.time_us or 0.0 for cause in causes)
    spared = sum(finding.time_us or 0.0 for look in SPARING for finding in look(scene))
    for finding in findings:
        if spared > 0.5 * (finding.time_us or 0.0):
            continue
        if least is None:
            yield finding
        elif explained <= 0.5 * (finding.time_us or 0.0):
            level = SEVERITIES[max(SEVERITIES.index(finding.severity), least + 1)]
            remedy = f"First remove what waits ({', '.join(dict.fromkeys(c.rule for c in causes))}). {AFTERWARDS}"
            yield replace(finding, severity=level, remedy=remedy)


def _waits(scene: Scene, behind: Sequence[int]) -> Iterator[Finding]:
    """The finding on the processes `behind`, in which the device waits for the CPU.

    The time is the idle time of the device; its kind is spent, since the saving of a remedy was not measured.
    """
    facts = scene.facts
    late = replace(facts, processes=tuple(p for p in facts.processes if p.process in behind))
    whole, idle, busy = forward_span(late), idle_span(late), median(p.device_busy_us for p in late.processes)
    if whole is None or idle is None or busy is None:
        return
    some = waits_in(facts, behind)
    takes = f"there an unprofiled forward takes {whole.ends}" if some else f"an unprofiled forward takes {whole}"
    text = (
        f"Overhead-bound (launch-bound){some}: {takes}{'' if some else whole.over}, and the device is busy for "
        f"{duration(busy)} of it. For the other {idle.ends if some else idle}{'' if some or whole.apart else idle.over}"
        f" it waits for the CPU{cpu_words(facts)}.{_fastest(scene)}"
    )
    span = idle.low_us, idle.high_us
    yield timed(scene, FORWARD, idle.time_us, text, _remedy(scene), _figures(facts), whole_us=whole.time_us, span=span)


def waits_in(facts: CaseFacts, behind: Sequence[int]) -> str:
    """`` in 2 of 3 processes``; empty if all of them wait."""
    merged = sum(process.merged for process in facts.processes)
    return f" in {len(behind)} of {merged} processes" if len(behind) < merged else ""


def _figures(facts: CaseFacts) -> str:
    return (
        f"forward {forward_span(facts)} unprofiled, device busy {duration(facts.device_busy_us)}, CPU "
        f"{cpu_span(facts)} under the profiler, {plural(len(facts.ops), 'CPU op')}, "
        f"{plural(facts.launches or 0, 'launch', 'launches')}"
    )


# --- work of the CPU -------------------------------------------------------------------------------------------------


def cpu_parts(facts: CaseFacts) -> dict[str, float]:
    """Part of a forward's CPU time -> its share, largest first; medians over the processes.

    Each call counts with its self time; the rest is Python.
    """
    wholes = {(forward.process, forward.index): forward.cpu_time_us for forward in facts.usual_forwards}
    sums: dict[str, dict[tuple[int, int], float]] = {PYTHON: dict(wholes)}
    for total in facts.call_totals:
        place = total.process, total.index
        name = _part_of(total)
        if name is None or place not in wholes:
            continue
        times = sums.setdefault(name, dict.fromkeys(wholes, 0.0))
        times[place] += total.self_us
        sums[PYTHON][place] -= total.self_us
    usual = {name: max(median(process_medians(times).values()) or 0.0, 0.0) for name, times in sums.items()}
    whole = sum(usual.values())
    return {name: time / whole for name, time in sorted(usual.items(), key=lambda item: -item[1]) if whole}


def _part_of(total: CallTotal) -> str | None:
    if total.category in ("runtime", OVERHEAD):
        return CALLS
    if total.category != "op":
        return None
    if WRAPPER_RANGE.search(total.name):
        return WRAPPER
    if total.name.startswith(OUTPUT_RANGE) or total.name.startswith("triton_"):
        return OUTPUT_CODE
    return OPS if "::" in total.name else f"the Python function {total.name}"


def cpu_words(facts: CaseFacts) -> str:
    """The larger parts as a clause; empty if none is known."""
    texts = [f"{percent(share)} {name}" for name, share in cpu_parts(facts).items() if share >= LEAST_PART]
    return f", whose time under the profiler is {', '.join(texts)}" if texts else ""


def _remedy(scene: Scene) -> str:
    """By the largest part: less of torch.compile's wrapper, or fewer and larger ops."""
    blocking = waits.blocking_calls(scene.facts)
    parts, facts = cpu_parts(scene.facts), scene.facts
    compiled = parts.get(WRAPPER, 0.0) + parts.get(OUTPUT_CODE, 0.0)
    if compiled > max((share for name, share in parts.items() if name not in (WRAPPER, OUTPUT_CODE)), default=0.0):
        return wrapper_remedy(scene)
    if blocking or not facts.on_device:
        return "Give each op more work, for example by a larger batch."
    if (facts.launches or 0) < 2 or any(activity.graph for activity in scene.activities):
        return "Give the call more work (a larger batch), or capture more of the model than this in one CUDA graph."
    return "Give each op more work, or replay the forward as a CUDA graph, which avoids the CPU time of its launches."


def wrapper_remedy(scene: Scene) -> str:
    """Less CPU time in torch.compile's wrapper; eager only if it was measured and is faster."""
    ways = ["compile a larger part of the model, so that one wrapper serves more kernels"]
    capturable = scene.facts.on_device and not waits.blocking_calls(scene.facts)
    if capturable and not any(activity.graph for activity in scene.activities):
        ways.insert(
            0,
            "replay the forward as a CUDA graph: torch.cuda.graph avoids wrapper and launches, "
            "torch.compile(mode='reduce-overhead') the launches alone",
        )
    loss = loss_to_eager(scene)
    if loss:
        ways.append(f"leave it eager: {loss.twin.case} takes {loss.eager} unprofiled")
    text = "; or ".join(ways)
    return f"{text[:1].upper()}{text[1:]}."


# --- the fastest kernels ---------------------------------------------------------------------------------------------


def _fastest(scene: Scene) -> str:
    """A sentence if the kernels are the fastest of the workload; cases with the same kernels do not count."""
    own = scene.facts.kernel_names
    peers = {peer.case: peer.kernel_names for peer in scene.peers()}
    rivals = [p for p in scene.peers() if p.device_time_us and peers[p.case] != own]
    mine = device_span(scene.facts)
    if not rivals or mine is None or any(_reaches(rival, mine.high_us) for rival in rivals):
        return ""
    second = min(rivals, key=lambda p: p.device_time_us or float("inf"))
    same = [case for case, kernels in peers.items() if kernels == own and case != scene.facts.case]
    also = f" (also in {', '.join(same)})" if same else ""
    which = f"its kernel{also} is" if own.total() == 1 else f"its kernels{also} are"
    gap = (second.device_time_us or 0.0) / (scene.facts.device_time_us or 1.0)
    return (
        f" Yet {which} the fastest of this workload: {gap:.2f}× as fast as {second.case} on the device, "
        f"{_unprofiled(scene.facts, second)}."
    )


def _unprofiled(facts: CaseFacts, second: CaseFacts) -> str:
    """Unprofiled forwards compared: a ratio only if all processes of one are faster than all of the other."""
    mine, theirs = forward_span(facts), forward_span(second)
    if mine is None or theirs is None:
        return "their unprofiled forwards are not known"
    if mine.low_us <= theirs.high_us and theirs.low_us <= mine.high_us:
        return f"while the unprofiled forwards of the two overlap ({mine} and {theirs})"
    return f"{theirs.time_us / mine.time_us:.2f}× in an unprofiled forward"


def _reaches(rival: CaseFacts, us: float) -> bool:
    span = device_span(rival)
    return span is not None and span.low_us <= us


# --- torch.compile ---------------------------------------------------------------------------------------------------

UNPACED = "None needed while the device is the bottleneck."


@rule(
    "compile-overhead",
    "CPU time of torch.compile's wrapper in every call",
    "In {cases} torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region itself) takes "
    "{times} of CPU time a forward under the profiler. The forward is bound by the device, so this costs no forward "
    "time.",
)
def compile_overhead(scene: Scene) -> Iterator[Finding]:
    """Guards, prologue and self time of the compiled region, without the code that Inductor generated.

    Time and share are those under the profiler.
    """
    facts = scene.facts
    cost = cpu_cost(facts, [t for t in facts.call_totals if t.category == "op" and WRAPPER_RANGE.search(t.name)])
    # If the device waits for the CPU, overhead-bound, compile-fused-nothing or graph-breaks reports the wrapper.
    if cost is None or (facts.on_device and cpu_paced(facts)) or len(scene.compiled_regions) > 1:
        return
    hidden = bound_of(facts)[0] == "gpu"
    text = (
        "torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region itself) takes "
        f"{cost.span}{cost.span.over} of CPU time in each call under the profiler."
    )
    if hidden:
        text += " The forward is bound by the device, so this costs no forward time."
    text += _against_eager(scene)
    remedy = UNPACED if hidden else wrapper_remedy(scene)
    level = severity(part(cost.time_us, facts.cpu_time_us)) if cpu_paced(facts) else "info"
    yield cpu_note(scene, cost, text, remedy, theme="" if hidden else None, level=level)


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
        yield note(evidence, remedy, f"{text}.")
        return
    mine, eager = loss.mine, loss.eager
    text += f", and an unprofiled forward takes {mine}{mine.over} against {eager}.{_waiting(facts)}"
    remedy = "Leave it eager, or compile a larger part of the model; nothing is left to fuse here."
    span = mine.low_us - eager.high_us, mine.high_us - eager.low_us
    yield timed(
        scene, FORWARD, loss.time_us, text, remedy, evidence, RECOVERABLE, whole_us=facts.forward_time_us, span=span
    )


def _waiting(facts: CaseFacts) -> str:
    """A sentence about the device waiting for the CPU; empty if it does not."""
    behind = [process for process, bound in bounds_by_process(facts).items() if bound == "launches"]
    if not behind or not cpu_paced(facts):
        return ""
    return (
        f" Overhead-bound (launch-bound){waits_in(facts, behind)}: the device is busy for "
        f"{duration(facts.device_busy_us)} of it and waits for the CPU{cpu_words(facts)}."
    )
