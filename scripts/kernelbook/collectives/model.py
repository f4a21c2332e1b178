"""Ranks, forwards and collectives of a job, as rows of the tables `ranks` and `collectives`.

Times are in µs, sizes in bytes, rates in GB/s. `start_us` counts from the earliest device activity of the job, on the
clock of its first rank. None is what is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RankForward:
    """One forward of one rank, or its whole file, of which `index` is None. Every time is a union of intervals.

    span_us: from the first to the last device activity. It is compute_us + exposed_us + copies_us + idle_us.
    compute_us: kernels other than communication ran. communication_us: a communication kernel ran.
    hidden_us, exposed_us: the parts of it with and without a compute kernel beside it.
    copies_us: only memcpys or memsets ran. idle_us: nothing ran.
    device_time_us: sum of all activities. waiting_us: sum of what its communication kernels waited for other ranks.
    bubble_us: of a pipeline stage, the part of the span without any work: idle, or only sending and receiving.
    clock_us: what is added to times of the trace, which begin with its earliest event, for those of the job.
    launch_delay_us: median time from the launch of a kernel other than communication to its start.
    cpu_time_us: length of the forward's range on the CPU.
    """

    rank: int
    index: int | None
    start_us: float | None
    cpu_time_us: float | None
    span_us: float
    compute_us: float
    communication_us: float
    hidden_us: float
    exposed_us: float
    copies_us: float
    idle_us: float
    device_time_us: float
    communication_kernels: int
    communication_time_us: float
    launch_delay_us: float | None
    bubble_us: float | None = None
    waiting_us: float | None = None
    clock_us: float | None = None


@dataclass(frozen=True, slots=True)
class Collective:
    """One communication kernel of one rank.

    operation: all_reduce, all_gather ... group: the process group, by torch's name or else by its streams.
    sequence: number of the collective in its group; the same on every rank; None if it was not matched.
    ranks: size of the group. bytes: NCCL's size of the operation: of an all_gather what a rank has afterwards, of a
    reduce_scatter what it has before.
    last_rank: the rank that entered last. wait_us: how long this rank waited for it. late_us: how much later than the
    median of the others this rank entered. transfer_us: how long the last rank's kernel took, without any wait.
    unqueued_us: how much of the wait the last rank had not launched its kernel yet.
    algorithm_gb_s, bus_gb_s: by transfer_us, in NCCL's convention. link_gb_s: NVLink's rate in one direction.
    measured_gb_s: the bus bandwidth that a sweep of the operation reached on as many ranks in the same run.
    """

    rank: int
    index: int | None
    operation: str
    group: str
    sequence: int | None
    stream: int | None
    start_us: float
    duration_us: float
    ranks: int | None = None
    bytes: int | None = None
    launch_us: float | None = None
    last_rank: int | None = None
    wait_us: float | None = None
    late_us: float | None = None
    unqueued_us: float | None = None
    transfer_us: float | None = None
    algorithm_gb_s: float | None = None
    bus_gb_s: float | None = None
    link_gb_s: float | None = None
    measured_gb_s: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A communication kernel as one rank recorded it; times in ns on the clock of its file.

    peers: ranks of the group, () if they are not recorded. elements: the larger of those that go in and come out.
    """

    operation: str
    group: str
    peers: tuple[int, ...]
    group_size: int | None
    bytes: int | None
    start: int
    end: int
    window: int = 0
    launch: int | None = None
    stream: int | None = None
    index: int | None = None
    source: int | None = None
    destination: int | None = None


Work = tuple[int, float]
"""How often, and the total time in µs."""


@dataclass(frozen=True)
class RankTrace:
    """What the reading of a job takes from the trace of one rank.

    kernels: name of each kernel that is no communication -> how often it ran, and its total time (µs).
    cpu: name of each op and runtime call -> how often it was called, and the CPU time of its own (µs).
    forwards: their start_us counts from `origin`, the start of the first device activity in ns on the file's clock.
    file_start: the earliest event of the file, on its clock (ns).
    truncated: whether the file ends too early. shared_stream: whether a stream runs communication and other kernels.
    """

    rank: int
    source: str
    world_size: int | None
    device: str | None
    truncated: bool
    forwards: tuple[RankForward, ...]
    events: tuple[Event, ...]
    origin: int | None
    file_start: int
    kernels: Mapping[str, Work] = field(default_factory=dict)
    cpu: Mapping[str, Work] = field(default_factory=dict)
    shared_stream: bool = False
