"""Facts of cases from the tables of an edition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from kernelbook.cases.facts import Activity, Call, CallTotal, CaseFacts, Forward
from kernelbook.cases.merging import merge_processes

TOTALS_OF = ("run", "case", "process", "index", "category", "name")
SUMS = (("depth", "count"), ("duration_us", "sum"), ("self_us", "sum"), ("kernels", "sum"))
PARTS = ("ranges", "activities", "calls", "call_totals")


def case_facts(tables: Mapping[str, pa.Table]) -> dict[tuple[str, str], CaseFacts]:
    """(run, case) -> facts, from the tables ``cases``, ``ranges``, ``activities``, ``calls`` and ``call_totals``.

    Where there is no ``call_totals`` it is made from ``calls``, which then has to hold all forwards.
    """
    if "call_totals" not in tables and "calls" in tables:
        tables = {**tables, "call_totals": call_totals(tables["calls"])}
    groups = {name: _grouped(tables.get(name)) for name in ("cases", *PARTS)}
    return {key: _facts(rows, *(groups[name].get(key, []) for name in PARTS)) for key, rows in groups["cases"].items()}


def call_totals(calls: pa.Table) -> pa.Table:
    """The table ``calls`` summed: one row a run, case, process, forward (index), category and name.

    count; cpu_time_us, their length together (what is nested in a call of its own name counts twice); self_us;
    kernels that they launched themselves.
    """
    if not set(TOTALS_OF) <= set(calls.column_names):
        return pa.table({})
    sums = calls.group_by(list(TOTALS_OF), use_threads=False).aggregate([*SUMS])
    named = {**{name: sums[name] for name in TOTALS_OF}, "count": sums["depth_count"]}
    named |= {"cpu_time_us": sums["duration_us_sum"], "self_us": sums["self_us_sum"], "kernels": sums["kernels_sum"]}
    return pa.table(named)


def _grouped(table: pa.Table | None) -> dict[tuple[str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in table.to_pylist() if table is not None else []:
        groups.setdefault((row["run"], row["case"]), []).append(row)
    return groups


def _facts(
    rows: Sequence[Mapping[str, Any]],
    ranges: Sequence[Mapping[str, Any]],
    activities: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    totals: Sequence[Mapping[str, Any]],
) -> CaseFacts:
    case = merge_processes(rows)
    first = case.row
    merged = case.merged
    ranges, activities, totals = (
        [row for row in part if row["process"] in merged] for part in (ranges, activities, totals)
    )
    forwards = _forwards(ranges, activities)
    chosen = representative(forward for forward in forwards if forward.process == forwards[0].process)
    place = (chosen.process, chosen.index) if chosen else None
    return CaseFacts(
        **{name: value for name, value in first.items() if name in _COLUMNS},
        params=_parsed(first.get("params"), {}),
        threads=case.setting.threads,
        timer=case.setting.timer,
        device_properties=(_parsed(first.get("device_properties"), []) or [{}])[0],
        notes=case.notes,
        processes=case.processes,
        forwards=forwards,
        calls=calls_of(row for row in calls if (row["process"], row["index"]) == place),
        call_totals=tuple(CallTotal(**{f.name: row.get(f.name) for f in fields(CallTotal)}) for row in totals),
        chosen=place,
    )


def representative(forwards: Iterable[Forward]) -> Forward | None:
    """The forward that stands for the others: of the usual ones with the commonest activities, that of median time.

    That is device time, or CPU time where no device was used. None if there are no forwards.
    """
    alike: dict[tuple[tuple[str, str], ...], list[Forward]] = {}
    for forward in forwards:
        if forward.kind == 0:
            alike.setdefault(forward.sequence, []).append(forward)
    commonest = max(alike.values(), key=len, default=[])
    ordered = sorted(
        commonest, key=lambda f: (f.cpu_time_us if f.device_time_us is None else f.device_time_us, f.index)
    )
    return ordered[(len(ordered) - 1) // 2] if ordered else None


#: The fields of CaseFacts that are columns of the table `cases` as they stand; the others are made from several rows.
_COLUMNS = {field.name for field in fields(CaseFacts)} - {"params", "device_properties", "forwards"}


def _parsed(text: str | None, default: Any) -> Any:
    return json.loads(text) if text else default


def _forwards(ranges: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> tuple[Forward, ...]:
    activities: dict[tuple[int, int], list[Activity]] = {}
    for row in rows:
        activities.setdefault((row["process"], row["index"]), []).append(activity_of(row))
    return tuple(
        Forward(
            process=row["process"],
            index=row["index"],
            cpu_time_us=row["cpu_time_us"],
            device_time_us=row["device_time_us"],
            device_busy_us=row["device_busy_us"],
            start_us=row.get("start_us"),
            launches=row.get("launches"),
            kind=row.get("kind") or 0,
            activities=tuple(sorted(activities.get((row["process"], row["index"]), []), key=lambda a: a.position)),
        )
        for row in sorted(ranges, key=lambda row: (row["process"], row["index"]))
        if row.get("forward")
    )


def activity_of(row: Mapping[str, Any]) -> Activity:
    """A row of the table ``activities``."""
    known = {f.name: row.get(f.name) for f in fields(Activity) if row.get(f.name) is not None}
    known.setdefault("start_us", None)
    return Activity(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})


def calls_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Call, ...]:
    """Rows of the table ``calls`` of one forward, in the order of their positions."""
    known = [f.name for f in fields(Call)]
    return tuple(sorted((Call(**{n: row.get(n) for n in known}) for row in rows), key=lambda call: call.position))
