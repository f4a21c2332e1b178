"""One edition: its runs, its cases, and the judgements about them.

Missing values are None, never 0. Times are in µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import pyarrow as pa

from kernelbook.cases import CaseFacts, case_facts
from kernelbook.cases.records import record_of, records_of
from kernelbook.counters import KernelCounters
from kernelbook.edition.paths import TABLES, EditionFiles, read_files
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.insight_tables import ComparisonRow
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.trust import Trust
from kernelbook.text.arrow_values import rows_where
from kernelbook.text.meaning import doc


@dataclass(frozen=True)
class Run:
    """One PyTorch build on one machine."""

    INTERNAL: ClassVar = ("environment",)

    run: str
    kind: Annotated[str, doc("", "host", "container", "recorded", "published")]
    description: str = ""
    image: str | None = None
    image_digest: str | None = None
    where: Annotated[str | None, doc("The image, folder or file that config.yaml names.")] = None
    device: str | None = None
    device_type: str | None = None
    capability: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    recorded_utc: str | None = None
    source: Annotated[str, doc("Where published figures come from.")] = ""
    status: Annotated[str, doc("", "ok", "lost")] = "ok"
    reason: str | None = None

    def took(self, row: CaseFacts) -> bool:
        """Whether a case was lost with this run, so that its reason is that of the run."""
        return self.status == "lost" and (row.reason or "").startswith(f"run {self.run} was lost")


@dataclass(frozen=True)
class ConfiguredCase:
    """A case as config.yaml states it."""

    case: str
    workload: str
    label: str | None = None
    note: str | None = None
    sweep: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Edition:
    """One edition. `tables`: its tables as they were read; the other fields are made from them.

    `kernel_costs`: (run, case) -> position in the representative forward -> cost, if the traffic is known.
    `compared`: the summary of each comparison. `headline`: the two cases whose ratio of device time leads the report,
    the slower first.
    """

    edition: str
    created_utc: str
    runs: tuple[Run, ...]
    left_out: tuple[tuple[str, str], ...]
    cases: tuple[ConfiguredCase, ...]
    case_runs: tuple[CaseFacts, ...]
    judged: tuple[Judgement, ...]
    findings: tuple[Finding, ...]
    words: tuple[str, ...] = ()
    costs: tuple[ForwardCost, ...] = ()
    kernel_costs: Mapping[tuple[str, str], Mapping[int, KernelCost]] = field(default_factory=dict)
    products: tuple[GemmCost, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    clocks: tuple[Clock, ...] = ()
    compared: tuple[ComparisonRow, ...] = ()
    trust: tuple[Trust, ...] = ()
    backends: tuple[Answer, ...] = ()
    title: str = "Kernelbook"
    headline: tuple[str, str] | None = None
    baseline_run: str = ""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def by_key(self) -> dict[tuple[str, str], CaseFacts]:
        """(run, case) -> the case."""
        return {row.key: row for row in self.case_runs}

    def rows_of(self, workload: str) -> list[tuple[CaseFacts, Run, int]]:
        """(case, run, place in `case_runs`) of a workload: cases in config order, runs in the edition's order."""
        places = {row.key: place for place, row in enumerate(self.case_runs)}
        keys = ((run, (run.run, spec.case)) for spec in self.cases if spec.workload == workload for run in self.runs)
        return [(self.case_runs[places[key]], run, places[key]) for run, key in keys if key in places]

    @property
    def counters(self) -> tuple[KernelCounters, ...]:
        return tuple(row for case in self.case_runs for row in case.counters)

    def ceiling_cases(self) -> frozenset[str]:
        """Names of the cases that measure the device's ceilings; findings about them are not reported."""
        return frozenset(case.case for case in self.case_runs if case.ceiling)

    def label_of(self, case: str) -> str:
        """The name of a case in the headline: its label, or else its name."""
        return next((each.label for each in self.cases if each.case == case and each.label), case)

    def workloads(self) -> list[str]:
        """Workloads in the order of the configuration."""
        return list(dict.fromkeys(case.workload for case in self.cases))


# --- reading ---------------------------------------------------------------------------------------------------------
# Missing tables count as empty. A missing `edition.json` is an error.


Row = Mapping[str, Any]
Key = tuple[str, str]
T = TypeVar("T")
MACHINE = ("device", "device_type", "driver")


def read_edition(folder: Path) -> Edition:
    """The edition in a folder. Raises EditionError if it cannot be read."""
    return edition_of(read_files(folder))


def edition_of(files: EditionFiles) -> Edition:
    """The edition from edition.json and its tables."""
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
        compared=_rows(ComparisonRow, tables, "comparisons", "summary"),
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
    """The report's settings, without those that are not set."""
    wishes = {name: report[name] for name in ("title", "baseline_run") if report.get(name)}
    headline = report.get("headline")
    if headline and len(headline) == 2:
        wishes["headline"] = tuple(headline)
    return wishes


def _rows(kind: type[T], tables: Mapping[str, pa.Table], name: str, scope: str | None = None) -> tuple[T, ...]:
    table = tables[name]
    if scope is not None and table.num_rows:
        table = rows_where(table, (each == scope for each in table["scope"].to_pylist()))
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
    """The cases of all runs. A failed process does not state its machine; it gets that of its run."""
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
