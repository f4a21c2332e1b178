"""An edition as rows of the history: one row per case and process, with raw samples."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from kernelbook.cases import CaseFacts, Process, case_facts, representative
from kernelbook.cases.process import Clocks
from kernelbook.edition.paths import read_files
from kernelbook.history.nights import night_date
from kernelbook.history.schema import SCHEMA, series_id, settings_of, short_id, table_of

MEASURED = ("host", "container")
"""Kinds of runs that a night measures; recorded and published ones do not change."""
Key = tuple[str, str, int]
Names = Mapping[Key, tuple[str, ...]]
TABLES = ("cases", "ranges", "activities", "calls", "counters")


class RecordError(ValueError):
    """An edition that cannot be recorded; the message states what is missing and the remedy."""


@dataclass(frozen=True)
class KeptEdition:
    """The parts of an edition that the history keeps. `about`: edition.json. `processes`: the table `cases`.

    `kernels`: kernel names of each process's representative forward, in order of launch. `ops`: op names in order of
    call, of the representative forward of each case. `occupancy`: achieved occupancy of each (run, case) in percent,
    averaged over its kernels by duration; only for cases with counters.
    """

    about: Mapping[str, Any]
    processes: list[Process]
    kernels: Names
    ops: Names
    occupancy: Mapping[tuple[str, str], float] = field(default_factory=dict)


def read_kept_edition(folder: Path) -> KeptEdition:
    """Read results/<edition>/edition. Raises RecordError if it is missing or damaged."""
    try:
        files = read_files(folder, TABLES)
        cases = case_facts(files.tables)
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        raise RecordError(f"{folder}: is no readable edition ({error}): make its report first") from error
    processes = [process for case in cases.values() for process in case.processes]
    occupancy = _occupancy(files.tables["counters"]) if "counters" in files.tables else {}
    return KeptEdition(files.about, processes, dict(_kernels(cases.values())), dict(_ops(cases.values())), occupancy)


def _occupancy(counters: pa.Table) -> dict[tuple[str, str], float]:
    """Achieved occupancy of each (run, case) from the table `counters`, weighted by duration."""
    weights: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in counters.select(["run", "case", "occupancy_percent", "duration_us"]).to_pylist():
        if row["occupancy_percent"] is not None and row["duration_us"]:
            weights[row["run"], row["case"]].append((row["occupancy_percent"], row["duration_us"]))
    return {
        key: sum(percent * time for percent, time in pairs) / sum(time for _, time in pairs)
        for key, pairs in weights.items()
    }


def _kernels(cases: Iterable[CaseFacts]) -> Iterator[tuple[Key, tuple[str, ...]]]:
    for case in cases:
        for process, forwards in groupby(case.forwards, key=lambda forward: forward.process):
            chosen = representative(forwards)
            if chosen and chosen.kernels:
                yield (*case.key, process), tuple(activity.name for activity in chosen.kernels)


def _ops(cases: Iterable[CaseFacts]) -> Iterator[tuple[Key, tuple[str, ...]]]:
    for case in cases:
        if case.chosen and case.ops:
            yield (*case.key, case.chosen[0]), tuple(op.name for op in case.ops)


def night_tables(edition: KeptEdition, lines: Mapping[str, str] | None = None) -> dict[str, pa.Table]:
    """Run -> table for the history, for each measured run. lines: run -> name under which its series continue.

    A run that was left out is one row without a case. Raises RecordError if the edition is not a night or measured
    nothing, and if two cases would be one series.
    """
    name = edition.about["edition"]
    try:
        night = night_date(name)
    except ValueError as error:
        raise RecordError(str(error)) from error
    measured = {run["run"] for run in edition.about["runs"] if run["kind"] in MEASURED}
    if not measured:
        raise RecordError(f"{name}: no run of this edition was measured: nothing to record; see runs in config.yaml")
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    configured = {case["case"]: case for case in edition.about.get("cases", [])}
    for process in edition.processes:
        if process.run in measured:
            rows[process.run].append(_row(process, edition, configured.get(process.case, {})))
    for left in edition.about["left_out"]:
        rows[left["run"]] = [{"status": "left out", "reason": left["reason"]}]
    for run, run_rows in rows.items():
        for row in run_rows:
            row |= {"edition": name, "night": night, "run": run, "line": (lines or {}).get(run, run)}
            row["series"] = series_id(row) if row["status"] == "ok" else None
    _refuse_shared_series(row for run_rows in rows.values() for row in run_rows if row["series"])
    return {run: table_of(run_rows) for run, run_rows in rows.items()}


def confirmation_tables(
    processes: Iterable[Process], edition: KeptEdition, lines: Mapping[str, str]
) -> dict[str, pa.Table]:
    """Run -> table of the second measurements of a night's suspects; processes that failed are left out."""
    name = edition.about["edition"]
    configured = {case["case"]: case for case in edition.about.get("cases", [])}
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for process in processes:
        if process.status == "ok":
            row = _row(process, edition, configured.get(process.case, {})) | {"confirmation": True}
            row |= {"edition": name, "night": night_date(name), "line": lines.get(process.run, process.run)}
            rows[process.run].append(row | {"series": series_id(row)})
    return {run: table_of(run_rows) for run, run_rows in rows.items()}


def _refuse_shared_series(rows: Iterable[Mapping[str, Any]]) -> None:
    cases: dict[str, str] = {}
    for row in rows:
        if cases.setdefault(row["series"], row["case"]) != row["case"]:
            raise RecordError(
                f"{row['edition']}: the cases {cases[row['series']]} and {row['case']} would be one series: "
                "rename one in config.yaml, and run the night again"
            )


def _row(process: Process, edition: KeptEdition, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a process. spec: the case as configured."""
    key = (*process.key, process.process)
    row = {name: getattr(process, name, None) for name in SCHEMA.names}  # Process.kernels is a count
    measured = {name: getattr(process, name) for name in ("warmup", "flush_l2") if getattr(process, name) is not None}
    row["settings"] = settings_of({**spec, **measured})
    row["params"] = json.dumps(process.params, sort_keys=True)
    row["warnings"] = sorted({note.code for note in process.warnings})
    row["sm_clock_mhz"] = sm_clock(process.clocks)
    row["torch_git"] = process.environment.torch_git if process.environment else None
    row["occupancy_percent"] = edition.occupancy.get(process.key)
    if process.dynamo:
        breaks = process.dynamo.graph_breaks
        row["graph_breaks"] = None if breaks is None else sum(breaks.values())
        row["recompiles"] = process.dynamo.recompiles
    return row | _identity(row, edition.kernels.get(key), edition.ops.get(key))


def _identity(row: Mapping[str, Any], kernels: tuple[str, ...] | None, ops: tuple[str, ...] | None) -> dict[str, Any]:
    """Values that are compared exactly; null if the trace had no device activity or the case failed."""
    on_device = row["status"] == "ok" and row["device_time_us"] is not None
    names = list(kernels or ())
    return {
        "kernel_count": row["kernels"],
        "kernels": names if on_device else None,
        "kernels_id": short_id([names, row["memcpys"], row["memsets"]]) if on_device else None,
        "ops": list(ops) if ops else None,
        "ops_id": short_id(ops) if ops else None,
    }


def sm_clock(clocks: Clocks | None) -> float | None:
    """The SM clock in MHz, the higher of before and after (an idle GPU lowers it); None if it was not readable."""
    return max((reading.sm_mhz for reading in clocks.readings if reading.sm_mhz), default=None) if clocks else None
