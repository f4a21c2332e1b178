"""What a reader of the figures has to know before trusting them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kernelbook.text.units import at_border, duration, plural
from kernelbook.trace.annotations import groups_of
from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import MISSING, Columns
from kernelbook.trace.groups import RangeGroups
from kernelbook.trace.launches import launching, outer_calls
from kernelbook.trace.nesting import NONE
from kernelbook.trace.plausible import Doubts
from kernelbook.trace.reader import EventReader
from kernelbook.trace.tables import RangeFigures
from kernelbook.trace.types import TraceWarning

# The first range of an annotation is an outlier when it takes more than this many times the median of the others.
SLOW_FIRST_FACTOR = 2.0
_SLOW_FIRST_RANGES = 3
_NO_LAUNCHES = "nothing was launched on a device: a CPU run, or recorded without the device's activities"


def collect_warnings(
    readers: Sequence[EventReader],
    columns: Columns,
    found: Attribution,
    doubts: Doubts,
    figures: RangeFigures,
    groups: RangeGroups,
    cut: np.ndarray,
) -> tuple[TraceWarning, ...]:
    """Every warning of one file, in the order of weight."""
    return (
        *(warning for reader in readers for warning in _of_the_file(reader, cut)),
        *_of_the_events(columns),
        *_implausible(doubts),
        *_overlapping(columns, found),
        *(_of_launches(columns, found, doubts) if len(columns.device.start) else _without_device(columns, found)),
        *_slow_first(found, doubts, figures, groups),
    )


def _of_the_file(reader: EventReader, cut: np.ndarray) -> Iterator[TraceWarning]:
    if reader.truncated:
        text = "the file ends too early: figures cover the whole events before the cut"
        if lost := int(cut.sum()):
            text += f"; {lost} of {plural(len(cut), 'range')} may lack work past it and count in no median"
        yield TraceWarning("truncated", 1, text)
    damaged = reader.lost + reader.repaired
    if damaged or reader.checks:
        kept = f", {reader.repaired} of them read all the same" if reader.repaired else ""
        parts = "1 event or other part is" if damaged == 1 else f"{damaged} events or other parts are"
        facts = reader.checks + ([f"{parts} not valid JSON or too long to read{kept}"] if damaged else [])
        yield TraceWarning("damaged", damaged + len(reader.checks), "; ".join([*facts, "the rest was read"]))


def _of_the_events(columns: Columns) -> Iterator[TraceWarning]:
    if columns.malformed:
        text = f"{columns.malformed} events have no valid time or length and are left out"
        yield TraceWarning("malformed", columns.malformed, text)
    if columns.unknown:
        names = ", ".join(sorted(columns.unknown)[:5])
        count = sum(columns.unknown.values())
        yield TraceWarning("unknown_category", count, f"{count} events of unknown categories are left out: {names}")


def _implausible(doubts: Doubts) -> Iterator[TraceWarning]:
    """Which times cannot be, and how much device time is in doubt for it."""
    kinds = (
        (doubts.overrun, "activity", "activities", "ended after a later one on the same stream"),
        (doubts.too_long, "activity", "activities", "took longer than all CPU events together"),
        (doubts.early, "activity", "activities", "began before the launch"),
        (doubts.apart, "activity", "activities", "began hours away from the rest of the file"),
        (doubts.cpu_apart, "CPU event", "CPU events", "began hours away from the rest of the file"),
    )
    counts = [(int(marked.sum()), *words) for marked, *words in kinds]
    if not any(count for count, *_ in counts):
        return
    text = "wrong times: "
    text += ", ".join(f"{plural(count, one, many)} {what}" for count, one, many, what in counts if count)
    if doubts.other_clock:
        text += "; the device's clock is not the CPU's: lengths hold, launch delays are not known"
    text += f"; {duration(int(doubts.excess.sum()) / 1000)} of device time is impossible (implausible_us)"
    yield TraceWarning("implausible", int(doubts.activities.sum() + doubts.cpu_apart.sum()), text)


def _overlapping(columns: Columns, found: Attribution) -> Iterator[TraceWarning]:
    late = found.forest.overlapping
    if not len(late):
        return
    rows = found.forest.rows
    inner, outer = (at_border(columns.names[rows.name[row]], 60) for row in (late[0], found.forest.parent[late[0]]))
    begin = "begins" if len(late) == 1 else "begin"
    end = "ends" if len(late) == 1 else "end"
    text = (
        f"{plural(len(late), 'CPU row')} {begin} inside another of the same thread and {end} after it, first {inner!r} "
        f"inside {outer!r}: a launch belongs to the row that began last, and counts for every range and op then open"
    )
    yield TraceWarning("overlapping_rows", len(late), text)


def _without_device(columns: Columns, found: Attribution) -> Iterator[TraceWarning]:
    calls = found.forest.rows.name[outer_calls(found.forest)]
    if count := int(launching(columns.names)[calls].sum()) if len(calls) else 0:
        text = (
            f"{plural(count, 'call')} to launch or copy, but no device activity: collecting it failed (permissions, "
            "another profiler, or CUPTI range mode)"
        )
        yield TraceWarning("launches_without_activities", count, text)
    else:
        yield TraceWarning("no_launches", 0, _NO_LAUNCHES)


def _of_launches(columns: Columns, found: Attribution, doubts: Doubts) -> Iterator[TraceWarning]:
    lost = found.launch == NONE
    count = int(lost.sum())
    if not count:
        return
    activities = plural(count, "device activity", "device activities")
    were = "was" if count == 1 else "were"
    disputed, device = found.launches.disputed, columns.device
    nameless = int((device.correlation == MISSING).sum())
    text = f"{were} launched by a call that is not in the file"
    if nameless or disputed.any():
        text = "could not be joined to a launch"
        text += f" ({nameless} without a correlation id)" if nameless else ""
    yield TraceWarning("unattributed", count, f"{activities} {text}: in the totals, in no range")
    if disputed.any():
        count = int(disputed.sum())
        have = "has a correlation id" if count == 1 else "have correlation ids"
        text = f"{count} of them {have} that calls of several processes share, and the device does not tell which one"
        yield TraceWarning("several_processes", count, text)
        lost &= ~disputed
    rows = found.forest.rows
    ids = rows.correlation[rows.correlation != MISSING]
    # Ids are given out in order, so a smaller one than any call's was launched before the window opened.
    early = lost & (device.correlation != MISSING) & (device.correlation < ids.min(initial=np.iinfo(np.int64).max))
    placed = rows.start[~doubts.cpu_apart]
    if len(placed):
        early |= lost & ~doubts.apart & (device.start < placed.min())
    if not len(ids):
        early &= False
    if early.any():
        count = int(early.sum())
        were = "was" if count == 1 else "were"
        text = f"{count} of them {were} launched before the window opened and finished inside it"
        yield TraceWarning("before_window", count, text)


def _slow_first(
    found: Attribution, doubts: Doubts, figures: RangeFigures, groups: RangeGroups
) -> Iterator[TraceWarning]:
    """Only outermost ranges that did the same work are compared, without device time that is impossible."""
    lengths = found.forest.length[found.ranges]
    times = figures.device_time.copy()
    if doubts.excess.any():
        group, activity = found.within()
        np.subtract.at(times, group, doubts.excess[activity])
    slow = []
    work = groups.family * (groups.kind.max(initial=0) + 1) + groups.kind
    for _, rows in groups_of(np.where(groups.level == 0, work, NONE)):
        if len(rows) >= _SLOW_FIRST_RANGES and groups.level[rows[0]] == 0:
            sides = _slow_sides(lengths[rows], times[rows])
            slow += [f"{groups.names[groups.family[rows[0]]]} ({' and '.join(sides)} time)"] if sides else []
    if slow:
        text = f"the first range takes more than {SLOW_FIRST_FACTOR:g} times the median of the others: "
        yield TraceWarning("slow_first", len(slow), text + ", ".join(slow[:5]) + "; read the median")


def _slow_sides(cpu: np.ndarray, device: np.ndarray) -> list[str]:
    """Which time of the first range is too long: CPU, device or both."""
    return [name for name, times in (("CPU", cpu), ("device", device)) if _first_slow(times)]


def _first_slow(times: np.ndarray) -> bool:
    return bool(times[0] > SLOW_FIRST_FACTOR * np.median(times[1:]) > 0)
