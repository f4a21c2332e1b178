"""Picks the one forward of each case and run that the report draws, and puts its rows on one clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kernelbook.case_facts import Call, activity_of, calls_of
from kernelbook.kernel_names import built_for
from kernelbook.report.model import Drawn

Row = Mapping[str, Any]
Key = tuple[str, str]

RATES = ("gb_per_s", "share_of_roof", "roof")


@dataclass(frozen=True)
class Representative:
    """The representative forward of each (run, case)."""

    activities: Mapping[Key, tuple[Drawn, ...]]
    calls: Mapping[Key, tuple[Call, ...]]


def points(ranges: pa.Table) -> dict[Key, tuple[tuple[float | None, float | None], ...]]:
    """(cpu_time_us, device_time_us) of each profiled forward of the first process that has any, in order."""
    grouped: dict[Key, dict[int, list[tuple[float | None, float | None]]]] = defaultdict(lambda: defaultdict(list))
    for row in ranges.to_pylist():
        if row.get("forward", True) is not False:
            times = row.get("cpu_time_us"), row.get("device_time_us")
            grouped[row["run"], row["case"]][row.get("process") or 0].append(times)
    return {key: tuple(processes[min(processes)]) for key, processes in grouped.items()}


def representative(tables: Mapping[str, pa.Table], capabilities: Mapping[str, str | None]) -> Representative:
    """The rows marked `representative`; all rows of a table without marks, which holds representative ones only.

    capabilities: run -> compute capability of its device (9.0).
    """
    activities = _chosen(tables["activities"])
    calls = _chosen(tables["calls"])
    starts = _starts(tables["ranges"])
    rates = _rates(tables["costs"])
    return Representative(
        {
            key: tuple(
                _drawn(row, starts, capabilities.get(key[0]), rates.get((*key, row["position"]), {})) for row in rows
            )
            for key, rows in activities.items()
        },
        {key: calls_of(rows) for key, rows in calls.items()},
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


def _drawn(row: Row, starts: Mapping[tuple[Any, ...], float], capability: str | None, rates: Row) -> Drawn:
    zero = starts.get((row["run"], row["case"], row.get("process"), row.get("index")), 0.0)
    act = activity_of(row, Drawn)
    return replace(
        act,
        start_us=act.start_us - zero,
        launch_start_us=None if act.launch_start_us is None else act.launch_start_us - zero,
        built_for=built_for(act.decoded, capability),
        **rates,
    )


def _rates(costs: pa.Table) -> dict[tuple[str, str, int], dict[str, Any]]:
    """What is known of the rate of each kernel: (run, case, position) -> those of `RATES` that are known."""
    return {
        (row["run"], row["case"], row["position"]): {name: row[name] for name in RATES if row.get(name) is not None}
        for row in costs.to_pylist()
        if row["scope"] == "kernel"
    }
