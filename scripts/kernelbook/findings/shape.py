"""How kernels fit the device: occupancy, and why two products of equal FLOPs get two kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernelbook.case_facts import Activity
from kernelbook.cost_model import GemmCost, gemm_costs
from kernelbook.findings.registry import DEVICE, Finding, Scene, part, positions, rule, severity, total
from kernelbook.units import duration

WARP = 32
#: Blocks that one multiprocessor holds at once, and shared memory that each block takes for itself, by capability:
#: CUDA C++ Programming Guide, table of technical specifications; 1 KiB a block is reserved from 8.0 on.
MAX_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24}
USUAL_MAX_BLOCKS = 32
RESERVED_SHARED = 1024
DEFAULT_SHARED_LIMIT = 48 * 1024


def theoretical_occupancy(activity: Activity, device: Mapping[str, Any]) -> float | None:
    """Percent of a multiprocessor's warps that its registers, shared memory and block size let run at once.

    Registers are given out to warps in units of 256, over four partitions of the multiprocessor (CUDA occupancy
    calculator). None where the trace does not say enough.
    """
    needed = ("warpSize", "maxThreadsPerMultiprocessor", "regsPerMultiprocessor", "sharedMemPerMultiprocessor")
    if not activity.block or any(not device.get(name) for name in needed):
        return None
    threads = 1
    for size in activity.block:
        threads *= size
    warps = -(-threads // WARP)
    most = device["maxThreadsPerMultiprocessor"] // WARP
    capability = (device.get("computeMajor"), device.get("computeMinor"))
    limits = [most // warps, MAX_BLOCKS.get(capability, USUAL_MAX_BLOCKS)]
    if activity.registers_per_thread:
        per_warp = -(-activity.registers_per_thread * WARP // 256) * 256
        limits.append(device["regsPerMultiprocessor"] // per_warp // 4 * 4 // warps)
    if activity.shared_memory_bytes:
        reserved = RESERVED_SHARED if (capability[0] or 0) >= 8 else 0
        limits.append(device["sharedMemPerMultiprocessor"] // (activity.shared_memory_bytes + reserved))
    return 100.0 * min(limits) * warps / most


@rule("occupancy-gap", "a kernel of weight reported at 0 % occupancy that needs more than 48 KiB of shared memory")
def occupancy_gap(scene: Scene) -> Iterator[Finding]:
    """The profiler's estimate knows only the default limit of shared memory a block, so it finds no block that fits.

    Kineto calls the occupancy calculator with ``maxDynamicSharedSizeBytes = 0``, that is, with no opt-in to more.
    """
    found = [(k, theory) for k, theory in _with_theory(scene) if _is_gap(k)]
    if not found:
        return
    kernels = [kernel for kernel, _ in found]
    shared = ", ".join(f"{(k.shared_memory_bytes or 0) / 1024:.0f}" for k in kernels)
    apis = ", ".join(dict.fromkeys(k.launch_api or "an unknown call" for k in kernels))
    text = (
        f"{', '.join(k.label for k in kernels)}: reported at 0 % occupancy, which is a gap in the measurement. The "
        f"estimate allows a block 48 KiB of shared memory; launched by {apis}, the kernel opts in to {shared} KiB. "
        f"Registers, shared memory and block size allow {', '.join(f'{t:.0f} %' for _, t in found)}."
    )
    remedy = "Read the theoretical figure; for a measured one use Nsight Compute."
    yield Finding("occupancy-gap", "info", None, None, _resources(kernels), remedy, text, positions(kernels))


def _is_gap(kernel: Activity) -> bool:
    return kernel.occupancy_percent == 0 and (kernel.shared_memory_bytes or 0) > DEFAULT_SHARED_LIMIT


@rule("low-occupancy", "a kernel of weight whose resources allow less than 25 % occupancy")
def low_occupancy(scene: Scene) -> Iterator[Finding]:
    """Common, and meant, for GEMM and attention kernels that keep their tiles in registers."""
    found = [(k, theory) for k, theory in _with_theory(scene) if theory < 25 and not _is_gap(k)]
    if not found:
        return
    kernels = [kernel for kernel, _ in found]
    meant = all(k.family in ("GEMM", "attention") for k in kernels)
    note = " Kernels that keep their tiles in registers are built so." if meant else ""
    figures = ", ".join(f"{k.label} {theory:.1f} %" for k, theory in found)
    text = f"Registers, shared memory and block size allow few warps at once: {figures}.{note}"
    remedy = "No fault by itself: look at achieved TFLOP/s or GB/s first."
    time_us = total(kernels)
    share = part(time_us, scene.device_time_us)
    yield Finding(
        "low-occupancy", "info", time_us, share, _resources(kernels), remedy, text, positions(kernels), DEVICE
    )


def _with_theory(scene: Scene) -> list[tuple[Activity, float]]:
    pairs = [(k, theoretical_occupancy(k, scene.facts.device_properties)) for k in _heavy(scene)]
    return [(kernel, theory) for kernel, theory in pairs if theory is not None]


def _heavy(scene: Scene) -> list[Activity]:
    """Kernels of at least a twentieth of the device time, each name once."""
    limit = 0.05 * (scene.device_time_us or 0)
    found: dict[str, Activity] = {}
    for kernel in scene.kernels:
        if kernel.duration_us >= limit:
            found.setdefault(kernel.name, kernel)
    return list(found.values())


def _resources(kernels: list[Activity]) -> str:
    return "; ".join(
        f"{k.label}: block {' x '.join(map(str, k.block or ()))}, {k.registers_per_thread} registers a thread, "
        f"{k.shared_memory_bytes} bytes of shared memory a block, reported {_percent(k.occupancy_percent)}"
        for k in kernels
    )


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:g} %"


@rule("unequal-gemms", "products of equal FLOPs in one forward run on different kernels")
def unequal_gemms(scene: Scene) -> Iterator[Finding]:
    """With the tiles of the output and the waves they make; why the library chose so, the trace does not say."""
    by_flops: dict[int, list[GemmCost]] = {}
    for gemm in gemm_costs(scene.facts):
        by_flops.setdefault(gemm.flops, []).append(gemm)
    for flops, gemms in by_flops.items():
        if len({gemm.kernel for gemm in gemms}) < 2:
            continue
        times = [gemm.time_us for gemm in gemms]
        sayings = "; ".join(dict.fromkeys(_fit(gemm) for gemm in gemms))
        shapes = {(gemm.batch, gemm.m, gemm.n) for gemm in gemms}
        why = (
            "but outputs of different shape, which tile differently" if len(shapes) > 1 else "and outputs of one shape"
        )
        text = (
            f"{len(gemms)} products of {flops / 1e9:.1f} GFLOP each run on {len({g.kernel for g in gemms})} different "
            f"kernels: equal FLOPs, {why}. {sayings}."
        )
        remedy = (
            "Compare tiles and waves, as given: more than that the trace does not say of the library's choice."
            if len(shapes) > 1
            else "Compare layout, strides and epilogue of the products: size alone does not tell the kernels apart."
        )
        spread = max(times) - min(times)
        share = part(spread, scene.device_time_us)
        level = severity(share) if share and share >= 0.2 else "info"
        evidence = "; ".join(f"{g.label}: {g.m} x {g.n} x {g.k} in {duration(g.time_us)}" for g in gemms)
        yield Finding(
            "unequal-gemms", level, spread, share, evidence, remedy, text, tuple(g.position for g in gemms), DEVICE
        )


def _fit(gemm: GemmCost) -> str:
    waves = f"{gemm.tiles} tiles, {gemm.waves:.2f} waves" if gemm.tiles and gemm.waves else "tile unknown"
    return f"{gemm.m} x {gemm.n} x {gemm.k}: {gemm.tile or 'no tile in the name'}, {waves}"
