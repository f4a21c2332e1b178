"""Reads the ranks of each job of an edition together, for the tables `ranks` and `collectives`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import pyarrow as pa

from kernelbook.cases.records import schema_of, table_of
from kernelbook.collectives.model import Collective, RankForward
from kernelbook.collectives.rank import decode
from kernelbook.collectives.remarks import JobReport, report_job
from kernelbook.text.arrow_values import array_of

Key = tuple[str, str]
KEYS = pa.schema([("run", pa.string()), ("case", pa.string()), ("process", pa.int64())])
RANKS = pa.unify_schemas([KEYS, schema_of(RankForward)])
COLLECTIVES = pa.unify_schemas([KEYS, schema_of(Collective)])


@dataclass(frozen=True)
class CaseJob:
    """One job of a case. processes: rank -> number of its process; ranks share one, except of bare traces."""

    run: str
    case: str
    processes: Mapping[int, int]
    report: JobReport


def read_jobs(rank_traces: pa.Table) -> list[CaseJob]:
    """The jobs, in order. rank_traces: the tables `rank_trace` of all processes, concatenated."""
    if "content" not in rank_traces.column_names:
        return []
    jobs: dict[tuple[str, str, int], list[tuple[int, bytes]]] = {}
    for row in rank_traces.to_pylist():
        if row["content"] is not None:
            jobs.setdefault((row["run"], row["case"], row["job"]), []).append((row["process"], row["content"]))
    made = []
    for (run, case, _), parts in jobs.items():
        traces = [(process, decode(content)) for process, content in parts]
        processes = {trace.rank: process for process, trace in traces}
        made.append(CaseJob(run, case, processes, report_job([trace for _, trace in traces])))
    return made


def with_measured_rates(jobs: Sequence[CaseJob], sweeps: Collection[Key]) -> list[CaseJob]:
    """The jobs, with the best bus bandwidth that the run reached for its operation at each collective.

    sweeps: (run, case) of the cases that measure one collective alone, each with the median over its collectives.
    """
    best: dict[tuple[str, str, int | None], float] = {}
    for job in jobs:
        if (job.run, job.case) in sweeps:
            rates: dict[tuple[str, str, int | None], list[float]] = {}
            for row in job.report.job.collectives:
                if row.bus_gb_s is not None:
                    rates.setdefault((job.run, row.operation, row.ranks), []).append(row.bus_gb_s)
            best |= {key: max(best.get(key, 0.0), median(values)) for key, values in rates.items()}
    return [_with_rates(job, best) for job in jobs] if best else list(jobs)


def _with_rates(job: CaseJob, best: Mapping[tuple[str, str, int | None], float]) -> CaseJob:
    rows = tuple(
        replace(row, measured_gb_s=best.get((job.run, row.operation, row.ranks))) for row in job.report.job.collectives
    )
    return replace(job, report=replace(job.report, job=replace(job.report.job, collectives=rows)))


def by_case(jobs: Sequence[CaseJob]) -> dict[Key, tuple[JobReport, ...]]:
    """(run, case) -> its jobs, one for each repetition."""
    reports: dict[Key, tuple[JobReport, ...]] = {}
    for job in jobs:
        key = job.run, job.case
        reports[key] = (*reports.get(key, ()), job.report)
    return reports


def job_tables(jobs: Sequence[CaseJob]) -> dict[str, pa.Table]:
    """The tables `ranks` and `collectives`; without rows if there is no job."""
    parts: dict[str, list[pa.Table]] = {"ranks": [], "collectives": []}
    for job in jobs:
        parts["ranks"].append(_table(job, job.report.job.forwards, RANKS))
        parts["collectives"].append(_table(job, job.report.job.collectives, COLLECTIVES))
    schemas = {"ranks": RANKS, "collectives": COLLECTIVES}
    return {name: pa.concat_tables(own) if own else table_of((), schemas[name]) for name, own in parts.items()}


def _table(job: CaseJob, rows: Sequence[RankForward] | Sequence[Collective], schema: pa.Schema) -> pa.Table:
    """The rows as a table, built by columns, since a large job has millions of rows and dicts take much memory."""
    keys: dict[str, list[object]] = {"run": [job.run] * len(rows), "case": [job.case] * len(rows)}
    keys["process"] = [job.processes[row.rank] for row in rows]
    columns = [
        array_of(keys[name] if name in keys else [getattr(row, name) for row in rows], schema.field(name).type)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)
