"""Trends: one case of one line over all nights, with its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise

import numpy as np

from kernelbook.charts.drawing import Chart, Label, Panel, Tick
from kernelbook.charts.lines import Curve, Mark, across, around, lines_drawing, number, since, sparkline
from kernelbook.history.causes import shorten
from kernelbook.history.night_events import NightEvent
from kernelbook.history.series import METRICS, Series
from kernelbook.history.site.views import VERSIONS, Book, against_last_nights, run_facts, signed, tone_of, trend_link

SPARK_NIGHTS = 90
MONTH = 30
QUARTER = 90
MARGIN = 0.008  # of the span of nights, free at both ends of a chart
TITLES = {"forward_time_us": "Forward time, µs", "device_time_us": "Device time, µs"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Entry:
    """One entry under a chart; `letter` marks its night in the chart."""

    letter: str
    night: str
    text: str
    causes: tuple[str, ...]
    tone: str


class Trend:
    """The page of one case on one line, and its row in the list of trends. Charts are drawn when they are asked for."""

    def __init__(self, book: Book, group: Sequence[Series], events: Sequence[NightEvent]) -> None:
        """group: the series of the case, oldest first; events: those of the case and of its whole run."""
        self._book, self._group, self._events = book, group, events
        last, nights = group[-1], book.history.nights
        values = last.values[METRICS[0]]
        month = float(against_last_nights(values, MONTH)[-1])
        self.line, self.case, self.link = last.line, last.case, trend_link(last.line, last.case)
        self.now, self.month, self.tone = number(values[-1]), signed(month), tone_of(month)
        self.judged = len(values) >= book.rules.min_nights
        self.facts = _case_facts(last)
        self.entries = _entries(book, events)[::-1]  # newest first
        self.versions = _versions(group, nights)[::-1]  # (night, what changed), newest first
        self.silence = book.silence(nights[night] for series in group for night in series.nights)  # without entries

    @property
    def spark(self) -> str:
        return sparkline(self._group[-1].values[METRICS[0]][-SPARK_NIGHTS:])

    @property
    def inputs(self) -> tuple[object, ...]:
        """All that the page shows, before it is drawn."""
        words = (self.line, self.case, self.facts, self.judged, self.entries, self.versions, self.silence)
        drawn = [
            (
                [(night, self._book.history.nights[night]) for night in series.nights.tolist()],
                [series.values[metric].tolist() for metric in METRICS],
                [series.facts[name] for name in ("kernel_count", "torch")],
                series.driver,
                _level_starts(self._book, series, self._events),
            )
            for series in self._group
        ]
        return (*words, drawn)

    @cached_property
    def spans(self) -> tuple[tuple[str, tuple[Chart, ...]], ...]:
        """(name, charts): all nights, then the last ones alone."""
        nights = self._book.history.nights
        days = {night: float(date.fromisoformat(night[:10]).toordinal()) for night in nights}
        marks = [Mark(days[night], "", f"{night}: {text}", "tick") for night, text in reversed(self.versions)]
        firsts = {entry.night: entry for entry in self.entries}.values()
        marks += [Mark(days[e.night], e.letter, f"{e.night}: {e.text}", e.tone) for e in firsts]
        axis = np.array([days[night] for night in nights])
        curves = {
            title: [
                _line(self._book, series, metric, axis, _level_starts(self._book, series, self._events))
                for series in self._group
            ]
            for metric, title in TITLES.items()
        }
        of = f"{self.case} on {self.line}"
        return tuple((name, _charts(curves, marks, of, first)) for name, first in _spans(self._group, axis))

    @property
    def table(self) -> Iterator[tuple[str, ...]]:
        return _table(self._group, self._book.history.nights)


def trends(book: Book) -> Iterator[Trend]:
    """Every case of every line."""
    by_case: dict[tuple[str, str], list[NightEvent]] = defaultdict(list)
    for event in reversed(book.events):
        for each in event.each:
            by_case[each.run or "", each.case or ""].append(each)
    for group in book.histories.by_subject.values():
        last = group[-1]
        events = [
            *by_case[last.run, last.case],
            *(event for event in by_case[last.run, ""] if event.kind in ("series", "shared")),
        ]
        yield Trend(book, group, events)


def _spans(group: Sequence[Series], axis: np.ndarray) -> Iterator[tuple[str, float]]:
    """(name, first day) of each span of nights on a page: all nights, and the last ones if there are many more."""
    days = np.unique(np.concatenate([axis[series.nights] for series in group]))
    yield "all nights", float(days[0])
    for count in (QUARTER, MONTH):
        if len(days) > 2 * count:
            yield f"last {count}", float(days[-count])


def _charts(curves: Mapping[str, Sequence[Curve]], marks: Sequence[Mark], of: str, first: float) -> tuple[Chart, ...]:
    """The charts of the days from `first` on. curves: title -> the curves of its chart; of: the case and line."""
    shown = [mark for mark in marks if mark.x >= first]
    return tuple(
        chart
        for title, lines in curves.items()
        for chart in _chart(title, [since(line, first) for line in lines], shown, f"{title}, {of}")
    )


def _chart(title: str, lines: Sequence[Curve], marks: Sequence[Mark], label: str) -> list[Chart]:
    """The chart of all lines on one scale; empty if no line has a value."""
    lines = [line for line in lines if np.isfinite(line.y).any()]
    if not lines:
        return []
    scale = around(np.concatenate([line.y[np.isfinite(line.y)] for line in lines]))
    first, last = float(min(line.x[0] for line in lines)), float(max(line.x[-1] for line in lines))
    margin = MARGIN * max(last - first, 1.0)
    ends = first - margin, last + margin
    letters = tuple(Label(across(m.x, *ends) / 1000, 0, m.letter, m.tone) for m in marks if m.letter)
    values = tuple(Tick(scale.down(step) / 100, number(step)) for step in scale.steps)
    panel = Panel(lines_drawing(lines, scale, ends, label, marks), y_ticks=values, labels=letters)
    days = np.unique(np.linspace(first, last, 4).round().astype(int))
    dates = tuple(Tick(across(int(day), *ends) / 1000, date.fromordinal(int(day)).isoformat()) for day in days)
    return [Chart(title, "trend", title, (panel,), dates)]


def _level_starts(book: Book, series: Series, events: Sequence[NightEvent]) -> list[int]:
    """Positions in the series at which a new level of time was reported."""
    order = {night: at for at, night in enumerate(book.history.nights)}
    nights = [order[e.night] for e in events if e.kind in ("time", "drift", "shared") and e.night in order]
    return sorted({int(np.searchsorted(series.nights, night)) for night in nights} - {0, len(series.nights)})


def _line(book: Book, series: Series, metric: str, axis: np.ndarray, level_starts: Sequence[int]) -> Curve:
    values = series.values[metric]
    starts = [0, *level_starts, len(values)]
    levels = [
        (a, b - 1, float(np.nanmedian(values[a:b])))
        for a, b in pairwise(starts)
        if len(starts) > 2 and np.isfinite(values[a:b]).any()
    ]
    gaps = np.flatnonzero(np.diff(series.nights) > 1) + 1
    editions = [book.history.nights[night] for night in series.nights.tolist()]
    links = tuple(
        (f"../../nights/{edition}/index.html", f"{edition}: {number(value)} µs")
        for edition, value in zip(editions, values.tolist(), strict=True)
    )
    return Curve(axis[series.nights], values, tuple(gaps.tolist()), tuple(levels), links=links)


def _entries(book: Book, events: Sequence[NightEvent]) -> list[Entry]:
    """The events of a case, oldest night first; events of one night share a letter."""
    ordered = sorted((e for e in events if e.night in book.history.nights), key=lambda event: event.night)
    letters = {night: _letter(at) for at, night in enumerate(dict.fromkeys(event.night for event in ordered))}
    return [Entry(letters[event.night], event.night, event.text, event.reasons, book.tone(event)) for event in ordered]


def _letter(at: int) -> str:
    return LETTERS[at] if at < len(LETTERS) else str(at + 1)


def _versions(group: Sequence[Series], nights: Sequence[str]) -> list[tuple[str, str]]:
    """Nights with a change of torch, CUDA or cuDNN, oldest first."""
    changes = []
    for series in group:
        for at in range(1, len(series.nights)):
            pairs = [(name, series.facts[name][at - 1], series.facts[name][at]) for name in VERSIONS]
            changed = ", ".join(f"{name} {old} → {new}" for name, old, new in pairs if old and new and old != new)
            if changed:
                changes.append((nights[series.nights[at]], changed))
    return sorted(changes)


def _case_facts(series: Series) -> tuple[str, ...]:
    what = f"{series.workload}, {series.variant}, {series.mode}, {series.dtype}"
    params = "" if series.params in (None, "{}") else shorten(series.params.strip("{}").replace('"', ""))
    return tuple(part for part in (what, params, *run_facts(series, len(series.nights) - 1)) if part)


def _table(group: Sequence[Series], nights: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Newest night first: night, forward time, device time, kernels, torch, driver."""
    rows = []
    for series in group:
        times_of = zip(*(map(number, series.values[metric].tolist()) for metric in METRICS), strict=True)
        for at, (night, times) in enumerate(zip(series.nights.tolist(), times_of, strict=True)):
            kernels = series.facts["kernel_count"][at]
            versions = (series.facts["torch"][at] or "n/a", series.driver or "n/a")
            rows.append((night, (nights[night], *times, "n/a" if kernels is None else str(kernels), *versions)))
    return (row for _, row in sorted(rows, key=lambda item: -item[0]))
