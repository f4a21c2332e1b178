"""measurement.json: what one process of one case left behind, typed.

The file is written in the container by profile_case.py and read here; nothing else crosses that wall but traces.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

SCHEMA = 1


class MeasurementError(ValueError):
    """A measurement.json that cannot be read; the message names the file, the fact and the remedy."""


class MeasuringWarning(msgspec.Struct, frozen=True):
    """What the measuring side says against figures of its own."""

    code: str
    count: int
    message: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One process of one case. Times in microseconds, sizes in bytes; None is what could not be had."""

    schema: int
    case: dict[str, Any]
    status: str
    reason: str | None = None
    log_tail: list[str] = []
    attempts: int = 1
    device: dict[str, Any] | None = None
    params_used: dict[str, Any] | None = None
    environment: dict[str, Any] = {}
    started_utc: str | None = None
    duration_s: float | None = None
    first_call_us: float | None = None
    inductor_cache: str | None = None
    forward_times_us: list[float] = []
    forward_timer: str | None = None
    peak_memory_bytes: int | None = None
    flops: int | None = None
    flops_source: str | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    relative_error: float | None = None
    key_averages: list[dict[str, Any]] = []
    profiled_forwards: int | None = None
    trace: str | None = None
    shapes_trace: str | None = None
    clocks: dict[str, Any] | None = None
    sdpa_backends: dict[str, Any] | None = None
    warmup_check: dict[str, Any] | None = None
    other_gpu_processes: list[Any] | None = None
    warnings: list[MeasuringWarning] = []
    notes: list[str] = []


def load_measurement(path: Path) -> Measurement:
    """Read one measurement.json; raises MeasurementError where it is missing, damaged or of a later schema."""
    try:
        raw = path.read_bytes()
        found = msgspec.json.decode(raw, type=Measurement)
    except OSError as error:
        raise MeasurementError(f"{path}: cannot be read ({error.strerror}): measure the case again") from error
    except msgspec.DecodeError as error:
        raise MeasurementError(f"{path}: is no measurement ({error}): delete it and measure the case again") from error
    if found.schema > SCHEMA:
        raise MeasurementError(f"{path}: has schema {found.schema}, this reads up to {SCHEMA}: update Kernelbook")
    return found
