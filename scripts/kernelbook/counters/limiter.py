"""What limits a kernel, by the speed-of-light rule of Nsight Compute, and that in a sentence.

The rule and its thresholds are those of SpeedOfLight.py, which comes with ncu: above 80 % of the peak of SMs or memory
the kernel is at that limit; below 60 % of both it waits (latency), or its grid is too small; between these the busier
one is the limit, and both are if they are less than 10 points apart.
"""

from __future__ import annotations

from kernelbook.counters.kernel import Figures

COMPUTE, MEMORY, BALANCED, LATENCY, GRID = LIMITERS = ("compute", "memory", "balanced", "latency", "grid")
HIGH, LOW, CLOSE = 80.0, 60.0, 10.0
#: A part of the memory system is the one that the whole's share comes from if it is that near, in points.
SAME = 1.5
#: A pipe is worth a word from this share of the active cycles on.
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
    """One of `LIMITERS`; None where the share of the SMs or of memory is not known."""
    sm, memory = figures.sm_percent, figures.memory_percent
    if sm is None or memory is None:
        return None
    if max(sm, memory) < LOW:
        return GRID if figures.waves is not None and figures.waves < 1 else LATENCY
    if max(sm, memory) < HIGH and abs(sm - memory) < CLOSE:
        return BALANCED
    return COMPUTE if sm > memory else MEMORY


def sentence_of(figures: Figures) -> str | None:
    """The limiter with the figures behind it: `Memory is the limit: DRAM at 86 % of its peak, the SMs at 18 %.`"""
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
    """What else the counters state of a kernel, a short text each: occupancy, waits, local memory, waves."""
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
