"""Reads an edition folder (what collect_edition.py writes) into `model.Edition`.

Missing tables count as empty, since a stage that found nothing writes nothing. A missing `edition.json` is an error.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernelbook.case_facts import merge_processes
from kernelbook.clock import Clock
from kernelbook.cost_model import Ceiling, ForwardCost, GemmCost
from kernelbook.expectations import Judgement
from kernelbook.findings import Finding
from kernelbook.report import forwards
from kernelbook.report.model import CaseRun, CaseSpec, Compared, Edition, Run
from kernelbook.report.ranges import range_lines, whole_files
from kernelbook.sdpa_backends import Answer
from kernelbook.trust import Trust

Row = Mapping[str, Any]
Key = tuple[str, str]
Samples = tuple[tuple[int, tuple[float, ...]], ...]  # (process, forward times in µs)
TABLES = (
    "cases",
    "ranges",
    "activities",
    "calls",
    "call_totals",
    "ops",
    "expectations",
    "findings",
    "comparisons",
    "costs",
    "ceilings",
    "clock",
    "trust",
    "sdpa_backends",
    "kernels",
    "samples",
    "published",
)


class EditionError(ValueError):
    """The edition folder cannot be read; the message names the file and what to do."""


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Every known table of the folder; an empty table where the file is missing."""
    tables = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        tables[name] = pq.read_table(path) if path.is_file() else pa.table({})
    return tables


def read_edition(folder: Path, tables: Mapping[str, pa.Table] | None = None) -> Edition:
    """Read the folder whole.

    Raises EditionError if edition.json is missing or is not an edition.
    """
    about = _about(folder)
    tables = read_tables(folder) if tables is None else tables
    specs = tuple(_make(CaseSpec, row) for row in about.get("cases", []))
    return Edition(
        edition=about["edition"],
        created_utc=about["created_utc"],
        runs=tuple(_run(row) for row in about.get("runs", [])),
        left_out=tuple((str(row["run"]), str(row["reason"])) for row in about.get("left_out", [])),
        cases=specs + _unlisted(specs, tables["cases"]),
        case_runs=_case_runs(folder, about, tables),
        judged=_made(Judgement, tables, "expectations"),
        findings=_made(Finding, tables, "findings"),
        words=tuple(str(line) for line in about.get("words") or ()),
        costs=tuple(cost for cost in _made(ForwardCost, tables, "costs", "forward") if cost.told),
        products=_made(GemmCost, tables, "costs", "GEMM"),
        ceilings=_made(Ceiling, tables, "ceilings"),
        clocks=_made(Clock, tables, "clock"),
        compared=_made(Compared, tables, "comparisons", "summary"),
        trust=_made(Trust, tables, "trust"),
        backends=_made(Answer, tables, "sdpa_backends"),
        ranges=range_lines(tables),
        files=whole_files(tables),
        **_wishes(about.get("report") or {}),
    )


def _about(folder: Path) -> dict[str, Any]:
    path = folder / "edition.json"
    if not path.is_file():
        raise EditionError(f"{path}: not found; make the edition first (scripts/collect_edition.py)")
    about = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(about, dict) or "edition" not in about:
        raise EditionError(f"{path}: has no 'edition'; this is not an edition folder")
    if about.get("schema") != 1:
        raise EditionError(f"{path}: schema must be 1, found {about.get('schema')!r}; make the edition anew")
    return about


def _run(row: Row) -> Run:
    """A run; the source of a published one may be text or {publisher, title, year}."""
    source = row.get("source")
    if isinstance(source, Mapping):
        source = ", ".join(str(source[key]) for key in ("publisher", "title", "year", "url") if source.get(key))
    return _make(Run, {**row, "source": source})


def _wishes(report: Row) -> dict[str, Any]:
    """The report's own settings; what is not set takes the default."""
    wishes = {name: report[name] for name in ("title", "baseline_run") if report.get(name)}
    headline = report.get("headline")
    if headline and len(headline) == 2:
        wishes["headline"] = tuple(headline)
    return wishes


def _made(kind: type, tables: Mapping[str, pa.Table], name: str, scope: str | None = None) -> tuple[Any, ...]:
    """The rows of a table, or those of one scope, as what they were written from."""
    return tuple(_make(kind, row) for row in tables[name].to_pylist() if scope in (None, row.get("scope")))


def _clean(value: Any) -> Any:
    """Missing stays missing: a NaN that a table carries is None here."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _make(kind: type, row: Row) -> Any:
    """A dataclass from a row: unknown columns are left aside, missing ones take the default, or are none."""
    given = {}
    for spec in fields(kind):
        value = _clean(row.get(spec.name))
        if value is not None:
            given[spec.name] = value
        elif spec.default is MISSING and spec.default_factory is MISSING:
            given[spec.name] = None
    return kind(**given)


def _unlisted(specs: tuple[CaseSpec, ...], cases: pa.Table) -> tuple[CaseSpec, ...]:
    """Cases that a recorded or published run has and the config has not."""
    known = {spec.case for spec in specs}
    more: dict[str, CaseSpec] = {}
    for row in cases.to_pylist():
        name = row["case"]
        if name not in known and name not in more:
            more[name] = CaseSpec(name, row.get("workload") or name)
    return tuple(more.values())


def _case_runs(folder: Path, about: Row, tables: Mapping[str, pa.Table]) -> tuple[CaseRun, ...]:
    runs = {run["run"]: run for run in about.get("runs", [])}
    grouped: dict[Key, list[Row]] = defaultdict(list)
    for row in tables["cases"].to_pylist():
        grouped[row["run"], row["case"]].append(row)
    drawn = forwards.representative(tables, {name: run.get("capability") for name, run in runs.items()})
    samples = _samples(tables["samples"])
    points = forwards.points(tables["ranges"])
    return tuple(
        _case_run(
            folder,
            rows,
            runs.get(key[0], {}),
            samples.get(key, ()),
            activities=drawn.activities.get(key, ()),
            calls=drawn.calls.get(key, ()),
            forwards=points.get(key, ()),
        )
        for key, rows in grouped.items()
    )


def _case_run(folder: Path, rows: list[Row], run: Row, samples: Samples, **parts: Any) -> CaseRun:
    """run: the run as edition.json tells it; what a row does not say of the machine is that of the run."""
    case = merge_processes(rows)
    setting = case.setting
    known = {name: getattr(setting, name) or run.get(name) for name in ("device", "device_type", "driver")}
    told = {
        "setting": replace(setting, **known),
        "processes": len(rows),
        "bad": tuple(process for process in case.processes if process.status != "ok"),
        "logs": tuple(
            (row.get("process") or 1, tuple(row["log_tail"]))
            for row in rows
            if row["status"] == "failed" and row.get("log_tail")
        ),
        "warnings": case.notes,
        "trace": _trace_file(folder, case.row.get("trace_path")),
        "samples": tuple((process, times) for process, times in samples if process in case.merged),
    }
    return _make(CaseRun, {**case.row, **told, **parts})


def _trace_file(folder: Path, value: Any) -> Path | None:
    """The trace's file: the path as given, or below the edition's results folder."""
    if not value:
        return None
    places = (Path(value), folder / value, folder.parent / value)
    return next((place for place in places if place.is_file()), None)


def _samples(table: pa.Table) -> dict[Key, Samples]:
    grouped: dict[Key, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table.to_pylist():
        if _clean(row.get("forward_time_us")) is not None:
            grouped[row["run"], row["case"]][row.get("process") or 1].append(row["forward_time_us"])
    return {
        key: tuple((process, tuple(values)) for process, values in sorted(by.items())) for key, by in grouped.items()
    }
