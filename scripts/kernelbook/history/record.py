"""The tables of an edition as rows of the history: one row a case and process, raw samples kept."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelbook.history.nights import night_date
from kernelbook.history.schema import SCHEMA, series_id, short_id, table_of
from kernelbook.measurement import Measurement, MeasurementError, load_measurement

Key = tuple[str, str, int]
Names = Mapping[Key, tuple[str, ...]]


class RecordError(ValueError):
    """An edition that cannot be recorded; the message says what is missing and how to make it."""


@dataclass(frozen=True)
class EditionTables:
    """What the history takes of an edition. `cases`: a row a run, case and process; the others: one forward each."""

    cases: list[dict[str, Any]]
    kernels: Names  # kernel names of one forward, in launch order
    ops: Names  # op names of one forward, in call order


def read_tables(folder: Path) -> EditionTables:
    """Read cases.parquet, and where they stand activities.parquet and calls.parquet, of an edition's tables folder.

    Raises RecordError without a readable cases.parquet.
    """
    path = folder / "cases.parquet"
    try:
        cases = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise RecordError(f"{path}: cannot be read ({error}): make the edition's report first") from error
    return EditionTables(
        cases=cases,
        kernels=_names_of_one_forward(folder / "activities.parquet", "kernel"),
        ops=_names_of_one_forward(folder / "calls.parquet", "op"),
    )


def _names_of_one_forward(path: Path, category: str) -> Names:
    """Names of one category, by process, in the order of the forward that most forwards were like."""
    if not path.is_file():
        return {}
    table = pq.read_table(path, columns=["run", "case", "process", "index", "position", "category", "name"])
    table = table.filter(pc.equal(table["category"], category)).sort_by(
        [("index", "ascending"), ("position", "ascending")]
    )
    forwards: dict[tuple[Key, int], list[str]] = defaultdict(list)
    columns = (table[name].to_pylist() for name in ("run", "case", "process", "index", "name"))
    for run, case, process, index, name in zip(*columns, strict=True):
        forwards[(run, case, int(process)), index].append(name)
    like: dict[Key, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for (key, _), names in forwards.items():
        like[key][tuple(names)] += 1
    return {key: counts.most_common(1)[0][0] for key, counts in like.items()}


def night_tables(
    edition: str,
    tables: EditionTables,
    measurements: Callable[[Key], Path],
    *,
    lines: Mapping[str, str] | None = None,
    lost: Mapping[str, str] | None = None,
    runs: Sequence[str] | None = None,
) -> dict[str, pa.Table]:
    """One table a run, ready for the history.

    measurements: where measurement.json of a (run, case, process) lies. lines: run -> the name its series go on under.
    lost: runs without a single row, with the reason. runs: those to take, all by default.
    Raises RecordError for an edition that is no night or has nothing to record.
    """
    try:
        night = night_date(edition)
    except ValueError as error:
        raise RecordError(str(error)) from error
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in tables.cases:
        key = (case["run"], case["case"], int(case["process"]))
        if runs is None or key[0] in runs:
            rows[key[0]].append(_row(case, key, tables, _measurement(measurements(key))))
    for run, reason in (lost or {}).items():
        rows.setdefault(run, [{"status": "lost", "reason": reason}])
    if not rows:
        raise RecordError(f"{edition}: no measured run in this edition: nothing to record; see runs in config.yaml")
    for run, found in rows.items():
        for row in found:
            row |= {"edition": edition, "night": night, "run": run, "line": (lines or {}).get(run, run)}
            row["series"] = series_id(row) if row["status"] == "ok" else None
    return {run: table_of(found) for run, found in rows.items()}


def _measurement(path: Path) -> Measurement | None:
    """None where there is none: a lost run leaves rows without measurements."""
    try:
        return load_measurement(path) if path.is_file() else None
    except MeasurementError:
        return None


def _row(case: Mapping[str, Any], key: Key, tables: EditionTables, measurement: Measurement | None) -> dict[str, Any]:
    row = {name: case.get(name) for name in SCHEMA.names}
    row["process"] = key[2]
    row["params"] = _canonical(case.get("params"))
    row["warnings"] = _codes(case.get("warnings"))
    row |= _identity(row, tables.kernels.get(key), tables.ops.get(key))
    if measurement is not None:
        row["forward_times_us"] = [float(time) for time in measurement.forward_times_us]
        row["sm_clock_mhz"] = sm_clock(measurement.clocks)
        row["image_digest"] = row["image_digest"] or measurement.environment.get("image_digest")
    return row


def _identity(row: Mapping[str, Any], kernels: tuple[str, ...] | None, ops: tuple[str, ...] | None) -> dict[str, Any]:
    """What is compared exactly; null where the trace had no device activity or the row is none of a good case."""
    if row["status"] != "ok":
        return {"kernels": None, "kernels_id": None, "ops": None, "ops_id": None}
    names = list(kernels or ())
    on_device = row["device_time_us"] is not None
    return {
        "kernels": names if on_device else None,
        "kernels_id": short_id([names, row["memcpys"], row["memsets"]]) if on_device else None,
        "ops": list(ops) if ops else None,
        "ops_id": short_id(ops) if ops else None,
    }


def _canonical(params: Any) -> str | None:
    if params is None:
        return None
    return json.dumps(json.loads(params) if isinstance(params, str) else params, sort_keys=True)


def _codes(warnings: Any) -> list[str]:
    """Warning codes, sorted, each once; `warnings` is JSON: codes, or objects with a code."""
    found = json.loads(warnings) if isinstance(warnings, str) and warnings else warnings or []
    return sorted({str(item["code"]) if isinstance(item, Mapping) else str(item) for item in found})


def sm_clock(clocks: Mapping[str, Any] | None) -> float | None:
    """The SM clock in MHz, mean of before and after; None where it was not readable."""
    found = []
    for moment in (clocks or {}).values():
        if isinstance(moment, Mapping):
            found += [float(v) for k, v in moment.items() if "sm" in k.lower() and isinstance(v, int | float)][:1]
    return sum(found) / len(found) if found else None
