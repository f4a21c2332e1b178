"""Changes found without statistics: kernels, launches, ops, warnings, new series, failures and missing nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelbook.history import causes
from kernelbook.history.night_events import Failed, NightEvent
from kernelbook.history.series import Histories, Series
from kernelbook.text.formatting import visible

Row = Mapping[str, Any]
Names = Callable[[str, str, str], dict[str, tuple[str, ...]]]
"""(edition, run, "kernels" or "ops") -> names by their id."""
PASSING_WARNINGS = frozenset({"slow_first", "uneven", "several_kinds", "shared_gpu", "unlocked_gpu", "few_samples"})
"""Warnings that depend on other work on the machine and are not compared."""
EXACT = ("kernels_id", "launches", "ops_id", "graph_breaks", "recompiles", "warnings")
"""Facts that are compared, most important first."""
COUNTS = ("memcpys", "memsets", "launches", "graph_breaks", "recompiles")


def identity_events(histories: Histories, names: Names, first: int, effect_nights: int) -> Iterator[NightEvent]:
    """Changes of kernels, ops and other `EXACT` facts since the night before, from night `first` on.

    One event per series and night. The first night of a series is compared with the series that it follows (another
    GPU, driver or parameter).
    """
    for series in histories.followed:
        for at in range(max(1, series.own), len(series.nights)):
            if series.nights[at] >= first:
                event = _identity_event(histories, series, at, names, effect_nights)
                if event:
                    yield event


def _identity_event(
    histories: Histories, series: Series, at: int, names: Names, effect_nights: int
) -> NightEvent | None:
    changed = [name for name in EXACT if name in series.facts and _differs(series, name, at)]
    if not changed:
        return None
    kind, *also = (name.removesuffix("_id") for name in changed)
    why: list[str] = []
    brief: list[str] = []
    if "kernels_id" in changed:
        both = _names_around(histories, series, at, names, "kernels")
        why += causes.kernel_changes(*both)
        brief += causes.kernel_changes(*both, brief=True)
    if "ops_id" in changed:
        lines = causes.op_changes(*_names_around(histories, series, at, names, "ops"))
        why, brief = why + lines, brief + lines
    why += causes.count_changes(series, at, COUNTS) if kind != "warnings" else []
    if "warnings" in changed:
        before = _last_recorded(series, "warnings", at)
        warned = set() if before is None else _lasting(series.facts["warnings"][before])
        warns = _lasting(series.facts["warnings"][at])
        why += [f"warning gone: {code}" for code in sorted(warned - warns)]
        why += [f"new warning: {code}" for code in sorted(warns - warned)]
    versions = causes.version_changes(series, at)
    metric = "forward_time_us"
    past, now = series.before(metric, at, effect_nights), float(series.values[metric][at])
    usual = float(np.median(past)) if len(past) and np.isfinite(now) else None
    effect = now / usual - 1 if usual else None
    return NightEvent(
        kind=kind,
        night=histories.nights[series.nights[at]],
        run=series.run,
        case=series.case,
        series=series.id,
        text=_identity_text(brief or why or [f"other {kind}"], effect),
        causes=tuple(why + versions),
        metric=metric if effect is not None else None,
        before=usual,
        after=now if effect is not None else None,
        change=effect,
        also=tuple(also),
    )


def _differs(series: Series, name: str, at: int) -> bool:
    """Whether the value differs from that of the last night that recorded one; a missing value is no change."""
    new, before = series.facts[name][at], _last_recorded(series, name, at)
    if before is None or new is None:
        return False
    old = series.facts[name][before]
    return old != new if name != "warnings" else _lasting(old) != _lasting(new)


def _lasting(warnings: Collection[str]) -> set[str]:
    return set(warnings) - PASSING_WARNINGS


def _last_recorded(series: Series, name: str, at: int) -> int | None:
    """The last position before `at` where the value was recorded."""
    return next((position for position in range(at - 1, -1, -1) if series.facts[name][position] is not None), None)


def _names_around(
    histories: Histories, series: Series, at: int, names: Names, column: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the last night that recorded any, and of the night at `at`."""
    before = _last_recorded(series, f"{column}_id", at)
    old = () if before is None else _names(histories, series, before, names, column)
    return old, _names(histories, series, at, names, column)


def _names(histories: Histories, series: Series, at: int, names: Names, column: str) -> tuple[str, ...]:
    by_id = names(histories.nights[series.nights[at]], series.run, column)
    return by_id.get(series.facts[f"{column}_id"][at], ())


def _identity_text(why: Sequence[str], effect: float | None) -> str:
    more = f", and {len(why) - 1} more" if len(why) > 1 else ""
    effect_text = "" if effect is None else f"; forward time {causes.percent(effect, '+')} that night"
    return f"{why[0]}{more}{effect_text}"


def series_events(histories: Histories, first: int) -> list[NightEvent]:
    """Series that began at night `first` or later and follow another one, and GPUs that are new to a series.

    One event per run, night and difference, with the old and the new time.
    """
    groups: dict[tuple[str, int, tuple[str, ...]], list[tuple[Series, int]]] = defaultdict(list)
    for series in histories.followed:
        if series.own and series.nights[series.own] >= first:
            changes = tuple(causes.version_changes(series, series.own))
            groups[series.run, int(series.nights[series.own]), changes].append((series, series.own))
        for at in _new_gpus(series):
            if series.nights[at] >= first and at > series.own:
                groups[series.run, int(series.nights[at]), tuple(causes.gpu_change(series, at))].append((series, at))
    return [_series_event(histories, run, at, changes, group) for (run, at, changes), group in groups.items()]


def _new_gpus(series: Series) -> Iterator[int]:
    """Positions at which a series ran on a GPU for the first time, the first GPU left out."""
    earlier: set[str] = set()
    for at, gpu in enumerate(series.facts.get("gpu_id", ())):
        if gpu and gpu not in earlier:
            if earlier and series.facts["gpu_id"][at - 1]:
                yield at
            earlier.add(gpu)


def _series_event(
    histories: Histories, run: str, at: int, changes: tuple[str, ...], group: Sequence[tuple[Series, int]]
) -> NightEvent:
    members = [_side_by_side(histories, series, position, changes) for series, position in group]
    if len(members) == 1:
        return members[0]
    ratios = [member.change for member in members if member.change is not None]
    middle = f"; forward time {causes.percent(float(np.median(ratios)), '+')} in the middle" if ratios else ""
    text = f"{'; '.join(changes)}: {len(members)} series {_goes_on(changes, 'start')}{middle}"
    return NightEvent("series", histories.nights[at], run, None, None, text, changes, members=tuple(members))


def _goes_on(changes: Sequence[str], starts: str) -> str:
    """The effect of a new series or a new GPU on the level, in words."""
    return "measured on a GPU of its own level" if changes[0].startswith("another GPU") else f"{starts} again"


def _side_by_side(histories: Histories, series: Series, at: int, changes: tuple[str, ...]) -> NightEvent:
    """The forward time before and after a boundary."""
    metric = "forward_time_us"
    past, now = series.before(metric, at, 20), float(series.values[metric][at])
    before = float(np.median(past)) if len(past) else None
    after = now if np.isfinite(now) else None
    change = after / before - 1 if before and after else None
    times = "" if change is None else f"; forward time {before:.4g} → {after:.4g} µs ({causes.percent(change, '+')})"
    text = f"{'; '.join(changes)}: its series {_goes_on(changes, 'starts')}{times}"
    night = histories.nights[series.nights[at]]
    return NightEvent("series", night, series.run, series.case, None, text, changes, metric, before, after, change)


def failures(table: pa.Table, edition: str) -> tuple[Failed, ...]:
    """Failed cases of one night, and runs without a good row, one entry each."""
    own = table.filter(pc.equal(table["edition"], edition))
    return _failures(own.select(["run", "case", "status", "reason"]).to_pylist())


def _failures(rows: Sequence[Row]) -> tuple[Failed, ...]:
    runs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        runs[row["run"]].append(row)
    failed = []
    for run, members in sorted(runs.items()):
        bad = [row for row in members if row["status"] == "failed"]
        if bad and not any(row["status"] == "ok" for row in members):
            failed.append(Failed(run, None, _reason(bad[0]), len(bad)))
            continue
        cases: dict[str, list[Row]] = defaultdict(list)
        for row in bad:
            cases[row["case"]].append(row)
        failed += [Failed(run, case, _reason(some[0]), len(some)) for case, some in sorted(cases.items())]
    return tuple(failed)


def _reason(row: Row) -> str:
    return visible(row["reason"] or "no reason given")


def failure_events(table: pa.Table, nights: Sequence[str], first: int) -> list[NightEvent]:
    """Cases and runs that failed but not in the night before, for nights from position `first` on."""
    recent = nights[max(0, first - 1) :]
    rows = defaultdict(list)
    bad = table.filter(pc.is_in(table["edition"], pa.array(recent, pa.string())))
    for row in bad.select(["edition", "run", "case", "status", "reason"]).to_pylist():
        rows[row["edition"]].append(row)
    failed_by_night = {night: {(item.run, item.case): item for item in _failures(rows[night])} for night in recent}
    events = []
    for at, night in enumerate(recent):
        if first == 0 or at > 0:
            earlier = failed_by_night[recent[at - 1]] if at else {}
            events += [
                NightEvent("failure", night, item.run, item.case, None, f"failed: {item.reason}")
                for key, item in failed_by_night[night].items()
                if key not in earlier
            ]
    return events


def gap_events(nights: Sequence[str], first: int) -> list[NightEvent]:
    """Missing nights, by the usual interval (the median of the last 15), reported at the next night."""
    dates = [date.fromisoformat(night[:10]) for night in nights]
    events = []
    for at in range(max(1, first), len(nights)):
        past = np.diff([day.toordinal() for day in dates[max(0, at - 15) : at]])
        past = past[past > 0]
        rhythm = float(np.median(past)) if len(past) else 1.0
        distance = (dates[at] - dates[at - 1]).days
        if len(past) >= 3 and distance > 1.5 * rhythm:
            missing = round(distance / rhythm) - 1
            text = f"{missing} night{'s' if missing > 1 else ''} missing after {nights[at - 1]}"
            events.append(NightEvent("gap", nights[at], None, None, None, text))
    return events
