"""The ranges of a bare trace that are compared, or its whole file if it has none."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from typing import Any

from kernelbook.cases import Activity, CaseFacts, Process, ProfiledForward
from kernelbook.cases.records import record_of
from kernelbook.trace import TraceReading

STEPS = "ProfilerStep#*"
WHOLE_FILE = "whole file"
#: Ranges of one trace that are compared: those with the most device time, or CPU time if no device was used.
MOST_RANGES = 6


@dataclass(frozen=True)
class RangeChoice:
    """Ranges of one name. name: with * for numbers in which names differ. annotation: the glob that selects them."""

    name: str
    annotation: str


def range_choices(reading: TraceReading) -> list[RangeChoice]:
    """The ranges of a trace: those that its annotation selects, else the outermost ranges and the forwards.

    Without ranges they are the profiler's steps; empty if there are none of these either.
    """
    if reading.annotation is not None:
        return [RangeChoice(reading.annotation, reading.annotation)] if reading.groups.selected.any() else []
    names = _outer_names(reading)
    if not names and reading.steps:
        return [RangeChoice(STEPS, STEPS)]
    return [RangeChoice(name, glob.escape(name).replace("[*]", "*") if "*" in name else name) for name in names]


def _outer_names(reading: TraceReading) -> list[str]:
    """Names of ranges inside no other range, and of the forwards, those of the most time first."""
    groups, ranges = reading.groups, reading.frames["ranges"].to_rows(("parent", "cpu_time_us", "device_time_us"))
    times: dict[str, list[float]] = {}
    for family, row, is_forward in zip(groups.family.tolist(), ranges, groups.is_forward.tolist(), strict=True):
        if row["parent"] is None or is_forward:
            time = times.setdefault(groups.names[family], [0.0, 0.0])
            time[0] += row["device_time_us"] or 0.0
            time[1] += row["cpu_time_us"] or 0.0
    return sorted(times, key=lambda name: [-time for time in times[name]])[:MOST_RANGES]


def whole_file(job: str, reading: TraceReading) -> CaseFacts:
    """A trace without ranges as one forward: all its activities, and no calls."""
    totals = reading.totals
    figures: dict[str, Any] = {
        name: getattr(totals, name)
        for name in ("kernels", "memcpys", "memsets", "launches", "device_time_us", "device_busy_us")
    }
    identity: dict[str, Any] = {"run": job, "case": WHOLE_FILE, "workload": "trace", "bare": True}
    identity |= {"device": reading.device, "annotation": WHOLE_FILE}
    rows = reading.activities.to_pylist()
    activities = tuple(record_of(Activity, {**row, "position": place}) for place, row in enumerate(rows))
    forward = ProfiledForward(
        process=1,
        index=0,
        cpu_time_us=0.0,
        device_time_us=totals.device_time_us,
        device_busy_us=totals.device_busy_us,
        activities=activities,
    )
    return CaseFacts(
        **identity, **figures, processes=(Process(**identity, **figures),), forwards=(forward,), chosen=(1, 0)
    )
