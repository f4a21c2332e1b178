"""One process of one case as tidy tables: a row for the case, and rows for its forwards, activities, calls and ops.

Counts and times are those of the case's own forwards (the ranges that bear the case's annotation), nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernelbook.cases import median
from kernelbook.config.loading import MEASURE_DEFAULTS
from kernelbook.containers.launching import refusal
from kernelbook.extraction.measurement import Measurement, MeasurementError, load_measurement
from kernelbook.extraction.trace_notes import beside_forwards, trace_notes
from kernelbook.text.units import duration, plural, quantile
from kernelbook.trace import TraceError, TraceReading, read_trace
from kernelbook.trace.recorded import is_trace

FEWEST_SAMPLES = 30  # raw forward times that a median and its 5-95 % span are read from
COUNTS = ("kernels", "memcpys", "memsets", "launches")
MOST_KINDS = 4  # kinds of forwards that a note lists, and labels of each
MOST_LABELS = 3
RANGE_TIMES = ("cpu_time_us", "device_time_us", "device_busy_us")

CASE_SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("case", pa.string()),
        ("process", pa.int64()),
        *((name, pa.string()) for name in ("workload", "variant", "mode", "dtype", "params", "annotation")),
        *((name, pa.string()) for name in ("status", "reason")),
        ("log_tail", pa.list_(pa.string())),
        ("attempts", pa.int64()),
        *((name, pa.int64()) for name in ("forwards", *COUNTS)),
        *((name, pa.float64()) for name in RANGE_TIMES),
        ("forward_times_us", pa.list_(pa.float64())),
        *((name, pa.float64()) for name in ("forward_time_us", "forward_p05_us", "forward_p95_us", "first_call_us")),
        *((name, pa.string()) for name in ("forward_timer", "inductor_cache")),
        ("warmup", pa.int64()),
        ("flush_l2", pa.bool_()),
        *((name, pa.int64()) for name in ("peak_memory_bytes", "input_bytes", "output_bytes", "flops", "useful_flops")),
        ("flops_source", pa.string()),
        *((name, pa.float64()) for name in ("relative_error", "error_bound")),
        *((name, pa.string()) for name in ("device", "device_type", "capability")),
        *((name, pa.string()) for name in ("gpu_id", "torch", "cuda", "cudnn", "driver", "image", "image_digest")),
        *((name, pa.string()) for name in ("started_utc", "trace_path")),
        *((name, pa.string()) for name in ("environment", "device_properties", "sdpa_backends")),
        *((name, pa.string()) for name in ("clocks", "warmup_check", "other_gpu_processes", "dynamo")),
        *((name, pa.string()) for name in ("warnings", "totals")),
    ]
)


@dataclass(frozen=True)
class Origin:
    """Whose rows they are, and what run.json said of the run."""

    run: str
    case: str
    process: int
    status: Mapping[str, Any]


def tables_of(
    origin: Origin, spec: Mapping[str, Any], measured: Path | None, windows: Sequence[Path] = ()
) -> dict[str, pa.Table]:
    """The tables of one process; a failure of whatever kind is a case row with status and reason.

    spec: the case as configured, used where there is no measurement.
    measured: measurement.json, or a bare trace of which nothing else is known; None where the run was lost.
    windows: further traces of the process of a bare trace, in the order of time.
    Raises nothing for damaged input files.
    """
    if measured is None:
        reason = origin.status.get("reason") or "the run was lost"
        return failed_tables(origin, spec, f"run {origin.run} was lost: {reason}")
    if is_trace(measured):
        return _bare(origin, spec, [measured, *windows])
    try:
        measurement = load_measurement(measured)
    except MeasurementError as error:
        return failed_tables(origin, spec, str(error))
    row, notes = _measured_row(origin, measurement), _notes(measurement)
    row["error_bound"] = spec.get(
        "max_relative_error", row["error_bound"]
    )  # the case's own, which nothing is measured for
    refused = refusal(origin.status, measurement.environment)
    if refused:
        return _tables(origin, row | {"status": "failed", "reason": refused}, None)
    if measurement.trace is None:
        return _tables(origin, row, None, notes)
    trace = measured.parent / measurement.trace
    return _traced(origin, row, trace, lambda reading: [*notes, *beside_forwards(reading)])


def _bare(origin: Origin, spec: Mapping[str, Any], windows: Sequence[Path]) -> dict[str, pa.Table]:
    """The tables of a process of which there is nothing but its traces, one a window."""

    def notes(reading: TraceReading) -> list[Any]:
        found = [*spec.get("warnings", []), *trace_notes(reading)]
        if len(windows) > 1:
            text = f"the process wrote {len(windows)} windows, whose forwards are taken together; the first is linked"
            found.append({"code": "windows", "count": len(windows), "message": text})
        return found

    return _traced(origin, _spec_columns(spec) | {"status": "ok"}, windows[0], notes, windows[1:])


def _notes(measurement: Measurement) -> list[dict[str, Any]]:
    """What makes the figures of a measurement doubtful, or is missing among them.

    Codes beside those that the measuring side gives (not_finite, unlocked_gpu): shared_gpu, few_samples, no_figure.
    """
    notes = [{"code": w.code, "count": w.count, "message": w.message} for w in measurement.warnings]
    others = measurement.other_gpu_processes or []
    if others:
        names = ", ".join(sorted({str(process.get("name")) for process in others}))
        text = f"other processes used the GPU before or after the measurement ({names}): end them and measure again"
        notes.append({"code": "shared_gpu", "count": len(others), "message": text})
    taken = len(measurement.forward_times_us)
    if 0 < taken < FEWEST_SAMPLES:
        text = f"the forward time rests on {taken} calls: a quick look; set samples to {FEWEST_SAMPLES} or more"
        notes.append({"code": "few_samples", "count": taken, "message": text})
    return notes + [{"code": "no_figure", "count": 1, "message": note} for note in measurement.notes]


def _traced(
    origin: Origin,
    row: dict[str, Any],
    trace_file: Path,
    more: Callable[[TraceReading], list[Any]],
    windows: Sequence[Path] = (),
) -> dict[str, pa.Table]:
    """The tables of a process that left a trace and perhaps further windows; `more` notes beside the warnings."""
    try:
        trace_file.as_posix().encode()
        reading = read_trace(trace_file, row["annotation"], windows)
    except UnicodeEncodeError:
        reason = f"the trace's name is no text ({trace_file.name!a}): rename the file"
        return _tables(origin, row | {"status": "failed", "reason": reason}, None)
    except (TraceError, OSError) as error:
        return _tables(origin, row | {"status": "failed", "reason": f"the trace cannot be read: {error}"}, None)
    row["trace_path"] = trace_file.as_posix()
    return _tables(origin, row, reading, more(reading))


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write each table as <folder>/<name>.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def failed_tables(origin: Origin, spec: Mapping[str, Any], reason: str) -> dict[str, pa.Table]:
    """The tables of a process that left nothing to read: a failed row with the reason."""
    row = _spec_columns(spec) | {"status": "failed", "reason": reason, "params": _json(spec.get("params", {}))}
    return _tables(origin, row, None)


def _spec_columns(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: spec.get(name) for name in ("workload", "variant", "mode", "dtype", "annotation")}


def _measured_row(origin: Origin, measurement: Measurement) -> dict[str, Any]:
    """The columns that measurement.json alone decides."""
    times = measurement.forward_times_us
    device, environment = measurement.device or {}, measurement.environment
    params = measurement.params_used if measurement.params_used is not None else measurement.case.get("params", {})
    same_name = ("status", "reason", "log_tail", "attempts", "first_call_us", "forward_timer", "inductor_cache")
    figures = ("peak_memory_bytes", "input_bytes", "output_bytes", "relative_error", "error_bound")
    figures += ("flops", "useful_flops", "flops_source")
    as_json = ("sdpa_backends", "clocks", "warmup_check", "other_gpu_processes", "dynamo")
    return {
        **_spec_columns(measurement.case),
        # what the child takes where none is given
        **{name: measurement.case.get(name, MEASURE_DEFAULTS[name]) for name in ("dtype", "warmup", "flush_l2")},
        **{name: getattr(measurement, name) for name in (*same_name, *figures, "started_utc")},
        **{name: _json(getattr(measurement, name)) for name in as_json},
        **{name: environment.get(name) for name in ("gpu_id", "torch", "cuda", "cudnn", "driver")},
        "params": json.dumps(params),  # in the order of the configuration
        "environment": _json(environment),
        "forward_times_us": times,
        "forward_time_us": median(times),
        "forward_p05_us": quantile(times, 0.05),
        "forward_p95_us": quantile(times, 0.95),
        "device": device.get("name"),
        "device_type": device.get("type"),
        "capability": device.get("capability"),
        "image": origin.status.get("where")
        if origin.status.get("kind") == "container"
        else environment.get("container"),
        "image_digest": origin.status.get("image_digest"),
    }


def _tables(
    origin: Origin, row: dict[str, Any], reading: TraceReading | None, more: Sequence[Any] = ()
) -> dict[str, pa.Table]:
    """The case row completed from the trace, and the trace's own tables with the keys in front."""
    if reading is None:
        empty = pa.table({})
        parts = {"ranges": empty, "activities": empty, "calls": empty, "ops": empty, "kernels": empty}
        notes = list(more)
    else:
        row["annotation"] = row["annotation"] or reading.groups.forward_name
        activities, calls = reading.forwards()
        ranges = reading.complete_ranges()
        forwards = ranges.filter(ranges["forward"]).to_pylist()
        parts = {"ranges": ranges, "activities": activities, "calls": calls, "ops": reading.ops}
        parts["kernels"] = reading.kernels
        notes = [*_warnings(reading, row.get("device_type")), *more]
        notes += _complete(row, forwards, int(reading.groups.is_forward.sum()))
        row["device_properties"] = _json(reading.device_properties[:1])
        row["device"] = row.get("device") or reading.device
        row["totals"] = _json(asdict(reading.totals))
    row |= {"run": origin.run, "case": origin.case, "process": origin.process, "warnings": _json(notes)}
    case = pa.Table.from_pylist([{name: row.get(name) for name in CASE_SCHEMA.names}], schema=CASE_SCHEMA)
    return {"case": case, **{name: _keyed(origin, table) for name, table in parts.items()}}


def _warnings(reading: TraceReading, device_type: str | None) -> Iterator[dict[str, Any]]:
    """The warnings of the reading; where the device is known, what the trace alone cannot tell is said."""
    for warning in reading.warnings:
        known = warning.code == "no_launches" and device_type == "cpu"
        message = "nothing was launched on a device: a CPU run" if known else warning.message
        yield {"code": warning.code, "count": warning.count, "message": message}


def _complete(row: dict[str, Any], forwards: Sequence[Mapping[str, Any]], begun: int) -> list[dict[str, Any]]:
    """Fill the per-forward figures of `row`; returns notes on what is odd about the forwards.

    forwards: ranges that are whole, of the `begun` in the trace. The figures are those of forwards of kind 0, which did
    what most forwards did: of a count the most frequent value, of a time the median.
    """
    row["forwards"] = len(forwards)
    if not forwards:
        what = f"no {'whole ' if begun else ''}range named {row['annotation']!r}"
        what = what if row["annotation"] is not None else "no annotated range"
        text = f"the trace has {what}: there are figures of the whole file, and none per forward"
        return [{"code": "no_forwards", "count": 1, "message": text}]
    notes = []
    if cut := begun - len(forwards):
        text = f"{cut} of {begun} forwards may lack work past the end of the file and are left out"
        notes.append({"code": "cut_forwards", "count": cut, "message": text})
    usual = [forward for forward in forwards if forward["kind"] == 0]
    for name in COUNTS:
        counts = Counter(forward[name] for forward in usual)
        row[name], most = counts.most_common(1)[0]
        if len(counts) > 1:
            seen = ", ".join(f"{times} x {count}" for count, times in sorted(counts.items(), key=lambda item: -item[1]))
            text = f"forwards differ in their number of {name}: {seen}"
            notes.append({"code": "uneven", "count": len(usual) - most, "message": text})
    for name in RANGE_TIMES:
        row[name] = median(forward[name] for forward in usual)
    if len(usual) < len(forwards):
        notes.append({"code": "several_kinds", "count": len(forwards) - len(usual), "message": _kinds(forwards)})
    return notes


def _kinds(forwards: Sequence[Mapping[str, Any]]) -> str:
    """What the forwards of each kind ran, and for how long."""
    by_kind: dict[int, list[Mapping[str, Any]]] = {}
    for forward in sorted(forwards, key=lambda forward: forward["kind"]):
        by_kind.setdefault(forward["kind"], []).append(forward)
    told = [_kind(members) for members in by_kind.values()][:MOST_KINDS]
    more = f"; and {len(by_kind) - MOST_KINDS} other kinds" if len(by_kind) > MOST_KINDS else ""
    return f"forwards did different work: {'; '.join(told)}{more}; counts and times are those of the first kind"


def _kind(forwards: Sequence[Mapping[str, Any]]) -> str:
    kernels, time = forwards[0]["kernels"], median(forward["device_time_us"] for forward in forwards)
    what = f"{len(forwards)} x "
    if time is None:
        what += f"{duration(median(forward['cpu_time_us'] for forward in forwards))} of CPU time"
    else:
        what += f"{plural(kernels, 'kernel')}, {duration(time)} of device time"
    labels = list(dict.fromkeys(forward["label"] for forward in forwards if forward["label"] is not None))
    shown = [*labels[:MOST_LABELS], *(["..."] if len(labels) > MOST_LABELS else [])]
    return f"{what} ({'; '.join(shown)})" if labels else what


def _keyed(origin: Origin, table: pa.Table) -> pa.Table:
    keys = {"run": origin.run, "case": origin.case, "process": origin.process}
    columns = {name: pa.array([value] * table.num_rows, _key_type(value)) for name, value in keys.items()}
    return pa.table(columns | {name: table[name] for name in table.column_names if name not in keys})


def _key_type(value: object) -> pa.DataType:
    return pa.int64() if isinstance(value, int) else pa.string()


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)
