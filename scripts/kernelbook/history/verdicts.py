"""One night compared with earlier nights: changes that were not reported yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from kernelbook.history import exact
from kernelbook.history.causes import is_version, percent
from kernelbook.history.figures import judge_figures
from kernelbook.history.night_events import KINDS, Failed, NightEvent, NightVerdict, Suspect, remembered
from kernelbook.history.rules import Rules
from kernelbook.history.series import Histories, make_series
from kernelbook.history.store import Damaged, History
from kernelbook.text.formatting import plural

FLAPPING = ("kernels", "launches", "ops", "warnings", "graph_breaks", "recompiles")
UNGROUPED = ("failure", "gap")
LISTED = 5
WAVERING_NIGHTS = 30
BRIEF = 2
"""The end of a level that lasted at most this many nights is a suspect, not a change."""
FLAPS = 2
"""After this many alerts of one kind in a series within the window, the next is a suspect: it goes back and forth."""


def judge_last_night(
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
    exact_events = _exact(history, histories, names, first, rules)
    fresh = [event for event in exact_events if reported_ids.isdisjoint(each.id for each in event.each)]
    order = {night: at for at, night in enumerate(nights)}
    fresh, flapping = _without_flapping(fresh, reported, order, rules)
    tonight = judge_figures(histories, (*reported, *fresh), rules)
    figures, wavering = _without_wavering(tonight.events, reported, order, rules)
    events = (replace(event, found=edition) for event in grouped([*fresh, *figures]))
    damage = (*history.damaged, *damaged)
    return NightVerdict(
        edition=edition,
        events=tuple(sorted(events, key=_order)),
        suspects=(*flapping, *wavering, *tonight.suspects),
        failed=(*exact.failures(history.table, edition), *_not_judged(history, edition)),
        insufficient=tonight.insufficient,
        compared=tonight.compared,
        damaged=tuple({"file": item.file, "reason": item.reason} for item in damage),
        alert_kinds=frozenset(rules.alert_on),
    )


def _not_judged(history: History, edition: str) -> Iterator[Failed]:
    """Failures because the night cannot be judged: damaged files, or no rows at all."""
    tonight = f"nights/{edition}/"
    damaged = [item for item in history.damaged if item.file.removeprefix("damaged/").startswith(tonight)]
    for item in damaged:
        run = item.file.rpartition("/")[2].removesuffix(".parquet")
        yield Failed(run, None, f"{item.file} is damaged, so this run was not judged: record the night again", 0)
    if not damaged and not pc.any(pc.equal(history.table["edition"], edition)).as_py():
        yield Failed("night", None, f"{tonight} holds no rows, so nothing was judged: record the night again", 0)


def grouped(events: Sequence[NightEvent]) -> list[NightEvent]:
    """The events, with changes of a run's cases in one night from one cause merged into one event with members."""
    groups: dict[tuple[Any, ...], list[NightEvent]] = {}
    for event in events:
        versions = tuple(cause for cause in event.causes if is_version(cause))
        same = versions or (event.kind, str(event.direction), *event.causes)
        alone = event.id if event.kind in UNGROUPED or not event.causes else None
        groups.setdefault((event.run, event.night, same, alone), []).append(event)
    return [_group(members) if len(members) > 1 else members[0] for members in groups.values()]


def _group(events: Sequence[NightEvent]) -> NightEvent:
    members = tuple(each for event in events for each in event.each)
    kinds = sorted({kind for event in events for kind in (event.kind, *event.also)}, key=KINDS.index)
    main = min(events, key=lambda event: KINDS.index(event.kind))
    cases = sorted({member.case for member in members if member.case})
    if len(cases) == 1 or main.kind == "shared":
        beside = tuple(member.text for member in members if member.kind != main.kind and member.case == main.case)
        return replace(main, also=tuple(kinds[1:]), members=members, causes=(*main.causes, *beside))
    causes = tuple(cause for cause in main.causes if is_version(cause)) or main.causes
    parts = [part for kind in kinds if (part := _part(kind, members))]
    listed = ", ".join(str(case) for case in cases[:LISTED])
    listed += f" and {len(cases) - LISTED} more" if len(cases) > LISTED else ""
    text = f"{'; '.join(causes[:2])}: {plural(len(cases), 'case')} changed: {', '.join(parts)}: {listed}"
    return NightEvent(kinds[0], main.night, main.run, None, None, text, causes, also=tuple(kinds[1:]), members=members)


def _part(kind: str, members: Sequence[NightEvent]) -> str:
    """`time of 12 (+5.1 % to +60.3 %)`; empty for a kind without members."""
    same = [member for member in members if member.kind == kind]
    if not same:
        return ""
    changes = sorted(member.change for member in same if member.change is not None)
    words = "old and new time" if kind == "series" else kind.replace("_", " ")
    count = len({member.case for member in same})
    if not changes:
        return f"{words} of {count}"
    low, high = (percent(change, "+") for change in (changes[0], changes[-1]))
    return f"{words} of {count} ({low})" if low == high else f"{words} of {count} ({low} to {high})"


def without_confirmation(history: History, edition: str) -> History:
    """The history before the suspects of a night were measured again."""
    again = pc.and_(pc.equal(history.table["edition"], edition), pc.fill_null(history.table["confirmation"], False))
    return replace(history, table=history.table.filter(pc.invert(again)))


def _with_present_series(event: NightEvent, history: History) -> NightEvent:
    """The event, with the present id of its series if it is from an older schema."""
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
        same = [old for old in reported if (old.kind, old.series) == (event.kind, event.series) and old.change]
        month = [
            old for old in same if 0 <= order[event.night] - order.get(old.night, -WAVERING_NIGHTS) < WAVERING_NIGHTS
        ]
        change = event.change or 0.0
        back = [old for old in month if abs((1 + change) * (1 + (old.change or 0.0)) - 1) < rules.min_change]
        soon = any(0 < order[event.night] - order[old.night] <= BRIEF for old in back)
        if soon or (back and len(month) >= FLAPS):
            wavering.append(replace(_alternating(event, event.change), night=event.night))
        else:
            kept.append(event)
    return kept, tuple(wavering)


def _alternating(event: NightEvent, change: float | None) -> Suspect:
    return Suspect(event.run, event.case, event.series, f"goes back and forth: {event.text}", change)
