"""Types used across the package: what a reading reports, and NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Ints = np.ndarray[tuple[Any, ...], np.dtype[np.signedinteger[Any]]]
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Flags = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]


class TraceError(ValueError):
    """The file cannot be read or is not a torch trace. The message is one line that begins with the file's path."""


class OtherJsonError(TraceError):
    """The file is whole JSON of another kind, such as a configuration or a table of results."""


@dataclass(frozen=True)
class TraceWarning:
    """Something to know before using the figures. `count`: number of events, ranges or ranks concerned."""

    code: str
    count: int
    message: str


@dataclass(frozen=True)
class Totals:
    """Figures of the whole file. Device figures are None when the file has no device activity at all.

    kernels, memcpys, memsets: number of activities of each category.
    launches: runtime and driver calls with at least one activity.
    attributed, unattributed: activities whose launch is in the file, and all others.
    device_time_us: sum of the durations of all activities.
    device_busy_us: length of the union of the activities of each device, summed over the devices.
    implausible_us: the part of device_time_us that cannot be right (see the warning `implausible`).
    """

    kernels: int | None
    memcpys: int | None
    memsets: int | None
    launches: int | None
    attributed: int | None
    unattributed: int | None
    device_time_us: float | None
    device_busy_us: float | None
    implausible_us: float | None
