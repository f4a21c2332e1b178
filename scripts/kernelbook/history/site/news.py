"""Changes as the pages list them: merged over runs, with dates in words, advice, and the changes that still last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

import numpy as np

from kernelbook.history.causes import is_version
from kernelbook.history.night_events import NightEvent
from kernelbook.history.site.views import Book, Night
from kernelbook.text.formatting import plural
from kernelbook.text.remedies import fact_and_remedy

#: Number of last nights whose reported changes are counted while they last.
LATELY = 14
#: Names of cases that a sentence lists.
NAMED = 3
#: Classes of events, the most pressing first; those from `faster` on need no action.
TONES = ("failure", "slower", "change", "faster", "note")
#: (beginning of the first cause, advice) for changes of time.
BY_CAUSE = (
    ("SM clock", "Look at the power limit and the temperature of the GPU: nvidia-smi -q -d PERFORMANCE."),
    ("other processes", "Keep other programs off the GPU, and measure the night again."),
    ("only CPU time", "Look at the CPU: its load, its clock, the Python packages. The kernels take as long as before."),
)
SAME_CONDITIONS = (
    "Run the case again. If it stays slow, look at the machine: other programs, power limit, clocks of CPU and memory."
)


def merged(events: Iterable[NightEvent]) -> list[tuple[NightEvent, ...]]:
    """Groups of events in their order; the same change of a case on several runs forms one group."""
    groups: dict[tuple[object, ...], list[NightEvent]] = {}
    for event in events:
        change = (event.kind, event.night, event.found, event.case, event.direction, event.metric, event.reasons)
        groups.setdefault(change if event.case else (event.id,), []).append(event)
    return [tuple(group) for group in groups.values()]


def when(event: NightEvent) -> str:
    """`since 28 November, reported on 29 November 2026`; `29 November 2026` if both are the same night."""
    if not event.found or event.found == event.night:
        return _day(event.night)
    same_year = event.night[:4] == event.found[:4]
    since = _day(event.night)
    return f"since {since.removesuffix(f' {event.night[:4]}') if same_year else since}, reported on {_day(event.found)}"


def _day(night: str) -> str:
    """`29 November 2026`; the name of the night if it does not begin with a date."""
    try:
        day = date.fromisoformat(night[:10])
    except ValueError:
        return night
    return f"{day.day} {day:%B %Y}{night[10:]}"


def urgent(book: Book, limit: int) -> list[NightEvent]:
    """Events of the last nights that need action, the worst first: failures, slower times, other changes."""
    lately = set(book.history.nights[-LATELY:])
    pressing = TONES[: TONES.index("faster")]
    groups = merged(event for event in book.events if event.found in lately and book.tone(event) in pressing)
    return [event for group in worst_first(book, groups)[:limit] for event in group]


def worst_first(book: Book, groups: Iterable[tuple[NightEvent, ...]]) -> list[tuple[NightEvent, ...]]:
    """The groups sorted by tone, otherwise in their order."""
    return sorted(groups, key=lambda group: TONES.index(book.tone(group[0])))


def advice(event: NightEvent) -> str:
    """Advice on an event, in a sentence or two; empty if nothing needs to be done."""
    if event.kind == "failure":
        return fact_and_remedy(event.text)[1]
    if event.direction == "faster" or event.kind in ("series", "gap"):
        return ""
    if any(is_version(cause) for cause in event.causes):
        return "Measure the case with both versions, and look through what changed between them."
    if event.kind in ("kernels", "launches", "ops", "graph_breaks", "recompiles"):
        return "Compare the reports of the two nights: which ops and kernels ran before, and which run now."
    if event.kind in ("memory", "relative_error", "warnings"):
        return "Compare the reports of the two nights."
    cause = next(iter(event.causes), "")
    return next((text for beginning, text in BY_CAUSE if cause.startswith(beginning)), SAME_CONDITIONS)


@dataclass(frozen=True)
class Failures:
    """Cases of a run that failed for the same reason; without cases, the whole run."""

    run: str
    cases: tuple[str, ...]
    fact: str
    remedy: str

    @property
    def subject(self) -> str:
        """`linear-eager`, `linear-eager and 2 more cases`, or the run."""
        if not self.cases:
            return self.run
        more = f" and {plural(len(self.cases) - 1, 'more case')}" if len(self.cases) > 1 else ""
        return f"{self.cases[0]}{more}"


def failures(night: Night) -> list[Failures]:
    """The failures of a night; cases of a run that failed for the same reason are one entry."""
    alike: dict[tuple[str, str, bool], list[str]] = {}
    for item in night.judged.get("failed", ()):
        alike.setdefault((item["run"], item["reason"], item["case"] is None), []).append(item["case"])
    return [
        Failures(run, () if whole else tuple(cases), *fact_and_remedy(reason))
        for (run, reason, whole), cases in alike.items()
    ]


def lasting(book: Book) -> str:
    """`2 changes still last: linear-eager, mlp-eager`; empty if there are none.

    Counts the recently reported changes of time whose last value is nearer to the new level than to the old. A change
    on several runs counts once.
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
    groups = [group for group in merged(times) if any(lasts(each) for event in group for each in event.each)]
    if not groups:
        return ""
    names = list(dict.fromkeys(each.case or each.run or "" for group in groups for each in group[0].each))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    words = f"{plural(len(groups), 'change')} still {'lasts' if len(groups) == 1 else 'last'}"
    return f"{words}: {', '.join(names[:NAMED])}{more}"
