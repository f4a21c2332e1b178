"""What forwards and their products cost against what the device can do, and where the time of a forward goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """One forward against its floor: what the measured ceilings of its device allow at best."""

    run: str
    case: str
    limiter: str = ""
    limiter_processes: int | None = None
    processes: int | None = None
    tflops: float | None = None
    compulsory_gb_per_s: float | None = None
    times_compulsory: float | None = None
    share_of_compute: float | None = None
    share_of_memory: float | None = None
    floor_us: float | None = None
    times_floor: float | None = None
    trade_off: str = ""

    @property
    def limited_by(self) -> str:
        """`compute`, or `compute (in 2 of 3 processes)` where the others wait for the CPU, or the reverse."""
        if self.limiter_processes in (None, self.processes):
            return self.limiter
        return f"{self.limiter} (in {self.limiter_processes} of {self.processes} processes)"

    @property
    def told(self) -> bool:
        """Whether there is anything to show: a CPU run or a bare trace has no ceilings and no floor."""
        return any((self.tflops, self.compulsory_gb_per_s, self.floor_us, self.trade_off))


@dataclass(frozen=True)
class Product:
    """One matrix product of a forward, (batch x) m x k times k x n."""

    run: str
    case: str
    position: int
    label: str
    m: int
    n: int
    k: int
    batch: int = 1
    time_us: float | None = None
    tflops: float | None = None
    share_of_roof: float | None = None
    roof: str = ""
    tile: str = ""
    waves: float | None = None
    tiles_per_block: float | None = None


@dataclass(frozen=True)
class Clock:
    """Where the time of a forward goes, medians over forwards."""

    run: str
    case: str
    launch_delay_us: float | None = None
    device_gaps_us: float | None = None
    device_idle_us: float | None = None
    overhead_share: float | None = None
    text: str = ""
