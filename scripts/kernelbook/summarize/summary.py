"""A summary of one trace: the object that `kernelbook summarize --json` prints, and figures per annotation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kernelbook.collectives.operations import has_other_ranks
from kernelbook.trace.annotations import AnnotationSummary
from kernelbook.trace.ranks import Job
from kernelbook.trace.reading import TraceReading
from kernelbook.trace.rows import RangeJson
from kernelbook.trace.types import TraceWarning

if TYPE_CHECKING:  # imported only for traces of ranks
    from kernelbook.collectives.model import RankTrace
    from kernelbook.collectives.remarks import JobReport

SCHEMA = 1
_RANGE_COLUMNS = tuple(RangeJson.__annotations__)


# --- jobs ------------------------------------------------------------------------------------------------------------


def read_together(job: Job, traces: Mapping[int, RankTrace]) -> JobReport | None:
    """The job of these processes; None if it has one process, if a rank occurs twice or if nothing is distributed.

    traces: place of a trace among all -> its part of the job.
    """
    ranks = [process.rank for process in job.processes]
    windows = [[traces.get(window.place) for window in process.windows] for process in job.processes]
    if len(ranks) < 2 and not any((process.first.world_size or 0) > 1 for process in job.processes):
        return None
    if None in ranks or len(set(ranks)) < len(ranks) or not any(each for process in windows for each in process):
        return None
    from kernelbook.collectives.rank import joined
    from kernelbook.collectives.remarks import report_job

    read = [[each for each in process if each is not None] for process in windows]
    return report_job([joined(own, rank) for rank, own in zip(ranks, read, strict=True) if own and rank is not None])


def job_keys(report: JobReport, rank: int | None) -> dict[str, Any]:
    """The additional keys of the line of a rank, with JSON values."""
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
    """Write the tables `ranks` and `collectives` of each job into a separate folder of `output`."""
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


# --- traces ----------------------------------------------------------------------------------------------------------


class Summary(msgspec.Struct, frozen=True):
    """The printed figures of one trace. Its size does not grow with the number of events.

    distributed: torch's distributedInfo. rank: see `related`.
    notes: unusual properties of the file (`trace_notes`).
    annotation: name or glob of the selected ranges, or None.
    ranges, annotations: with an annotation, of the selected ranges only.
    names: of all ranges, if the annotation selects none; ProfilerStep#* stands for the profiler's steps.
    range_kernels, range_ops: as `kernels` and `ops`, of the selected ranges only; None without an annotation.
    rank_trace: the trace for reading its job; None if nothing shows another rank.
    job: the job of a rank, if its traces were read together.
    """

    source: str
    device: str | None
    truncated: bool
    warnings: tuple[TraceWarning, ...]
    totals: dict[str, Any]
    ranges: list[dict[str, Any]]
    kernels: list[dict[str, Any]]
    ops: list[dict[str, Any]]
    annotations: list[AnnotationSummary]
    distributed: dict[str, Any] | None
    rank: int | None = None
    notes: Sequence[TraceWarning] = ()
    annotation: str | None = None
    range_kernels: list[dict[str, Any]] | None = None
    range_ops: list[dict[str, Any]] | None = None
    rank_trace: RankTrace | None = None
    job: JobReport | None = None
    names: frozenset[str] = frozenset()

    def related(
        self,
        rank: int | None,
        more: Sequence[TraceWarning],
        notes: Sequence[TraceWarning],
        job: JobReport | None = None,
    ) -> Summary:
        """The summary with its rank in its job, and with warnings and notes about it as a part of the job."""
        return msgspec.structs.replace(
            self, rank=rank, warnings=(*self.warnings, *more), notes=(*self.notes, *notes), job=job
        )

    def to_json(self) -> str:
        """One line of strict JSON; trace/trace.schema.json describes it."""
        selected = {"range_kernels": self.range_kernels, "range_ops": self.range_ops}
        return json.dumps(
            {
                "schema": SCHEMA,
                "source": self.source,
                "device": self.device,
                "truncated": self.truncated,
                "warnings": [asdict(warning) for warning in self.warnings],
                "totals": self.totals,
                "ranges": self.ranges,
                "kernels": self.kernels,
                "ops": self.ops,
                "rank": self.rank,
                "notes": [asdict(note) for note in self.notes],
                **(selected if self.annotation is not None else {}),
                **(job_keys(self.job, self.rank) if self.job is not None else {}),
            },
            allow_nan=False,
        )


def summarize(reading: TraceReading, notes: Sequence[TraceWarning] = ()) -> Summary:
    """Summarize a reading; `notes` are about its file. With an annotation, only the selected ranges are kept."""
    rank_trace = None
    if has_other_ranks(reading.world_size, reading.names):  # most traces do not need this import
        from kernelbook.collectives.rank import trace_of_rank

        rank_trace = trace_of_rank(reading, 0)
    frames = reading.frames
    ranges = frames["ranges"]
    rows = {name: frame.to_rows() for name, frame in frames.items() if name != "ranges"}
    names: frozenset[str] = frozenset()
    if reading.annotation is not None and not reading.groups.selected.any():
        names = frozenset([*ranges["annotation"].to_list(), *(["ProfilerStep#*"] if reading.steps else [])])
    return Summary(
        source=reading.source,
        device=reading.device,
        truncated=reading.truncated,
        warnings=reading.warnings,
        totals=asdict(reading.totals),
        ranges=(ranges if reading.annotation is None else ranges.take(reading.groups.selected)).to_rows(_RANGE_COLUMNS),
        annotations=reading.annotations(),
        distributed=reading.distributed,
        notes=notes,
        annotation=reading.annotation,
        kernels=rows["kernels"],
        ops=rows["ops"],
        range_kernels=rows.get("range_kernels"),
        range_ops=rows.get("range_ops"),
        rank_trace=rank_trace,
        names=names,
    )
