"""How kernels fit the device: gaps in reported occupancy, idle multiprocessors, kernels built for an older device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kernelbook.cases import Activity
from kernelbook.judge.cost_model import gemm_costs
from kernelbook.judge.findings.costs import maker, note, positions
from kernelbook.judge.findings.rules import Finding, Scene, rule
from kernelbook.judge.findings.together import in_cases, subjects
from kernelbook.judge.occupancy import theoretical_occupancy

#: Shared memory that a block gets without opting in to more.
DEFAULT_SHARED_LIMIT = 48 * 1024
#: A grid of fewer blocks than this share of the multiprocessors leaves most of them idle.
FEW_BLOCKS = 0.5
#: Split-K has something to split where the inner dimension is as many times the depth of the kernel's tile.
SPLIT_FROM = 4


def heavy(scene: Scene) -> list[Activity]:
    """Kernels of at least a twentieth of the device time, each name once; not those that talk to other devices."""
    limit = 0.05 * (scene.device_time_us or 0)
    found: dict[str, Activity] = {}
    for kernel in scene.kernels:
        if kernel.duration_us >= limit and kernel.family != "communication":
            found.setdefault(kernel.name, kernel)
    return list(found.values())


def _gaps(group: Sequence[Finding]) -> str:
    return (
        f"In {in_cases(group)} the profiler reports 0 % occupancy of kernels ({_each(group)}) that opt in to more "
        "than 48 KiB of shared memory a block: a gap in the measurement, whose estimate allows a block no more."
    )


def _each(group: Sequence[Finding]) -> str:
    """The parts of all subjects, each once."""
    return ", ".join(dict.fromkeys(name for f in group for name in f.subject.split(", ")))


@rule("occupancy-gap", "a kernel of weight that needs over 48 KiB of shared memory is reported at 0 % occupancy", _gaps)
def occupancy_gap(scene: Scene) -> Iterator[Finding]:
    """The profiler's estimate knows only the default limit of shared memory a block, so it finds no block that fits.

    Kineto calls the occupancy calculator with ``maxDynamicSharedSizeBytes = 0``, that is, with no opt-in to more.
    """
    device = scene.facts.device_properties
    kernels = [k for k in heavy(scene) if _is_gap(k) and theoretical_occupancy(k, device) is not None]
    if not kernels:
        return
    each = "; ".join(
        f"{k.label} opts in to {(k.shared_memory_bytes or 0) / 1024:.0f} KiB, and with its registers and block size "
        f"{theoretical_occupancy(k, device):.1f} % is possible"
        for k in kernels
    )
    text = (
        "Reported at 0 % occupancy, which is a gap in the measurement: the estimate allows a block 48 KiB of shared "
        f"memory, but {each}."
    )
    remedy = "Read the theoretical figure; for a measured one use Nsight Compute."
    libraries = ", ".join(dict.fromkeys(k.decoded.library for k in kernels))
    yield note("occupancy-gap", _resources(kernels), remedy, text, positions(kernels), theme="", subject=libraries)


def _is_gap(kernel: Activity) -> bool:
    return kernel.occupancy_percent == 0 and (kernel.shared_memory_bytes or 0) > DEFAULT_SHARED_LIMIT


def _resources(kernels: list[Activity]) -> str:
    return "; ".join(
        f"{k.label}: block {' x '.join(map(str, k.block or ()))}, {k.registers_per_thread} registers a thread, "
        f"{k.shared_memory_bytes} bytes of shared memory a block, launched by {k.launch_api or 'an unknown call'}"
        for k in kernels
    )


def _idle(group: Sequence[Finding]) -> str:
    return f"In {in_cases(group)}, kernels are too small for the device: {subjects(group)}."


@rule("few-blocks", "a kernel of weight whose grid has fewer blocks than half of the multiprocessors", _idle)
def few_blocks(scene: Scene) -> Iterator[Finding]:
    """What it leaves idle, no occupancy makes up for."""
    processors = scene.facts.device_properties.get("numSms")
    few = [k for k in heavy(scene) if k.grid and processors and math.prod(k.grid) < FEW_BLOCKS * processors]
    if not few:
        return
    each = ", ".join(f"{k.label} {math.prod(k.grid or ())} blocks" for k in few)
    said = f"{each} on {processors} multiprocessors"
    text = f"Most multiprocessors are idle: {said}."
    remedy = "Larger inputs, or several at once, fill more of them."
    long = _long_sums(scene, few)
    if long:
        remedy = (
            f"Larger inputs, or several at once, fill more of them; {long} could also be split along the inner "
            "dimension (split-K)."
        )
    evidence = "; ".join(f"{k.label}: grid {' x '.join(map(str, k.grid or ()))}" for k in few)
    yield note("few-blocks", evidence, remedy, text, positions(few), theme=remedy, subject=said)


def _long_sums(scene: Scene, kernels: Sequence[Activity]) -> str:
    """The products among them whose inner dimension is several times as deep as the tile, which split-K shares out."""
    depths = {k.position: (k.decoded.tile or "").split("x")[2:] for k in kernels if k.family == "GEMM"}
    return ", ".join(
        gemm.label
        for gemm in gemm_costs(scene.facts)
        for depth in depths.get(gemm.position, [])
        if depth.isdigit() and gemm.k >= SPLIT_FROM * int(depth)
    )


def _older(group: Sequence[Finding]) -> str:
    return f"In {in_cases(group)}, kernels were built for an older architecture than the device's: {_each(group)}."


@rule("older-architecture", "a kernel of weight whose name says that it was built for an older architecture", _older)
def older_architecture(scene: Scene) -> Iterator[Finding]:
    """By the major number of the compute capability: such a kernel cannot use what the newer device added."""
    own = (scene.facts.capability or "").partition(".")[0]
    older = [k for k in heavy(scene) if own.isdigit() and 0 < _major(k) < int(own)]
    if not older:
        return
    each = ", ".join(f"{k.label} ({k.decoded.architecture})" for k in older)
    kinds = dict.fromkeys(f"{maker(k)} ({k.decoded.architecture})" for k in older)
    text = f"Built for an older architecture than the sm{own}0 of this device: {each}."
    remedy = (
        "Look for an implementation built for this device; on sm90 the tensor cores reach their full rate only by "
        "wgmma, which older kernels do not issue."
    )
    yield note("older-architecture", each, remedy, text, positions(older), theme="", subject=", ".join(kinds))


def _major(kernel: Activity) -> int:
    digits = (kernel.decoded.architecture or "").removeprefix("sm")
    return int(digits) // 10 if digits.isdigit() else 0
