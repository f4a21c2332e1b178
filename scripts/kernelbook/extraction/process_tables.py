"""One process of one case as tidy tables: a row for the case, and rows for its forwards, activities, calls and ops.

Counts and times are those of the case's forwards, the ranges with the case's annotation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kernelbook.cases import CASE_COLUMNS, Environment, Process, median
from kernelbook.cases.process import KEYS, Measured
from kernelbook.cases.records import schema_of, table_of
from kernelbook.collectives.rank import encode, trace_of_rank
from kernelbook.config.defaults import MEASURE_DEFAULTS
from kernelbook.counters import Profiled
from kernelbook.extraction.measurement import (
    Device,
    Measurement,
    MeasurementError,
    load_measurement,
    profiled_kernels,
    refusal,
)
from kernelbook.extraction.trace_notes import beside_forwards, trace_notes
from kernelbook.text.arrow_values import array_of
from kernelbook.text.formatting import duration, plural, quantile
from kernelbook.trace import TraceError, TraceReading, TraceWarning, read_trace
from kernelbook.trace.frame import Column
from kernelbook.trace.recorded import MEASUREMENT, is_trace
from kernelbook.trace.types import COUNTS

FEWEST_SAMPLES = 30  # raw forward times that a median and its 5-95 % span are read from
CONFIGURED = ("workload", "variant", "mode", "dtype", "annotation")
MOST_KINDS = 4  # kinds of forwards that a note lists, and labels of each
MOST_LABELS = 3
PROFILED = schema_of(Profiled)
RANGE_TIMES = ("cpu_time_us", "device_time_us", "device_busy_us")


@dataclass(frozen=True)
class Origin:
    """Run, case and process that rows belong to, and the content of run.json. rank: None outside of a job."""

    run: str
    case: str
    process: int
    status: Mapping[str, Any]
    rank: int | None = None


def tables_of(
    origin: Origin, spec: Mapping[str, Any], measured: Path | None, windows: Sequence[Path] = ()
) -> dict[str, pa.Table]:
    """The tables of one process; any failure becomes a case row with status and reason.

    spec: the case as configured, used if there is no measurement.
    measured: measurement.json, or a bare trace without one; None if the run was lost.
    windows: further traces of the process of a bare trace, in the order of time.
    """
    if measured is None:
        reason = origin.status.get("reason") or "the run was lost"
        return failed_tables(origin, spec, f"run {origin.run} was lost: {reason}")
    if is_trace(measured):
        return _bare(replace(origin, rank=spec.get("rank")), spec, [measured, *windows])
    try:
        measurement = load_measurement(measured)
    except MeasurementError as error:
        return failed_tables(origin, spec, str(error))
    if measurement.ranks is not None and origin.rank is None:
        return _of_ranks(origin, spec, measured.parent, measurement.ranks)
    measured_row = replace(_measured(origin, spec, measurement), output_code=_output_code(measured, measurement))
    refused = refusal(origin.status, _known_environment(measured_row.environment))
    if refused:
        return _tables(origin, replace(measured_row, status="failed", reason=refused, warnings=()), None)
    if measurement.trace is None:
        return _tables(origin, measured_row, None)
    trace = measured.parent / measurement.trace
    counted = _counted(origin, profiled_kernels(trace, measurement, measured.parent))
    return _traced(origin, measured_row, trace, beside_forwards) | counted


def ranks_of(measured: Path) -> int | None:
    """Number of ranks that left measurements beside measurement.json; None for a process without ranks."""
    if is_trace(measured):
        return None
    try:
        return load_measurement(measured).ranks
    except MeasurementError:
        return None


def rank_file(measured: Path, rank: int) -> Path:
    """The measurement of one rank of a job. measured: that of the job."""
    return measured.parent / f"rank-{rank}" / MEASUREMENT


def _of_ranks(origin: Origin, spec: Mapping[str, Any], folder: Path, ranks: int) -> dict[str, pa.Table]:
    """The tables of all ranks of a job; each rank left a measurement in a folder rank-N."""
    job = folder / MEASUREMENT
    parts = [tables_of(replace(origin, rank=rank), spec, rank_file(job, rank)) for rank in range(ranks)]
    return {name: pa.concat_tables([part[name] for part in parts], promote_options="default") for name in parts[0]}


def _bare(origin: Origin, spec: Mapping[str, Any], windows: Sequence[Path]) -> dict[str, pa.Table]:
    """The tables of a process that has only traces, one for each window."""

    row = _bare_row(origin, spec)
    counted = _counted(origin, profiled_kernels(windows[0], None, windows[0].parent))
    return _traced(origin, row, windows[0], _notes_of_bare, windows[1:]) | counted


def _counted(origin: Origin, kernels: Sequence[Profiled]) -> dict[str, pa.Table]:
    return {"ncu": _keyed(origin, table_of(kernels, PROFILED))}


def tables_of_reading(origin: Origin, spec: Mapping[str, Any], reading: TraceReading) -> dict[str, pa.Table]:
    """As `tables_of`, for a bare trace that was read, with the forwards that `reading` selects."""
    row = replace(_bare_row(origin, spec), annotation=reading.annotation)
    return _of_reading(origin, row, Path(reading.source), reading, _notes_of_bare)


def _bare_row(origin: Origin, spec: Mapping[str, Any]) -> Process:
    warnings = tuple(TraceWarning(**warning) for warning in spec.get("warnings", []))
    return replace(_configured(origin, spec), bare=True, warnings=warnings, rank=origin.rank)


def _notes_of_bare(reading: TraceReading) -> Iterator[TraceWarning]:
    yield from trace_notes(reading)
    if reading.windows:
        count = 1 + len(reading.windows)
        text = f"the process wrote {count} windows, whose forwards are taken together; the first is linked"
        yield TraceWarning("windows", count, text)


def _notes(measurement: Measurement) -> tuple[TraceWarning, ...]:
    """Warnings about doubtful or missing figures of a measurement.

    Codes: those of the measuring side (not_finite, unlocked_gpu), and shared_gpu, few_samples, no_figure.
    """
    notes = [*measurement.warnings]
    others = measurement.other_gpu_processes
    if others:
        names = ", ".join(sorted({str(process.name) for process in others}))
        text = f"other processes used the GPU before or after the measurement ({names}): end them and measure again"
        notes.append(TraceWarning("shared_gpu", len(others), text))
    taken = len(measurement.forward_times_us)
    if 0 < taken < FEWEST_SAMPLES:
        text = f"the forward time rests on {taken} calls: a quick look; set samples to {FEWEST_SAMPLES} or more"
        notes.append(TraceWarning("few_samples", taken, text))
    return (*notes, *(TraceWarning("no_figure", 1, note) for note in measurement.notes))


def _traced(
    origin: Origin,
    row: Process,
    trace_file: Path,
    notes: Callable[[TraceReading], Iterable[TraceWarning]],
    windows: Sequence[Path] = (),
) -> dict[str, pa.Table]:
    """The tables of a process with a trace. windows: its further traces. notes: function that adds warnings to it."""
    try:
        trace_file.as_posix().encode()
        reading = read_trace(trace_file, row.annotation, windows)
    except UnicodeEncodeError:
        reason = f"the trace's name is no text ({trace_file.name!a}): rename the file"
        return _tables(origin, replace(row, status="failed", reason=reason, warnings=()), None)
    except (TraceError, OSError) as error:
        reason = f"the trace cannot be read: {error}"
        return _tables(origin, replace(row, status="failed", reason=reason, warnings=()), None)
    return _of_reading(origin, row, trace_file, reading, notes)


def _of_reading(
    origin: Origin,
    row: Process,
    trace_file: Path,
    reading: TraceReading,
    notes: Callable[[TraceReading], Iterable[TraceWarning]],
) -> dict[str, pa.Table]:
    warnings = (*row.warnings, *notes(reading))
    return _tables(origin, replace(row, trace_path=trace_file.as_posix(), warnings=warnings), reading)


def failed_tables(origin: Origin, spec: Mapping[str, Any], reason: str) -> dict[str, pa.Table]:
    """The tables of a process without results: a failed row with the reason."""
    params = spec.get("params", {})
    return _tables(origin, replace(_configured(origin, spec), status="failed", reason=reason, params=params), None)


def _configured(origin: Origin, spec: Mapping[str, Any]) -> Process:
    """The row of a process with the columns that the configuration of its case determines."""
    columns: dict[str, Any] = {name: spec.get(name) for name in CONFIGURED}
    columns["compile_options"] = spec.get("compile_options") or {}
    return Process(origin.run, origin.case, process=origin.process, rank=origin.rank, **columns)


def _measured(origin: Origin, spec: Mapping[str, Any], measurement: Measurement) -> Process:
    """The row of a process from its measurement; the error bound is that of `spec`, if it has one."""
    columns: dict[str, Any] = {column.name: getattr(measurement, column.name) for column in fields(Measured)}
    columns |= {name: measurement.case.get(name) for name in CONFIGURED}
    options = measurement.case.get("compile_options")
    columns["compile_options"] = options if isinstance(options, dict) else {}
    # the defaults of the measuring process
    columns |= {name: measurement.case.get(name, MEASURE_DEFAULTS[name]) for name in ("dtype", "warmup", "flush_l2")}
    times, environment = measurement.forward_times_us, measurement.environment or Environment()
    columns |= {name: getattr(environment, name) for name in ("gpu_id", "torch", "cuda", "cudnn", "driver")}
    params = measurement.params_used if measurement.params_used is not None else measurement.case.get("params", {})
    in_container = origin.status.get("kind") == "container"
    device = measurement.device or Device()
    columns |= {
        "warnings": _notes(measurement),
        "error_bound": spec.get("max_relative_error", measurement.error_bound),
        "params": params,
        "forward_time_us": median(times),
        "forward_p05_us": quantile(times, 0.05),
        "forward_p95_us": quantile(times, 0.95),
        "device": device.name,
        "device_type": device.type,
        "capability": device.capability,
        "l2_bytes": device.l2_bytes,
        "image": origin.status.get("where") if in_container else environment.container,
        "image_digest": origin.status.get("image_digest"),
        "rank": origin.rank,
        "world_size": measurement.world_size,
    }
    return Process(origin.run, origin.case, process=origin.process, **columns)


def _output_code(measured: Path, measurement: Measurement) -> str | None:
    """The file of the output code beside the measurement; None if there is none, or if its path is not UTF-8."""
    file = measured.with_name(measurement.output_code) if measurement.output_code else None
    if file is None or not file.is_file():
        return None
    path = file.as_posix()
    return path if path == path.encode("utf-8", "ignore").decode("utf-8") else None


def _known_environment(environment: Environment | None) -> dict[str, Any]:
    """The known values of the environment; empty if the process ended before it imported torch."""
    return {name: value for name, value in asdict(environment or Environment()).items() if value}


def _tables(origin: Origin, row: Process, reading: TraceReading | None) -> dict[str, pa.Table]:
    """The case row completed from the trace, and the trace's own tables with the keys in front."""
    if reading is None:
        parts = dict.fromkeys(("ranges", "activities", "calls", "ops", "kernels", "rank_trace"), pa.table({}))
    else:
        activities, calls = reading.forwards()
        ranges = reading.complete_ranges()
        parts = {"ranges": ranges, "activities": activities, "calls": calls, "ops": reading.ops}
        parts |= {"kernels": reading.kernels, "rank_trace": _rank_trace(reading, row)}
        row = replace(
            row,
            annotation=row.annotation or reading.groups.forward_name,
            device_properties=next(iter(reading.device_properties), {}),
            device=row.device or reading.device,
            totals=reading.totals,
            world_size=row.world_size if row.rank is None or row.world_size else reading.world_size,
            warnings=(*_warnings(reading, row.device_type), *row.warnings),
        )
        forwards = [each for each in ranges.to_pylist() if each["forward"]]
        row = _complete(row, forwards, int(reading.groups.is_forward.sum()))
    tables = {"case": table_of([row], CASE_COLUMNS), **{name: _keyed(origin, table) for name, table in parts.items()}}
    return tables | _counted(origin, ())


def _warnings(reading: TraceReading, device_type: str | None) -> Iterator[TraceWarning]:
    """The warnings of the reading; `no_launches` has another text for a measurement on a CPU."""
    for warning in reading.warnings:
        on_cpu = warning.code == "no_launches" and device_type == "cpu"
        yield replace(warning, message="nothing was launched on a device: a CPU run") if on_cpu else warning


def _complete(row: Process, forwards: Sequence[Mapping[str, Any]], begun: int) -> Process:
    """The row with its figures per forward, and with warnings about unusual forwards.

    forwards: the complete ranges among the `begun` ranges of the trace. The figures are those of forwards of kind 0,
    which did what most forwards did: the most frequent count, the median time.
    """
    if not forwards:
        what = f"no {'whole ' if begun else ''}range named {row.annotation!r}"
        what = what if row.annotation is not None else "no annotated range"
        text = f"the trace has {what}: there are figures of the whole file, and none per forward"
        return replace(row, forwards=0, warnings=(*row.warnings, TraceWarning("no_forwards", 1, text)))
    notes = []
    if cut := begun - len(forwards):
        text = f"{cut} of {begun} forwards may lack work past the end of the file and are left out"
        notes.append(TraceWarning("cut_forwards", cut, text))
    usual = [forward for forward in forwards if forward["kind"] == 0]
    figures: dict[str, Any] = {}
    for name in COUNTS:
        counts = Counter(forward[name] for forward in usual)
        figures[name], most = counts.most_common(1)[0]
        if len(counts) > 1:
            distribution = ", ".join(
                f"{times} × {count}" for count, times in sorted(counts.items(), key=lambda item: -item[1])
            )
            notes.append(
                TraceWarning("uneven", len(usual) - most, f"forwards differ in their number of {name}: {distribution}")
            )
    figures |= {name: median(forward[name] for forward in usual) for name in RANGE_TIMES}
    if len(usual) < len(forwards):
        notes.append(TraceWarning("several_kinds", len(forwards) - len(usual), _kinds(forwards)))
    return replace(row, forwards=len(forwards), warnings=(*row.warnings, *notes), **figures)


def _kinds(forwards: Sequence[Mapping[str, Any]]) -> str:
    """The kernels and times of the forwards of each kind, in a sentence."""
    by_kind: dict[int, list[Mapping[str, Any]]] = {}
    for forward in sorted(forwards, key=lambda forward: forward["kind"]):
        by_kind.setdefault(forward["kind"], []).append(forward)
    kinds = [_kind(members) for members in by_kind.values()][:MOST_KINDS]
    more = f"; and {len(by_kind) - MOST_KINDS} other kinds" if len(by_kind) > MOST_KINDS else ""
    return f"forwards did different work: {'; '.join(kinds)}{more}; counts and times are those of the first kind"


def _kind(forwards: Sequence[Mapping[str, Any]]) -> str:
    kernels, time = forwards[0]["kernels"], median(forward["device_time_us"] for forward in forwards)
    what = f"{len(forwards)} × "
    if time is None:
        what += f"{duration(median(forward['cpu_time_us'] for forward in forwards))} of CPU time"
    else:
        what += f"{plural(kernels, 'kernel')}, {duration(time)} of device time"
    labels = list(dict.fromkeys(forward["label"] for forward in forwards if forward["label"] is not None))
    listed = [*labels[:MOST_LABELS], *(["..."] if len(labels) > MOST_LABELS else [])]
    return f"{what} ({'; '.join(listed)})" if labels else what


def _rank_trace(reading: TraceReading, row: Process) -> pa.Table:
    """The trace of a rank as one binary value, for reading its job; no row without ranks.

    Column job: number of the job among those of the case.
    """
    trace = trace_of_rank(reading, row.rank) if row.rank is not None else None
    if trace is None:
        return pa.table({})
    return pa.table({"job": array_of([row.job], pa.int64()), "content": array_of([encode(trace)], pa.binary())})


def _keyed(origin: Origin, table: pa.Table) -> pa.Table:
    columns = {name: _repeated(getattr(origin, name), table.num_rows) for name in KEYS}
    return pa.table(columns | {name: table[name] for name in table.column_names if name not in KEYS})


def _repeated(value: str | int | None, count: int) -> pa.Array:
    """A column of one value. `pyarrow.repeat` would import pandas first."""
    if isinstance(value, str):
        return Column(np.zeros(count, np.int64), names=[value]).to_arrow()
    return Column(np.full(count, value or 0), np.full(count, value is None)).to_arrow()
