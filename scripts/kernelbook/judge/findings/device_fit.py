"""How kernels fit the device: products on different kernels, occupancy, idle multiprocessors, older architectures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.cost_model import GemmCost, gemm_costs
from kernelbook.judge.cost_model.gemm import COLUMN_MAJOR
from kernelbook.judge.findings.costs import maker, note, part, positions, process_medians, severity, total
from kernelbook.judge.findings.rules import DEVICE, SPENT, Finding, Scene, in_cases, rule
from kernelbook.judge.occupancy import theoretical_occupancy
from kernelbook.kernel_names import decode
from kernelbook.text.formatting import duration, size

#: Smaller relative differences of time are not reported.
LEAST_GAP = 0.05


def _alike(group: Sequence[Finding]) -> str:
    each = "; ".join(f"{finding.case} {finding.subject}" for finding in group)
    return f"In {in_cases(group)}, products of {group[0].theme}. Times: {each}."


@rule(
    "unequal-gemms", "products of equal FLOPs in one forward run on different kernels and take different times", _alike
)
def unequal_gemms(scene: Scene) -> Iterator[Finding]:
    """Reports sizes, tiles and waves; the trace does not record why the library chose a kernel.

    Compares means over the products of one kernel. Differences below a twentieth, and below the differences between
    products of one kernel and between processes, are ignored.
    """
    by_flops: dict[int, list[GemmCost]] = {}
    for gemm in gemm_costs(scene.facts):
        by_flops.setdefault(gemm.flops, []).append(gemm)
    for flops, gemms in by_flops.items():
        kernels: dict[str, list[GemmCost]] = {}
        for gemm in gemms:
            kernels.setdefault(gemm.kernel, []).append(gemm)
        if len(kernels) > 1 and _differ(scene.facts, list(kernels.values())):
            yield _finding(scene, flops, gemms, list(kernels.values()))


def _differ(facts: CaseFacts, kernels: Sequence[Sequence[GemmCost]]) -> bool:
    means = [mean(gemm.time_us for gemm in gemms) for gemms in kernels]
    gap = max(means) - min(means)
    within = max(max(g.time_us for g in gemms) - min(g.time_us for g in gemms) for gemms in kernels)
    apart = max(_between_processes(facts, gemm.position) for gemms in kernels for gemm in gemms)
    return gap > max(LEAST_GAP * min(means), within, apart)


def _between_processes(facts: CaseFacts, position: int) -> float:
    """Difference between the processes for one activity, in µs."""
    name = facts.activities[position].name
    lengths = {
        (f.process, f.index): f.activities[position].duration_us
        for f in facts.usual_forwards
        if position < len(f.activities) and f.activities[position].name == name
    }
    medians = process_medians(lengths).values()
    return max(medians, default=0.0) - min(medians, default=0.0)


def _finding(scene: Scene, flops: int, gemms: Sequence[GemmCost], kernels: Sequence[Sequence[GemmCost]]) -> Finding:
    times = [duration(mean(gemm.time_us for gemm in of_it)) for of_it in kernels]
    labels = ", ".join(f"{of_it[0].label} {time}" for of_it, time in zip(kernels, times, strict=True))
    fits = "; ".join(dict.fromkeys(_fit(scene, gemm) for gemm in gemms))
    alike = (
        f"{flops / 1e9:.1f} GFLOP each run on {len(kernels)} kernels and take different times. {_differing(gemms)} "
        f"{fits}"
    )
    text = f"{len(gemms)} products of {alike}. Times: {' and '.join(times)}."
    remedy = "Compare sizes, layouts and tiles: the trace does not record why the library chose a kernel."
    where = tuple(gemm.position for gemm in gemms)
    return note(labels, remedy, text, where, theme=alike, subject=" and ".join(times))


def _differing(gemms: Sequence[GemmCost]) -> str:
    """The dimensions that differ: ``n and k differ.``"""
    names = [name for name in ("batch", "m", "n", "k") if len({getattr(gemm, name) for gemm in gemms}) > 1]
    if not names:
        return "Their sizes are the same: compare layout, strides and epilogue."
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{listed} {'differ' if len(names) > 1 else 'differs'}."


def waves_of(scene: Scene, gemm: GemmCost) -> tuple[float | None, str]:
    """(waves, source in words): measured by Nsight Compute, else from the kernel's resources with an empty source."""
    counted = scene.facts.measured.get(gemm.position)
    if counted is None or counted.waves is None:
        return gemm.waves, ""
    return counted.waves, " (measured by Nsight Compute)"


def _fit(scene: Scene, gemm: GemmCost) -> str:
    """Size, tile, and waves; tiles per block for a persistent kernel."""
    waves, source = waves_of(scene, gemm)
    size = f"{gemm.m} × {gemm.n} × {gemm.k}" + (f" × {gemm.batch}" if gemm.batch > 1 else "")
    if gemm.tiles_per_block and gemm.tiles_per_block > 1:
        filled = f"persistent, {gemm.tiles_per_block:.2f} tiles a block"
    else:
        filled = f"{waves:.2f} waves{source}" if waves else "waves unknown"
    return f"{size}: tile {tile_of(gemm) or 'unknown'}, {filled}"


def tile_of(gemm: GemmCost) -> str | None:
    """Tile as m x n x k; the names of column-major kernels have n first."""
    sides = (gemm.tile or "").split("x")
    if decode(gemm.kernel).library in COLUMN_MAJOR and len(sides) > 1:
        sides[:2] = reversed(sides[:2])
    return "x".join(sides) or None


#: Shared memory per block without opt-in.
DEFAULT_SHARED_LIMIT = 48 * 1024
#: A grid of fewer blocks than this share of the multiprocessors leaves most of them idle.
FEW_BLOCKS = 0.5
#: Split-K is suggested if the inner dimension is at least this many times the depth of the tile.
SPLIT_FROM = 4


def heavy(scene: Scene) -> list[Activity]:
    """Kernels with at least a twentieth of the device time, each name once, without communication."""
    limit = 0.05 * (scene.device_time_us or 0)
    by_name: dict[str, Activity] = {}
    for kernel in scene.kernels:
        if kernel.duration_us >= limit and kernel.family != "communication":
            by_name.setdefault(kernel.name, kernel)
    return list(by_name.values())


@rule(
    "occupancy-gap",
    "a kernel with at least 5 % of the device time uses over 48 KiB of shared memory and is reported at 0 % occupancy",
    "In {cases} the profiler reports 0 % occupancy for kernels ({parts}) that opt in to more than 48 KiB of shared "
    "memory per block: its estimate assumes the limit without opt-in.",
)
def occupancy_gap(scene: Scene) -> Iterator[Finding]:
    """The profiler's estimate assumes the default limit of shared memory per block.

    Kineto calls the occupancy calculator with ``maxDynamicSharedSizeBytes = 0``, that is, without opt-in to more.
    """
    device = scene.facts.device_properties
    gaps = (k for k in heavy(scene) if k.occupancy_percent == 0 and (k.shared_memory_bytes or 0) > DEFAULT_SHARED_LIMIT)
    kernels = [kernel for kernel in gaps if theoretical_occupancy(kernel, device) is not None]
    if not kernels:
        return
    each = "; ".join(
        f"{k.label} opts in to {(k.shared_memory_bytes or 0) / 1024:.0f} KiB, and with its registers and block size "
        f"{theoretical_occupancy(k, device):.1f} % is possible{_achieved(scene, k)}"
        for k in kernels
    )
    text = (
        "Reported at 0 % occupancy because the profiler's estimate assumes at most 48 KiB of shared memory per "
        f"block, but {each}."
    )
    remedy = "Use the theoretical occupancy, or measure the achieved occupancy with Nsight Compute (counters: true)."
    if all(_achieved(scene, k) for k in kernels):
        remedy = "Use the achieved occupancy, which Nsight Compute measured."
    libraries = ", ".join(dict.fromkeys(k.decoded.library for k in kernels))
    evidence = "; ".join(
        f"{k.label}: block {' × '.join(map(str, k.block or ()))}, {k.registers_per_thread} registers a thread, "
        f"{size(k.shared_memory_bytes)} of shared memory a block, launched by {k.launch_api or 'an unknown call'}"
        for k in kernels
    )
    yield note(evidence, remedy, text, positions(kernels), theme="", subject=libraries)


def _achieved(scene: Scene, kernel: Activity) -> str:
    """The occupancy measured by Nsight Compute, in words; empty if it was not measured."""
    counted = scene.facts.measured.get(kernel.position)
    if counted is None or counted.occupancy_percent is None:
        return ""
    return f" and {counted.occupancy_percent:.1f} % achieved (measured by Nsight Compute)"


@rule(
    "few-blocks",
    "a kernel with at least 5 % of the device time whose grid has fewer blocks than half of the multiprocessors",
    "In {cases}, kernels are too small for the device: {subjects}.",
)
def few_blocks(scene: Scene) -> Iterator[Finding]:
    processors = scene.facts.device_properties.get("numSms")
    few = [k for k in heavy(scene) if k.grid and processors and math.prod(k.grid) < FEW_BLOCKS * processors]
    if not few:
        return
    each = ", ".join(f"{k.label} {math.prod(k.grid or ())} blocks" for k in few)
    blocks = f"{each} on {processors} multiprocessors"
    text = f"Most multiprocessors are idle: {blocks}."
    remedy = "Use larger inputs or batch several, so that the grid has more blocks."
    long = _long_sums(scene, few)
    if long:
        remedy = (
            f"Use larger inputs or batch several, so that the grid has more blocks; {long} could also be split along "
            "the inner dimension (split-K)."
        )
    evidence = "; ".join(f"{k.label}: grid {' × '.join(map(str, k.grid or ()))}" for k in few)
    yield note(evidence, remedy, text, positions(few), theme=remedy, subject=blocks)


def _long_sums(scene: Scene, kernels: Sequence[Activity]) -> str:
    """Products whose inner dimension is several times the depth of the tile, so that split-K applies."""
    depths = {k.position: (k.decoded.tile or "").split("x")[2:] for k in kernels if k.family == "GEMM"}
    return ", ".join(
        gemm.label
        for gemm in gemm_costs(scene.facts)
        for depth in depths.get(gemm.position, [])
        if depth.isdigit() and gemm.k >= SPLIT_FROM * int(depth)
    )


@rule(
    "older-architecture",
    "a kernel with at least 5 % of the device time whose name states an older architecture",
    "In {cases}, kernels were built for an older architecture than the device's: {parts}.",
    yields=2,
)
def older_architecture(scene: Scene) -> Iterator[Finding]:
    """By the major number of the compute capability.

    Kernels on CUDA cores are skipped: newer architectures add tensor-core instructions, which they do not use.
    Attention gets a time and a severity up to medium, since kernels for the device exist: FlashAttention 3 takes half
    to two thirds of the time of version 2 on an H100 (Shah et al., arXiv:2407.08608). The time is that of the kernels.
    """
    major = scene.facts.device_properties.get("computeMajor", "")  # a bare trace has no measurement beside it
    own = (scene.facts.capability or str(major)).partition(".")[0]
    older = [k for k in heavy(scene) if own.isdigit() and _is_older(k, int(own)) and k.decoded.tensor_cores != "no"]
    if not older:
        return
    each = ", ".join(f"{k.label} ({_built_for(k)})" for k in older)
    kinds = dict.fromkeys(f"{maker(k)} ({_built_for(k)})" for k in older)
    text = f"Built for an older architecture than the sm{own}0 of this device: {each}."
    remedy = _newer(scene, older, int(own))
    finding = note(each, remedy, text, positions(older), theme=remedy, subject=", ".join(kinds))
    names = {kernel.name for kernel in older if kernel.family == "attention"}
    if names and int(own) in NEWER_ATTENTION and scene.split:
        spent = total(kernel for kernel in scene.kernels if kernel.name in names)
        level = severity(part(spent, scene.split.time_us))
        finding = replace(
            finding, severity="medium" if level == "high" else level, time_us=spent,
            share=part(spent, scene.device_time_us), of=DEVICE, kind=SPENT,
        )  # fmt: skip
    yield finding


#: Kernels of FlashAttention 2, which is built for sm80; those of later versions have other names.
FLASH_ATTENTION_2 = re.compile(r"\bflash_(fwd|bwd)_\w*kernel")
#: Major compute capability -> FlashAttention for it, and the instructions that older kernels lack.
NEWER_ATTENTION = {9: "FlashAttention 3", 10: "FlashAttention 4"}
NEWER_INSTRUCTIONS = {9: "wgmma", 10: "tcgen05.mma"}


def _newer(scene: Scene, older: Sequence[Activity], capability: int) -> str:
    """The remedy for these kernels: a newer FlashAttention, or another implementation."""
    if capability in NEWER_ATTENTION and any(k.family == "attention" for k in older):
        return f"{NEWER_ATTENTION[capability]} and SDPA's CUDNN_ATTENTION backend have kernels for this device."
    instructions = NEWER_INSTRUCTIONS.get(capability)
    more = f", which use {instructions}" if instructions else ""
    return f"Look for an implementation with kernels for this device{more}: the full rate of tensor cores needs them."


def _is_older(kernel: Activity, capability: int) -> bool:
    """Whether an implementation with kernels for the device may exist."""
    if FLASH_ATTENTION_2.search(kernel.name) and capability not in NEWER_ATTENTION:
        return False
    return 0 < _major(kernel) < capability


def _built_for(kernel: Activity) -> str:
    """``sm80``, or ``sm80, FlashAttention 2``, whose names do not state it; empty if it is unknown."""
    if kernel.family == "attention" and FLASH_ATTENTION_2.search(kernel.name):
        return "sm80, FlashAttention 2"
    return kernel.decoded.architecture or ""


def _major(kernel: Activity) -> int:
    digits = re.match(r"sm(\d+)\d", _built_for(kernel))
    return int(digits[1]) if digits else 0
