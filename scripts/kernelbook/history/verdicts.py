"""One night compared with earlier nights: changes that were not reported yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelbook.history import exact
from kernelbook.history.causes import percent, time_causes
from kernelbook.history.detect import MIN_SEGMENT, LevelChange, level_changes, suspect_z
from kernelbook.history.night_events import ALERTS, NightEvent, NightVerdict, Suspect, remembered
from kernelbook.history.series import METRICS, Histories, Series, make_series
from kernelbook.history.store import Damaged, History

NAMES = {"forward_time_us": "forward time", "device_time_us": "device time"}
FLAPPING = ("kernels", "launches", "ops", "warnings")
WAVERING_NIGHTS = 30
FLAPS = 2
"""So many alerts of one kind in a series within the window, and the next is a suspect: it goes back and forth."""


@dataclass(frozen=True)
class Rules:
    """When something is a change; the keys of `history` in config.yaml."""

    min_nights: int = 12
    alert_window: int = 7
    min_change: float = 0.03
    penalty: float = 5.0
    suspect_change: float = 0.05
    suspect_z: float = 3.5
    suspect_nights: int = 20
    alert_on: tuple[str, ...] = field(default=ALERTS)


def rules_of(config: Mapping[str, Any]) -> Rules:
    """The rules among the keys of a `history` section; other keys are ignored, missing ones have their defaults."""
    values = {key: value for key, value in config.items() if key in Rules.__dataclass_fields__}
    return Rules(**values | {"alert_on": tuple(values.get("alert_on", ALERTS))})


def judge(
    history: History,
    edition: str,
    judged: Mapping[str, Mapping[str, Any]],
    names: exact.Names,
    rules: Rules | None = None,
    damaged: Sequence[Damaged] = (),
) -> NightVerdict:
    """Judge the night `edition`; `history` ends with it.

    judged, damaged: events of earlier nights and unreadable files (Store.read_events); nights after `edition` are
    ignored. Raises ValueError if the night is not the last of the history.
    """
    rules = rules or Rules()
    nights = history.nights
    if not nights or nights[-1] != edition:
        raise ValueError(
            f"night {edition} is not the last of this history ({', '.join(nights[-3:]) or 'empty'}): record it first"
        )
    histories = make_series(history.table, nights)
    first = max(0, len(nights) - rules.alert_window)
    reported = tuple(_with_present_series(event, history) for event in remembered(judged, nights[:-1]))
    reported_ids = {event.id for event in reported}
    fresh = [event for event in _exact(history, histories, names, first, rules) if event.id not in reported_ids]
    order = {night: at for at, night in enumerate(nights)}
    fresh, flapping = _without_flapping(fresh, reported, order, rules)
    times, wavering = _without_wavering(
        _time_events(histories, (*reported, *fresh), order, first, rules), reported, order, rules
    )
    fresh += times
    tonight = [series for series in histories.series if series.nights[-1] == len(nights) - 1]
    enough = [series for series in tonight if len(_positive(series, METRICS[0])[1]) >= rules.min_nights]
    return NightVerdict(
        edition=edition,
        events=tuple(replace(event, found=edition) for event in sorted(fresh, key=_order)),
        suspects=(*flapping, *wavering, *_suspects(tonight, rules)),
        failed=exact.failures(history.table, edition),
        insufficient=len(tonight) - len(enough),
        compared=len(enough),
        damaged=tuple({"file": item.file, "reason": item.reason} for item in (*history.damaged, *damaged)),
        alert_kinds=tuple(rules.alert_on),
    )


def _with_present_series(event: NightEvent, history: History) -> NightEvent:
    """An event of an older schema with the series id that its series has now."""
    if event.series is None or event.case is None:
        return event
    return replace(event, series=history.renamed.get((event.series, event.case), event.series))


def _exact(history: History, histories: Histories, names: exact.Names, first: int, rules: Rules) -> list[NightEvent]:
    return [
        *exact.identity_events(histories, names, first, rules.suspect_nights),
        *exact.series_events(histories, first),
        *exact.failure_events(history.table, history.nights, first),
        *exact.gap_events(history.nights, first),
    ]


def _order(event: NightEvent) -> tuple[str, str, str, str]:
    return event.night, event.run or "", event.case or "", event.kind


def _without_flapping(
    fresh: Sequence[NightEvent], reported: Sequence[NightEvent], order: Mapping[str, int], rules: Rules
) -> tuple[list[NightEvent], tuple[Suspect, ...]]:
    """Kernels that alternate alert twice within the window; later alternations are suspects of their night."""
    kept: list[NightEvent] = []
    flapping = []
    for event in sorted(fresh, key=lambda event: order[event.night]):
        begin = order[event.night] - rules.alert_window
        key = event.kind, event.run, event.series
        same = [old for old in (*reported, *kept) if (old.kind, old.run, old.series) == key]
        earlier = [old for old in same if begin <= order.get(old.night, -1) < order[event.night]]
        if event.kind not in FLAPPING or len(earlier) < FLAPS:
            kept.append(event)
        elif order[event.night] == len(order) - 1:
            flapping.append(_alternating(event, None))
    return kept, tuple(flapping)


def _without_wavering(
    fresh: Sequence[NightEvent], reported: Sequence[NightEvent], order: Mapping[str, int], rules: Rules
) -> tuple[list[NightEvent], tuple[Suspect, ...]]:
    """Times that return to an earlier level alert twice a month, then become suspects; new levels alert."""
    kept, wavering = [], []
    for event in fresh:
        key = "time", event.series, event.metric
        same = [old for old in reported if (old.kind, old.series, old.metric) == key]
        month = [
            old for old in same if 0 <= order[event.night] - order.get(old.night, -WAVERING_NIGHTS) < WAVERING_NIGHTS
        ]
        returns = any(_near(event.after, old.before, rules.min_change) for old in month)
        if len(month) >= FLAPS and returns:
            wavering.append(_alternating(event, event.change))
        else:
            kept.append(event)
    return kept, tuple(wavering)


def _alternating(event: NightEvent, change: float | None) -> Suspect:
    return Suspect(event.run, event.case, event.series, f"goes back and forth: {event.text}", change)


def _near(value: float | None, reference: float | None, limit: float) -> bool:
    """Whether the relative difference is below the limit; False where a value is missing."""
    return bool(value is not None and reference and abs(value / reference - 1) < limit)


def _positive(series: Series, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions (m,) and values (m,) where the metric is present and positive."""
    at = np.flatnonzero(series.values[metric] > 0)
    return at, series.values[metric][at]


def metric_changes(series: Series, metric: str, rules: Rules) -> list[tuple[int, LevelChange]]:
    """All level changes of one metric with their positions; empty with too little history."""
    at, values = _positive(series, metric)
    if len(values) < rules.min_nights:
        return []
    changes = level_changes(values, penalty=rules.penalty, min_change=rules.min_change)
    return [(int(at[change.index]), change) for change in changes]


def _time_events(
    histories: Histories, reported: Sequence[NightEvent], order: Mapping[str, int], first: int, rules: Rules
) -> list[NightEvent]:
    by_series: dict[str, list[NightEvent]] = {}
    for event in reported:
        if event.series and event.case:
            by_series.setdefault(event.series, []).append(event)
    events = []
    for series in histories.series:
        if series.nights[-1] < first:
            continue
        mine = [event for event in by_series.get(series.id, ()) if event.night in order]
        placed = [(int(np.searchsorted(series.nights, order[event.night])), event) for event in mine]
        for metric in METRICS:
            for at, change in metric_changes(series, metric, rules):
                if series.nights[at] >= first and not any(
                    _stands_for(event, metric, change, abs(position - at), rules) for position, event in placed
                ):
                    events.append(_time_event(histories, series, at, metric, change))
                    placed.append((at, events[-1]))
    return events


def _stands_for(event: NightEvent, metric: str, change: LevelChange, distance: int, rules: Rules) -> bool:
    """Whether a reported event is this step, in the other metric or placed `distance` nights off."""
    if event.change is None or (event.change > 0) != (change.change > 0):
        return False
    slack = max(rules.min_change, abs(event.change) / 2)
    if event.kind != "time":  # a change of kernels was reported with its cost
        return distance <= 1 and abs(event.change - change.change) < slack
    if event.metric != metric:
        return distance <= 1 or (distance <= MIN_SEGMENT and abs(event.change - change.change) < slack)
    if distance <= MIN_SEGMENT:
        return _near(change.after, event.after, slack)
    return distance <= rules.alert_window and _near(change.after, event.after, rules.min_change)


def _time_event(histories: Histories, series: Series, at: int, metric: str, change: LevelChange) -> NightEvent:
    way = "slower" if change.change > 0 else "faster"
    return NightEvent(
        kind="time",
        night=histories.nights[series.nights[at]],
        run=series.run,
        case=series.case,
        series=series.id,
        text=f"{NAMES[metric]} {percent(abs(change.change))} {way}: {change.before:.4g} → {change.after:.4g} µs",
        causes=time_causes(series, at),
        metric=metric,
        before=change.before,
        after=change.after,
        change=change.change,
    )


def _suspects(tonight: Sequence[Series], rules: Rules) -> list[Suspect]:
    """Values of this night that stand out from the last ones; they never fail a night."""
    suspects = []
    for series in tonight:
        for metric in METRICS:
            _, values = _positive(series, metric)
            if not len(values) or not series.values[metric][-1] > 0:
                continue
            z = suspect_z(values, nights=rules.suspect_nights, least=rules.min_nights - 1)
            if z is None or abs(z) <= rules.suspect_z:
                continue
            change = float(values[-1] / np.median(values[:-1][-rules.suspect_nights :]) - 1)
            if abs(change) >= rules.suspect_change:
                text = f"{NAMES[metric]} {percent(change, '+')} against the last nights' median"
                suspects.append(Suspect(series.run, series.case, series.id, text, change, z))
                break
    return suspects
