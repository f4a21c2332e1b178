"""The rows of the tables of a reading, and what their columns mean.

Times are float µs. A start counts from the earliest event, not counting events that are hours away from the rest.
Names come from the trace and are untrusted text.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from kernelbook.text.meaning import doc

DeviceCategory = Literal["kernel", "memcpy", "memset"]


class RangeJson(TypedDict):
    """One `record_function` range of the trace; figures include those of nested ranges."""

    annotation: Annotated[str, doc("Name of the range.")]
    index: Annotated[int, doc("Number of the forward, or of another range among those of its name, from 0.")]
    kernels: Annotated[int | None, doc("Kernels launched inside it.")]
    memcpys: Annotated[int | None, doc("Memcpys launched inside it.")]
    memsets: Annotated[int | None, doc("Memsets launched inside it.")]
    launches: Annotated[int | None, doc("Launches inside it.")]
    cpu_time_us: Annotated[float, doc("Its length on the CPU.")]
    device_time_us: Annotated[float | None, doc("Sum of those activities.")]
    device_busy_us: Annotated[float | None, doc("Union of their intervals, per device, summed over the devices.")]
    inferred: Annotated[bool, doc("Whether some of them were launched by another thread (backward) while it was open.")]


class RangeRow(RangeJson):
    """A row of the table `ranges`, in order of start."""

    start_us: Annotated[float | None, doc("Its start, from the earliest event of the file; empty if it is impossible.")]
    parent: Annotated[int | None, doc("Row of the enclosing range in the same trace, from 0.")]
    pid: Annotated[int | None, doc("Process of the trace.")]
    tid: Annotated[int | None, doc("Thread of the trace.")]
    group: Annotated[
        str, doc("Its name, with * for each number if names that differ only in numbers are taken together.")
    ]
    label: Annotated[str | None, doc("Those numbers, if there are any.")]
    level: Annotated[int, doc("How many ranges of the same group are around it, from 0.")]
    kind: Annotated[
        int,
        doc(
            "Equal for ranges of a group that ran the same kernels (without any, called the same ops); 0 for most of "
            "them."
        ),
    ]
    forward: Annotated[bool, doc("Whether it is a forward of the case.")]


class InForward(TypedDict):
    """The columns of `activities` and `calls` that are no fields of `cases.Activity` and `cases.Call`."""

    index: Annotated[int, doc("Which forward, from 0.")]
    inferred: Annotated[bool, doc("Whether another thread did it, so that it belongs to the forward only by its time.")]


class OpRow(TypedDict):
    """An op name, counted as torch's key_averages counts, the longest CPU time first."""

    name: Annotated[str, doc("Name of the op.")]
    count: Annotated[int, doc("Calls.")]
    cpu_time_us: Annotated[float, doc("Their total length.")]
    self_cpu_time_us: Annotated[float, doc("Their total length without child ops and runtime calls.")]
    device_time_us: Annotated[float | None, doc("Device time of what they launched, children included.")]
    self_device_time_us: Annotated[float | None, doc("Device time of what they launched themselves.")]
    kernels: Annotated[int | None, doc("Kernels that they launched, children included.")]


class KernelRow(TypedDict):
    """The device activities of one name and category, the longest total first."""

    name: Annotated[str, doc("Name, as in the trace.")]
    category: Annotated[DeviceCategory, doc("kernel, memcpy or memset.")]
    count: Annotated[int, doc("Number of runs.")]
    total_us: Annotated[float, doc("Total time of the runs.")]
    median_us: Annotated[float, doc("Median time of a run.")]
    min_us: Annotated[float, doc("Shortest run.")]
    max_us: Annotated[float, doc("Longest run.")]
