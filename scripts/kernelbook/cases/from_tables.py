"""Cases from the tables of an edition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from kernelbook.cases.facts import Activity, Call, CallTotal, CaseFacts, OtherRange, ProfiledForward
from kernelbook.cases.medians import median
from kernelbook.cases.merging import merge_processes
from kernelbook.cases.process import KEYS, Process
from kernelbook.cases.records import record_of, records_of
from kernelbook.counters import KernelCounters, Profiled, join
from kernelbook.text.arrow_values import array_of
from kernelbook.trace.inputs import parse_inputs

Key = tuple[str, str]
Row = dict[str, Any]
TOTALS_OF = ("run", "case", "process", "rank", "index", "category", "name")
SUMS = ("duration_us", "self_us", "kernels")
PARTS = ("ranges", "activities", "call_totals")
INPUT_TEXTS = ("input_shapes", "input_types", "concrete_inputs", "input_strides")  # of older tables
_POSITION = attrgetter("position")


def case_facts(tables: Mapping[str, pa.Table]) -> dict[Key, CaseFacts]:
    """(run, case) -> facts, from the tables ``cases``, ``ranges``, ``activities``, ``calls`` and ``call_totals``.

    Counters of kernels come from the table ``counters``; `with_counters` adds those of a process. Without
    ``call_totals``, they are computed from ``calls``, which must then hold all forwards. Raises ValueError if a row
    does not have the types of its table.
    """
    if "call_totals" not in tables and "calls" in tables:
        tables = {**tables, "call_totals": call_totals(tables["calls"])}
    processes: dict[Key, list[Process]] = {}
    for process in records_of(Process, tables.get("cases", pa.table({}))):
        processes.setdefault(process.key, []).append(process)
    spans = spans_of(tables.get("ranks"))
    merged = {key: merge_processes(of_case, spans.get(key)) for key, of_case in processes.items()}
    kept = {(*key, each.process, each.rank) for key, case in merged.items() for each in case.processes if each.merged}
    groups = {name: _by_case(tables.get(name), KEYS, kept) for name in PARTS}
    cases = {key: _with_forwards(case, *(groups[name].get(key, []) for name in PARTS)) for key, case in merged.items()}
    chosen = {(*owner, place[1]) for owner in kept if (place := cases[owner[:2]].chosen) and place[0] == owner[2]}
    for key, rows in _by_case(tables.get("calls"), (*KEYS, "index"), chosen).items():
        cases[key] = replace(cases[key], calls=tuple(sorted(map(_call, rows), key=_POSITION)))
    for row in records_of(KernelCounters, tables.get("counters", pa.table({}))):
        key = row.run, row.case
        cases[key] = replace(cases[key], counters=(*cases[key].counters, row))
    return cases


def with_counters(case: CaseFacts, profiled: pa.Table) -> CaseFacts:
    """The case with the kernels of its representative forward joined to their counters.

    profiled: rows of the table ``ncu`` of the case. The counters are those of the process of the representative
    forward, or else of the first process that has some.
    """
    reports: dict[int, list[Profiled]] = {}
    for process, row in zip(profiled["process"].to_pylist(), records_of(Profiled, profiled), strict=True):
        reports.setdefault(process, []).append(row)
    if not reports:
        return case
    first = case.chosen[0] if case.chosen and case.chosen[0] in reports else min(reports)
    return replace(case, counters=tuple(join(case.run, case.case, case.kernels_of(), reports[first])))


def call_totals(calls: pa.Table) -> pa.Table:
    """The table ``calls`` summed by run, case, process, rank, forward (index), category and name.

    Columns: count; cpu_time_us, their total length (a call nested in one of its own name counts twice); self_us;
    kernels that they launched themselves. `Table.group_by` would import pandas, which takes longer than this.
    """
    if not {*TOTALS_OF} - {"rank"} <= set(calls.column_names):
        return pa.table({})
    keys = [name for name in TOTALS_OF if name in calls.column_names]
    totals: dict[tuple[Any, ...], list[Any]] = {}
    for batch in calls.select([*keys, *SUMS]).to_batches():  # of one process at most
        for *key, duration, own, kernels in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            total = totals.setdefault((*key,), [0, None, None, None])
            total[0] += 1
            for place, value in ((1, duration), (2, own), (3, kernels)):
                if value is not None:
                    total[place] = value + (total[place] or 0)
    kinds = [*(calls.schema.field(name).type for name in keys), pa.int64(), pa.float64(), pa.float64(), pa.int64()]
    rows = [(*key, *total) for key, total in totals.items()]
    columns = [array_of([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, names=[*keys, "count", "cpu_time_us", "self_us", "kernels"])


def spans_of(ranks: pa.Table | None) -> dict[Key, dict[tuple[int, int | None], float]]:
    """(run, case) -> (process, rank) -> length of a forward (µs), the median over the forwards of that rank."""
    spans: dict[Key, dict[tuple[int, int | None], list[float]]] = {}
    for row in ranks.to_pylist() if ranks is not None else []:
        if row["index"] is not None:
            time = max(row["span_us"], row["cpu_time_us"] or 0.0)
            spans.setdefault((row["run"], row["case"]), {}).setdefault((row["process"], row["rank"]), []).append(time)
    return {key: {rank: median(times) or 0.0 for rank, times in own.items()} for key, own in spans.items()}


def _by_case(table: pa.Table | None, key: Sequence[str], kept: Collection[tuple[Any, ...]]) -> dict[Key, list[Row]]:
    """(run, case) -> its rows whose values of the columns `key` are in `kept`; a missing column counts as null."""
    groups: dict[Key, list[Row]] = {}
    if table is None or "process" not in table.column_names:
        return groups
    missing = [None] * table.num_rows
    columns = [table[name].to_pylist() if name in table.column_names else missing for name in key]
    chosen = np.array([values in kept for values in zip(*columns, strict=True)], dtype=bool)
    borders = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).reshape(-1, 2)  # filtering imports more
    for start, end in borders.tolist():
        for row in table.slice(start, end - start).to_pylist():
            groups.setdefault((row["run"], row["case"]), []).append(row)
    return groups


def _with_forwards(
    case: CaseFacts, ranges: Sequence[Row], activities: Sequence[Row], totals: Sequence[Row]
) -> CaseFacts:
    forwards = _forwards(ranges, activities)
    chosen = representative(forward for forward in forwards if forward.process == forwards[0].process)
    return replace(
        case,
        forwards=forwards,
        call_totals=tuple(record_of(CallTotal, row) for row in totals),
        chosen=(chosen.process, chosen.index) if chosen else None,
        other_ranges=_other_ranges([row for row in ranges if forwards and row["process"] == forwards[0].process]),
    )


def representative(forwards: Iterable[ProfiledForward]) -> ProfiledForward | None:
    """The forward of median time among the usual forwards with the most frequent activities.

    The time is device time, or CPU time if no device was used. None if there are no forwards.
    """
    alike: dict[tuple[tuple[str, str], ...], list[ProfiledForward]] = {}
    for forward in forwards:
        if forward.kind == 0:
            alike.setdefault(forward.sequence, []).append(forward)
    commonest = max(alike.values(), key=len, default=[])
    ordered = sorted(
        commonest, key=lambda f: (f.cpu_time_us if f.device_time_us is None else f.device_time_us, f.index)
    )
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _forwards(ranges: Sequence[Row], rows: Sequence[Row]) -> tuple[ProfiledForward, ...]:
    activities: dict[tuple[int, int], list[Activity]] = {}
    for row in rows:
        activities.setdefault((row["process"], row["index"]), []).append(_activity(row))
    forwards = [record_of(ProfiledForward, {**row, "activities": None}) for row in ranges if row.get("forward")]
    return tuple(
        replace(forward, activities=tuple(sorted(activities.get((forward.process, forward.index), []), key=_POSITION)))
        for forward in sorted(forwards, key=lambda forward: (forward.process, forward.index))
    )


def _other_ranges(rows: Sequence[Row]) -> tuple[OtherRange, ...]:
    """The outermost ranges of one process that neither are nor contain forwards. rows: in the order of their table."""
    roots = list(range(len(rows)))
    for place, row in enumerate(rows):
        if row.get("parent") is not None and row["parent"] < place:
            roots[place] = roots[row["parent"]]
    with_forward = {roots[place] for place, row in enumerate(rows) if row.get("forward")}
    by_name: dict[str, list[Row]] = {}
    for place, row in enumerate(rows):
        if roots[place] == place and place not in with_forward:
            by_name.setdefault(row["annotation"], []).append(row)
    count = sum(bool(row.get("forward")) for row in rows)
    made = (
        OtherRange(
            name=name,
            per_forward=len(alike) / count,
            cpu_time_us=median(row["cpu_time_us"] for row in alike) or 0.0,
            device_busy_us=median(row["device_busy_us"] for row in alike),
            kernels=alike[0]["kernels"],
        )
        for name, alike in by_name.items()
    )
    return tuple(sorted(made, key=lambda each: -each.cpu_time_us * each.per_forward))


def _activity(row: Row) -> Activity:
    """A row of the table ``activities``; until 0.1 its ops were one text."""
    path = row.get("op_path")
    return record_of(Activity, {**row, "op_path": path.split(" > ")} if isinstance(path, str) else row)


def _call(row: Row) -> Call:
    """A row of the table ``calls``; until 0.1 its inputs were JSON texts."""
    if any(texts := tuple((row.get(name) or "").encode() for name in INPUT_TEXTS)):
        row = {**row, "inputs": [asdict(each) for each in parse_inputs(texts)]}
    return record_of(Call, row)
