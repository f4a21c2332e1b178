"""Judge the figures of a night: steps and drifts of each case, shifts that all cases of a run share, and suspects.

All cases of a night share clock, driver and machine. So the shift that the cases of a run share is removed from each
case before it is judged, and is a separate event if it lasts. Each GPU of a model has its own level (`gpu_id`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelbook.history import levels
from kernelbook.history.causes import percent, shared_causes, time_causes
from kernelbook.history.night_events import NightEvent, Suspect
from kernelbook.history.releases import last_release
from kernelbook.history.rules import Rules
from kernelbook.history.series import Histories, Series

MOST_NIGHTS = 400
"""Nights that are considered: more than a year, so that a slow drift is seen."""
GPU_NIGHTS = 5
"""Nights that a GPU needs before it has its own level."""
SHARED_NIGHTS = 4
SHARED_Z = 6.0
"""Least number of nights, and of standard errors, of a shift of all cases that is an event."""
LEVEL_KINDS = frozenset({"time", "drift", "kernels", "launches", "ops", "graph_breaks", "recompiles"})
"""Kinds of events with which a new level of time may begin."""


@dataclass(frozen=True)
class Figure:
    """A column that is judged. `per_unit`: divides it for display. `least`: nights that a step needs."""

    name: str
    kind: str
    words: str
    unit: str = "µs"
    per_unit: float = 1.0
    min_change: float | None = None  # None: `history.min_change`
    least: int = 2

    def text(self, before: float, after: float, than: str = "") -> str:
        """`forward time 5.0 % slower: 100 → 105 µs`; `slower than with torch 2.9.0` with `than`."""
        up = after > before
        way = ("slower" if up else "faster") if self.unit in ("µs", "ms") else ("more" if up else "less")
        figures = f"{before / self.per_unit:.4g} → {after / self.per_unit:.4g} {self.unit}".rstrip()
        return f"{self.words} {percent(abs(after / before - 1))} {way}{than}: {figures}"


TIMES = (
    Figure("forward_time_us", "time", "forward time"),
    Figure("device_time_us", "time", "device time"),
)
OTHERS = (
    Figure("peak_memory_bytes", "memory", "peak memory", "MiB", 2**20, 0.01, 1),
    Figure("first_call_us", "first_call", "first call", "ms", 1000.0, 0.25, 3),
    Figure("relative_error", "relative_error", "relative error", "", 1.0, 0.25, 1),
    Figure("occupancy_percent", "occupancy", "achieved occupancy", "%", 1.0, 0.1),
)
EventsByCase = Mapping[tuple[str | None, str | None], Sequence[NightEvent]]


@dataclass
class Track:
    """One figure of one series with its m values. `at` (m,): their positions in the series.

    `bounds`: positions where reported levels begin, 0 first. `logs` (m,): logarithms of the values. `second` (m,):
    those of second measurements, NaN if there is none. `residuals` (m,): distance from the level of its time and GPU,
    without the shift that the night's cases share. `milder` (m,): for nights that were measured twice, the distance of
    the measurement nearer to the level; NaN for the others. `shifts` (m,): the part of `logs` that was removed.
    """

    series: Series
    figure: Figure
    at: np.ndarray
    bounds: list[int]
    logs: np.ndarray
    second: np.ndarray
    residuals: np.ndarray
    milder: np.ndarray
    shifts: np.ndarray

    @property
    def nights(self) -> np.ndarray:
        """Positions (m,) of the values among the nights of the history."""
        return np.asarray(self.series.nights[self.at])

    def settle(self, shift: np.ndarray, rules: Rules) -> None:
        """Remove the shift (m,) that all cases share, and use second measurements of nights that stand out."""
        gpus = np.array([self.series.facts["gpu_id"][at] for at in self.at]) if "gpu_id" in self.series.facts else None
        pooled = centred(self.logs - shift, self.bounds)
        self.residuals = by_gpu(pooled, gpus)
        self.shifts = shift + pooled - self.residuals
        for at in range(max(1, len(self.logs) - levels.LONGEST), len(self.logs)):
            first = float(self.residuals[at])
            second = first + float(self.second[at] - self.logs[at])
            if math.isfinite(second) and self.stands_out(at, rules) is not None:
                self.residuals[at] = levels.combined(first, second, levels.scale_of(self.residuals[:at]).sigma)
                self.milder[at] = levels.milder(first, second)

    def stands_out(self, at: int, rules: Rules) -> tuple[float, float] | None:
        """(relative distance from its level, standard errors) of a suspect value; None for others."""
        begin = max(bound for bound in self.bounds if bound <= at)
        before = self.residuals[begin:at]
        change = math.expm1(self.residuals[at] - levels.median(before)) if len(before) else 0.0
        if abs(change) < rules.suspect_change:
            return None
        z = levels.suspicion(self.residuals[: at + 1], begin)
        return (change, z) if abs(z) >= rules.suspect_z else None


def centred(values: np.ndarray, bounds: Sequence[int]) -> np.ndarray:
    """Each value minus the median of its level; levels begin at `bounds`."""
    result = values.copy()
    for begin, end in itertools.pairwise([*bounds, len(values)]):
        result[begin:end] -= np.median(result[begin:end])
    return result


def by_gpu(values: np.ndarray, gpus: np.ndarray | None) -> np.ndarray:
    """Values minus the median of their GPU before the last nights; a GPU with few nights keeps the common level."""
    if gpus is None or len(set(gpus)) < 2:
        return values
    result = values.copy()
    for gpu in set(gpus):
        past = np.flatnonzero(gpus[: -levels.LONGEST] == gpu)
        if len(past) >= GPU_NIGHTS:
            result[gpus == gpu] -= np.median(values[past])
    return result


def tracks_of(series: Series, figure: Figure, events: EventsByCase, order: Mapping[str, int]) -> Track | None:
    """The figure of a series with its reported levels; None if its last night has no value."""
    values = series.values.get(figure.name)
    if values is None or not values[-1] > 0:
        return None
    at = np.flatnonzero(values > 0)[-MOST_NIGHTS:]
    first_own = series.nights[series.own]
    begins = {
        int(np.searchsorted(series.nights[at], order[event.night]))
        for event in events.get((series.run, series.case), ())
        if event.night in order
        and (event.kind in LEVEL_KINDS if figure.kind == "time" else event.kind == figure.kind)
        and abs(event.change or 0.0) > 0.01
        and (event.series == series.id or order[event.night] < first_own)
    }
    logs = np.log(values[at])
    again = series.confirmed.get(figure.name)
    second = np.full(len(at), np.nan)
    if again is not None:
        present = again[at] > 0
        second[present] = np.log(again[at][present])
    bounds = sorted({0, *(begin for begin in begins if begin < len(at))})
    blank = np.zeros(len(at))
    return Track(series, figure, at, bounds, logs, second, blank, np.full(len(at), np.nan), blank)


@dataclass(frozen=True)
class JudgedFigures:
    """Events and suspects of a night, and the numbers of series with enough and too few nights to judge their time."""

    events: tuple[NightEvent, ...]
    suspects: tuple[Suspect, ...]
    compared: int
    insufficient: int


def judge_figures(histories: Histories, reported: Sequence[NightEvent], rules: Rules) -> JudgedFigures:
    """Judge the figures of the last night. reported: events of earlier nights, with groups split into their members."""
    order = {night: at for at, night in enumerate(histories.nights)}
    groups: dict[tuple[str | None, ...], list[Series]] = {}
    for series in histories.followed:
        if series.nights[-1] == len(histories.nights) - 1:
            groups.setdefault((series.run, series.device, series.driver), []).append(series)
    events: list[NightEvent] = []
    suspects: list[Suspect] = []
    enough = 0
    for group in groups.values():
        by_case: dict[tuple[str | None, str | None], list[NightEvent]] = {}
        for event in reported:
            by_case.setdefault((event.run, event.case), []).append(event)
        for figure in (*TIMES, *OTHERS):
            tracks = [track for series in group if (track := tracks_of(series, figure, by_case, order))]
            tracks = [track for track in tracks if len(track.at) >= rules.min_nights]
            enough += len(tracks) if figure is TIMES[0] else 0
            if not tracks:
                continue
            shift = _settle(tracks, histories, rules)
            if figure is TIMES[0]:
                events += _shared_event(histories, tracks, shift, by_case, order, rules)
            for track in tracks:
                change = (
                    _step(histories, track, shift, rules)
                    or _drift(histories, track)
                    or _against_release(histories, track, by_case, order, rules)
                )
                if change:
                    events.append(change)
                    by_case.setdefault((change.run, change.case), []).append(change)
                elif figure in TIMES:
                    suspects += _suspects(track, rules)
    changed = {(event.run, event.case) for event in events}
    distinct = {(item.run, item.case): item for item in reversed(suspects) if (item.run, item.case) not in changed}
    total = sum(len(group) for group in groups.values())
    return JudgedFigures(tuple(events), tuple(reversed(distinct.values())), enough, total - enough)


def _settle(tracks: Sequence[Track], histories: Histories, rules: Rules) -> np.ndarray:
    """Settle all tracks of a run; returns the shift (nights,) that they share, NaN for nights without it."""
    nights = len(histories.nights)
    residuals = np.full((len(tracks), nights), np.nan)
    for row, track in enumerate(tracks):
        residuals[row, track.nights] = centred(track.logs, track.bounds)
    is_ceiling = np.array([track.series.case.startswith("ceiling-") for track in tracks])
    shifts = np.zeros_like(residuals)
    if tracks[0].figure.kind == "time":
        recent = slice(max(0, nights - MOST_NIGHTS), nights)
        shifts[:, recent] = levels.shared_shift(residuals[:, recent], is_ceiling)
    for row, track in enumerate(tracks):
        track.settle(shifts[row, track.nights], rules)
    present = np.isfinite(residuals).any(axis=0)
    shared = np.full(nights, np.nan)
    shared[present] = np.nanmedian(np.where(np.isfinite(residuals), shifts, np.nan)[:, present], axis=0)
    return shared


def _shared_event(
    histories: Histories,
    tracks: Sequence[Track],
    shift: np.ndarray,
    events: EventsByCase,
    order: Mapping[str, int],
    rules: Rules,
) -> Iterator[NightEvent]:
    """A shift of all cases of a run that lasts."""
    series = max((track.series for track in tracks), key=lambda series: len(series.nights))
    nights = series.nights[np.isfinite(shift[series.nights])]
    run = series.run
    begins = [
        order[event.night] for event in events.get((run, None), ()) if event.kind == "shared" and event.night in order
    ]
    bounds = sorted({0, *(int(np.searchsorted(nights, begin)) for begin in begins)} - {len(nights)})
    at = np.searchsorted(series.nights, nights)
    gpus = np.array([series.facts["gpu_id"][place] for place in at]) if "gpu_id" in series.facts else None
    values = centred(shift[nights], bounds)
    if gpus is not None and len(set(gpus)) > 1:
        values = by_gpu(values, gpus)
        new = [gpu for gpu in set(gpus) if (gpus[: -levels.LONGEST] == gpu).sum() < GPU_NIGHTS]
        for gpu in new:  # the effect of this GPU on all cases is not known yet
            values[gpus == gpu] -= np.median(values[gpus == gpu])
    boundary = all(
        len(track.series.nights) - track.series.own <= levels.LONGEST and track.series.own for track in tracks
    )
    least = 1 if boundary else SHARED_NIGHTS
    step = levels.find_step(
        values, bounds[-1], min_change=rules.min_change, least=least, least_z=SHARED_Z, steady=levels.LONGEST
    )
    if step is None:
        return
    change, place = math.expm1(step.shift), int(at[len(at) - step.nights])
    night = histories.nights[series.nights[place]]
    way = "slower" if change > 0 else "faster"
    text = f"all {len(tracks)} cases {percent(abs(change))} {way} since {night}"
    causes = shared_causes(series, place)
    yield NightEvent("shared", night, run, None, None, text, causes, tracks[0].figure.name, change=change)


def _step(histories: Histories, track: Track, shift: np.ndarray, rules: Rules) -> NightEvent | None:
    figure, series, begin = track.figure, track.series, track.bounds[-1]
    at_boundary = series.own > 0 and len(series.nights) - series.own == 1
    step = levels.find_step(
        track.residuals,
        begin,
        min_change=rules.min_change if figure.min_change is None else figure.min_change,
        confirmed=track.milder,
        least=1 if at_boundary else figure.least,
    )
    if step is None:
        return None
    first = len(track.at) - step.nights
    before = math.exp(float(np.median(track.logs[begin:first])))
    position = int(track.at[first])
    causes = time_causes(series, position) if figure.kind == "time" else causes_of_others(series, position)
    common = float(np.nan_to_num(shift[series.nights[position]]))
    if abs(common) >= rules.min_change:
        causes = (*causes, f"beyond what all cases changed by that night ({percent(math.expm1(common), '+')})")
    return _event(histories, track, first, before, before * math.exp(step.shift), figure.kind, causes)


def causes_of_others(series: Series, position: int) -> tuple[str, ...]:
    """Causes of a change of a figure other than a time; clocks and other processes do not change it."""
    return tuple(cause for cause in time_causes(series, position) if not cause.startswith(("SM", "only", "other")))


def _drift(histories: Histories, track: Track) -> NightEvent | None:
    if track.figure.kind != "time":
        return None
    rise = levels.find_drift(track.residuals, track.bounds[-1])
    if rise is None:
        return None
    now = math.exp(float(np.median(track.logs[-levels.LASTING :])))
    before = now * math.exp(-rise)
    causes = (f"no step: the level of {levels.LASTING} nights rose little by little above the best one",)
    return _event(histories, track, len(track.at) - levels.LASTING, before, now, "drift", causes)


def _against_release(
    histories: Histories, track: Track, events: EventsByCase, order: Mapping[str, int], rules: Rules
) -> NightEvent | None:
    """An event if a time is slower than with the last release of torch by more than was reported since."""
    series, since = track.series, len(track.at) - levels.LASTING
    if track.figure is not TIMES[0] or since < track.bounds[-1]:
        return None
    clean = track.logs - track.shifts
    release = last_release(series, track.figure.name, track.at, clean, histories.by_case[series.case])
    if release is None:
        return None
    rise = levels.median(clean[since:]) - release.log
    own = sorted(events.get((series.run, series.case), ()), key=lambda event: event.night)
    changes = [event for event in own if event.kind in LEVEL_KINDS and event.night in order and event.change]
    reported = next((event for event in reversed(changes) if release.cause in event.causes), None)
    begin = order[reported.night] if reported else release.until
    later = {event.night: event.change or 0.0 for event in changes if order[event.night] > begin}
    explained = sum(map(math.log1p, later.values())) + math.log1p(reported.change or 0.0 if reported else 0.0)
    scale = levels.scale_beside_a_trend(track.residuals[track.bounds[-1] :])
    error = math.sqrt(scale.variance_of_mean(levels.LASTING) + scale.variance_of_mean(release.nights))
    if min(rise, rise - explained) < max(math.log1p(rules.min_change), levels.STEP_Z * error):
        return None
    now = math.exp(levels.median(track.logs[since:]))
    event = _event(histories, track, since, now * math.exp(-rise), now, "drift", (release.cause,))
    than = f" than with torch {release.version}, the last release"
    return replace(event, text=track.figure.text(now * math.exp(-rise), now, than))


def _event(
    histories: Histories, track: Track, first: int, before: float, after: float, kind: str, causes: tuple[str, ...]
) -> NightEvent:
    series = track.series
    return NightEvent(
        kind=kind,
        night=histories.nights[track.nights[first]],
        run=series.run,
        case=series.case,
        series=series.id,
        text=track.figure.text(before, after),
        causes=causes,
        metric=track.figure.name,
        before=before,
        after=after,
        change=after / before - 1,
    )


def _suspects(track: Track, rules: Rules) -> Iterator[Suspect]:
    """The value of this night if it stands out from its level; it never fails a night."""
    outstanding = track.stands_out(len(track.at) - 1, rules)
    if outstanding:
        change, z = outstanding
        again = ", measured twice" if np.isfinite(track.milder[-1]) else ""
        text = f"{track.figure.words} {percent(change, '+')} against its level{again}"
        yield Suspect(track.series.run, track.series.case, track.series.id, text, change, z)
