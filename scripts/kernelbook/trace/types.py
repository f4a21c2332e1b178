"""Types used across the package: what a reading reports, and NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from kernelbook.text.meaning import doc

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Ints = np.ndarray[tuple[Any, ...], np.dtype[np.signedinteger[Any]]]
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Flags = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
#: What is counted in each range.
COUNTS = ("kernels", "memcpys", "memsets", "launches")


class TraceError(ValueError):
    """The file cannot be read or is not a torch trace. The message is one line that begins with the file's path."""


class OtherJsonError(TraceError):
    """The file is whole JSON of another kind, such as a configuration or a table of results."""


@dataclass(frozen=True)
class TraceWarning:
    """Something to know before using the figures. `count`: number of events, ranges or ranks concerned."""

    code: str
    count: Annotated[int, Meta(ge=0, le=2**60)]
    message: str


@dataclass(frozen=True)
class Gap:
    """A figure that the file does not have."""

    missing: Annotated[str, doc("The figure that the file does not have.")]
    why: Annotated[str, doc("The cause, as far as the file shows it.")]
    remedy: Annotated[str, doc("What to record.")]


@dataclass(frozen=True)
class Totals:
    """Figures of the whole file. Device figures are None when the file has no device activity at all."""

    kernels: int | None
    memcpys: int | None
    memsets: int | None
    launches: Annotated[int | None, doc("Runtime and driver calls with at least one activity.")]
    attributed: Annotated[int | None, doc("Activities whose launch is in the file.")]
    unattributed: Annotated[int | None, doc("The other activities.")]
    device_time_us: Annotated[float | None, doc("Sum of the lengths of all activities.")]
    device_busy_us: Annotated[
        float | None, doc("Time in which at least one of them ran, per device, summed over the devices.")
    ]
    implausible_us: Annotated[
        float | None, doc("The part of device_time_us that cannot be right; the warning `implausible` says why.")
    ]
