"""measurement.json: the result of one process of one case, with checked types and bounds.

profile_case.py writes the file, often in a container; recorded ones may come from anywhere. Everything that the tables
and the report rely on is checked here, once, so that no value of a file can stop the reading of the others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kernelbook.cases.process import Count, Measured, Number, Status
from kernelbook.counters import CountersError, Profiled, counters_beside, read_counters

SCHEMA = 1
MAX_BYTES = 64 << 20
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\x00]+$")]
Scalar = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | bool | str | None
JsonValue: Any = Scalar
for _ in range(5):
    JsonValue = Scalar | list[JsonValue] | dict[str, JsonValue]  # nested at most so deep
Text = str | None
MOST_RANKS = 4096


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


class _KeyAverage(msgspec.Struct):
    name: str
    count: Count
    cpu_time_us: Number


class _Shapes(msgspec.Struct):
    """Types of the keys that are used in the parts of a measurement that stay plain dicts."""

    case: _Case
    key_averages: list[_KeyAverage] = []


@dataclass(frozen=True)
class Device:
    """The device of the measurement. type: cuda or cpu."""

    type: Text = None
    name: Text = None
    capability: Text = None
    l2_bytes: Count | None = None


@dataclass(frozen=True)
class CounterPass:
    """The outcome of the forward under Nsight Compute; see `counters.kernel.Profiled`."""

    reason: Text = None
    seconds: Number | None = None
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measurement(Measured):
    """One process of one case: the columns of the table `cases`, and values for columns of other names.

    ranks: number of ranks of the job, in the measurement of the job and in those of its ranks, which also have
    `world_size`.
    """

    schema: Count
    status: Status  # unlike a column, it may not be missing
    case: dict[str, JsonValue]
    attempts: Count = 1
    ranks: Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)] | None = None
    world_size: Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)] | None = None
    device: Device | None = None
    params_used: dict[str, JsonValue] | None = None
    key_averages: list[dict[str, JsonValue]] = field(default_factory=list)
    trace: FileName | None = None
    output_code: FileName | None = None
    counters: FileName | None = None
    counter_pass: CounterPass | None = None
    notes: tuple[str, ...] = ()


def load_measurement(path: Path) -> Measurement:
    """Read <case>/<process>/measurement.json, and check that the files it names are in the same recorded folder.

    Raises MeasurementError if the file is missing, damaged or of a later schema, or if it, its trace, its output code
    or its counters is not a regular file or is outside of that folder.
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
    for name in filter(None, (measurement.trace, measurement.output_code, measurement.counters)):
        beside = path.with_name(name)
        if os.path.lexists(beside):  # a missing trace is reported when it is read
            _check_file(beside, folder, max_bytes=None)
    return measurement


def _check_file(path: Path, folder: Path, max_bytes: int | None = MAX_BYTES) -> None:
    """Raise MeasurementError unless `path` is a regular file inside `folder`, with links followed, and small enough."""
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


def refusal(status: Mapping[str, Any], environment: Mapping[str, Any] | None) -> str | None:
    """Why a measurement does not belong to its run: its torch is not that of the run's image. None if it does.

    status: run.json. environment: that of measurement.json; empty if the process ended before it imported torch.
    """
    if status.get("kind") != "container" or not environment:
        return None
    for what, expected, measured in (
        ("in the container", status.get("image_name"), environment.get("container")),
        ("with torch", status.get("torch"), environment.get("torch")),
    ):
        if expected != measured:
            return (
                f"refused: measured {what} {measured or 'none'}, but the run's image {status.get('where')} is "
                f"{expected}: measure it again: --use-singularity --config retry_failed=true"
            )
    return None


# --- counters --------------------------------------------------------------------------------------------------------


def profiled_kernels(trace: Path | None, measurement: Measurement | None, folder: Path) -> Sequence[Profiled]:
    """The counters that measurement.json names, else those beside the trace; empty if there are none.

    folder: that of measurement.json. A damaged file becomes one row with the reason.
    """
    about = (measurement and measurement.counter_pass) or CounterPass()
    if measurement and measurement.counters:
        file: Path | None = folder / measurement.counters
    elif about.reason is not None:
        return [Profiled(reason=about.reason, seconds=about.seconds)]
    else:
        file = counters_beside(trace) if trace else None
    if file is None:
        return []
    try:
        kernels = read_counters(file)
    except CountersError as error:
        return [Profiled(reason=str(error), seconds=about.seconds)]
    return [replace(kernel, functions=about.functions, seconds=about.seconds) for kernel in kernels]
