"""The counters of one kernel. Times are in µs, sizes in bytes, shares in percent of the GPU's peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kernelbook.text.meaning import doc

JOINED: Literal["joined"] = "joined"
NOT_JOINED: Literal["not joined"] = "not joined"
REFUSED: Literal["refused"] = "refused"
#: Durations under ncu and in the trace that differ by more than this share get a note.
APART_FROM = 0.1


@dataclass(frozen=True)
class Stall:
    """Why warps waited: ncu's word for the reason, and its share of the time between two instructions of a warp."""

    reason: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures that ncu measured of one kernel; a missing one is None."""

    duration_us: Annotated[
        float | None, doc("Duration under ncu, which flushes the caches before each kernel and does not fix clocks.")
    ] = None
    dram_read_bytes: Annotated[float | None, doc("Bytes read from DRAM.")] = None
    dram_write_bytes: Annotated[
        float | None, doc("Bytes written to DRAM; what was still in the L2 cache at the kernel's end is not counted.")
    ] = None
    l2_bytes: Annotated[float | None, doc("Bytes that were requested from the L2 cache.")] = None
    l2_hit_percent: Annotated[float | None, doc("Share of the L2 cache's sectors that were hits.")] = None
    sm_percent: Annotated[float | None, doc("Compute throughput: the busiest part of the SMs, share of its peak.")] = (
        None
    )
    memory_percent: Annotated[
        float | None, doc("Memory throughput: the busiest of DRAM, L2 and L1, share of its peak.")
    ] = None
    dram_percent: Annotated[float | None, doc("DRAM's share of its peak.")] = None
    l2_percent: Annotated[float | None, doc("The L2 cache's share of its peak.")] = None
    l1_percent: Annotated[float | None, doc("The L1 caches' share of their peak, while they were active.")] = None
    tensor_percent: Annotated[float | None, doc("Share of active cycles in which the tensor pipe was busy.")] = None
    fp32_percent: Annotated[float | None, doc("The same for the fp32 pipe (FMA).")] = None
    fp64_percent: Annotated[float | None, doc("The same for the fp64 pipe.")] = None
    alu_percent: Annotated[float | None, doc("The same for the ALU pipe (integers, comparisons).")] = None
    occupancy_percent: Annotated[float | None, doc("Achieved occupancy: active warps over the most that fit.")] = None
    occupancy_bound_percent: Annotated[float | None, doc("Theoretical occupancy.")] = None
    occupancy_limits: Annotated[
        tuple[str, ...],
        doc("What allows the fewest blocks on an SM: registers, shared memory, warps, blocks or barriers."),
    ] = ()
    registers_per_thread: Annotated[int | None, doc("Registers per thread.")] = None
    local_bytes: Annotated[
        float | None, doc("Bytes of local memory that were read and written: spilled registers and local arrays.")
    ] = None
    stalls: Annotated[tuple[Stall, ...], doc("The three largest reasons for which warps waited, largest first.")] = ()
    waves: Annotated[float | None, doc("Blocks of the grid over the blocks that the GPU holds at once.")] = None

    @property
    def dram_bytes(self) -> float | None:
        """Bytes between DRAM and the L2 cache, both ways."""
        if self.dram_read_bytes is None or self.dram_write_bytes is None:
            return None
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True, kw_only=True)
class Profiled(Figures):
    """One kernel in a report of ncu; or, with a reason and without a number, why there is no report.

    number: place in the report, from 0. functions: the only ones that were profiled; empty if all were. seconds:
    duration of the whole counter pass.
    """

    number: int | None = None
    name: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    functions: tuple[str, ...] = ()
    reason: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class KernelCounters(Figures):
    """A row of the table `counters`: a kernel of a representative forward, or a case whose counters were refused."""

    run: str
    case: str
    status: Annotated[
        Literal["joined", "not joined", "refused"],
        doc("joined; not joined (ncu saw another kernel in this place); refused (no counters of the case)."),
    ]
    position: Annotated[int | None, doc("Place in the forward, as in `activities`; null in a refused row.")] = None
    name: Annotated[str | None, doc("Name, as in the trace.")] = None
    reason: Annotated[str | None, doc("Why it was not joined or refused, and the remedy.")] = None
    trace_duration_us: Annotated[float | None, doc("Duration in the trace, as `median_duration_us`.")] = None
    duration_note: Annotated[str | None, doc("A note if the two durations differ by more than 10 %.")] = None
    limiter: Annotated[
        str | None,
        doc(
            "By the speed-of-light rule of Nsight Compute.",
            *("compute", "memory", "balanced", "latency", "grid", None),
        ),
    ] = None
    sentence: Annotated[str | None, doc("The limiter in a sentence.")] = None
    modelled_bytes: Annotated[int | None, doc("Bytes by the cost model, as `bytes` of `costs`.")] = None
    modelled_limiter: Annotated[str | None, doc("The roof of the cost model, as `roof` of `costs`.")] = None
    agrees: Annotated[
        bool | None,
        doc("Whether the measured limiter and the model's roof are the same; null for other limiters."),
    ] = None
    estimated_occupancy_percent: Annotated[
        float | None, doc("Occupancy that registers, shared memory, block and grid allow, estimated from the trace.")
    ] = None
    seconds: Annotated[float | None, doc("Seconds that the case's counter pass took.")] = None
    flops: Annotated[int | None, doc("Floating-point operations by the cost model.")] = None
    intensity: Annotated[float | None, doc("Measured intensity: those FLOPs over the bytes of DRAM.")] = None

    @property
    def bytes_ratio(self) -> float | None:
        return self.modelled_bytes / self.dram_bytes if self.modelled_bytes and self.dram_bytes else None


# --- what limits a kernel --------------------------------------------------------------------------------------------
# The rule and its thresholds are those of SpeedOfLight.py, which comes with ncu: above 80 % of the peak of SMs or
# memory the kernel is at that limit; below 60 % of both it waits (latency), or its grid is too small; between these the
# busier one is the limit, and both are if they are less than 10 points apart.


COMPUTE, MEMORY, BALANCED, LATENCY, GRID = LIMITERS = ("compute", "memory", "balanced", "latency", "grid")
HIGH, LOW, CLOSE = 80.0, 60.0, 10.0
#: A part of the memory system determines the share of the whole if the two differ by at most this many points.
SAME = 1.5
#: Least share of the active cycles for which a pipe is mentioned.
BUSY = 30.0
#: Reason of a stall in ncu's word -> what the warps waited for (Nsight Compute, "Warp Stall Reasons").
WAITS = {
    "barrier": "other warps at a barrier",
    "branch_resolving": "a branch to be resolved",
    "dispatch_stall": "the dispatcher",
    "drain": "stores to be written before the end",
    "gmma": "tensor-core instructions (wgmma)",
    "imc_miss": "a miss in the constant cache",
    "lg_throttle": "the queue of global and local memory",
    "long_scoreboard": "global memory or L2",
    "math_pipe_throttle": "a busy math pipe",
    "membar": "a memory barrier",
    "mio_throttle": "the queue of shared memory and special functions",
    "no_instruction": "instructions to be fetched",
    "not_selected": "their turn among ready warps",
    "short_scoreboard": "shared memory or special functions",
    "sleeping": "a sleep",
    "tex_throttle": "the queue of the texture unit",
    "wait": "a fixed latency of an instruction",
}


def limiter_of(figures: Figures) -> str | None:
    """One of `LIMITERS`; None if the share of the SMs or of memory is unknown."""
    sm, memory = figures.sm_percent, figures.memory_percent
    if sm is None or memory is None:
        return None
    if max(sm, memory) < LOW:
        return GRID if figures.waves is not None and figures.waves < 1 else LATENCY
    if max(sm, memory) < HIGH and abs(sm - memory) < CLOSE:
        return BALANCED
    return COMPUTE if sm > memory else MEMORY


def sentence_of(figures: Figures) -> str | None:
    """The limiter with its figures: `Memory is the limit: DRAM at 86 % of its peak, the SMs at 18 %.`"""
    kind, sm = limiter_of(figures), figures.sm_percent
    if kind is None or sm is None:
        return None
    memory, compute = _busiest_memory(figures), f"the SMs at {sm:.0f} %"
    if kind == MEMORY:
        return f"Memory is the limit: {memory} of its peak, {compute}."
    if kind == COMPUTE:
        return f"Instructions are the limit: {compute} of their peak, {memory}.{_pipe(figures)}"
    if kind == BALANCED:
        return f"Memory and instructions are equally busy: {memory} of its peak, {compute}."
    if kind == GRID:
        return f"The grid is too small: {figures.waves:.2f} waves; {memory} of its peak, {compute}."
    return f"Nothing is near its peak ({memory}, {compute}): the kernel waits{_waits(figures)}."


def facts_of(figures: Figures) -> list[str]:
    """Further facts about a kernel, a short text each: occupancy, waits, local memory, waves."""
    facts = []
    if figures.occupancy_percent is not None:
        bound, limits = figures.occupancy_bound_percent, " and ".join(figures.occupancy_limits)
        possible = "" if bound is None else f" of {bound:.0f} % possible"
        facts.append(f"occupancy {figures.occupancy_percent:.0f} %{possible}" + (f" (by {limits})" if limits else ""))
    if figures.stalls:
        waits = (f"{WAITS.get(stall.reason, stall.reason)} {stall.percent:.0f} %" for stall in figures.stalls)
        facts.append(f"warps waited for {', '.join(waits)}")
    if figures.l2_hit_percent is not None:
        facts.append(f"{figures.l2_hit_percent:.0f} % of L2 accesses hit")
    if figures.local_bytes:
        facts.append(f"{figures.local_bytes / 2**20:.1f} MiB of local memory (spilled registers, local arrays)")
    if figures.waves is not None:
        facts.append(f"{figures.waves:.2f} waves")
    return facts


def _busiest_memory(figures: Figures) -> str:
    """`DRAM at 86 %`: the part of the memory system whose share is that of the whole; else `memory at 62 %`."""
    share = figures.memory_percent or 0.0
    parts = {"DRAM": figures.dram_percent, "L2": figures.l2_percent, "L1": figures.l1_percent}
    apart = {name: abs(part - share) for name, part in parts.items() if part is not None}
    name = min(apart, key=lambda name: apart[name], default="memory")
    return f"{name if apart.get(name, 100.0) <= SAME else 'memory'} at {share:.0f} %"


def _pipe(figures: Figures) -> str:
    pipes = {
        "tensor": figures.tensor_percent,
        "fp32": figures.fp32_percent,
        "fp64": figures.fp64_percent,
        "ALU": figures.alu_percent,
    }
    busy = {name: share for name, share in pipes.items() if share is not None and share >= BUSY}
    if not busy:
        return ""
    name = max(busy, key=lambda name: busy[name])
    return f" The busiest pipe is {name} ({busy[name]:.0f} % of active cycles)."


def _waits(figures: Figures) -> str:
    if not figures.stalls:
        return ""
    first = figures.stalls[0]
    return f", most for {WAITS.get(first.reason, first.reason)} ({first.percent:.0f} % of a warp's time)"
