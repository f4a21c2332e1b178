"""Facts of cases from the tables of an edition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from kernelbook.case_facts.model import Activity, Call, CaseFacts, Forward, Note, Process, median


def case_facts(tables: Mapping[str, pa.Table]) -> dict[tuple[str, str], CaseFacts]:
    """(run, case) -> facts, from the tables ``cases``, ``ranges``, ``activities`` and ``calls`` of an edition."""
    groups = {name: _grouped(tables.get(name)) for name in ("cases", "ranges", "activities", "calls")}
    return {
        key: _facts(rows, *(groups[name].get(key, []) for name in ("ranges", "activities", "calls")))
        for key, rows in groups["cases"].items()
    }


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
) -> CaseFacts:
    rows = sorted(rows, key=lambda row: row["process"] or 0)
    first = next((row for row in rows if row["status"] == "ok"), rows[0])
    own = {name: first.get(name) for name in _OWN}
    forwards = _forwards(ranges, activities)
    chosen = _chosen(activities, forwards)
    times = {name: median(row.get(name) for row in rows if row["status"] == "ok") for name in _TIMES}
    return CaseFacts(
        run=first["run"],
        case=first["case"],
        **own,
        **times,
        params=_parsed(first.get("params"), {}),
        device_properties=(_parsed(first.get("device_properties"), []) or [{}])[0],
        notes=tuple(Note(**note) for note in _parsed(first.get("warnings"), [])),
        processes=tuple(_process(row) for row in rows),
        forwards=forwards,
        calls=_calls(row for row in calls if (row["process"], row["index"]) == chosen),
        chosen=chosen,
    )


def _chosen(rows: Sequence[Mapping[str, Any]], forwards: Sequence[Forward]) -> tuple[int, int] | None:
    """The forward marked as representative; without a mark, of the first process the one of median time."""
    marked = next(((row["process"], row["index"]) for row in rows if row.get("representative")), None)
    if marked or not forwards:
        return marked
    first = [f for f in forwards if f.process == forwards[0].process]
    ordered = sorted(first, key=lambda f: (f.cpu_time_us if f.device_time_us is None else f.device_time_us, f.index))
    middle = ordered[(len(ordered) - 1) // 2]
    return middle.process, middle.index


_OWN = (
    *("status", "reason", "workload", "variant", "mode", "dtype", "annotation", "trace_path", "forward_timer"),
    *("device", "device_type", "capability", "torch", "driver", "kernels", "memcpys", "memsets", "launches"),
    *("inductor_cache", "peak_memory_bytes", "input_bytes", "output_bytes", "flops", "flops_source", "relative_error"),
)
_TIMES = ("cpu_time_us", "device_time_us", "device_busy_us", "forward_time_us", "first_call_us")


def _parsed(text: str | None, default: Any) -> Any:
    return json.loads(text) if text else default


def _process(row: Mapping[str, Any]) -> Process:
    return Process(
        process=row["process"],
        status=row["status"],
        forward_times_us=tuple(row.get("forward_times_us") or ()),
        device_time_us=row.get("device_time_us"),
        cpu_time_us=row.get("cpu_time_us"),
    )


def _forwards(ranges: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> tuple[Forward, ...]:
    activities: dict[tuple[int, int], list[Activity]] = {}
    for row in rows:
        activities.setdefault((row["process"], row["index"]), []).append(_activity(row))
    return tuple(
        Forward(
            process=row["process"],
            index=row["index"],
            cpu_time_us=row["cpu_time_us"],
            device_time_us=row["device_time_us"],
            device_busy_us=row["device_busy_us"],
            start_us=row.get("start_us"),
            activities=tuple(sorted(activities.get((row["process"], row["index"]), []), key=lambda a: a.position)),
        )
        for row in sorted(ranges, key=lambda row: (row["process"], row["index"]))
        if row.get("forward")
    )


def _activity(row: Mapping[str, Any]) -> Activity:
    known = {f.name: row.get(f.name) for f in fields(Activity) if row.get(f.name) is not None}
    lists = {name: tuple(known[name]) for name in ("grid", "block") if name in known}
    return Activity(**(known | lists))


def _calls(rows: Iterable[Mapping[str, Any]]) -> tuple[Call, ...]:
    known = [f.name for f in fields(Call)]
    return tuple(sorted((Call(**{n: row.get(n) for n in known}) for row in rows), key=lambda call: call.position))
