"""One case of one run: its figures, its forwards with their activities, and the CPU calls of one forward.

`from_tables` makes it from the tables ``cases``, ``ranges``, ``activities`` and ``calls``. Judgement, findings,
comparisons and the report use it. Times are in µs, sizes in bytes. An unknown value is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated

from kernelbook.cases.medians import median, median_durations_us, median_of_processes, spread
from kernelbook.cases.process import CaseColumns, Process
from kernelbook.collectives.remarks import JobReport
from kernelbook.counters import JOINED, KernelCounters
from kernelbook.kernel_names import KernelName, decode_activity
from kernelbook.kernel_names.text import function_name
from kernelbook.text.meaning import doc
from kernelbook.trace.inputs import Input
from kernelbook.trace.types import TraceWarning

#: Ratio of the 95th to the 5th percentile of forward times above which other work on the machine must have interfered.
RESTLESS_FROM = 5.0
Position = Annotated[int, doc("Position in the forward, in order of start, from 0.")]
#: Of a CPU event.
Category = Annotated[
    str,
    doc(
        "op, runtime, annotation, or overhead that CUPTI reported (a full launch queue, loading a kernel, a buffer of "
        "the profiler)."
    ),
]


@dataclass(frozen=True)
class Activity:
    """One kernel, memcpy or memset of a forward, a row of the table `activities`.

    ``start_us`` and ``launch_start_us`` are on the trace's clock, which starts with the earliest event of the file.
    ``tensor_sizes``: elements of the tensors that its op takes, largest first. ``converts``: `bf16 to fp32` for a copy
    that changes the element type. ``source_ops``: the ATen ops that a kernel of torch.compile computes, in the order of
    its graph, from Inductor's output code. These three are known for the representative forward only, the first two
    only if shapes were recorded.
    """

    position: Position
    category: Annotated[str, doc("kernel, memcpy or memset.")]
    name: Annotated[str, doc("Name, as in the trace.")]
    start_us: Annotated[float | None, doc("Start, from the earliest event of the file; empty if it is impossible.")]
    duration_us: Annotated[float, doc("Length.")]
    device: Annotated[int | None, doc("Number of the device.")] = None
    stream: Annotated[int | None, doc("Number of the stream.")] = None
    launch_api: Annotated[str | None, doc("The runtime or driver call that queued it.")] = None
    launch_start_us: Annotated[float | None, doc("Start of that call.")] = None
    launch_duration_us: Annotated[float | None, doc("Length of that call.")] = None
    launch_delay_us: Annotated[
        float | None,
        doc("From the start of that call to the start of the activity; empty if one of them is impossible."),
    ] = None
    op: Annotated[str | None, doc("The innermost op around the launch.")] = None
    op_path: Annotated[tuple[str, ...], doc("The ops around the launch, outermost first.")] = ()
    range: Annotated[int | None, doc("Row of the innermost range around the launch.")] = None
    grid: Annotated[tuple[int, ...] | None, doc("Blocks in x, y and z.")] = None
    block: Annotated[tuple[int, ...] | None, doc("Threads of a block in x, y and z.")] = None
    registers_per_thread: Annotated[int | None, doc("Registers per thread.")] = None
    shared_memory_bytes: Annotated[int | None, doc("Shared memory per block.")] = None
    occupancy_percent: Annotated[float | None, doc("The profiler's own estimate of achieved occupancy.")] = None
    bytes: Annotated[int | None, doc("Size of a memcpy or memset.")] = None
    graph: Annotated[bool, doc("Whether one launch started several activities.")] = False
    correlation: Annotated[int | None, doc("Correlation id, by which it is joined to its launch.")] = None
    tensor_sizes: tuple[int, ...] = ()
    converts: str | None = None
    source_ops: tuple[str, ...] = ()

    @property
    def decoded(self) -> KernelName:
        """The properties that the name states."""
        return decode_activity(self.category, self.name)

    @property
    def family(self) -> str:
        return self.decoded.family

    @property
    def label(self) -> str:
        """The name, short enough for a sentence."""
        return label(self.category, self.name)

    @property
    def launched_by(self) -> str | None:
        """`op_path` in one line; None without ops."""
        return " > ".join(self.op_path) or None


@dataclass(frozen=True)
class Call:
    """One CPU event of the representative forward, a row of the table `calls`.

    ``start_us`` counts from the start of the forward's range, unlike that of an activity. Events of other threads
    belong to the forward if its range was open around them.
    """

    position: Position
    depth: Annotated[int, doc("0 if no other CPU event of the forward is around it on its thread.")]
    parent: Annotated[int | None, doc("Position of the enclosing call.")]
    category: Category
    name: Annotated[str, doc("Name, as in the trace.")]
    start_us: Annotated[float, doc("Start, relative to that of the forward's range.")]
    duration_us: Annotated[float, doc("Length.")]
    self_us: Annotated[float, doc("Length without child ops, runtime calls and overhead.")]
    kernels: Annotated[int | None, doc("Kernels that it launched itself, not through a child op.")] = None
    self_device_time_us: Annotated[float | None, doc("Device time of what it launched itself.")] = None
    correlation: Annotated[int | None, doc("Correlation id, by which a launch is joined to its activities.")] = None
    inputs: Annotated[
        tuple[Input, ...],
        doc(
            "Its inputs, if they were recorded: type as the profiler writes it; shape, empty for a number; strides "
            "in elements, 0 along a dimension that is broadcast; value of a scalar; tensors, the shapes of a list of "
            "tensors."
        ),
    ] = ()
    thread: Annotated[int | None, doc("0 for the forward's own thread; other threads count from 1.")] = None


@dataclass(frozen=True)
class CallTotal:
    """The calls of one name and category in one forward: their number, total length and launches."""

    process: int
    index: Annotated[int, doc("Which forward, from 0.")]
    category: Category
    name: Annotated[str, doc("Name, as in the trace.")]
    count: Annotated[int, doc("Number of events of that name.")]
    cpu_time_us: Annotated[float, doc("Their total length; one inside another of its name counts twice.")]
    self_us: Annotated[float, doc("Their total length without child ops and runtime calls.")]
    kernels: Annotated[int | None, doc("Kernels that they launched themselves, not through a child op.")] = None


@dataclass(frozen=True)
class ProfiledForward:
    """One annotated step of one process. ``kind``: 0 if it did the same work as most forwards of its process."""

    process: int
    index: int
    cpu_time_us: float
    device_time_us: float | None = None
    device_busy_us: float | None = None
    start_us: float | None = None
    activities: tuple[Activity, ...] = ()
    launches: int | None = None
    kind: int = 0

    @cached_property
    def kernels(self) -> tuple[Activity, ...]:
        """Its kernels in start order."""
        return tuple(a for a in self.activities if a.category == "kernel")

    @cached_property
    def sequence(self) -> tuple[tuple[str, str], ...]:
        """(category, name) of its activities in start order: equal sequences, equal work."""
        return tuple((activity.category, activity.name) for activity in self.activities)

    def of_family(self, *families: str) -> tuple[Activity, ...]:
        """Its kernels of these families, in start order."""
        return tuple(a for a in self.kernels if a.family in families)


@dataclass(frozen=True)
class OtherRange:
    """The outermost ranges of one name outside the forwards: torch's own (an optimizer's step), or parts of a step.

    ``per_forward``: their number for each forward. Times are medians over all of them.
    """

    name: str
    per_forward: float
    cpu_time_us: float
    device_busy_us: float | None
    kernels: int | None


@dataclass(frozen=True)
class CaseFacts(CaseColumns):
    """One case of one run, over its merged processes.

    Counts and descriptions are those of the first good process; times are medians over the merged processes.
    ``forwards`` and ``call_totals`` are those of the merged processes. ``chosen``: (process, index) of the
    representative forward, to which ``calls`` belong. ``processes`` has the slowest rank of a process with ranks,
    ``ranks`` has all of them. ``notes``: the warnings of all processes. ``other_ranges``: of the first process, longest
    first. ``jobs``: the ranks of each repetition, read together; available only while an edition is collected.
    ``counters``: the counters of Nsight Compute, one row for each kernel of the representative forward, or one row with
    the reason why there are none.
    """

    notes: tuple[TraceWarning, ...] = ()
    processes: tuple[Process, ...] = ()
    ranks: tuple[Process, ...] = ()
    forwards: tuple[ProfiledForward, ...] = ()
    calls: tuple[Call, ...] = ()
    call_totals: tuple[CallTotal, ...] = ()
    chosen: tuple[int, int] | None = None
    jobs: tuple[JobReport, ...] = ()
    other_ranges: tuple[OtherRange, ...] = ()
    counters: tuple[KernelCounters, ...] = ()

    @cached_property
    def measured(self) -> Mapping[int, KernelCounters]:
        """Position in the representative forward -> counters of that kernel, if they were joined."""
        return {row.position: row for row in self.counters if row.position is not None and row.status == JOINED}

    def rank_of(self, process: int) -> int | None:
        """The rank whose figures are those of a process; None for one without ranks."""
        return next((each.rank for each in self.processes if each.process == process), None)

    @property
    def bad_processes(self) -> tuple[Process, ...]:
        return tuple(process for process in self.processes if process.status != "ok")

    @property
    def samples(self) -> tuple[tuple[int, tuple[float, ...]], ...]:
        """(process, unprofiled forward times in µs) of each merged process that has any."""
        return tuple((p.process, p.forward_times_us) for p in self.processes if p.merged and p.forward_times_us)

    @cached_property
    def usual_forwards(self) -> tuple[ProfiledForward, ...]:
        """The forwards that did the same work as most; medians are over these."""
        return tuple(forward for forward in self.forwards if forward.kind == 0)

    @property
    def first_forwards(self) -> tuple[ProfiledForward, ...]:
        """The profiled forwards of the first process that has any."""
        return tuple(f for f in self.forwards if f.process == self.forwards[0].process)

    @property
    def step_us(self) -> float | None:
        """Time from the start of one profiled forward to that of the next, the median; None with a single forward."""
        starts = [f.start_us for f in self.first_forwards]
        return median(b - a for a, b in pairwise(starts) if a is not None and b is not None)

    @property
    def restless(self) -> bool:
        """Whether the forward times vary so much that their median says little (`is_restless`)."""
        return bool(is_restless(self.forward_p05_us, self.forward_p95_us))

    @property
    def gpus(self) -> tuple[str, ...]:
        """The known GPUs of the merged processes, each once, in the order of the processes."""
        return tuple(dict.fromkeys(p.gpu_id for p in self.processes if p.merged and p.gpu_id))

    @property
    def cpu_spread(self) -> float | None:
        """Spread of the CPU times of the merged processes: the largest over the smallest, minus 1."""
        return spread(process.cpu_time_us for process in self.processes if process.merged)

    @property
    def on_device(self) -> bool:
        """Whether its trace has device activities, so that device figures exist."""
        return self.kernels is not None

    @cached_property
    def representative(self) -> ProfiledForward | None:
        """The forward whose activities and calls represent the case; None without forwards."""
        return next((f for f in self.forwards if (f.process, f.index) == self.chosen), next(iter(self.forwards), None))

    @cached_property
    def ops(self) -> tuple[Call, ...]:
        """The CPU ops of the representative forward in start order, without runtime calls and annotations."""
        return tuple(call for call in self.calls if call.category == "op")

    @cached_property
    def activities(self) -> tuple[Activity, ...]:
        """The device activities of the representative forward, with their median durations (median_durations_us).

        Quote durations from here. Draw time lines from ``representative.activities``, where starts and durations
        belong together.
        """
        if self.representative is None:
            return ()
        lengths = median_durations_us(self.representative, self.forwards)
        return tuple(
            replace(activity, duration_us=length)
            for activity, length in zip(self.representative.activities, lengths, strict=True)
        )

    def kernels_of(self, *families: str) -> tuple[Activity, ...]:
        """The kernels among `activities`: of these families, or all."""
        return tuple(a for a in self.activities if a.category == "kernel" and (not families or a.family in families))

    @cached_property
    def kernel_names(self) -> Counter[str]:
        """How often the representative forward runs each kernel, by name."""
        return Counter(kernel.name for kernel in self.kernels_of())

    def cpu_cost(self, totals: Iterable[CallTotal], of_total: Callable[[CallTotal], float]) -> float:
        """The sum of ``of_total`` over those of a forward's calls that are in ``totals``.

        Like ``cpu_time_us``: the median over the forwards of a process, then over the processes.
        """
        sums = {(forward.process, forward.index): 0.0 for forward in self.usual_forwards}
        for total in totals:
            if (total.process, total.index) in sums:
                sums[total.process, total.index] += of_total(total)
        return median_of_processes((process, value) for (process, _), value in sums.items()) or 0.0

    @cached_property
    def usual_self_us(self) -> Mapping[tuple[str, str], float]:
        """(category, name) -> self time of one call: the median over forwards, then over processes."""
        by_op: dict[tuple[str, str], list[tuple[int, float]]] = {}
        unusual = {(forward.process, forward.index) for forward in self.forwards if forward.kind}
        for total in self.call_totals:
            if (total.process, total.index) not in unusual:
                by_op.setdefault((total.category, total.name), []).append((total.process, total.self_us / total.count))
        return {key: median_of_processes(values) or 0.0 for key, values in by_op.items()}

    def note(self, code: str) -> TraceWarning | None:
        return next((note for note in self.notes if note.code == code), None)


def is_restless(p05_us: float | None, p95_us: float | None) -> bool | None:
    """Whether the 95th percentile of forward times (µs) is above `RESTLESS_FROM` times the 5th; None if unknown."""
    if p05_us is None or p95_us is None:
        return None
    return p95_us > RESTLESS_FROM * p05_us


def label(category: str, name: str) -> str:
    """A name short enough for a sentence: without templates, and with the op of an ATen kernel in brackets."""
    decoded, head = decode_activity(category, name), function_name(name)
    head = head if len(head) <= 70 else head[:67] + "..."
    return f"{head} [{decoded.fused_ops[0]}]" if decoded.library == "ATen" and decoded.fused_ops else head
