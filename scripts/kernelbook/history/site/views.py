"""Contents of the pages: nights, runs and events, with links relative to the top of the site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from kernelbook.history.causes import percent
from kernelbook.history.night_events import NightEvent, event_of
from kernelbook.history.rules import Rules
from kernelbook.history.series import FIXED, METRICS, Histories, Series, make_series
from kernelbook.history.store import History
from kernelbook.text.formatting import plural, visible

STATUS = {
    0: ("good", "nothing new"),
    3: ("change", "changed"),
    4: ("failure", "failures"),
    5: ("failure", "changed, with failures"),
    None: ("quiet", "not judged"),
}
NOTEWORTHY = 0.03
VERSIONS = ("torch", "cuda", "cudnn")
COLUMNS = (
    "edition",
    "confirmation",
    "status",
    "reason",
    "series",
    *FIXED,
    *METRICS,
    "kernel_count",
    *VERSIONS,
    "image_digest",
)
"""Columns of the history that the pages need."""
Rows = dict[int, dict[str, list[tuple[Series, int, float]]]]  # night -> run -> (series, position, change)


@dataclass(frozen=True)
class NightCase:
    """One case of one night; `change`: relative to the median of the last nights, NaN if there are too few."""

    case: str
    link: str | None
    status: str
    reason: str = ""
    forward_time_us: float = np.nan
    change: float = np.nan
    device_time_us: float = np.nan
    kernels: int | None = None
    suspect: bool = False

    @property
    def tone(self) -> str:
        """Class of its change: slower, faster or none."""
        return tone_of(self.change)


@dataclass(frozen=True)
class RunTable:
    """One run of one night: where it ran, and its cases."""

    run: str
    facts: tuple[str, ...]
    rows: tuple[NightCase, ...]
    note: str = ""


@dataclass(frozen=True)
class Night:
    """One night's page; `judged`: its events file, empty if the night was not judged."""

    edition: str
    judged: Mapping[str, Any]
    events: tuple[NightEvent, ...]
    runs: tuple[RunTable, ...]

    @property
    def tone(self) -> str:
        """Class of its status: good, change, failure or quiet."""
        return STATUS[self.judged.get("exit_status")][0]

    @property
    def verdict(self) -> str:
        """Its status in words."""
        return STATUS[self.judged.get("exit_status")][1]

    @property
    def link(self) -> str:
        return f"nights/{self.edition}/index.html"

    @property
    def cases(self) -> int:
        """Number of measured cases over all runs."""
        return sum(row.status == "ok" for run in self.runs for row in run.rows)

    @property
    def measured(self) -> str:
        """`3 cases measured`, or `2 of 3 cases measured` if some failed."""
        tried = sum(len(run.rows) for run in self.runs)
        if tried > self.cases:
            return f"{self.cases} of {plural(tried, 'case')} measured"
        return f"{plural(self.cases, 'case')} measured"

    @property
    def changes(self) -> int:
        """Number of alerts."""
        return len(self.judged.get("alerts", ()))

    @property
    def failed(self) -> int:
        """Number of failed cases and lost runs."""
        return len(self.judged.get("failed", ()))


def trend_link(line: str, case: str) -> str:
    """The page of one case of one line."""
    return f"trends/{line}/{case}.html"


class Book:
    """The whole history, prepared for the pages."""

    def __init__(self, history: History, judged: Mapping[str, Mapping[str, Any]], rules: Rules) -> None:
        self.history, self.judged, self.rules = history, judged, rules
        self.histories: Histories = make_series(history.table, history.nights)

    @cached_property
    def events(self) -> tuple[NightEvent, ...]:
        """All events, newest night first."""
        events = [event_of(item) for night in self.judged.values() for item in night["events"]]
        order = {night: at for at, night in enumerate(self.history.nights)}
        return tuple(sorted(events, key=lambda event: (-order.get(event.found, -1), event.kind, event.case or "")))

    def is_alert(self, event: NightEvent) -> bool:
        """Whether the event set its night's exit status."""
        return event.id in self._alerts

    @cached_property
    def _alerts(self) -> frozenset[str]:
        """Ids of all alerts, and of the members of those that are groups."""
        reported: set[str] = set()
        for event in self.events:
            if event.id in self.judged.get(event.found, {}).get("alerts", ()):
                reported |= {event.id, *(each.id for each in event.each)}
        return frozenset(reported)

    def tone(self, event: NightEvent) -> str:
        """Class of an event: slower, faster, failure, change or note."""
        if event.kind == "failure":
            return "failure"
        if event.kind in ("time", "drift", "shared") and not event.members:
            return event.direction or "change"
        return "change" if self.is_alert(event) else "note"

    def event_link(self, event: NightEvent) -> str:
        """The page of an event: the trend of its case, otherwise its night."""
        if event.case and event.run:
            line = self._lines.get(event.run, event.run)
            if (line, event.case) in self.histories.by_subject:
                return trend_link(line, event.case)
        return f"nights/{event.found or event.night}/index.html"

    def versions(self, event: NightEvent) -> str:
        """The versions that a case ran with in the night of its change: `torch 2.14.0, cuda 13.0`; empty if unknown."""
        night = self._order.get(event.night)
        for series in self.histories.by_subject.get((self._lines.get(event.run or "", ""), event.case or ""), ()):
            places = [] if night is None else np.flatnonzero(series.nights == night).tolist()
            if series.run == event.run and places:
                return ", ".join(run_facts(series, places[0])[1:])
        return ""

    @cached_property
    def _order(self) -> dict[str, int]:
        return {night: at for at, night in enumerate(self.history.nights)}

    @cached_property
    def _lines(self) -> dict[str, str]:
        return {series.run: series.line for series in self.histories.series}

    def silence(self, nights: Iterable[str]) -> str:
        """The sentence for nights without any event, with the number of judged nights."""
        nights = tuple(nights)
        judged = sum(night in self.judged for night in nights)
        if not judged:
            return f"None of {plural(len(nights), 'night')} was judged."
        if judged < len(nights):
            return f"No change was reported; {judged} of {plural(len(nights), 'night')} were judged."
        return "Nothing has changed since the first night."

    def nights(self) -> Iterator[Night]:
        """Every night, newest first."""
        rows = self._rows()
        others = self._other_rows()
        for at in reversed(range(len(self.history.nights))):
            edition = self.history.nights[at]
            judged = self.judged.get(edition, {})
            events = tuple(event_of(item) for item in judged.get("events", ()))
            suspects = {(item["run"], item["case"]) for item in judged.get("suspects", ())}
            yield Night(edition, judged, events, tuple(self._run_tables(at, rows, others.get(edition, []), suspects)))

    def _rows(self) -> Rows:
        """By night and run: (series, position, change against the last nights' median or NaN)."""
        rows: Rows = defaultdict(lambda: defaultdict(list))
        for series in self.histories.series:
            deltas = against_last_nights(series.values[METRICS[0]], self.rules.suspect_nights)
            for position, night in enumerate(series.nights.tolist()):
                rows[night][series.run].append((series, position, float(deltas[position])))
        return rows

    def _other_rows(self) -> dict[str, list[dict[str, Any]]]:
        """Rows that are not good, by night; one per case."""
        table = self.history.table
        bad = table.filter(pc.not_equal(table["status"], "ok")).select(["edition", "run", "case", "status", "reason"])
        by_night: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
        for row in bad.to_pylist():
            by_night[row["edition"]].setdefault((row["run"], row["case"]), row)
        return {edition: list(rows.values()) for edition, rows in by_night.items()}

    def _run_tables(
        self, at: int, rows: Rows, others: Sequence[dict[str, Any]], suspects: set[tuple[str, str]]
    ) -> Iterator[RunTable]:
        good = rows.get(at, {})
        for run in sorted({*good, *(row["run"] for row in others)}):
            mine = good.get(run, [])
            bad = [row for row in others if row["run"] == run]
            measured = {series.case for series, _, _ in mine}
            cases = [_good_row(*item, suspect=(run, item[0].case) in suspects) for item in mine]
            cases += [_bad_row(row, self._has_trend(row)) for row in bad if row["case"] and row["case"] not in measured]
            note = next((row["reason"] or "" for row in bad if not row["case"]), "")
            facts = run_facts(mine[0][0], mine[0][1]) if mine else ()
            yield RunTable(run, facts, tuple(sorted(cases, key=lambda row: row.case)), note)

    def _has_trend(self, row: Mapping[str, Any]) -> str | None:
        subject = (self._lines.get(row["run"], row["run"]), row["case"])
        return trend_link(*subject) if subject in self.histories.by_subject else None


def against_last_nights(values: np.ndarray, nights: int) -> np.ndarray:
    """Relative change of each value against the median of up to `nights` before it, NaN under 3; shape (n,)."""
    padded = np.r_[np.full(nights, np.nan), values]
    windows = np.lib.stride_tricks.sliding_window_view(padded, nights)[: len(values)]
    enough = np.isfinite(windows).sum(axis=1) >= 3
    medians = np.full(len(values), np.nan)
    medians[enough] = np.nanmedian(windows[enough], axis=1)
    medians[medians == 0] = np.nan
    changes: np.ndarray = values / medians - 1
    return changes


def signed(change: float) -> str:
    """`+1.2 %`; empty if it is NaN."""
    return percent(change, "+") if np.isfinite(change) else ""


def tone_of(change: float) -> str:
    """slower or faster from 3 %, empty below."""
    if not np.isfinite(change) or abs(change) < NOTEWORTHY:
        return ""
    return "slower" if change > 0 else "faster"


def _good_row(series: Series, position: int, delta: float, *, suspect: bool) -> NightCase:
    return NightCase(
        case=series.case,
        link=trend_link(series.line, series.case),
        status="ok",
        forward_time_us=float(series.values["forward_time_us"][position]),
        change=delta,
        device_time_us=float(series.values["device_time_us"][position]),
        kernels=series.facts["kernel_count"][position],
        suspect=suspect,
    )


def _bad_row(row: Mapping[str, Any], link: str | None) -> NightCase:
    return NightCase(row["case"], link, row["status"], visible(row["reason"] or ""))


def run_facts(series: Series, position: int) -> tuple[str, ...]:
    """The conditions of a series in a night: GPU, versions, driver, image."""
    facts = series.facts
    versions = [(name, facts[name][position]) for name in VERSIONS]
    digest = facts["image_digest"][position]
    return tuple(
        [series.device or "unknown device"]
        + [f"{name} {value}" for name, value in versions if value]
        + ([f"driver {series.driver}"] if series.driver else [])
        + ([f"image {digest.rpartition(':')[2][:12]}"] if digest else [])
    )
