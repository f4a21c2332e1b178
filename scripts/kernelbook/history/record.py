"""The tables of an edition as rows of the history: one row a case and process, raw samples kept."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelbook.history.nights import night_date
from kernelbook.history.schema import SCHEMA, series_id, short_id, table_of

MEASURED = ("host", "container")
"""Kinds of runs that are measured in the night; recorded and published ones never change."""
Key = tuple[str, str, int]
Names = Mapping[Key, tuple[str, ...]]


class RecordError(ValueError):
    """An edition that cannot be recorded; the message says what is missing and how to make it."""


@dataclass(frozen=True)
class EditionTables:
    """What the history takes of an edition: `facts` is edition.json, `cases` has a row a run, case and process."""

    facts: Mapping[str, Any]
    cases: list[dict[str, Any]]
    kernels: Names  # kernel names of one forward, in launch order
    ops: Names  # op names of one forward, in call order; of the process that stands for its case


def read_edition(folder: Path) -> EditionTables:
    """Read edition.json, cases.parquet, activities.parquet and calls.parquet of results/<edition>/edition.

    Raises RecordError where one of them is missing or damaged.
    """
    try:
        facts = json.loads((folder / "edition.json").read_text(encoding="utf-8"))
        cases = pq.read_table(folder / "cases.parquet").to_pylist()
        kernels = _names_of_one_forward(folder / "activities.parquet", "kernel")
        ops = _names_of_one_forward(folder / "calls.parquet", "op")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RecordError(f"{folder}: is no readable edition ({error}): make its report first") from error
    return EditionTables(facts, cases, kernels, ops)


def _names_of_one_forward(path: Path, category: str) -> Names:
    """Names of one category, by process, in the order of the forward that most forwards were like."""
    columns = ["run", "case", "process", "index", "position", "category", "name"]
    table = pq.read_table(path)
    if not set(columns) <= set(table.column_names):
        return {}  # an edition without a single trace
    table = table.select(columns).filter(pc.equal(table["category"], category))
    table = table.sort_by([("index", "ascending"), ("position", "ascending")])
    forwards: dict[tuple[Key, int], list[str]] = defaultdict(list)
    lists = (table[name].to_pylist() for name in ("run", "case", "process", "index", "name"))
    for run, case, process, index, name in zip(*lists, strict=True):
        forwards[(run, case, int(process)), index].append(name)
    like: dict[Key, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for (key, _), names in forwards.items():
        like[key][tuple(names)] += 1
    return {key: counts.most_common(1)[0][0] for key, counts in like.items()}


def night_tables(edition: EditionTables, lines: Mapping[str, str] | None = None) -> dict[str, pa.Table]:
    """One table a measured run, ready for the history; `lines`: run -> the name its series go on under.

    A run that was left out is one row without a case. Raises RecordError for an edition that is no night or measured
    nothing.
    """
    name = edition.facts["edition"]
    try:
        night = night_date(name)
    except ValueError as error:
        raise RecordError(str(error)) from error
    measured = {run["run"] for run in edition.facts["runs"] if run["kind"] in MEASURED}
    if not measured:
        raise RecordError(f"{name}: no run of this edition was measured: nothing to record; see runs in config.yaml")
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in edition.cases:
        if case["run"] in measured:
            rows[case["run"]].append(_row(case, edition))
    for left in edition.facts["left_out"]:
        rows[left["run"]] = [{"status": "left out", "reason": left["reason"]}]
    for run, found in rows.items():
        for row in found:
            row |= {"edition": name, "night": night, "run": run, "line": (lines or {}).get(run, run)}
            row["series"] = series_id(row) if row["status"] == "ok" else None
    return {run: table_of(found) for run, found in rows.items()}


def _row(case: Mapping[str, Any], edition: EditionTables) -> dict[str, Any]:
    key = (case["run"], case["case"], int(case["process"]))
    row = {name: case.get(name) for name in SCHEMA.names}  # `kernels` is a count there
    row["params"] = json.dumps(_parsed(case.get("params"), {}), sort_keys=True)
    row["warnings"] = sorted({note["code"] for note in _parsed(case.get("warnings"), [])})
    row["sm_clock_mhz"] = sm_clock(_parsed(case.get("clocks"), {}))
    return row | _identity(row, edition.kernels.get(key), edition.ops.get(key))


def _identity(row: Mapping[str, Any], kernels: tuple[str, ...] | None, ops: tuple[str, ...] | None) -> dict[str, Any]:
    """What is compared exactly; null where the trace had no device activity or the row is none of a good case."""
    on_device = row["status"] == "ok" and row["device_time_us"] is not None
    names = list(kernels or ())
    return {
        "kernel_count": row["kernels"],
        "kernels": names if on_device else None,
        "kernels_id": short_id([names, row["memcpys"], row["memsets"]]) if on_device else None,
        "ops": list(ops) if ops else None,
        "ops_id": short_id(ops) if ops else None,
    }


def _parsed(text: str | None, default: Any) -> Any:
    return json.loads(text) if text else default


def sm_clock(clocks: Mapping[str, Any]) -> float | None:
    """The SM clock in MHz, the higher of before and after (an idle GPU lowers it); None where it was not readable."""
    found = [moment.get("sm_mhz") for moment in clocks.values() if isinstance(moment, Mapping)]
    return max((float(clock) for clock in found if clock), default=None)
