"""How reliable the figures of each case are: spread over processes, agreement of two clocks, circumstances.

Where the GPU takes most of the time, two independent figures must agree: the unprofiled forward (CUDA events or wall
clock) and the busy time of the device in the profile. What bounds a forward follows `clock.bound_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from kernelbook.cases import CaseFacts, is_restless, median, spread
from kernelbook.cases.process_state import IDLE, ProcessState, process_state
from kernelbook.judge.clock import Clock, bounds_by_process
from kernelbook.text.units import quantile

Key = tuple[str, str]
#: Figures within this share of each other agree; a larger difference between processes is a spread.
WITHIN = 0.02
#: The same for CPU times, which differ more between processes.
CPU_WITHIN = 0.2
NONE = "none"
TYPES = {"str": pa.string(), "float": pa.float64(), "int": pa.int64(), "bool": pa.bool_()}


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
    counted. Texts with lists are "none" if a list was recorded and is empty.
    """

    run: str
    case: str
    processes: int = 0
    failed_processes: int = 0
    elsewhere_processes: int = 0
    retried_processes: int | None = None
    gpus: str | None = None
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
    clock_reasons: str | None = None
    throttled_processes: int | None = None
    other_gpu_processes: str | None = None
    first_call_us: float | None = None
    first_call_cold_us: float | None = None
    first_call_shared_us: float | None = None
    first_call_unknown_us: float | None = None
    flush_l2: bool | None = None
    forward_timer: str | None = None


SCHEMA = pa.schema([(field.name, TYPES[str(field.type).removesuffix(" | None")]) for field in fields(Trust)])


def trust_table(cases: pa.Table, facts: Mapping[Key, CaseFacts], clocks: Mapping[Key, Clock]) -> pa.Table:
    """One row for each case with a clock, in that order. cases: the table ``cases``, one row per process."""
    states: dict[Key, list[ProcessState]] = {}
    for row in cases.to_pylist():
        states.setdefault((row["run"], row["case"]), []).append(process_state(row))
    rows = [asdict(trust_of(facts[key], clock, states.get(key, []))) for key, clock in clocks.items()]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def trust_of(facts: CaseFacts, clock: Clock, states: Sequence[ProcessState]) -> Trust:
    """The reliability of one case, from its facts, its clock and the states of its processes."""
    good = [state for state in states if state.ok]
    elsewhere = {process.process for process in facts.processes if not process.merged}
    ok = [state for state in good if state.process not in elsewhere]
    falling = [state.still_falling for state in ok if state.still_falling is not None]
    rising = [state.rising for state in ok if state.rising is not None]
    throttled = [state.throttled for state in ok if state.throttled is not None]
    attempts = [state.attempts for state in states if state.attempts is not None]
    times = [time for process in facts.processes if process.merged for time in process.forward_times_us]
    bounds = [bound for bound in bounds_by_process(facts).values() if bound != "unknown"]
    return Trust(
        run=facts.run,
        case=facts.case,
        processes=len(ok),
        failed_processes=len(states) - len(good),
        elsewhere_processes=len(good) - len(ok),
        retried_processes=sum(number > 1 for number in attempts) if attempts else None,
        gpus=", ".join(facts.gpus) or None,
        device_spread=spread(state.device_time_us for state in ok),
        forward_spread=spread(state.forward_time_us for state in ok),
        cpu_spread=facts.cpu_spread,
        forward_time_us=clock.forward_time_us,
        device_busy_us=clock.device_busy_us,
        busy_ratio=busy_ratio(facts),
        restless=is_restless(*(quantile(times, share) for share in (0.05, 0.95))),
        bound=clock.bound,
        bound_processes=bounds.count(clock.bound) if bounds else None,
        overhead_share=clock.overhead_share,
        warmup=_first(state.warmup for state in ok),
        checked_processes=len(falling),
        falling_processes=sum(falling) if falling else None,
        rising_processes=sum(rising) if rising else None,
        sm_before_mhz=_least(state.sm_before_mhz for state in ok),
        sm_after_mhz=_least(state.sm_after_mhz for state in ok),
        max_sm_mhz=_least(state.max_sm_mhz for state in ok),
        clock_reasons=_listed([state.reasons for state in ok], IDLE),
        throttled_processes=sum(throttled) if throttled else None,
        other_gpu_processes=_listed([state.others for state in ok]),
        first_call_us=_first_call(ok, None),
        first_call_cold_us=_first_call(ok, "cold"),
        first_call_shared_us=_first_call(ok, "shared"),
        first_call_unknown_us=_first_call(ok, "unknown"),
        flush_l2=_first(state.flush_l2 for state in ok),
        forward_timer=_first(state.timer for state in ok),
    )


def busy_ratio(facts: CaseFacts) -> float | None:
    """Unprofiled forward time over device busy time; None where either is missing."""
    whole, busy = facts.forward_time_us, facts.device_busy_us
    return whole / busy if whole and busy else None


def _first_call(states: Iterable[ProcessState], cache: str | None) -> float | None:
    return median(state.first_call_us for state in states if state.inductor_cache == cache)


def _listed(of_processes: Iterable[Sequence[str] | None], *left_out: str) -> str | None:
    lists = [names for names in of_processes if names is not None]
    if not lists:
        return None
    return ", ".join(dict.fromkeys(name for names in lists for name in names if name not in left_out)) or NONE


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
