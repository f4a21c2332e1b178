"""The rows of the tables of a reading, and what their columns mean.

Times are float µs. A start counts from the earliest event, not counting events that are hours away from the rest.
Names come from the trace and are untrusted text.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from kernelbook.text.meaning import doc
from kernelbook.trace.inputs import Input

DeviceCategory = Literal["kernel", "memcpy", "memset"]


class RangeLine(TypedDict):
    """One `record_function` range of the trace; figures include those of nested ranges."""

    annotation: Annotated[str, doc("Name of the range.")]
    index: Annotated[int, doc("Of a forward, which one; of another range, which one of its name. From 0.")]
    kernels: Annotated[int | None, doc("Kernels launched inside it.")]
    memcpys: Annotated[int | None, doc("Memcpys launched inside it.")]
    memsets: Annotated[int | None, doc("Memsets launched inside it.")]
    launches: Annotated[int | None, doc("Launches inside it.")]
    cpu_time_us: Annotated[float, doc("Its length on the CPU.")]
    device_time_us: Annotated[float | None, doc("Sum of those activities.")]
    device_busy_us: Annotated[float | None, doc("Union of their intervals, a device each.")]
    inferred: Annotated[bool, doc("Whether some of them were launched by another thread (backward) while it was open.")]


class RangeRow(RangeLine):
    """A row of the table `ranges`, in order of start."""

    start_us: Annotated[
        float | None, doc("Its start, from the earliest event of the file; empty where it is impossible.")
    ]
    parent: Annotated[int | None, doc("Row of the enclosing range in the same trace, from 0.")]
    pid: Annotated[int | None, doc("Process of the trace.")]
    tid: Annotated[int | None, doc("Thread of the trace.")]
    group: Annotated[
        str, doc("Its name, with * for each number where names that differ in numbers alone are taken together.")
    ]
    label: Annotated[str | None, doc("Those numbers, where they are.")]
    level: Annotated[int, doc("How many ranges of the same group are around it, from 0.")]
    kind: Annotated[
        int,
        doc(
            "Equal for ranges of a group that ran the same kernels (without any, called the same ops); 0 for most of "
            "them."
        ),
    ]
    forward: Annotated[bool, doc("Whether it is a forward of the case.")]


class ActivityRow(TypedDict):
    """A device activity of a forward, in order of start."""

    index: Annotated[int, doc("Which forward, from 0.")]
    position: Annotated[int, doc("Place in the forward, in order of start, from 0.")]
    category: Annotated[DeviceCategory, doc("kernel, memcpy or memset.")]
    name: Annotated[str, doc("Name as the trace has it.")]
    start_us: Annotated[float | None, doc("Start, from the earliest event of the file; empty where it is impossible.")]
    duration_us: Annotated[float, doc("Length.")]
    device: Annotated[int | None, doc("Number of the device.")]
    stream: Annotated[int | None, doc("Number of the stream.")]
    correlation: Annotated[int | None, doc("What joins it to its launch.")]
    launch_api: Annotated[str | None, doc("The runtime or driver call that queued it.")]
    launch_start_us: Annotated[float | None, doc("Start of that call.")]
    launch_duration_us: Annotated[float | None, doc("Length of that call.")]
    launch_delay_us: Annotated[
        float | None,
        doc("From the start of that call to the start of the activity; empty where one of them is impossible."),
    ]
    op: Annotated[str | None, doc("The innermost op around the launch.")]
    op_path: Annotated[list[str] | None, doc("The ops around the launch, outermost first.")]
    range: Annotated[int | None, doc("Row of the innermost range around the launch.")]
    grid: Annotated[list[int] | None, doc("Blocks in x, y and z.")]
    block: Annotated[list[int] | None, doc("Threads of a block in x, y and z.")]
    registers_per_thread: Annotated[int | None, doc("Registers a thread.")]
    shared_memory_bytes: Annotated[int | None, doc("Shared memory a block.")]
    occupancy_percent: Annotated[float | None, doc("The profiler's own estimate of achieved occupancy.")]
    bytes: Annotated[int | None, doc("Size of a memcpy or memset.")]
    graph: Annotated[bool, doc("Whether one launch started several activities.")]
    inferred: Annotated[bool, doc("Whether it belongs to the forward by time alone, since another thread launched it.")]


class CallRow(TypedDict):
    """A CPU event of a forward, in order of start."""

    index: Annotated[int, doc("Which forward, from 0.")]
    depth: Annotated[int, doc("0 where no other CPU event of the forward is around it on its thread.")]
    parent: Annotated[int | None, doc("Position of the enclosing call.")]
    position: Annotated[int, doc("Place in the forward, in order of start, from 0.")]
    category: Annotated[
        str,
        doc(
            "op, runtime, annotation, or overhead that CUPTI reported (a full launch queue, loading a kernel, a "
            "buffer of the profiler)."
        ),
    ]
    name: Annotated[str, doc("Name as the trace has it.")]
    start_us: Annotated[float, doc("Start, from that of the forward's range.")]
    duration_us: Annotated[float, doc("Length.")]
    self_us: Annotated[float, doc("Length less child ops, runtime calls and overhead.")]
    kernels: Annotated[int | None, doc("Kernels that it launched itself, not through a child op.")]
    self_device_time_us: Annotated[float | None, doc("Device time of what it launched itself.")]
    correlation: Annotated[int | None, doc("What joins a launch to its activity.")]
    inputs: Annotated[
        list[Input] | None,
        doc(
            "Its inputs, where they were recorded: type as the profiler writes it; shape, empty of a number; strides "
            "in elements, 0 along a dimension that is broadcast; value of a scalar; tensors, the shapes of a list of "
            "tensors."
        ),
    ]
    thread: Annotated[int, doc("0 for the forward's own thread; other threads count from 1.")]
    inferred: Annotated[bool, doc("Whether it belongs to the forward by time alone, since another thread ran it.")]


class OpRow(TypedDict):
    """An op name, counted as torch's key_averages counts, the longest CPU time first."""

    name: Annotated[str, doc("Name of the op.")]
    count: Annotated[int, doc("Calls.")]
    cpu_time_us: Annotated[float, doc("Their length together.")]
    self_cpu_time_us: Annotated[float, doc("Less child ops and runtime calls.")]
    device_time_us: Annotated[float | None, doc("Device time of what they launched, children included.")]
    self_device_time_us: Annotated[float | None, doc("Device time of what they launched themselves.")]
    kernels: Annotated[int | None, doc("Kernels that they launched, children included.")]


class KernelRow(TypedDict):
    """The device activities of one name and category, the longest total first."""

    name: Annotated[str, doc("Name as the trace has it.")]
    category: Annotated[DeviceCategory, doc("kernel, memcpy or memset.")]
    count: Annotated[int, doc("How often it ran.")]
    total_us: Annotated[float, doc("Its time together.")]
    median_us: Annotated[float, doc("Median of one.")]
    min_us: Annotated[float, doc("Shortest.")]
    max_us: Annotated[float, doc("Longest.")]
