"""Pointwise kernels, softmax and reductions with a memory rate far below that of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelbook.cases import Activity, CaseFacts
from kernelbook.counters import KernelCounters
from kernelbook.judge.cost_model import Ceilings, KernelCost, kernel_costs
from kernelbook.judge.findings.attention_backends import MATH, fused_backend
from kernelbook.judge.findings.copies import converts
from kernelbook.judge.findings.costs import part, percent, severity
from kernelbook.judge.findings.rules import DEVICE, RECOVERABLE, Finding, Scene, rule
from kernelbook.text.units import duration, significant

POINTWISE, ROWWISE = ("elementwise", "copy/cast", "fill/mask"), ("softmax", "reduction")
#: A kernel is slow below this share of the copy ceiling, if it takes at least this share of the device time.
SLOW_BELOW, LEAST_SHARE = 0.7, 0.05
#: Another kernel is mentioned if its share is larger by this factor; bytes within ALIKE count as equal.
MUCH_BETTER, ALIKE = 1.2, 0.01


def _in_several(group: Sequence[Finding]) -> str:
    """The text of the most expensive one, and the times of the same kernel in other cases."""
    dearest = max(group, key=lambda finding: finding.time_us or 0.0)
    others = "; ".join(f"{f.case}: {f.subject}" for f in group if f.case != dearest.case)
    return f"{dearest.text} The same kernel in {others}."


@rule(
    "slow-pointwise",
    "a pointwise kernel, a softmax or a reduction under 70 % of the memory ceiling, and over 5 % of the forward",
    _in_several,
    yields=2,
)
def slow_pointwise(scene: Scene) -> Iterator[Finding]:
    """By the bytes of whole tensors, each read or written once; the time is what a kernel at the ceiling would save.

    Of low severity where no other kernel shows that it can be faster: a softmax over long rows reads them twice.
    """
    whole = scene.device_time_us
    rows = {a.position: a for a in scene.activities}
    for cost in kernel_costs(scene.facts, scene.ceilings):
        kernel, share = rows[cost.position], cost.share_of_memory
        weighs = (part(cost.time_us, whole) or 0.0) > LEAST_SHARE
        if share is None or share >= SLOW_BELOW or not weighs or kernel.family not in POINTWISE + ROWWISE:
            continue
        counted = scene.facts.measured.get(cost.position)
        if counted and (counted.dram_percent or 0.0) >= 100 * SLOW_BELOW:  # DRAM is busy with more than these bytes
            continue
        saved = cost.time_us * (1 - share)
        swifter = _swifter(scene, cost, ROWWISE if kernel.family in ROWWISE else POINTWISE)
        text = (
            f"{kernel.label}{scene.computed_ops(kernel)} moves {_moved(cost, counted)} of the memory ceiling."
            f"{swifter}{_limit(counted)}"
        )
        evidence = f"{kernel.label}, {cost.op or 'no op'}: {cost.bytes} bytes in {duration(cost.time_us)}"
        of_whole, remedy, where = part(saved, whole), _remedy(scene, kernel), (cost.position,)
        level = severity(of_whole)
        yield Finding(
            "slow-pointwise",
            level if swifter else "low",
            saved,
            of_whole,
            evidence,
            remedy,
            text,
            where,
            DEVICE,
            RECOVERABLE,
            theme=f"{kernel.name} {cost.bytes}",
            subject=duration(cost.time_us),
        )


def _limit(counted: KernelCounters | None) -> str:
    """The measured limiter, as a sentence of its own."""
    return f" {counted.sentence}" if counted and counted.sentence else ""


def _moved(cost: KernelCost, counted: KernelCounters | None) -> str:
    """Bytes, time, rate and share of a copy: measured ones where Nsight Compute has them, else those of the tensors."""
    mib, gb_per_s, share = cost.bytes / 2**20, cost.gb_per_s or 0.0, cost.share_of_memory or 0.0
    source = ""
    if counted and counted.dram_bytes is not None:
        source = f" of DRAM traffic (measured by Nsight Compute; {significant(mib)} MiB by its tensors)"
        ratio = counted.dram_bytes / cost.bytes
        mib, gb_per_s, share = mib * ratio, gb_per_s * ratio, share * ratio
    size = f"{significant(mib)} MiB{source}"
    return f"{size} in {duration(cost.time_us)}: {significant(gb_per_s)} GB/s, {percent(share)}"


def _swifter(scene: Scene, cost: KernelCost, families: Sequence[str]) -> str:
    """A much faster kernel of these families: of the same forward, otherwise of a peer with similar bytes."""
    own = _best(scene.facts, scene.ceilings, cost, families)
    if own:
        return f" {own.label} in the same forward reaches {percent(own.share_of_memory or 0.0)}."
    candidates = []
    for peer in scene.peers():
        best = _best(peer, scene.ceilings, cost, families, cost.bytes)
        if best and peer.case != scene.facts.case:
            candidates.append((best, peer.case))
    if not candidates:
        return ""
    best, case = min(candidates, key=lambda one: one[0].time_us)
    return f" {best.label} in {case} moves as much in {duration(best.time_us)}, {percent(best.share_of_memory or 0.0)}."


def _best(
    facts: CaseFacts, ceilings: Ceilings, cost: KernelCost, families: Sequence[str], moved: int | None = None
) -> KernelCost | None:
    """The kernel of these families nearest to the ceiling, if it is much nearer; ``moved``: bytes that it must have."""
    kernels = {a.position for a in facts.activities if a.category == "kernel" and a.family in families}
    others = [
        other
        for other in kernel_costs(facts, ceilings)
        if other.position in kernels and (moved is None or abs(other.bytes - moved) <= ALIKE * moved)
    ]
    best = max(others, key=lambda other: other.share_of_memory or 0.0, default=cost)
    return best if (best.share_of_memory or 0.0) >= MUCH_BETTER * (cost.share_of_memory or 0.0) else None


def _remedy(scene: Scene, kernel: Activity) -> str:
    if MATH in kernel.op_path:
        return f"SDPA's math backend launches it, so that no caller can change it: {fused_backend(scene)}."
    if converts(kernel):
        return (
            "Keep one element type along this path, so that no conversion is needed: store weights in the type that "
            "is computed in, and enable autocast once around the model; torch.compile fuses a remaining conversion."
        )
    if kernel.family in ROWWISE and kernel.decoded.library == "ATen":
        return "Let torch.compile fuse it with what stands before it; in attention a fused backend does without it."
    if kernel.decoded.library == "ATen" and "vectorized" not in kernel.label:
        return (
            "It loads one element at a time (no vectorized_elementwise_kernel), as for broadcast or strided operands: "
            "contiguous operands of one shape let it load several; or fuse it (torch.compile, a fused backend)."
        )
    if kernel.decoded.library == "Triton" and scene.facts.mode == "compile":
        return "Let Inductor try more block sizes (torch.compile(mode='max-autotune'))."
    return "Fuse it with its neighbours, so that its bytes are not moved at all; or tune its block and vector sizes."
