"""Ranks, forwards and collectives of a job, as rows of the tables `ranks` and `collectives`.

Times are in µs, sizes in bytes, rates in GB/s. `start_us` counts from the earliest device activity of the job, on the
clock of its first rank. An unknown value is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from kernelbook.text.meaning import doc


@dataclass(frozen=True, slots=True)
class RankForward:
    """One forward of one rank, or its whole file, of which `index` is None. Times are unions of intervals."""

    rank: int
    index: Annotated[int | None, doc("Which forward, from 0; empty for the whole file.")]
    start_us: Annotated[
        float | None,
        doc("Start of the forward's range on the CPU, of a file its first device activity; on the clock of the job."),
    ]
    cpu_time_us: Annotated[float | None, doc("Length of the forward's range on the CPU.")]
    span_us: Annotated[float, doc("From the first to the last device activity.")]
    compute_us: Annotated[float, doc("A kernel other than communication ran.")]
    communication_us: Annotated[float, doc("A communication kernel ran.")]
    hidden_us: Annotated[float, doc("Part of communication_us with a compute kernel beside it.")]
    exposed_us: Annotated[float, doc("Part of communication_us without one.")]
    copies_us: Annotated[float, doc("Only memcpys or memsets ran.")]
    idle_us: Annotated[float, doc("Nothing ran.")]
    device_time_us: Annotated[float, doc("Sum of all activities.")]
    communication_kernels: Annotated[int, doc("Number of communication kernels.")]
    communication_time_us: Annotated[float, doc("Sum of their lengths.")]
    launch_delay_us: Annotated[float | None, doc("Median time from launch to start of the other kernels.")]
    bubble_us: Annotated[
        float | None, doc("For a pipeline stage: the part of the span that was idle, or only sent and received.")
    ] = None
    waiting_us: Annotated[
        float | None,
        doc("Time that its communication kernels waited for other ranks, in sum; empty if ranks cannot be compared."),
    ] = None
    clock_us: Annotated[
        float | None,
        doc(
            "What is added to start_us of this rank's activities for the clock of the job, on which lanes of all "
            "ranks have one time axis."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Collective:
    """One communication kernel of one rank."""

    rank: int
    index: Annotated[int | None, doc("Which forward, from 0; empty outside of forwards.")]
    operation: Annotated[
        str,
        doc("all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send ...; communication if unknown."),
    ]
    group: Annotated[
        str,
        doc("The process group: torch's name and ranks, or without torch's record a number for its stream."),
    ]
    sequence: Annotated[
        int | None,
        doc("Number of the collective in its group, equal on all ranks; empty if no other rank has a counterpart."),
    ]
    stream: Annotated[int | None, doc("Number of the stream.")]
    start_us: Annotated[float, doc("Start on the clock of the job, which begins with its first device activity.")]
    duration_us: Annotated[float, doc("Length.")]
    ranks: Annotated[int | None, doc("Ranks that take part.")] = None
    bytes: Annotated[
        int | None,
        doc(
            "Size of the operation as NCCL counts it; of an all-gather what a rank has afterwards, of a "
            "reduce-scatter what it has before."
        ),
    ] = None
    launch_us: Annotated[float | None, doc("Start of the call that queued it.")] = None
    last_rank: Annotated[int | None, doc("The rank that entered last; empty if all entered together.")] = None
    wait_us: Annotated[float | None, doc("How long this rank waited for the last one.")] = None
    late_us: Annotated[
        float | None, doc("How much later than the median of the others this rank entered; negative if earlier.")
    ] = None
    unqueued_us: Annotated[
        float | None, doc("For the last rank, the part of late_us in which its CPU had not launched the kernel yet.")
    ] = None
    transfer_us: Annotated[
        float | None,
        doc("Time without waiting, of the last rank's kernel; empty if a rank of the group has no trace."),
    ] = None
    algorithm_gb_s: Annotated[float | None, doc("bytes divided by transfer_us.")] = None
    bus_gb_s: Annotated[
        float | None, doc("algorithm_gb_s times NCCL's factor for the operation (nccl-tests, doc/PERFORMANCE.md).")
    ] = None
    link_gb_s: Annotated[float | None, doc("Rate of NVLink in one direction, by the data sheet.")] = None
    measured_gb_s: Annotated[
        float | None,
        doc(
            "Bus bandwidth that a case of the workload `collective` reached with this operation on as many ranks "
            "in the same run."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CommunicationEvent:
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
"""(number of runs, total time in µs)."""


@dataclass(frozen=True)
class RankTrace:
    """The part of one rank's trace that reading its job needs.

    kernels: name of each kernel other than communication -> number of runs and total time (µs).
    longest: name of each such kernel -> its longest run (µs).
    cpu: name of each op and runtime call -> number of calls and self CPU time (µs).
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
    events: tuple[CommunicationEvent, ...]
    origin: int | None
    file_start: int
    kernels: Mapping[str, Work] = field(default_factory=dict)
    longest: Mapping[str, float] = field(default_factory=dict)
    cpu: Mapping[str, Work] = field(default_factory=dict)
    shared_stream: bool = False
