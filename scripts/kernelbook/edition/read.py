"""An edition from its tables and edition.json, as they are collected or as they were written to a folder.

Missing tables count as empty. A missing `edition.json` is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kernelbook.cases import CaseFacts, case_facts
from kernelbook.cases.records import record_of, records_of
from kernelbook.edition.model import Compared, ConfiguredCase, Edition, Run
from kernelbook.edition.paths import TABLES, EditionFiles, read_files
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.trust import Trust

Row = Mapping[str, Any]
Key = tuple[str, str]
T = TypeVar("T")
MACHINE = ("device", "device_type", "driver")


def read_edition(folder: Path) -> Edition:
    """The edition in a folder; raises EditionError where `read_files` does."""
    return edition_of(read_files(folder))


def edition_of(files: EditionFiles) -> Edition:
    """The edition that edition.json and the tables beside it state."""
    about, tables = files.about, {name: files.tables.get(name, pa.table({})) for name in TABLES}
    cases = _cases(about, tables)
    configured = tuple(record_of(ConfiguredCase, row) for row in about.get("cases", []))
    return Edition(
        edition=about["edition"],
        created_utc=about["created_utc"],
        runs=tuple(_run(row) for row in about.get("runs", [])),
        left_out=tuple((str(row["run"]), str(row["reason"])) for row in about.get("left_out", [])),
        cases=configured + _unlisted(configured, cases),
        case_runs=cases,
        judged=_rows(Judgement, tables, "expectations"),
        findings=_rows(Finding, tables, "findings"),
        words=tuple(str(line) for line in about.get("words") or ()),
        costs=tuple(cost for cost in _rows(ForwardCost, tables, "costs", "forward") if cost.has_figures),
        kernel_costs=_kernel_costs(tables["costs"]),
        products=_rows(GemmCost, tables, "costs", "GEMM"),
        ceilings=_rows(Ceiling, tables, "ceilings"),
        clocks=_rows(Clock, tables, "clock"),
        compared=_rows(Compared, tables, "comparisons", "summary"),
        trust=_rows(Trust, tables, "trust"),
        backends=_rows(Answer, tables, "sdpa_backends"),
        tables=tables,
        **_wishes(about.get("report") or {}),
    )


def _run(row: Row) -> Run:
    """A run; the source of a published one may be text or {publisher, title, year}."""
    source = row.get("source")
    if isinstance(source, Mapping):
        source = ", ".join(str(source[key]) for key in ("publisher", "title", "year", "url") if source.get(key))
    return record_of(Run, {**row, "source": source})


def _wishes(report: Row) -> dict[str, Any]:
    """The report's own settings; what is not set takes the default."""
    wishes = {name: report[name] for name in ("title", "baseline_run") if report.get(name)}
    headline = report.get("headline")
    if headline and len(headline) == 2:
        wishes["headline"] = tuple(headline)
    return wishes


def _rows(kind: type[T], tables: Mapping[str, pa.Table], name: str, scope: str | None = None) -> tuple[T, ...]:
    """The rows of a table, or those of one scope."""
    table = tables[name]
    if scope is not None and table.num_rows:
        table = table.filter(pc.equal(table["scope"], scope))
    return tuple(records_of(kind, table))


def _unlisted(configured: tuple[ConfiguredCase, ...], cases: Iterable[CaseFacts]) -> tuple[ConfiguredCase, ...]:
    """Cases that a recorded or published run has and the configuration lacks."""
    names = {case.case for case in configured}
    more: dict[str, ConfiguredCase] = {}
    for case in cases:
        if case.case not in names:
            more.setdefault(case.case, ConfiguredCase(case.case, case.workload or case.case))
    return tuple(more.values())


def _cases(about: Row, tables: Mapping[str, pa.Table]) -> tuple[CaseFacts, ...]:
    """The cases of all runs. A failed process does not state its machine: that of its run is taken."""
    runs = {run["run"]: run for run in about.get("runs", [])}
    files = about.get("trace_files") or {}
    return tuple(
        replace(
            case,
            trace_path=files.get(case.trace_path, case.trace_path),
            **{name: getattr(case, name) or runs.get(case.run, {}).get(name) for name in MACHINE},
        )
        for case in case_facts(tables).values()
    )


def _kernel_costs(costs: pa.Table) -> dict[Key, dict[int, KernelCost]]:
    grouped: dict[Key, dict[int, KernelCost]] = {}
    for row in costs.to_pylist():
        if row["scope"] == "kernel":
            grouped.setdefault((row["run"], row["case"]), {})[row["position"]] = record_of(KernelCost, row)
    return grouped
