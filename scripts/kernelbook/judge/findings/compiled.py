"""torch.compile: CPU time of its wrapper in each call, whether anything was fused, recompilations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.clock import bound_of, bounds_by_process
from kernelbook.judge.findings.costs import (
    LEAST_WORK,
    cpu_cost,
    cpu_paced,
    cpu_severity,
    cpu_span,
    described,
    note,
    part,
    positions,
    severity,
    total,
)
from kernelbook.judge.findings.overhead import WRAPPER_RANGE, cpu_words, waits_in, wrapper_remedy
from kernelbook.judge.findings.peers import loss_to_eager, unfused_twin
from kernelbook.judge.findings.rules import (
    CPU,
    DEVICE,
    FORWARD,
    RECOVERABLE,
    SPENT,
    Finding,
    Scene,
    in_cases,
    rule,
    times,
)
from kernelbook.judge.inductor_code import unfused_kernels
from kernelbook.text.formatting import duration

REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")
UNPACED = "None needed while the device is the bottleneck."
#: Ops that another op around them explains.
INNER_OPS = {"aten::_local_scalar_dense", "aten::copy_"}


def _wrappers(group: Sequence[Finding]) -> str:
    return (
        f"In {in_cases(group)} torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, the compiled region "
        f"itself) takes {times(group)} of CPU time a forward under the profiler. The forward is bound by the device, "
        "so this costs no forward time."
    )


@rule("compile-overhead", "CPU time of torch.compile's wrapper in every call", _wrappers)
def compile_overhead(scene: Scene) -> Iterator[Finding]:
    """Guards, prologue and self time of the compiled region, without the code that Inductor generated.

    Time and share are those under the profiler.
    """
    facts = scene.facts
    cost = cpu_cost(facts, lambda total: total.category == "op" and bool(WRAPPER_RANGE.search(total.name)))
    # Where the device waits for the CPU, overhead-bound, compile-fused-nothing or graph-breaks names the wrapper.
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
    share = part(cost.time_us, facts.cpu_time_us)
    yield Finding(
        "compile-overhead", cpu_severity(facts, share), cost.time_us, share, cost.evidence, remedy, text, of=CPU,
        kind=SPENT, time_low_us=cost.span.low_us, time_high_us=cost.span.high_us, theme="" if hidden else None,
    )  # fmt: skip


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


@rule(
    "not-fused",
    "two kernels that Inductor generated run one after the other, take over 5 % of the device time, and Inductor's log "
    "says why it did not fuse them",
)
def not_fused(scene: Scene) -> Iterator[Finding]:
    """What fusing them would save is not known: it spares the traffic between the two, if their loops fit together."""
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
        yield Finding(
            "not-fused", "low", total(work), share, described(work), remedy, text, positions(work), DEVICE, SPENT
        )
