"""Forwards that take longer than their device works, because it waits for the CPU; and what the CPU does meanwhile."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from kernelbook.case_facts import Activity, CallTotal, CaseFacts, median
from kernelbook.clock import bounds_by_process
from kernelbook.findings.costs import (
    Span,
    cpu_paced,
    cpu_span,
    forward_span,
    idle_span,
    note,
    part,
    percent,
    process_medians,
    severity,
    span_of,
)
from kernelbook.findings.registry import FORWARD, RECOVERABLE, Finding, Scene, Told, rule
from kernelbook.units import duration, plural

#: Parts of a forward's CPU time, told apart by who spends it.
WRAPPER, OUTPUT_CODE = "torch.compile's wrapper", "Inductor's output code"
OPS, CALLS, PYTHON = "ATen ops", "calls of the CUDA API", "Python between the ops"
#: Ranges that torch.compile opens around a call: guards, prologues and the compiled region itself.
WRAPPER_RANGE = re.compile(
    r"TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue|Torch-Compiled Region"
    r"|CompiledFunction$|Inductor .*prologue",
    re.IGNORECASE,
)
#: The range of the code that Inductor wrote: it allocates and launches, as an eager forward would, too.
OUTPUT_RANGE = "## Call CompiledFxGraph"
#: Parts below this share of the CPU time are left out of the sentence.
LEAST_PART = 0.05


def _in_some(group: Sequence[Told]) -> str:
    return (
        "Overhead-bound (launch-bound) in some processes and not in others: "
        f"{'; '.join(f'{case} in {finding.subject}' for case, finding in group)}."
    )


@rule(
    "overhead-bound",
    "an unprofiled forward takes over a tenth longer than the device works, and the CPU is why",
    _in_some,
)
def overhead_bound(scene: Scene) -> Iterator[Finding]:
    """Says in how many processes, what the CPU does, and where this case's kernels are the fastest of its workload."""
    facts = scene.facts
    bounds = bounds_by_process(facts)
    behind = sum(bound == "launches" for bound in bounds.values())
    whole, busy, idle = forward_span(facts), facts.device_busy_us, idle_span(facts)
    if not behind or whole is None or busy is None or idle is None:
        return
    often = f"{behind} of {len(bounds)} processes"
    text = f"Overhead-bound (launch-bound){f' in {often}' if behind < len(bounds) else ''}: "
    evidence = (
        f"forward {whole} unprofiled, device busy {duration(busy)}, CPU {cpu_span(facts)} under the profiler, "
        f"{plural(len(facts.ops), 'CPU op')}, {plural(facts.launches or 0, 'launch', 'launches')}"
    )
    if not cpu_paced(facts):
        text += f"unprofiled forwards take {whole}{whole.over}, and the device is busy for {duration(busy)}."
        ends = f"{duration(whole.low_us)} to {duration(whole.high_us)}"
        remedy = "Look at what differs between the processes: the GPU, the CPU beside it, and its load."
        yield note("overhead-bound", evidence, remedy, text, theme="", subject=f"{often}, {ends}")
        return
    parts = cpu_parts(facts)
    text += (
        f"an unprofiled forward takes {whole}{whole.over}, and the device is busy for {duration(busy)} of it. For the "
        f"other {idle}{'' if whole.apart else idle.over} it waits for the CPU{_said(parts)}.{_fastest(scene)}"
    )
    share = part(idle.time_us, facts.forward_time_us)
    yield Finding(
        "overhead-bound", severity(share), idle.time_us, share, evidence, _remedy(parts, facts), text, of=FORWARD,
        kind=RECOVERABLE, time_low_us=idle.low_us, time_high_us=idle.high_us,
    )  # fmt: skip


# --- what the CPU does -----------------------------------------------------------------------------------------------


def cpu_parts(facts: CaseFacts) -> dict[str, float]:
    """Part of the CPU time of a forward -> its share, the largest first; of each the median over processes.

    Every call counts with what it spends in itself; what no call covers is Python's.
    """
    wholes = {(forward.process, forward.index): forward.cpu_time_us for forward in facts.forwards}
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
    if total.category == "runtime":
        return CALLS
    if total.category != "op":
        return None
    if WRAPPER_RANGE.search(total.name):
        return WRAPPER
    if total.name.startswith(OUTPUT_RANGE) or total.name.startswith("triton_"):
        return OUTPUT_CODE
    return OPS if "::" in total.name else f"the Python function {total.name}"


def _said(parts: dict[str, float]) -> str:
    told = [f"{percent(share)} {name}" for name, share in parts.items() if share >= LEAST_PART]
    return f", whose time under the profiler is {', '.join(told)}" if told else ""


def _remedy(parts: dict[str, float], facts: CaseFacts) -> str:
    """By the largest part: less of torch.compile's wrapper, or fewer and larger ops."""
    compiled = parts.get(WRAPPER, 0.0) + parts.get(OUTPUT_CODE, 0.0)
    if compiled > max((share for name, share in parts.items() if name not in (WRAPPER, OUTPUT_CODE)), default=0.0):
        return "Compile a larger part of the model, so that one wrapper serves more kernels, or leave this part eager."
    if (facts.launches or 0) < 2:
        return "Give the call more work (a larger batch), or capture more of the model than this in one CUDA graph."
    return "Give each op more work, or replay the forward as a CUDA graph, which spares its ops and launches."


# --- the fastest kernels ---------------------------------------------------------------------------------------------


def _fastest(scene: Scene) -> str:
    """Whether no other kernels of this workload are faster; cases that run the very same kernels are no rivals."""
    own = Counter(kernel.name for kernel in scene.kernels)
    peers = {peer.case: Counter(k.name for k in _kernels(peer)) for peer in scene.peers()}
    rivals = [p for p in scene.peers() if p.device_time_us and peers[p.case] != own]
    mine = _device_span(scene.facts)
    if not rivals or mine is None or any(_reaches(rival, mine.high_us) for rival in rivals):
        return ""
    second = min(rivals, key=lambda p: p.forward_time_us or float("inf"))
    same = [case for case, kernels in peers.items() if kernels == own and case != scene.facts.case]
    also = f" (also in {', '.join(same)})" if same else ""
    which = f"its kernel{also} is" if sum(own.values()) == 1 else f"its kernels{also} are"
    gap = (second.device_time_us or 0.0) / (scene.facts.device_time_us or 1.0)
    return (
        f" Yet {which} the fastest of this workload: {gap:.2f} x as fast as {second.case} on the device, "
        f"{_unprofiled(scene.facts, second)}."
    )


def _unprofiled(facts: CaseFacts, second: CaseFacts) -> str:
    """How the unprofiled forwards compare: a ratio only where all processes of one are faster than all of the other."""
    mine, theirs = forward_span(facts), forward_span(second)
    if mine is None or theirs is None:
        return "their unprofiled forwards are not known"
    if mine.low_us <= theirs.high_us and theirs.low_us <= mine.high_us:
        return f"while the unprofiled forwards of the two overlap ({mine} and {theirs})"
    return f"{theirs.time_us / mine.time_us:.2f} x in an unprofiled forward"


def _reaches(rival: CaseFacts, us: float) -> bool:
    span = _device_span(rival)
    return span is not None and span.low_us <= us


def _device_span(facts: CaseFacts) -> Span | None:
    of_processes = [process.device_time_us for process in facts.processes if process.merged]
    return span_of(of_processes) or span_of([facts.device_time_us])


def _kernels(facts: CaseFacts) -> list[Activity]:
    return [a for a in facts.activities if a.category == "kernel"]
