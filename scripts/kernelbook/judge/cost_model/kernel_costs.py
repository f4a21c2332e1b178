"""Achieved rates of each kernel of a forward, and its share of the roof that the ceilings set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.cost_model.fused import fused_traffic
from kernelbook.judge.cost_model.gemm import compulsory_bytes, useful_flops
from kernelbook.judge.cost_model.roof import Ceilings, compute_type, per_second, roof_of, share_of, time_at
from kernelbook.judge.cost_model.shapes import Launched, launched
from kernelbook.judge.cost_model.traffic import Traffic, traffic_of
from kernelbook.text.meaning import doc


@dataclass(frozen=True)
class KernelCost:
    """One kernel or memcpy of the representative forward whose traffic is known from recorded shapes."""

    position: Annotated[int, doc("The kernel's place in the forward.")]
    label: Annotated[str, doc("The kernel's name, short.")]
    op: Annotated[str | None, doc("The op that launched it.")]
    time_us: Annotated[float, doc("Its time, the median over all forwards.")]
    bytes: Annotated[
        int,
        doc(
            "Whole tensors, each input read once and each output written once, in the types recorded; of a memcpy"
            " read and written."
        ),
    ]
    gb_per_s: Annotated[float | None, doc("Achieved, 10^9 of these a second.")]
    share_of_memory: float | None
    flops: int | None
    tflops: float | None
    compute_type: str | None
    share_of_roof: Annotated[
        float | None,
        doc(
            "Achieved over the lesser of the compute ceiling and intensity times memory ceiling; 1 up to 5 % "
            "above it; empty as share_of_memory, and without a ceiling for the compute type."
        ),
    ]
    roof: Annotated[
        str | None,
        doc(
            "The side of the roof that is lowest, compute, memory or L2 cache (for bytes that fit there and moved"
            " faster than memory can)."
        ),
    ]
    least_us: Annotated[float | None, doc("Least time that the ceilings allow for its operations and bytes.")]
    dram_bytes: Annotated[
        float | None, doc("Of a kernel, the DRAM bytes that Nsight Compute measured, read and written.")
    ] = None
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
