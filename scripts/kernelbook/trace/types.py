"""What a reading of a trace is made of: the types that cross the border of this package."""

from __future__ import annotations

from dataclasses import dataclass


class TraceError(ValueError):
    """The file is not a torch trace; the message is one line that names the file and what was found."""


@dataclass(frozen=True)
class TraceWarning:
    """Something a reader of the figures has to know. `count` is how many events (or ranges) it touches."""

    code: str
    count: int
    message: str


@dataclass(frozen=True)
class Totals:
    """Figures of the whole file; every device figure is None when the file has no device activity at all.

    kernels, memcpys, memsets: activities of each category. launches: runtime and driver calls with at least one
    activity. attributed + unattributed = all activities: those whose launch is in the file, and the others.
    device_time_us: sum of the activities' lengths; device_busy_us: per device the union of their intervals, summed.
    implausible_us: how much of device_time_us cannot be (the warning `implausible`), to be taken off.
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
