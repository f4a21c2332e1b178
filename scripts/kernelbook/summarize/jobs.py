"""Ranks of one job among the traces that are summarized: read together, and what is added to the JSON of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelbook.trace.ranks import Job

if TYPE_CHECKING:  # loaded only where a trace is that of a rank
    from kernelbook.collectives.model import RankTrace
    from kernelbook.collectives.remarks import JobReport
    from kernelbook.summarize.summary import Summary


def read_together(job: Job, traces: Mapping[int, RankTrace]) -> JobReport | None:
    """The job of these processes; None if it has one process, if a rank is there twice or if nothing is distributed.

    traces: place of a trace among all -> what it contributes.
    """
    ranks = [process.rank for process in job.processes]
    windows = [[traces.get(window.place) for window in process.windows] for process in job.processes]
    if len(ranks) < 2 and not any((process.first.world_size or 0) > 1 for process in job.processes):
        return None
    if None in ranks or len(set(ranks)) < len(ranks) or not any(each for process in windows for each in process):
        return None
    from kernelbook.collectives.remarks import report_job
    from kernelbook.collectives.windows import joined

    read = [[each for each in process if each is not None] for process in windows]
    return report_job([joined(own, rank) for rank, own in zip(ranks, read, strict=True) if own and rank is not None])


def job_keys(report: JobReport, rank: int | None) -> dict[str, Any]:
    """The keys that the line of a rank has beside those of every trace; JSON values."""
    job = report.job
    about = {
        "ranks": list(job.ranks),
        "world_size": job.world_size,
        "clock_error_us": job.clock_error_us,
        "refused": job.refused,
        "sentence": report.lead,
        "straggler": asdict(job.straggler) if job.straggler else None,
        "remarks": [asdict(remark) for remark in report.remarks],
        "warnings": [asdict(warning) for warning in job.warnings],
    }
    return {
        "job": about,
        "ranks": [asdict(row) for row in job.forwards if row.rank == rank],
        "collectives": [asdict(row) for row in job.collectives if row.rank == rank],
    }


def write_job_tables(summaries: Sequence[Summary], output: Path) -> None:
    """Write the tables `ranks` and `collectives` of each job, into a folder of its own."""
    reports = {id(each.job): each.job for each in summaries if each.job is not None}
    if not reports:
        return
    import pyarrow as pa

    from kernelbook.text.table_files import write_tables

    for number, report in enumerate(reports.values(), start=1):
        tables = {
            "ranks": pa.Table.from_pylist([asdict(row) for row in report.job.forwards]),
            "collectives": pa.Table.from_pylist([asdict(row) for row in report.job.collectives]),
        }
        write_tables(tables, output / ("job" if number == 1 else f"job-{number}"))
