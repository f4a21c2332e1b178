"""Warnings about a reading: what to know before using its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kernelbook.text.formatting import at_border, duration, plural
from kernelbook.trace.annotations import groups_of
from kernelbook.trace.attribution import Attribution, outer_calls, queues_work
from kernelbook.trace.columns import Columns, median
from kernelbook.trace.implausible import ImplausibleTimes
from kernelbook.trace.nesting import NONE
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.ranges import RangeGroups
from kernelbook.trace.reader import EventReader
from kernelbook.trace.tables import RangeFigures
from kernelbook.trace.types import Flags, Ints, TraceWarning

# The first range of an annotation is an outlier when it takes more than this many times the median of the others.
SLOW_FIRST_FACTOR = 2.0
_SLOW_FIRST_RANGES = 3
_NO_LAUNCHES = "nothing was launched on a device: a CPU run, or recorded without the device's activities"


def collect_warnings(
    readers: Sequence[EventReader],
    columns: Columns,
    attribution: Attribution,
    implausible: ImplausibleTimes,
    figures: RangeFigures,
    groups: RangeGroups,
    incomplete: Flags,
) -> tuple[TraceWarning, ...]:
    """All warnings of a reading, most important first."""
    has_device = len(columns.device.start) > 0
    return (
        *(warning for reader in readers for warning in _file(reader, incomplete)),
        *_events(columns),
        *_implausible(implausible),
        *_overlapping(columns, attribution),
        *(_unattributed(columns, attribution, implausible) if has_device else _no_device(columns, attribution)),
        *_slow_first(attribution, implausible, figures, groups),
    )


def _file(reader: EventReader, incomplete: Flags) -> Iterator[TraceWarning]:
    if reader.truncated:
        text = "the file ends too early: figures cover the complete events before its end"
        if count := int(incomplete.sum()):
            text += f"; {count} of {plural(len(incomplete), 'range')} may lack work after it and count in no median"
        yield TraceWarning("truncated", 1, text)
    damaged = reader.lost + reader.repaired
    if damaged or reader.checks:
        repaired = f", {reader.repaired} of them could be read" if reader.repaired else ""
        parts = "1 event or other part is" if damaged == 1 else f"{damaged} events or other parts are"
        facts = reader.checks + ([f"{parts} not valid JSON or too long to read{repaired}"] if damaged else [])
        yield TraceWarning("damaged", damaged + len(reader.checks), "; ".join([*facts, "the rest was read"]))


def _events(columns: Columns) -> Iterator[TraceWarning]:
    if columns.malformed:
        text = f"{columns.malformed} events have no valid time or duration and are left out"
        yield TraceWarning("malformed", columns.malformed, text)
    if columns.unknown:
        names = ", ".join(sorted(columns.unknown)[:5])
        count = sum(columns.unknown.values())
        yield TraceWarning("unknown_category", count, f"{count} events of unknown categories are left out: {names}")


def _implausible(implausible: ImplausibleTimes) -> Iterator[TraceWarning]:
    one, many = "activity", "activities"
    kinds = (
        (implausible.overrun, one, many, "ended after a later one on the same stream"),
        (implausible.too_long, one, many, "took longer than all CPU events together"),
        (implausible.early, one, many, "began before the launch"),
        (implausible.apart, one, many, "began hours away from the rest of the file"),
        (implausible.cpu_apart, "CPU event", "CPU events", "began hours away from the rest of the file"),
    )
    facts = [f"{plural(int(flags.sum()), one, many)} {fact}" for flags, one, many, fact in kinds if flags.any()]
    if not facts:
        return
    text = "wrong times: " + ", ".join(facts)
    if implausible.other_clock:
        text += "; the device's clock is not the CPU's: durations are right, launch delays are not known"
    text += f"; {duration(int(implausible.excess.sum()) / 1000)} of device time is impossible (implausible_us)"
    yield TraceWarning("implausible", int(implausible.activities.sum() + implausible.cpu_apart.sum()), text)


def _overlapping(columns: Columns, attribution: Attribution) -> Iterator[TraceWarning]:
    forest = attribution.forest
    late = forest.overlapping
    if not len(late):
        return
    inner, outer = (at_border(columns.names[forest.rows.name[row]], 60) for row in (late[0], forest.parent[late[0]]))
    begin, end = ("begins", "ends") if len(late) == 1 else ("begin", "end")
    text = (
        f"{plural(len(late), 'CPU row')} {begin} inside another of the same thread and {end} after it, first {inner!r} "
        f"inside {outer!r}: a launch belongs to the row that began last, and counts for every range and op then open"
    )
    yield TraceWarning("overlapping_rows", len(late), text)


def _no_device(columns: Columns, attribution: Attribution) -> Iterator[TraceWarning]:
    calls = attribution.forest.rows.name[outer_calls(attribution.forest)]
    if count := int(queues_work(columns.names)[calls].sum()) if len(calls) else 0:
        text = (
            f"{plural(count, 'call')} to launch or copy, but no device activity: collecting it failed (permissions, "
            "another profiler, or CUPTI range mode)"
        )
        yield TraceWarning("launches_without_activities", count, text)
    else:
        yield TraceWarning("no_launches", 0, _NO_LAUNCHES)


def _unattributed(columns: Columns, attribution: Attribution, implausible: ImplausibleTimes) -> Iterator[TraceWarning]:
    lost: Flags = attribution.launch == NONE
    count = int(lost.sum())
    if not count:
        return
    ambiguous, device = attribution.ambiguous, columns.device
    without_id = int((device.correlation == MISSING).sum())
    reason = f"{'was' if count == 1 else 'were'} launched by a call that is not in the file"
    if without_id or ambiguous.any():
        reason = "could not be joined to a launch"
        reason += f" ({without_id} without a correlation id)" if without_id else ""
    activities = plural(count, "device activity", "device activities")
    yield TraceWarning("unattributed", count, f"{activities} {reason}: they count in the totals, but in no range")
    if ambiguous.any():
        count = int(ambiguous.sum())
        have = "has a correlation id" if count == 1 else "have correlation ids"
        text = f"{count} of them {have} that calls of several processes share, and the device does not tell which one"
        yield TraceWarning("several_processes", count, text)
        lost &= ~ambiguous
    if count := int((lost & _before_window(columns, attribution, implausible)).sum()):
        were = "was" if count == 1 else "were"
        text = f"{count} of them {were} launched before the window opened and finished inside it"
        yield TraceWarning("before_window", count, text)


def _before_window(columns: Columns, attribution: Attribution, implausible: ImplausibleTimes) -> Flags:
    """Per activity whether it must have been launched before the first CPU row, by its correlation id or its start."""
    rows, device = attribution.forest.rows, columns.device
    ids = rows.correlation[rows.correlation != MISSING]
    if not len(ids):
        return np.zeros(len(device.start), dtype=bool)
    # Ids are given out in order.
    before: Flags = (device.correlation != MISSING) & (device.correlation < ids.min())
    starts = rows.start[~implausible.cpu_apart]
    if len(starts):
        before |= ~implausible.apart & (device.start < starts.min())
    return before


def _slow_first(
    attribution: Attribution, implausible: ImplausibleTimes, figures: RangeFigures, groups: RangeGroups
) -> Iterator[TraceWarning]:
    """Compares outermost ranges that did the same work, without impossible device time."""
    cpu_times = attribution.forest.length[attribution.ranges]
    device_times = figures.device_time.copy()
    if implausible.excess.any():
        group, activity = attribution.activities_in_ranges()
        np.subtract.at(device_times, group, implausible.excess[activity])
    slow = []
    work = groups.family * (groups.kind.max(initial=0) + 1) + groups.kind
    for _, rows in groups_of(np.where(groups.level == 0, work, NONE)):
        if len(rows) >= _SLOW_FIRST_RANGES and groups.level[rows[0]] == 0:
            sides = (("CPU", cpu_times[rows]), ("device", device_times[rows]))
            if names := [name for name, times in sides if _is_first_slow(times)]:
                slow.append(f"{groups.names[groups.family[rows[0]]]} ({' and '.join(names)} time)")
    if slow:
        text = f"the first range takes more than {SLOW_FIRST_FACTOR:g} times the median of the others: "
        yield TraceWarning("slow_first", len(slow), text + ", ".join(slow[:5]) + "; read the median")


def _is_first_slow(times: Ints) -> bool:
    return bool(times[0] > SLOW_FIRST_FACTOR * median(times[1:]) > 0)
