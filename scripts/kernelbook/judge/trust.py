"""The reliability of the figures of each case: spread over processes, agreement of two clocks, circumstances.

If the GPU takes most of the time, two independent figures must agree: the unprofiled forward (CUDA events or wall
clock) and the busy time of the device in the profile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pyarrow as pa

from kernelbook.cases import CaseFacts, Process, is_restless, median, spread
from kernelbook.cases.process import IDLE
from kernelbook.cases.records import schema_of, table_of
from kernelbook.counters import KernelCounters
from kernelbook.counters.kernel import COMPUTE, MEMORY
from kernelbook.judge.clock import Clock, bounds_by_process
from kernelbook.judge.cost_model import KernelCost, roof
from kernelbook.judge.occupancy import achievable_occupancy
from kernelbook.text.formatting import quantile
from kernelbook.text.meaning import doc

# --- counters against the cost model ---------------------------------------------------------------------------------


#: Least time of a kernel whose modelled bytes are compared; shorter ones move too little.
LEAST_US = 5.0
#: Side of the model's roof -> the limiter that ncu's rule would name.
SIDES = {roof.COMPUTE: COMPUTE, roof.MEMORY: MEMORY, roof.L2: MEMORY}
FIRST = ("run", "case", "position", "name", "status", "reason")
COUNTERS = pa.schema(
    sorted(schema_of(KernelCounters), key=lambda c: FIRST.index(c.name) if c.name in FIRST else len(FIRST))
)


def against_model(facts: CaseFacts, costs: Iterable[KernelCost]) -> tuple[KernelCounters, ...]:
    """The counters of a case, with figures of the cost model and the trace for the same kernels."""
    by_position = {cost.position: cost for cost in costs}
    activities = {activity.position: activity for activity in facts.activities}
    rows = []
    for row in facts.counters:
        if row.position is not None and row.position in facts.measured:
            activity, cost = activities[row.position], by_position.get(row.position)
            row = replace(row, estimated_occupancy_percent=achievable_occupancy(activity, facts.device_properties))
            row = _with_cost(row, cost) if cost else row
        rows.append(row)
    return tuple(rows)


def _with_cost(row: KernelCounters, cost: KernelCost) -> KernelCounters:
    side = SIDES.get(cost.roof or "")
    comparable = side is not None and row.limiter in (COMPUTE, MEMORY)
    return replace(
        row,
        modelled_bytes=cost.bytes,
        modelled_limiter=cost.roof,
        agrees=row.limiter == side if comparable else None,
        flops=cost.flops,
        intensity=cost.measured_intensity,
    )


def counters_table(cases: Iterable[CaseFacts]) -> pa.Table:
    """The rows of all cases, in order of launch."""
    return table_of((row for facts in cases for row in facts.counters), COUNTERS)


def compared(rows: Iterable[KernelCounters]) -> list[KernelCounters]:
    """The kernels of at least `LEAST_US` whose bytes are both modelled and measured, the nearest to 1 first."""
    long = (row for row in rows if (row.trace_duration_us or 0.0) >= LEAST_US and row.bytes_ratio)
    return sorted(long, key=_factor)


def _factor(row: KernelCounters) -> float:
    """How far modelled and measured bytes lie apart, as a factor of at least 1."""
    ratio = row.bytes_ratio or 1.0
    return max(ratio, 1 / ratio)


def trust_columns(rows: Sequence[KernelCounters]) -> dict[str, Any]:
    """The columns of the table `trust` about counters; None if none were asked for."""
    if not rows:
        return dict.fromkeys(("counted_kernels", "bytes_ratio", "limiters_compared", "limiters_agree"))
    ratios = [row.bytes_ratio for row in compared(rows) if row.bytes_ratio]
    judged = [row.agrees for row in rows if row.agrees is not None]
    return {
        "counted_kernels": sum(row.status == "joined" for row in rows),
        "bytes_ratio": median(ratios),
        "limiters_compared": len(judged),
        "limiters_agree": sum(judged),
    }


# --- trust -----------------------------------------------------------------------------------------------------------


Key = tuple[str, str]
#: Figures within this share of each other agree; a larger difference between processes is a spread.
WITHIN = 0.02
#: The same for CPU times, which differ more between processes.
CPU_WITHIN = 0.2


@dataclass(frozen=True)
class Trust:
    """Reliability of one case of one run.

    A spread is over the medians of its processes. ``bound``: see `clock.bound_of`. ``restless``: see
    `cases.is_restless`. First calls are medians over the processes with the same state of the compile cache.
    """

    run: str
    case: str
    processes: Annotated[int, doc("Processes that ended well on one machine; the figures come from these.")] = 0
    failed_processes: Annotated[int, doc("Processes that did not end well.")] = 0
    elsewhere_processes: Annotated[int, doc("Processes that ended well on another machine than the first one.")] = 0
    retried_processes: Annotated[int | None, doc("Processes that took more than one attempt.")] = None
    gpus: Annotated[
        tuple[str, ...] | None,
        doc("Which GPUs of one kind the processes ran on, `gpu_id` of the cases; null if unknown."),
    ] = None
    device_spread: Annotated[
        float | None, doc("Largest over smallest median device time of the processes, minus one.")
    ] = None
    forward_spread: Annotated[float | None, doc("The same for unprofiled forward times.")] = None
    cpu_spread: Annotated[float | None, doc("The same for CPU times, which are profiled.")] = None
    forward_time_us: Annotated[float | None, doc("Unprofiled forward time.")] = None
    device_busy_us: Annotated[float | None, doc("Time of a forward in which at least one activity ran, profiled.")] = (
        None
    )
    busy_ratio: Annotated[float | None, doc("Unprofiled forward time over device busy time.")] = None
    restless: Annotated[
        bool | None,
        doc(
            "Whether the 95th percentile of all unprofiled forward times is above 5 times the 5th, as where other"
            " work takes turns with them."
        ),
    ] = None
    bound: Annotated[
        str, doc("What bounds a forward, as in the table clock.", "launches", "gpu", "unclear", "unknown")
    ] = "unknown"
    bound_processes: Annotated[
        int | None,
        doc("Processes whose own medians give that bound; empty if it is not known for any."),
    ] = None
    overhead_share: Annotated[float | None, doc("How much longer a forward takes under the profiler.")] = None
    warmup: Annotated[int | None, doc("Calls made before anything was measured; 0 for a cold case.")] = None
    checked_processes: Annotated[
        int, doc("Processes whose warm-up could be checked, with 20 timed forwards or more.")
    ] = 0
    falling_processes: Annotated[
        int | None, doc("Those whose first timed forwards took more than 1.1 times as long as the later ones.")
    ] = None
    rising_processes: Annotated[
        int | None, doc("Those whose later timed forwards took more than 1.1 times as long as the first ones.")
    ] = None
    sm_before_mhz: Annotated[
        float | None, doc("Clock of the multiprocessors before the timing, the lowest of all processes.")
    ] = None
    sm_after_mhz: Annotated[float | None, doc("The same after it.")] = None
    max_sm_mhz: Annotated[float | None, doc("Highest clock of the GPU.")] = None
    clock_reasons: Annotated[tuple[str, ...] | None, doc("What limited the clocks, as nvidia-smi names it.")] = None
    throttled_processes: Annotated[
        int | None,
        doc(
            "Processes in which one of these was a limit of power or heat, not a clock that someone set, or whose"
            " clock lay below 80 % of the highest while no reason was given."
        ),
    ] = None
    other_gpu_processes: Annotated[tuple[str, ...] | None, doc("Names of other processes on the GPU.")] = None
    first_call_us: Annotated[float | None, doc("First call without a compile cache, eager.")] = None
    first_call_cold_us: Annotated[
        float | None, doc("First call that found the compile cache empty; never compared with the next.")
    ] = None
    first_call_shared_us: Annotated[float | None, doc("First call that found its own kernels in it.")] = None
    first_call_unknown_us: Annotated[
        float | None,
        doc("First call that found a compile cache with content, which may or may not be its own kernels."),
    ] = None
    flush_l2: Annotated[bool | None, doc("Whether the GPU's L2 cache was emptied before each timed forward.")] = None
    forward_timer: Annotated[str | None, doc("What timed the unprofiled forwards.", "cuda_events", "wall", None)] = None
    counted_kernels: Annotated[
        int | None, doc("Kernels of the forward whose counters were joined; null if none were asked for.")
    ] = None
    bytes_ratio: Annotated[
        float | None,
        doc(
            "Median over its kernels of 5 µs or more of modelled bytes over the DRAM bytes that Nsight Compute "
            "measured."
        ),
    ] = None
    limiters_compared: Annotated[
        int | None, doc("Kernels whose modelled roof and measured limiter are both compute or memory.")
    ] = None
    limiters_agree: Annotated[int | None, doc("Those in which they are the same.")] = None


SCHEMA = schema_of(Trust)


def trust_table(facts: Mapping[Key, CaseFacts], clocks: Mapping[Key, Clock]) -> pa.Table:
    """One row for each case with a clock, in that order."""
    return table_of((trust_of(facts[key], clock) for key, clock in clocks.items()), SCHEMA)


def trust_of(facts: CaseFacts, clock: Clock) -> Trust:
    merged = [process for process in facts.processes if process.merged]
    good = [process for process in facts.processes if process.status == "ok"]
    clocks = [process.clocks for process in merged if process.clocks]
    checks = [process.warmup_check for process in merged if process.warmup_check]
    looks = [process.other_gpu_processes for process in merged]
    others = [None if look is None else sorted({str(other.name) for other in look}) for look in looks]
    falling = [check.still_falling for check in checks if check.still_falling is not None]
    rising = [check.rose for check in checks if check.rose is not None]
    throttled = [each.throttled for each in clocks if each.throttled is not None]
    attempts = [process.attempts for process in facts.processes if process.attempts is not None]
    times = [time for process in merged for time in process.forward_times_us]
    bounds = [bound for bound in bounds_by_process(facts).values() if bound != "unknown"]
    return Trust(
        run=facts.run,
        case=facts.case,
        processes=len(merged),
        failed_processes=len(facts.processes) - len(good),
        elsewhere_processes=len(good) - len(merged),
        retried_processes=sum(number > 1 for number in attempts) if attempts else None,
        gpus=facts.gpus or None,
        device_spread=spread(process.device_time_us for process in merged),
        forward_spread=spread(process.forward_time_us for process in merged),
        cpu_spread=facts.cpu_spread,
        forward_time_us=clock.forward_time_us,
        device_busy_us=clock.device_busy_us,
        busy_ratio=busy_ratio(facts),
        restless=is_restless(*(quantile(times, share) for share in (0.05, 0.95))),
        bound=clock.bound,
        bound_processes=bounds.count(clock.bound) if bounds else None,
        overhead_share=clock.overhead_share,
        warmup=_first(process.warmup for process in merged),
        checked_processes=len(falling),
        falling_processes=sum(falling) if falling else None,
        rising_processes=sum(rising) if rising else None,
        sm_before_mhz=_least(each.before.sm_mhz for each in clocks if each.before),
        sm_after_mhz=_least(each.after.sm_mhz for each in clocks if each.after),
        max_sm_mhz=_least(each.max_sm_mhz for each in clocks),
        clock_reasons=_each_once((each.reasons for each in clocks), IDLE),
        throttled_processes=sum(throttled) if throttled else None,
        other_gpu_processes=_each_once(others),
        first_call_us=_first_call(merged, None),
        first_call_cold_us=_first_call(merged, "cold"),
        first_call_shared_us=_first_call(merged, "shared"),
        first_call_unknown_us=_first_call(merged, "unknown"),
        flush_l2=_first(process.flush_l2 for process in merged),
        forward_timer=_first(process.forward_timer for process in merged),
        **trust_columns(facts.counters),
    )


def busy_ratio(facts: CaseFacts) -> float | None:
    """Unprofiled forward time over device busy time; None if either is missing."""
    whole, busy = facts.forward_time_us, facts.device_busy_us
    return whole / busy if whole and busy else None


def _first_call(processes: Iterable[Process], cache: str | None) -> float | None:
    return median(process.first_call_us for process in processes if process.inductor_cache == cache)


def _each_once(lists: Iterable[Sequence[str] | None], *without: str) -> tuple[str, ...] | None:
    """The names in all lists, each once; None if every list is None."""
    present = [names for names in lists if names is not None]
    names = dict.fromkeys(name for names in present for name in names if name not in without)
    return tuple(names) if present else None


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
