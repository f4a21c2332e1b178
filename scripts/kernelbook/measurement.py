"""measurement.json: what one process of one case left behind, typed.

The file is written in the container by profile_case.py and read here; nothing else crosses that wall but traces.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

SCHEMA = 1
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what a table's column holds
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\x00]+$")]


class MeasurementError(ValueError):
    """A measurement.json that cannot be read; the message names the file, the fact and the remedy."""


class _Schema(msgspec.Struct):
    schema: int


class _CaseTexts(msgspec.Struct):
    """What the tables take from `case`; params and the like stay as they are."""

    workload: str | None = None
    variant: str | None = None
    mode: str | None = None
    dtype: str | None = None
    annotation: str | None = None


class _DeviceTexts(msgspec.Struct):
    type: str | None = None
    name: str | None = None
    capability: str | None = None


class _EnvironmentTexts(msgspec.Struct):
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    driver: str | None = None
    gpu_id: str | None = None
    container: str | None = None


class MeasuringWarning(msgspec.Struct, frozen=True):
    """What the measuring side says against figures of its own."""

    code: str
    count: Whole
    message: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One process of one case. Times in microseconds, sizes in bytes; None is what could not be had."""

    schema: int
    case: dict[str, Any]
    status: Literal["ok", "failed", "unsupported"]
    reason: str | None = None
    log_tail: list[str] = []
    attempts: Whole = 1
    device: dict[str, Any] | None = None
    params_used: dict[str, Any] | None = None
    environment: dict[str, Any] = {}
    started_utc: str | None = None
    first_call_us: float | None = None
    inductor_cache: str | None = None
    forward_times_us: list[float] = []
    forward_timer: str | None = None
    peak_memory_bytes: Whole | None = None
    flops: Whole | None = None
    useful_flops: Whole | None = None
    flops_source: str | None = None
    input_bytes: Whole | None = None
    output_bytes: Whole | None = None
    relative_error: float | None = None
    error_bound: float | None = None
    dynamo: dict[str, Any] | None = None
    key_averages: list[dict[str, Any]] = []
    trace: FileName | None = None
    clocks: dict[str, Any] | None = None
    sdpa_backends: dict[str, Any] | None = None
    warmup_check: dict[str, Any] | None = None
    other_gpu_processes: list[dict[str, Any]] | None = None
    warnings: list[MeasuringWarning] = []
    notes: list[str] = []


def load_measurement(path: Path) -> Measurement:
    """Read one measurement.json; raises MeasurementError where it is missing, damaged or of a later schema."""
    try:
        raw = path.read_bytes()
        schema = msgspec.json.decode(raw, type=_Schema).schema
        if schema > SCHEMA:
            raise MeasurementError(f"{path}: has schema {schema}, this reads up to {SCHEMA}: update Kernelbook")
        found = msgspec.json.decode(raw, type=Measurement)
        msgspec.convert(found.case, _CaseTexts)
        msgspec.convert(found.device, _DeviceTexts | None)
        msgspec.convert(found.environment, _EnvironmentTexts)
    except OSError as error:
        raise MeasurementError(f"{path}: cannot be read ({error.strerror}): measure the case again") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MeasurementError(f"{path}: is no measurement ({error}): delete it and measure the case again") from error
    return found
