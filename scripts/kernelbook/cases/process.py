"""One process of one case: `Process` is a row of the table `cases`, and its fields are the columns of that table.

docs/reference/tables.md takes the meaning of each column from the `doc` of its field. Times are in µs, sizes in bytes,
clocks in MHz. An unknown value is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

import pyarrow as pa
from msgspec import Meta

from kernelbook.cases.comparability import Conditions
from kernelbook.cases.records import schema_of
from kernelbook.text.meaning import doc
from kernelbook.trace.types import Totals, TraceWarning

#: Bounds for what measurement.json may hold: a sum of several counts still fits a column of 64 bits.
Count = Annotated[int, Meta(ge=0, le=2**60)]
Microseconds = Annotated[float, Meta(ge=0, le=1e15)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Share = Annotated[float, Meta(ge=0)]
#: Variants of the workload `ceiling` -> the rate that they measure.
CEILINGS = {"matmul": "compute", "matmul-fp8": "compute", "copy": "memory", "copy-l2": "L2 cache"}
Status = Literal["ok", "failed", "unsupported"]

#: A reason of nvidia-smi for a clock below the highest: the GPU had nothing to do.
IDLE = "idle"
#: Reasons that do not slow work down: an idle GPU, and clocks that a user set (nvml.h, nvmlClocksEventReasons).
NOT_THROTTLING = frozenset({IDLE, "applications clocks setting", "sync boost", "display clock setting"})
#: A clock under load below this share of the highest counts as throttled even without a reason: a reading is of one
#: moment, and a GPU at its power limit may report no reason at 77 % of its clock. Some GPUs stay below the highest
#: clock that they report, by at most a fifth.
FAR_BELOW = 0.8
#: Later forwards above this ratio to the first ones count as rising.
RISING_FROM = 1.1


@dataclass(frozen=True)
class Environment:
    """Versions and machine of the measuring process. `packages`: name -> version; `variables`: name -> value."""

    python: str | None = None
    torch: str | None = None
    torch_git: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    driver: str | None = None
    gpu_id: str | None = None
    triton: str | None = None
    platform: str | None = None
    cpu: str | None = None
    threads: Count | None = None
    container: str | None = None
    packages: Mapping[str, str | None] = field(default_factory=dict)
    variables: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuReading:
    """What nvidia-smi reported at one moment."""

    sm_mhz: Number | None = None
    memory_mhz: Number | None = None
    max_sm_mhz: Number | None = None
    temperature_c: Number | None = None
    power_w: Number | None = None
    throttle_reasons: tuple[str, ...] | None = None

    @property
    def throttled(self) -> bool | None:
        """Whether a reason slowed the GPU down, or its clock was far below the highest without a reason."""
        if self.throttle_reasons is None:
            return None
        if self.throttle_reasons:
            return not NOT_THROTTLING.issuperset(self.throttle_reasons)
        return bool(self.sm_mhz and self.max_sm_mhz and self.sm_mhz < FAR_BELOW * self.max_sm_mhz)


@dataclass(frozen=True)
class Clocks:
    """The GPU before and after the timed forwards."""

    before: GpuReading | None = None
    after: GpuReading | None = None

    @property
    def readings(self) -> tuple[GpuReading, ...]:
        return tuple(reading for reading in (self.before, self.after) if reading)

    @property
    def max_sm_mhz(self) -> float | None:
        """Highest clock of the GPU."""
        return next((reading.max_sm_mhz for reading in reversed(self.readings) if reading.max_sm_mhz), None)

    @property
    def reasons(self) -> tuple[str, ...] | None:
        """The reasons that limited the clocks, each once; None if they could not be read."""
        lists = [reading.throttle_reasons for reading in self.readings if reading.throttle_reasons is not None]
        return tuple(dict.fromkeys(reason for reasons in lists for reason in reasons)) if lists else None

    @property
    def throttled(self) -> bool | None:
        answers = [reading.throttled for reading in self.readings if reading.throttled is not None]
        return any(answers) if answers else None


@dataclass(frozen=True)
class Backend:
    """Whether an SDPA backend accepts the inputs of the case, and torch's reasons if not."""

    usable: bool | None = None
    reasons: tuple[str, ...] | None = None


@dataclass(frozen=True)
class WarmupCheck:
    """The first timed forwards compared with the later ones: medians of both, and whether they differ."""

    still_falling: bool | None = None
    rising: bool | None = None
    first_median_us: Microseconds | None = None
    rest_median_us: Microseconds | None = None
    message: str | None = None

    @property
    def rose(self) -> bool | None:
        """Whether later forwards took longer. Measurements of early versions state only the two medians."""
        if self.rising is not None or self.still_falling is None:
            return self.rising
        if self.first_median_us is None or self.rest_median_us is None:
            return None
        return self.rest_median_us > RISING_FROM * self.first_median_us


@dataclass(frozen=True)
class OtherProcess:
    """Another process on the GPU."""

    pid: Count | None = None
    name: str | None = None
    used_memory_mib: Number | None = None


@dataclass(frozen=True)
class Dynamo:
    """What torch.compile counted and logged. `graph_breaks`: reason -> how often."""

    graphs: Count | None = None
    graph_breaks: Mapping[str, Count] | None = None
    recompiles: Count | None = None
    regions: Count | None = None
    log: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CaseMeasured:
    """The columns of a case that come from measurement.json."""

    status: Annotated[Status, doc("ok, failed or unsupported.")] = "ok"
    reason: Annotated[str | None, doc("Why the status is not ok.")] = None
    first_call_us: Annotated[
        Microseconds | None, doc("The first call of the process; for a compiled case it includes the compilation.")
    ] = None
    forward_timer: Annotated[str | None, doc("What timed the unprofiled forwards, cuda_events or wall.")] = None
    inductor_cache: Annotated[
        str | None,
        doc(
            "cold (something was compiled), shared (all came from torch.compile's cache) or unknown (the cache held "
            "something, and nothing counted hits); null in eager mode."
        ),
    ] = None
    peak_memory_bytes: Annotated[
        Count | None, doc("Highest device memory allocated during unprofiled forwards, inputs and weights included.")
    ] = None
    input_bytes: Annotated[Count | None, doc("Bytes of all inputs and weights; what a forward must read at least.")] = (
        None
    )
    output_bytes: Annotated[Count | None, doc("Bytes of all results; what it must write at least.")] = None
    flops: Annotated[
        Count | None,
        doc("Floating-point operations of one forward, dense; in causal attention the masked half is counted."),
    ] = None
    useful_flops: Annotated[
        Count | None,
        doc(
            "Those of them that the result needs; causal attention leaves out the masked half. Empty if the "
            "workload states none."
        ),
    ] = None
    relative_error: Annotated[
        Share | None, doc("L2 norm of the difference to a float64 reference, over that of the reference.")
    ] = None
    error_bound: Annotated[Share | None, doc("The relative error above which the result is reported as wrong.")] = None
    environment: Annotated[
        Environment | None,
        doc("Versions, CPU threads, packages and the environment variables that can change a figure."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Measured(CaseMeasured):
    """The columns of a process that come from measurement.json."""

    log_tail: Annotated[tuple[str, ...], doc("The last lines that a failed process wrote.")] = ()
    attempts: Annotated[Count | None, doc("Processes that were started until one left a measurement.")] = None
    forward_times_us: Annotated[tuple[Microseconds, ...], doc("Every unprofiled forward that was timed.")] = ()
    flops_source: Annotated[str | None, doc("counter (torch's) or formula (the workload's own).")] = None
    started_utc: Annotated[str | None, doc("When the measurement began.")] = None
    sdpa_backends: Annotated[
        Mapping[str, Backend] | None,
        doc("Backend -> whether it would take these inputs, and why not."),
    ] = None
    clocks: Annotated[Clocks | None, doc("Clocks, temperature and power of the GPU before and after timing.")] = None
    warmup_check: Annotated[WarmupCheck | None, doc("Whether the timed forwards became faster or slower.")] = None
    other_gpu_processes: Annotated[
        tuple[OtherProcess, ...] | None, doc("Other processes on the GPU when measuring began.")
    ] = None
    dynamo: Annotated[
        Dynamo | None,
        doc(
            "What torch.compile counted: graphs, graph breaks by reason, recompilations, compiled regions in the "
            "profile, and what it logged; null in other modes."
        ),
    ] = None
    warnings: Annotated[tuple[TraceWarning, ...], doc("What to know before using the figures of the row.")] = ()


@dataclass(frozen=True)
class CaseColumns(CaseMeasured):
    """The columns of the table `cases` that also describe a case as a whole."""

    run: str
    case: str
    workload: Annotated[str | None, doc("What is profiled; `trace` for a bare trace.")] = None
    variant: Annotated[str | None, doc("Variant of the implementation.")] = None
    mode: Annotated[str | None, doc("eager or compile.")] = None
    dtype: Annotated[str | None, doc("Element type of inputs and weights.")] = None
    bare: Annotated[bool | None, doc("Whether there is only a trace, without a measurement.json.")] = None
    compile_options: Annotated[
        Mapping[str, Any], doc("Arguments of torch.compile for a compiled case, as in params; empty for the defaults.")
    ] = field(default_factory=dict)
    params: Annotated[
        Mapping[str, Any],
        doc("Parameter -> value as JSON (`64`, `true`); a text stands without quotes. Empty if unknown."),
    ] = field(default_factory=dict)
    annotation: Annotated[
        str | None,
        doc("Name of the ranges that are the case's forwards, or the glob; * stands for numbers in which they differ."),
    ] = None
    warmup: Annotated[int | None, doc("Calls made before anything was measured; 0 for a cold case.")] = None
    kernels: Annotated[int | None, doc("Kernels of one forward.")] = None
    memcpys: Annotated[int | None, doc("Memcpys of one forward.")] = None
    memsets: Annotated[int | None, doc("Memsets of one forward.")] = None
    launches: Annotated[int | None, doc("Launches of one forward that started at least one activity.")] = None
    cpu_time_us: Annotated[float | None, doc("Length of the annotated range on the CPU, under the profiler.")] = None
    device_time_us: Annotated[float | None, doc("Sum of the kernels, memcpys and memsets of one forward.")] = None
    device_busy_us: Annotated[
        float | None,
        doc("Time in which at least one of them ran; overlapping streams count once, several devices are summed."),
    ] = None
    forward_time_us: Annotated[float | None, doc("Median of the unprofiled forwards.")] = None
    forward_p05_us: Annotated[float | None, doc("5 % quantile of the unprofiled forwards.")] = None
    forward_p95_us: Annotated[float | None, doc("95 % quantile of the unprofiled forwards.")] = None
    device: Annotated[str | None, doc("Name of the device.")] = None
    device_type: Annotated[str | None, doc("cuda or cpu.")] = None
    capability: Annotated[str | None, doc("Compute capability.")] = None
    l2_bytes: Annotated[int | None, doc("Size of the device's L2 cache.")] = None
    driver: Annotated[str | None, doc("Version of the GPU's driver.")] = None
    device_properties: Annotated[
        Mapping[str, Any],
        doc("The first device as the trace describes it: property -> value as JSON; the name without quotes."),
    ] = field(default_factory=dict)
    trace_path: Annotated[
        str | None,
        doc("The trace, relative to the folder that the workflow ran in; another folder is replaced by a word."),
    ] = None
    output_code: Annotated[
        str | None,
        doc("The code that Inductor generated for a compiled case (.py.gz), as trace_path; empty if none was kept."),
    ] = None

    @property
    def key(self) -> tuple[str, str]:
        """(run, case)."""
        return self.run, self.case

    @property
    def ceiling(self) -> str | None:
        """The rate of the device that the case measures, against which other cases are judged; None if it does not."""
        return CEILINGS.get(self.variant or "") if self.workload == "ceiling" else None

    @property
    def measures_fp8(self) -> bool:
        """Whether the case is the ceiling of fp8 products, whose kernel names need not state the type."""
        return self.ceiling is not None and self.variant == "matmul-fp8"

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions that decide which figures may be compared with these."""
        return Conditions(
            run=self.run,
            workload=self.workload,
            device=self.device,
            device_type=self.device_type,
            threads=self.environment.threads if self.environment else None,
            driver=self.driver,
            dtype=self.dtype,
            params=json.dumps(dict(self.params), sort_keys=True),
            timer=self.forward_timer,
        )


@dataclass(frozen=True)
class Process(CaseColumns, Measured):
    """One process of one case; of a case with ranks, one rank of it.

    `merged` is not a column: whether the figures of the case include those of this process. They do not if the process
    failed, ran on another machine than the others, or is a rank that is not the slowest of its job.
    """

    process: int = 1
    rank: Annotated[int | None, doc("Rank of the process in its job; empty for a case without ranks.")] = None
    world_size: Annotated[int | None, doc("Ranks of the job.")] = None
    forwards: Annotated[int | None, doc("Profiled forwards.")] = None
    flush_l2: Annotated[bool | None, doc("Whether the GPU's L2 cache was emptied before each timed forward.")] = None
    gpu_id: Annotated[
        str | None,
        doc("Which GPU of its model it was: 8 hex digits of the SHA-256 of its UUID; in the recorded run a letter."),
    ] = None
    torch: Annotated[str | None, doc("Version of torch.")] = None
    cuda: Annotated[str | None, doc("Version of CUDA that torch was built with.")] = None
    cudnn: Annotated[str | None, doc("Version of cuDNN.")] = None
    image: Annotated[str | None, doc("Image that the run was measured in.")] = None
    image_digest: Annotated[str | None, doc("Digest of that image.")] = None
    totals: Annotated[Totals | None, doc("Figures of the whole file; work from before the window included.")] = None
    merged: bool = True

    @property
    def job(self) -> int:
        """Number of its job among those of the case; all ranks of a folder of bare traces form one job."""
        return 1 if self.bare and self.rank is not None else self.process


KEYS = ("run", "case", "process", "rank")
#: The columns of the table `cases`: keys first, nested ones last.
CASE_COLUMNS = pa.schema(
    sorted(schema_of(Process, "merged"), key=lambda c: (c.name not in KEYS, pa.types.is_nested(c.type)))
)
