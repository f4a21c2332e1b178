"""Changes as the pages list them: one change of several runs once, its dates in words, and how many still last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import numpy as np

from kernelbook.history.night_events import NightEvent
from kernelbook.history.site.views import Book
from kernelbook.text.formatting import plural

#: Changes that were reported in so many of the last nights are counted while they last.
LATELY = 14


def merged(events: Iterable[NightEvent]) -> list[tuple[NightEvent, ...]]:
    """The events in their order, those that are one change of a case on several runs together."""
    groups: dict[tuple[object, ...], list[NightEvent]] = {}
    for event in events:
        change = (event.kind, event.night, event.found, event.case, event.direction, event.metric, event.reasons)
        groups.setdefault(change if event.case else (event.id,), []).append(event)
    return [tuple(group) for group in groups.values()]


def when(event: NightEvent) -> str:
    """`since 28 November, reported on 29 November 2026`; `29 November 2026` where both are one night."""
    if not event.found or event.found == event.night:
        return _day(event.night)
    same_year = event.night[:4] == event.found[:4]
    since = _day(event.night)
    return f"since {since.removesuffix(f' {event.night[:4]}') if same_year else since}, reported on {_day(event.found)}"


def _day(night: str) -> str:
    """`29 November 2026`; the name of the night where it does not begin with a date."""
    try:
        day = date.fromisoformat(night[:10])
    except ValueError:
        return night
    return f"{day.day} {day:%B %Y}{night[10:]}"


def lasting(book: Book) -> str:
    """`2 changes still last`: changes of time lately reported whose last value is nearer to the new level than the old.

    One change on several runs counts once. Empty where there is none.
    """
    last = len(book.history.nights) - 1
    latest = {
        (series.run, series.case, metric): float(values[-1])
        for series in book.histories.series
        if len(series.nights) and series.nights[-1] == last
        for metric, values in series.values.items()
    }
    lately = set(book.history.nights[-LATELY:])

    def lasts(event: NightEvent) -> bool:
        now = latest.get((event.run or "", event.case or "", event.metric or ""), np.nan)
        if event.before is None or event.after is None:
            return False
        return bool(abs(now - event.after) < abs(now - event.before))

    times = [event for event in book.events if event.found in lately and book.is_alert(event)]
    count = sum(any(lasts(each) for event in group for each in event.each) for group in merged(times))
    return f"{plural(count, 'change')} still {'lasts' if count == 1 else 'last'}" if count else ""
