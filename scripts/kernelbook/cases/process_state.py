"""The circumstances in which one process of a case was measured, typed: what the table ``cases`` keeps of them as JSON.

``None`` is what could not be read. Times in µs, clocks in MHz.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Reasons that nvidia-smi gives for a clock below the highest which slow nothing that was asked for: an idle GPU, and
#: clocks that someone has set (nvml.h, nvmlClocksEventReasons).
IDLE = "idle"
NOT_THROTTLING = frozenset({IDLE, "applications clocks setting", "sync boost", "display clock setting"})
#: A clock under load that is below this share of the highest is held down, whatever the reasons say. They are those of
#: one moment: a GPU at its power limit shows none between two of its steps, at 77 % of its clock. Some GPUs never reach
#: the highest clock that they name, by a fifth at most.
FAR_BELOW = 0.8


@dataclass(frozen=True)
class ProcessState:
    """One process. ``reasons``: what held the clocks down before or after; ``others``: who else used the GPU.

    ``throttled``: whether one of the reasons slowed it, or its clock lay far below the highest (`FAR_BELOW`) at a
    moment for which no reason was given, so that it neither was idle nor had its clock set. None where unread.
    """

    process: int
    ok: bool
    device_time_us: float | None
    forward_time_us: float | None
    attempts: int | None
    timer: str | None
    flush_l2: bool | None
    warmup: int | None
    first_call_us: float | None
    inductor_cache: str | None
    still_falling: bool | None
    rising: bool | None
    sm_before_mhz: float | None
    sm_after_mhz: float | None
    max_sm_mhz: float | None
    reasons: tuple[str, ...] | None
    others: tuple[str, ...] | None
    throttled: bool | None


def process_state(row: Mapping[str, Any]) -> ProcessState:
    """The state of one row of ``cases``; columns that the row lacks are unknown."""
    clocks = _json(row, "clocks") or {}
    before, after = clocks.get("before") or {}, clocks.get("after") or {}
    others, check = _json(row, "other_gpu_processes"), _json(row, "warmup_check") or {}
    return ProcessState(
        process=row.get("process") or 0,
        ok=row.get("status") == "ok",
        device_time_us=row.get("device_time_us"),
        forward_time_us=row.get("forward_time_us"),
        attempts=row.get("attempts"),
        timer=row.get("forward_timer"),
        flush_l2=row.get("flush_l2"),
        warmup=row.get("warmup"),
        first_call_us=row.get("first_call_us"),
        inductor_cache=row.get("inductor_cache"),
        still_falling=check.get("still_falling"),
        rising=_rising(check),
        sm_before_mhz=before.get("sm_mhz"),
        sm_after_mhz=after.get("sm_mhz"),
        max_sm_mhz=after.get("max_sm_mhz") or before.get("max_sm_mhz"),
        reasons=_reasons(before.get("throttle_reasons"), after.get("throttle_reasons")),
        others=None if others is None else tuple(sorted({str(each.get("name")) for each in others})),
        throttled=_throttled(before, after),
    )


def _rising(check: Mapping[str, Any]) -> bool | None:
    """Whether the later forwards took longer than the first ones; early measurements hold only the two medians."""
    if "rising" in check or "still_falling" not in check:
        return check.get("rising")
    first, rest = check.get("first_median_us"), check.get("rest_median_us")
    return None if first is None or rest is None else rest > 1.1 * first


def _reasons(before: list[str] | None, after: list[str] | None) -> tuple[str, ...] | None:
    if before is None and after is None:
        return None
    return tuple(dict.fromkeys([*(before or ()), *(after or ())]))


def _throttled(*readings: Mapping[str, Any]) -> bool | None:
    answers = [_slowed(reading) for reading in readings if reading.get("throttle_reasons") is not None]
    return any(answers) if answers else None


def _slowed(reading: Mapping[str, Any]) -> bool:
    reasons, clock, highest = (reading.get(name) for name in ("throttle_reasons", "sm_mhz", "max_sm_mhz"))
    if reasons:
        return not NOT_THROTTLING.issuperset(reasons)
    return bool(clock and highest) and clock < FAR_BELOW * highest


def _json(row: Mapping[str, Any], column: str) -> Any:
    return json.loads(row[column]) if row.get(column) else None
