"""How reliable the figures of each case are: spread over processes, agreement of two clocks, circumstances.

Where the GPU takes most of the time, two independent figures must agree: the unprofiled forward (CUDA events or wall
clock) and the busy time of the device in the profile. What bounds a forward follows `clock.bound_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kernelbook.cases import CaseFacts, Process, is_restless, median, spread
from kernelbook.cases.process import IDLE
from kernelbook.cases.records import schema_of, table_of
from kernelbook.judge.clock import Clock, bounds_by_process
from kernelbook.judge.measured import trust_columns
from kernelbook.text.units import quantile

Key = tuple[str, str]
#: Figures within this share of each other agree; a larger difference between processes is a spread.
WITHIN = 0.02
#: The same for CPU times, which differ more between processes.
CPU_WITHIN = 0.2


@dataclass(frozen=True)
class Trust:
    """Reliability of one case of one run.

    ``processes``: those that ended well on the same kind of machine as the case; ``gpus``: the GPUs that they ran on. A
    spread is the largest of their medians over the smallest, minus 1. ``busy_ratio``: unprofiled forward time over
    device busy time. ``bound``: see `clock.bound_of`; ``bound_processes``: in how many processes it holds.
    ``overhead_share``: relative slowdown of a forward under the profiler. ``falling_processes``: how many of the
    ``checked_processes`` had first timed forwards slower than later ones; ``rising_processes``: the reverse.
    ``restless``: see `cases.is_restless`. Clocks are the lowest of all processes. First calls are medians over the
    processes with the same state of the compile cache; in the state unknown the cache was not empty, but hits were not
    counted. Lists are
    empty if a list was recorded and is empty, None if none was recorded. ``counted_kernels`` to ``limiters_agree``: see
    `measured.trust_columns`.
    """

    run: str
    case: str
    processes: int = 0
    failed_processes: int = 0
    elsewhere_processes: int = 0
    retried_processes: int | None = None
    gpus: tuple[str, ...] | None = None
    device_spread: float | None = None
    forward_spread: float | None = None
    cpu_spread: float | None = None
    forward_time_us: float | None = None
    device_busy_us: float | None = None
    busy_ratio: float | None = None
    restless: bool | None = None
    bound: str = "unknown"
    bound_processes: int | None = None
    overhead_share: float | None = None
    warmup: int | None = None
    checked_processes: int = 0
    falling_processes: int | None = None
    rising_processes: int | None = None
    sm_before_mhz: float | None = None
    sm_after_mhz: float | None = None
    max_sm_mhz: float | None = None
    clock_reasons: tuple[str, ...] | None = None
    throttled_processes: int | None = None
    other_gpu_processes: tuple[str, ...] | None = None
    first_call_us: float | None = None
    first_call_cold_us: float | None = None
    first_call_shared_us: float | None = None
    first_call_unknown_us: float | None = None
    flush_l2: bool | None = None
    forward_timer: str | None = None
    counted_kernels: int | None = None
    bytes_ratio: float | None = None
    limiters_compared: int | None = None
    limiters_agree: int | None = None


SCHEMA = schema_of(Trust)


def trust_table(facts: Mapping[Key, CaseFacts], clocks: Mapping[Key, Clock]) -> pa.Table:
    """One row for each case with a clock, in that order."""
    return table_of((trust_of(facts[key], clock) for key, clock in clocks.items()), SCHEMA)


def trust_of(facts: CaseFacts, clock: Clock) -> Trust:
    """The reliability of one case, from its facts and its clock."""
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
    """Unprofiled forward time over device busy time; None where either is missing."""
    whole, busy = facts.forward_time_us, facts.device_busy_us
    return whole / busy if whole and busy else None


def _first_call(processes: Iterable[Process], cache: str | None) -> float | None:
    return median(process.first_call_us for process in processes if process.inductor_cache == cache)


def _each_once(lists: Iterable[Sequence[str] | None], *without: str) -> tuple[str, ...] | None:
    """The names in all lists, each once; None where every list is None."""
    present = [names for names in lists if names is not None]
    names = dict.fromkeys(name for names in present for name in names if name not in without)
    return tuple(names) if present else None


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
