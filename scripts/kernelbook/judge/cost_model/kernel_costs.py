"""Achieved rates of each kernel of a forward, and its share of the roof that the ceilings set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.cost_model.fused import fused_traffic
from kernelbook.judge.cost_model.gemm import compulsory_bytes, useful_flops
from kernelbook.judge.cost_model.roof import Ceilings, compute_type, per_second, roof_of, share_of, time_at
from kernelbook.judge.cost_model.shapes import Launched, launched
from kernelbook.judge.cost_model.traffic import Traffic, traffic_of


@dataclass(frozen=True)
class KernelCost:
    """One kernel or memcpy of the representative forward whose traffic is known from recorded shapes.

    ``time_us``: the median over all forwards. ``bytes``: whole tensors, each input read once, each output written
    once; of a memcpy read and written. ``share_of_memory``: bytes a second over the memory ceiling. ``share_of_roof``:
    what it achieved over the lesser of the compute ceiling and intensity x the ceiling of its traffic: that of memory,
    or of the L2 cache for bytes that fit there and moved faster than memory can. Both are None above 1.05, and where
    the roof is below what any kernel takes; share_of_roof also for a product in a type without a compute ceiling.
    ``roof``: one of `roof.SIDES`, the lowest one. ``least_us``: the time at that ceiling. ``dram_bytes``: what Nsight
    Compute measured of the kernel; ``measured_intensity``: FLOPs over those.
    """

    position: int
    label: str
    op: str | None
    time_us: float
    bytes: int
    gb_per_s: float | None
    share_of_memory: float | None
    flops: int | None
    tflops: float | None
    compute_type: str | None
    share_of_roof: float | None
    roof: str | None
    least_us: float | None
    dram_bytes: float | None = None
    measured_intensity: float | None = None


def kernel_costs(facts: CaseFacts, ceilings: Ceilings | None = None) -> list[KernelCost]:
    """The kernels and memcpys of the representative forward with known traffic, in order of position."""
    measured = {position: row.dram_bytes for position, row in facts.measured.items()}
    return [
        _cost(activity, traffic, ceilings or Ceilings(), measured.get(activity.position))
        for activity, traffic in _with_traffic(facts)
    ]


def _with_traffic(facts: CaseFacts) -> Iterator[tuple[Activity, Traffic]]:
    """(activity, traffic): from the op, or inferred.

    A single kernel of a forward has all the bytes and FLOPs that the forward must move and compute.
    """
    pairs = launched(facts)
    by_position, fused = {pair.activity.position: pair for pair in pairs}, fused_traffic(facts, pairs)
    work = [activity for activity in facts.activities if activity.category in ("kernel", "memcpy")]
    for activity in work:
        traffic = _traffic(activity, by_position.get(activity.position)) or fused.get(activity.position)
        if traffic is None and len(work) == 1 and activity.category == "kernel":
            traffic = _whole(facts)
        if traffic is not None and traffic.bytes:
            yield activity, traffic


def _traffic(activity: Activity, pair: Launched | None) -> Traffic | None:
    if activity.category == "memcpy":
        inside = "DtoD" in activity.name  # others cross the bus, which no ceiling was measured of
        return Traffic(activity.bytes, activity.bytes) if inside and activity.bytes else None
    return traffic_of(pair.op, pair.seeded) if pair and pair.alone else None


def _whole(facts: CaseFacts) -> Traffic | None:
    """The bytes and FLOPs that a forward must move and compute, for the case of a single kernel."""
    least = compulsory_bytes(facts)
    if least is None or facts.output_bytes is None:
        return None
    return Traffic(least - facts.output_bytes, facts.output_bytes, useful_flops(facts), facts.dtype)


def _cost(activity: Activity, traffic: Traffic, ceilings: Ceilings, dram_bytes: float | None) -> KernelCost:
    time_us = activity.duration_us
    moved, computed = per_second(traffic.bytes, time_us), per_second(traffic.flops, time_us)
    kind = compute_type(traffic.kind, activity.decoded) if traffic.flops else None
    roof = roof_of(traffic.flops, traffic.bytes, time_us, ceilings, kind)
    return KernelCost(
        position=activity.position,
        label=activity.label,
        op=activity.op,
        time_us=time_us,
        bytes=traffic.bytes,
        gb_per_s=moved / 1e9 if moved else None,
        share_of_memory=share_of(time_at(traffic.bytes, ceilings.bytes_per_s), time_us),
        flops=traffic.flops,
        tflops=computed / 1e12 if computed else None,
        compute_type=kind,
        share_of_roof=roof.share(time_us) if roof else None,
        roof=roof.side if roof else None,
        least_us=roof.time_us if roof else None,
        dram_bytes=dram_bytes,
        measured_intensity=traffic.flops / dram_bytes if traffic.flops and dram_bytes else None,
    )
