"""Figures of two cases side by side, and their time by cause."""

from __future__ import annotations

from dataclasses import dataclass

from kernelbook.cases import CaseFacts
from kernelbook.judge.time_line import DEVICE_KINDS, IDLE_KINDS
from kernelbook.judge.time_split import TimeSplit
from kernelbook.text.formatting import NOT_AVAILABLE, duration, error, size

TIME, BYTES, COUNT, NUMBER = "µs", "bytes", "count", ""
#: Figures that two sides are compared by: column of the table `cases` -> unit.
FIGURES = {
    "kernels": COUNT,
    "memcpys": COUNT,
    "memsets": COUNT,
    "launches": COUNT,
    "device_time_us": TIME,
    "device_busy_us": TIME,
    "forward_time_us": TIME,
    "cpu_time_us": TIME,
    "first_call_us": TIME,
    "peak_memory_bytes": BYTES,
    "relative_error": NUMBER,
}
#: Figures that are equal where the same work was done: a difference needs no statistics.
EXACT = ("kernels", "memcpys", "memsets", "launches", "peak_memory_bytes")


@dataclass(frozen=True)
class FigureChange:
    """One figure of a and of b, by the name of its column; None where it was not measured."""

    name: str
    a: float | None
    b: float | None

    @property
    def unit(self) -> str:
        return FIGURES.get(self.name, NUMBER)

    @property
    def title(self) -> str:
        """The name in words: `device time`."""
        return self.name.removesuffix("_us").removesuffix("_bytes").replace("_", " ").replace("cpu", "CPU")

    @property
    def ratio(self) -> float | None:
        """b over a; None where one is missing or a is 0."""
        return self.b / self.a if self.a and self.b is not None else None

    @property
    def differs(self) -> bool:
        return self.a is not None and self.b is not None and self.a != self.b

    def texts(self) -> tuple[str, str]:
        return self._text(self.a), self._text(self.b)

    def _text(self, value: float | None) -> str:
        if value is None:
            return NOT_AVAILABLE
        if self.unit == TIME:
            return duration(value)
        if self.unit == BYTES:
            return size(value)
        return f"{value:,.0f}" if self.unit == COUNT else error(value)


def figure_changes(a: CaseFacts, b: CaseFacts) -> tuple[FigureChange, ...]:
    """The FIGURES that at least one side has."""
    changes = (FigureChange(name, getattr(a, name), getattr(b, name)) for name in FIGURES)
    return tuple(change for change in changes if change.a is not None or change.b is not None)


@dataclass(frozen=True)
class CauseChange:
    """The time of one kind of cause in a forward of a and of b, µs. idle: the device is idle meanwhile."""

    kind: str
    idle: bool
    time_a_us: float
    time_b_us: float

    @property
    def delta_us(self) -> float:
        return self.time_b_us - self.time_a_us


def cause_changes(a: TimeSplit | None, b: TimeSplit | None) -> tuple[CauseChange, ...]:
    """The time of each kind of cause on both sides, the largest difference first; the differences add up to that of
    the forwards. Empty where a side has no split, or where one is of unprofiled forwards and the other of a trace.
    """
    if a is None or b is None or a.source != b.source:
        return ()
    changes = [
        CauseChange(kind, kind in IDLE_KINDS, a.of_kind(kind), b.of_kind(kind)) for kind in (*DEVICE_KINDS, *IDLE_KINDS)
    ]
    used = [change for change in changes if change.time_a_us or change.time_b_us]
    return tuple(sorted(used, key=lambda change: -abs(change.delta_us)))
