"""A forward against its floor, the least time that the ceilings allow for its bytes and FLOPs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.clock import bound_of, bounds_by_process
from kernelbook.judge.cost_model.gemm import compulsory_bytes, forward_type, useful_flops
from kernelbook.judge.cost_model.kernel_costs import KernelCost, kernel_costs
from kernelbook.judge.cost_model.roof import L2, LEAST_ROOF_US, MOST_SHARE, Ceilings, per_second, time_at
from kernelbook.kernel_names import UNKNOWN, same_type
from kernelbook.kernel_names.model import MULTIPLY
from kernelbook.text.formatting import duration, error
from kernelbook.text.meaning import doc

#: Ratios of error and memory closer to 1 than this count as equal.
LEAST_RATIO = 1.1
#: torch's names of element types -> those used for kernel names.
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def computed_in(dtype: str | None, activities: Iterable[Activity]) -> str | None:
    """The element type in which matrix products spend most of the time, if it differs from the type of the inputs.

    None if it is the same, or if the kernel names do not state it. `16-bit`, for names that do not distinguish fp16
    from bf16, equals both.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for activity in activities:
        if activity.family in MULTIPLY:
            spent[activity.decoded.element_type] += activity.duration_us
    most = max(spent, key=lambda kind: spent[kind], default=UNKNOWN)
    own = DTYPES.get(dtype or "", UNKNOWN)
    return None if same_type(most, own) or UNKNOWN in (most, own) else most


def trade_off(facts: CaseFacts, peers: Iterable[CaseFacts]) -> str | None:
    """Time, error and memory of a case against the fastest of its peers (same workload, parameters and dtype).

    None if no peer is faster, or without a forward time.
    """
    timed = [p for p in peers if p.forward_time_us]
    if not facts.forward_time_us or not timed:
        return None
    fastest = min(timed, key=lambda p: p.forward_time_us or 0.0)
    if fastest.case == facts.case:
        return None
    parts = [_slower(facts, fastest)]
    parts += _error(facts, fastest)
    parts += _memory(facts, fastest)
    return "; ".join(parts) + "."


def _slower(facts: CaseFacts, fastest: CaseFacts) -> str:
    """The ratio of forward times; the ranges instead if the medians of the processes overlap."""
    mine, theirs = _range(facts), _range(fastest)
    if mine and theirs and mine[0] <= theirs[1]:
        ranges = (f"{duration(low)} to {duration(high)}" for low, high in (mine, theirs))
        return f"forward times of the processes overlap with those of {fastest.case} ({' and '.join(ranges)})"
    slower = (facts.forward_time_us or 0.0) / (fastest.forward_time_us or 1.0)
    return f"{slower:.2f}× the forward time of {fastest.case}"


def _range(facts: CaseFacts) -> tuple[float, float] | None:
    """The least and the largest median of its processes; None with fewer than two processes."""
    merged = [process for process in facts.processes if process.merged and process.forward_times_us]
    medians = [process.forward_time_us or 0.0 for process in merged]
    return (min(medians), max(medians)) if len(medians) > 1 else None


def _error(facts: CaseFacts, other: CaseFacts) -> list[str]:
    mine, theirs = facts.relative_error, other.relative_error
    if not mine or not theirs:
        return []
    word = (
        "a smaller error"
        if mine * LEAST_RATIO < theirs
        else "a larger error"
        if mine > LEAST_RATIO * theirs
        else "equal error"
    )
    return [f"{word} against float64 ({error(mine)} against {error(theirs)})"]


def _memory(facts: CaseFacts, other: CaseFacts) -> list[str]:
    mine, theirs = facts.peak_memory_bytes, other.peak_memory_bytes
    if not mine or not theirs or 1 / LEAST_RATIO < mine / theirs < LEAST_RATIO:
        return []
    return [f"{mine / theirs:.1f}× the peak memory ({mine / 2**20:.0f} MiB against {theirs / 2**20:.0f})"]


#: What limits an unprofiled forward. `overhead` is the bound `launches` of `clock.bound_of`; the others refine `gpu`.
OVERHEAD, COMPUTE, MEMORY, EXCESS, EFFICIENCY, LATENCY, UNKNOWN_LIMITER = LIMITERS = (
    "overhead",
    "compute",
    "memory",
    "excess traffic or work",
    "kernel efficiency",
    "latency",
    "unknown",
)
#: A forward whose floor is at least this share of its device time is limited by the floor.
NEAR = 0.5


@dataclass(frozen=True)
class ForwardCost:
    """One forward against its floor. The masked half of causal attention counts in no figure of operations.

    ``compute_type``: see `gemm.forward_type`. ``trade_off``: see the function; set by the caller, which has the peers.
    ``floor_us``: if the bytes came from the L2 cache, its ceiling replaces the memory ceiling.
    """

    run: str
    case: str
    flops: Annotated[
        int | None,
        doc(
            "Floating-point operations. In a forward of causal attention the masked half is left out; in its "
            "products it is counted, since they compute it."
        ),
    ]
    compulsory_bytes: Annotated[int | None, doc("For a forward: bytes of inputs, weights and output, once each.")]
    traffic_bytes: Annotated[int | None, doc("For a forward: bytes of all its kernels; empty unless each is known.")]
    times_compulsory: Annotated[float | None, doc("traffic_bytes over compulsory_bytes.")]
    intensity: Annotated[float | None, doc("Operations per byte; for a forward, per compulsory byte.")]
    tflops: Annotated[float | None, doc("Achieved rate in 10^12 operations per second.")]
    compulsory_gb_per_s: Annotated[float | None, doc("For a forward: 10^9 compulsory bytes per second.")]
    share_of_compute: Annotated[
        float | None,
        doc(
            "Operations per second over the compute ceiling of the type; empty above 1.05, where the ceiling "
            "cannot apply."
        ),
    ]
    share_of_memory: Annotated[
        float | None,
        doc(
            "Bytes per second over the memory ceiling, the rate of ceiling-copy. For a forward: the compulsory "
            "bytes, empty above the ceiling, where they came from the L2 cache. For a kernel: its own, empty above "
            "1.05 for the same reason, and if they would take less than 1 µs."
        ),
    ]
    limiter: Annotated[
        str,
        doc(
            "overhead (the device waits for the CPU), compute or memory (within twice the floor), excess traffic "
            "or work, or kernel efficiency (farther away, by the larger of two factors: from the floor to the least "
            "time for what the kernels themselves move and compute, and from there to the device time), latency "
            "(the floor is below 1 µs, about what a kernel takes to start and end) or unknown."
        ),
    ]
    limiter_processes: Annotated[int | None, doc("Processes that agree with the case on whether it is overhead.")]
    processes: Annotated[int | None, doc("Processes whose own medians determine whether it is overhead.")]
    floor_us: Annotated[
        float | None,
        doc(
            "Least time that the ceilings allow for the operations and the compulsory bytes; above the memory "
            "ceiling that of the operations only; empty below 1 µs, about what a kernel takes to start and end."
        ),
    ]
    times_floor: Annotated[float | None, doc("Device time over the floor.")]
    times_floor_wall: Annotated[float | None, doc("Unprofiled forward time over the floor.")]
    compute_type: Annotated[
        str | None,
        doc(
            "Type whose ceiling applies: for a product or kernel by its name and operands, for a forward the faster "
            "of the type of its inputs and the type of its products. fp64, fp32 (CUDA cores), tf32, 16-bit or "
            "fp8."
        ),
    ] = None
    trade_off: Annotated[str | None, doc("What the case gains or loses against the fastest of its peers.")] = None
    measured_bytes: Annotated[
        float | None,
        doc(
            "For a forward: DRAM bytes of all its kernels and the sizes of its memsets; empty unless all were "
            "measured, or with a memcpy."
        ),
    ] = None
    measured_intensity: Annotated[float | None, doc("Operations per measured DRAM byte, of a kernel or a forward.")] = (
        None
    )

    @property
    def limited_by(self) -> str:
        """`compute`, or `compute (in 2 of 3 processes)` if the processes differ in whether they wait for the CPU."""
        if self.limiter_processes in (None, self.processes):
            return self.limiter
        return f"{self.limiter} (in {self.limiter_processes} of {self.processes} processes)"

    @property
    def has_figures(self) -> bool:
        """Whether any cost was computed; a CPU run, for example, has none."""
        return any((self.tflops, self.compulsory_gb_per_s, self.floor_us, self.trade_off))


def forward_cost(facts: CaseFacts, ceilings: Ceilings) -> ForwardCost:
    """The cost of one forward against the floor that the ceilings set."""
    flops, least, time_us = useful_flops(facts), compulsory_bytes(facts), facts.device_time_us
    flops_s, bytes_s = per_second(flops, time_us), per_second(least, time_us)
    cached = bool(bytes_s and ceilings.bytes_per_s and bytes_s > ceilings.bytes_per_s)
    kernels = kernel_costs(facts, ceilings)
    kind = forward_type(facts)
    best = ceilings.compute(kind)
    complete = ceilings.bytes_per_s and (best or not flops)
    compute_us = time_at(flops, best) if complete else None
    traffic_per_s, side = ceilings.traffic(least, time_us)
    memory_us = time_at(least, traffic_per_s) if complete and (side == L2 or not cached) else None
    longest = max(compute_us or 0.0, memory_us or 0.0)
    floor = longest if longest >= LEAST_ROOF_US else None
    limiter = _limiter(facts, compute_us, memory_us, kernels, ceilings)
    waiting = [bound == "launches" for bound in bounds_by_process(facts).values() if bound != "unknown"]
    measured = _measured_bytes(facts)
    traffic = sum(cost.bytes for cost in kernels) if _complete(facts, kernels) else None
    return ForwardCost(
        run=facts.run,
        case=facts.case,
        flops=flops,
        compulsory_bytes=least,
        traffic_bytes=traffic,
        times_compulsory=traffic / least if traffic and least else None,
        intensity=flops / least if flops and least else None,
        tflops=flops_s / 1e12 if flops_s else None,
        compulsory_gb_per_s=bytes_s / 1e9 if bytes_s else None,
        share_of_compute=_share(flops_s, best),
        share_of_memory=None if cached else _share(bytes_s, ceilings.bytes_per_s),
        limiter=limiter,
        limiter_processes=waiting.count(limiter == OVERHEAD) if waiting else None,
        processes=len(waiting) or None,
        floor_us=floor,
        times_floor=time_us / floor if floor and time_us else None,
        times_floor_wall=facts.forward_time_us / floor if floor and facts.forward_time_us else None,
        compute_type=kind if flops else None,
        measured_bytes=measured,
        measured_intensity=flops / measured if flops and measured else None,
    )


def _measured_bytes(facts: CaseFacts) -> float | None:
    """DRAM bytes of all kernels, and of memsets their size; None with a memcpy or a kernel that was not measured."""
    total = 0.0
    for activity in facts.activities:
        row = facts.measured.get(activity.position)
        bytes_of = row.dram_bytes if row else activity.bytes if activity.category == "memset" else None
        if bytes_of is None:
            return None
        total += bytes_of
    return total if facts.measured else None


def _share(rate: float | None, best: float | None) -> float | None:
    """A rate over its ceiling; None if either is missing, or above MOST_SHARE, since it does not apply then."""
    return rate / best if rate and best and rate <= MOST_SHARE * best else None


def _complete(facts: CaseFacts, kernels: Sequence[KernelCost]) -> bool:
    work = {activity.position for activity in facts.activities if activity.category in ("kernel", "memcpy")}
    return bool(work) and work == {cost.position for cost in kernels}


def _limiter(
    facts: CaseFacts,
    compute_us: float | None,
    memory_us: float | None,
    kernels: Sequence[KernelCost],
    ceilings: Ceilings,
) -> str:
    """One of LIMITERS. ``compute_us``, ``memory_us``: least times at the ceilings, None if not known."""
    if bound_of(facts)[0] == "launches":
        return OVERHEAD
    longest = max(compute_us or 0.0, memory_us or 0.0)
    if not facts.device_time_us or not longest:
        return UNKNOWN_LIMITER
    if longest >= NEAR * facts.device_time_us:
        return COMPUTE if (compute_us or 0.0) >= (memory_us or 0.0) else MEMORY
    if compute_us is None or memory_us is None:
        return UNKNOWN_LIMITER
    if longest < LEAST_ROOF_US:
        return LATENCY
    own = sum(_least_us(cost, ceilings) for cost in kernels)
    if own and own / longest >= facts.device_time_us / own:
        return EXCESS
    complete = _complete(facts, kernels) and all(cost.roof for cost in kernels)
    return EFFICIENCY if complete else UNKNOWN_LIMITER


def _least_us(cost: KernelCost, ceilings: Ceilings) -> float:
    """Least time of a kernel in µs; without a ceiling for its FLOPs, that of its bytes."""
    computed = time_at(cost.flops, ceilings.compute(cost.compute_type))
    return max(time_at(cost.bytes, ceilings.traffic(cost.bytes, cost.time_us)[0]) or 0.0, computed or 0.0)
