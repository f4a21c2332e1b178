"""measurement.json: what one process of one case left behind, typed and within bounds.

profile_case.py writes the file, often in a container; recorded ones may come from anywhere. Everything that the tables
and the report rely on is checked here, once, so that no value of a file can stop the reading of the others.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

SCHEMA = 1
MAX_BYTES = 64 << 20
Count = Annotated[int, msgspec.Meta(ge=0, le=2**60)]  # a sum of some still fits a table's column of 64 bits
Microseconds = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
Number = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\x00]+$")]
Scalar = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | bool | str | None
JsonValue: Any = Scalar
for _ in range(5):
    JsonValue = Scalar | list[JsonValue] | dict[str, JsonValue]  # nested at most so deep
Text = str | None


class MeasurementError(ValueError):
    """A measurement.json that cannot be read; the message names the file, the fact and the remedy."""


class _Schema(msgspec.Struct):
    schema: Count


class _Case(msgspec.Struct):
    workload: Text = None
    variant: Text = None
    mode: Text = None
    dtype: Text = None
    annotation: Text = None
    params: dict[str, JsonValue] = {}
    warmup: Count = 0
    flush_l2: bool = False


class _Device(msgspec.Struct):
    type: Text = None
    name: Text = None
    capability: Text = None


class _Environment(msgspec.Struct):
    python: Text = None
    torch: Text = None
    cuda: Text = None
    cudnn: Text = None
    driver: Text = None
    gpu_id: Text = None
    triton: Text = None
    container: Text = None
    threads: Count | None = None
    packages: dict[str, Text] = {}


class _Moment(msgspec.Struct):
    sm_mhz: Number | None = None
    max_sm_mhz: Number | None = None
    throttle_reasons: list[str] | None = None


class _Clocks(msgspec.Struct):
    before: _Moment | None = None
    after: _Moment | None = None


class _Backend(msgspec.Struct):
    usable: bool | None = None
    reasons: list[str] | None = None


class _WarmupCheck(msgspec.Struct):
    still_falling: bool | None = None
    rising: bool | None = None
    first_median_us: Microseconds | None = None
    rest_median_us: Microseconds | None = None
    message: Text = None


class _KeyAverage(msgspec.Struct):
    name: str
    count: Count
    cpu_time_us: Number


class _Shapes(msgspec.Struct):
    """The parts of a measurement that stay plain dicts: the types of the keys in them that are used."""

    case: _Case
    device: _Device | None = None
    environment: _Environment = msgspec.field(default_factory=_Environment)
    clocks: _Clocks | None = None
    sdpa_backends: dict[str, _Backend] | None = None
    warmup_check: _WarmupCheck | None = None
    key_averages: list[_KeyAverage] = []


class MeasuringWarning(msgspec.Struct, frozen=True):
    """A warning of the measuring process about its own figures."""

    code: str
    count: Count
    message: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One process of one case. Times in microseconds, sizes in bytes; None is what could not be had."""

    schema: Count
    case: dict[str, JsonValue]
    status: Literal["ok", "failed", "unsupported"]
    reason: Text = None
    log_tail: list[str] = []
    attempts: Count = 1
    device: dict[str, JsonValue] | None = None
    params_used: dict[str, JsonValue] | None = None
    environment: dict[str, JsonValue] = {}
    started_utc: Text = None
    first_call_us: Microseconds | None = None
    inductor_cache: Text = None
    forward_times_us: list[Microseconds] = []
    forward_timer: Text = None
    peak_memory_bytes: Count | None = None
    flops: Count | None = None
    useful_flops: Count | None = None
    flops_source: Text = None
    input_bytes: Count | None = None
    output_bytes: Count | None = None
    relative_error: Annotated[float, msgspec.Meta(ge=0)] | None = None
    error_bound: Annotated[float, msgspec.Meta(ge=0)] | None = None
    dynamo: dict[str, JsonValue] | None = None
    key_averages: list[dict[str, JsonValue]] = []
    trace: FileName | None = None
    clocks: dict[str, JsonValue] | None = None
    sdpa_backends: dict[str, JsonValue] | None = None
    warmup_check: dict[str, JsonValue] | None = None
    other_gpu_processes: list[dict[str, JsonValue]] | None = None
    warnings: list[MeasuringWarning] = []
    notes: list[str] = []


def load_measurement(path: Path) -> Measurement:
    """Read <case>/<process>/measurement.json and check that the trace it names is a file of the same recorded folder.

    Raises MeasurementError where the file is missing, damaged or of a later schema, and where it or its trace is not a
    regular file or lies outside of that folder.
    """
    folder = path.absolute().parent.parent.parent
    _check_file(path, folder)
    try:
        raw = path.read_bytes()
        schema = msgspec.json.decode(raw, type=_Schema).schema
        if schema > SCHEMA:
            raise MeasurementError(f"{path}: has schema {schema}, this reads up to {SCHEMA}: update Kernelbook")
        measurement = msgspec.json.decode(raw, type=Measurement)
        msgspec.json.decode(raw, type=_Shapes)
    except OSError as error:
        raise MeasurementError(f"{path}: cannot be read ({error.strerror}): measure the case again") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MeasurementError(f"{path}: is no measurement ({error}): delete it and measure the case again") from error
    trace = path.with_name(measurement.trace) if measurement.trace else None
    if trace and os.path.lexists(trace):  # a missing one is reported when it is read
        _check_file(trace, folder, max_bytes=None)
    return measurement


def _check_file(path: Path, folder: Path, max_bytes: int | None = MAX_BYTES) -> None:
    """Raise MeasurementError unless `path` is a regular file inside `folder`, links followed, and not too large."""
    try:
        target = os.path.realpath(path, strict=True)
        state = os.stat(target)
    except OSError as error:
        raise MeasurementError(f"{path}: cannot be read ({error.strerror}): measure the case again") from error
    if not stat.S_ISREG(state.st_mode):
        raise MeasurementError(f"{path}: is not a regular file: delete it and measure the case again")
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise MeasurementError(f"{path}: is a link to a file outside of the recorded folder: copy the file there")
    if max_bytes is not None and state.st_size > max_bytes:
        size, limit = state.st_size >> 20, max_bytes >> 20
        raise MeasurementError(f"{path}: has {size} MiB, more than the {limit} MiB of a measurement: delete it")
