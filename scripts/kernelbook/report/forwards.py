"""Picks the one forward of each case and run that the report draws, and puts its rows on one clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kernelbook.kernel_names import built_for, decode_activity
from kernelbook.report.model import Activity, Call
from kernelbook.report.names import shown

Row = Mapping[str, Any]
Key = tuple[str, str]

FACTS = (
    "grid",
    "block",
    "registers_per_thread",
    "shared_memory_bytes",
    "occupancy_percent",
    "bytes",
    "graph",
    "launch_api",
    "launch_duration_us",
)
RATES = ("gb_per_s", "share_of_roof", "roof")


@dataclass(frozen=True)
class Drawn:
    """The representative forward of each (run, case)."""

    activities: Mapping[Key, tuple[Activity, ...]]
    calls: Mapping[Key, tuple[Call, ...]]


def points(ranges: pa.Table) -> dict[Key, tuple[tuple[float | None, float | None], ...]]:
    """(cpu_time_us, device_time_us) of each profiled forward of the first process that has any, in order."""
    grouped: dict[Key, dict[int, list[tuple[float | None, float | None]]]] = defaultdict(lambda: defaultdict(list))
    for row in ranges.to_pylist():
        if row.get("forward", True) is not False:
            times = row.get("cpu_time_us"), row.get("device_time_us")
            grouped[row["run"], row["case"]][row.get("process") or 0].append(times)
    return {key: tuple(processes[min(processes)]) for key, processes in grouped.items()}


def representative(tables: Mapping[str, pa.Table], capabilities: Mapping[str, str | None]) -> Drawn:
    """The rows marked `representative`; all rows of a table without marks, which holds representative ones only.

    capabilities: run -> compute capability of its device (9.0).
    """
    activities = _chosen(tables["activities"])
    calls = _chosen(tables["calls"])
    starts = _starts(tables["ranges"])
    rates = _rates(tables["costs"])
    return Drawn(
        {
            key: tuple(
                replace(
                    _activity(row, starts),
                    built_for=_built_for(row, capabilities.get(key[0])),
                    **rates.get((*key, row["position"]), {}),
                )
                for row in rows
            )
            for key, rows in activities.items()
        },
        {key: tuple(_call(row) for row in rows) for key, rows in calls.items()},
    )


def _chosen(table: pa.Table) -> dict[Key, list[dict[str, Any]]]:
    if not table.num_rows:
        return {}
    if "representative" in table.column_names:
        table = table.filter(pc.fill_null(table["representative"], False))
    grouped: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        grouped[row["run"], row["case"]].append(row)
    for rows in grouped.values():
        rows.sort(key=lambda row: row["position"])
    return grouped


def _starts(ranges: pa.Table) -> dict[tuple[Any, ...], float]:
    """Start of each range on the trace's clock, so that device and CPU rows share one zero."""
    wanted = ("run", "case", "process", "index", "start_us")
    if not ranges.num_rows or not set(wanted) <= set(ranges.column_names):
        return {}
    if "forward" in ranges.column_names:
        ranges = ranges.filter(pc.fill_null(ranges["forward"], False))
    return {
        (row["run"], row["case"], row["process"], row["index"]): row["start_us"]
        for row in ranges.select(list(wanted)).to_pylist()
    }


def _activity(row: Row, starts: Mapping[tuple[Any, ...], float]) -> Activity:
    zero = starts.get((row["run"], row["case"], row.get("process"), row.get("index")), 0.0)
    own = {spec.name for spec in fields(Activity)}
    known = {name: row[name] for name in own & set(row) if row[name] is not None}
    for name in ("start_us", "launch_start_us"):
        if name in known:
            known[name] -= zero
    known["facts"] = {name: row[name] for name in FACTS if row.get(name) is not None}
    known["family"] = known.get("family") or shown(row["category"], row["name"]).family
    return Activity(**known)


def _rates(costs: pa.Table) -> dict[tuple[str, str, int], dict[str, Any]]:
    """What is known of the rate of each kernel: (run, case, position) -> those of `RATES` that are known."""
    return {
        (row["run"], row["case"], row["position"]): {name: row[name] for name in RATES if row.get(name) is not None}
        for row in costs.to_pylist()
        if row["scope"] == "kernel"
    }


def _built_for(row: Row, capability: str | None) -> str | None:
    return built_for(decode_activity(row["category"], row["name"]), capability)


def _call(row: Row) -> Call:
    own = {spec.name for spec in fields(Call)}
    return Call(**{name: row[name] for name in own & set(row) if row[name] is not None})
