"""Pointwise kernels that move their bytes more slowly than the device copies."""

from __future__ import annotations

from collections.abc import Iterator

from kernelbook.case_facts import Activity
from kernelbook.cost_model import KernelCost, kernel_costs
from kernelbook.findings.costs import part, percent, severity
from kernelbook.findings.registry import DEVICE, RECOVERABLE, Finding, Scene, rule
from kernelbook.units import duration, significant

POINTWISE = ("elementwise", "copy/cast", "fill/mask")
#: Slow is a kernel below this share of the measured copy ceiling that takes at least this share of the device time.
SLOW_BELOW, LEAST_SHARE = 0.7, 0.05


@rule("slow-pointwise", "a pointwise kernel under 70 % of the measured copy ceiling, and over 5 % of the forward")
def slow_pointwise(scene: Scene) -> Iterator[Finding]:
    """Against the bytes of whole tensors, each read or written once; what a kernel at the ceiling would save."""
    whole = scene.device_time_us
    rows = {a.position: a for a in scene.activities}
    for cost in kernel_costs(scene.facts, scene.ceilings):
        kernel, share = rows[cost.position], cost.share_of_memory
        weighs = (part(cost.time_us, whole) or 0.0) > LEAST_SHARE
        if share is None or share >= SLOW_BELOW or not weighs or kernel.family not in POINTWISE:
            continue
        saved = cost.time_us * (1 - share)
        text = (
            f"{kernel.label} moves {significant(cost.bytes / 2**20)} MiB in {duration(cost.time_us)}: "
            f"{significant(cost.gb_per_s or 0.0)} GB/s, {percent(share)} of the measured copy ceiling."
            f"{_swifter(scene, cost, rows)}"
        )
        evidence = f"{kernel.label}, {cost.op or 'no op'}: {cost.bytes} bytes in {duration(cost.time_us)}"
        of_whole = part(saved, whole)
        yield Finding(
            "slow-pointwise", severity(of_whole), saved, of_whole, evidence, _remedy(kernel), text, (cost.position,),
            DEVICE, RECOVERABLE,
        )  # fmt: skip


def _swifter(scene: Scene, cost: KernelCost, rows: dict[int, Activity]) -> str:
    """A pointwise kernel of the same forward that moves its bytes at the fastest rate, where it is much faster."""
    kernels = {p for p, row in rows.items() if row.category == "kernel" and row.family in POINTWISE}
    costs = kernel_costs(scene.facts, scene.ceilings)
    others = [other for other in costs if other.share_of_memory and other.position in kernels]
    best = max(others, key=lambda other: other.share_of_memory or 0.0, default=cost)
    if (best.share_of_memory or 0.0) < 1.2 * (cost.share_of_memory or 0.0):
        return ""
    return f" {rows[best.position].label} in the same forward reaches {percent(best.share_of_memory or 0.0)}."


def _remedy(kernel: Activity) -> str:
    if kernel.decoded.library == "ATen" and "vectorized" not in kernel.label:
        return (
            "It loads one element at a time (no vectorized_elementwise_kernel), as for broadcast or strided operands: "
            "contiguous operands of one shape let it load several; or fuse it (torch.compile, a fused backend)."
        )
    return "Fuse it with its neighbours, so that its bytes are not moved at all; or tune its block and vector sizes."
