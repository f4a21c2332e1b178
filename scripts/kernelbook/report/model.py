"""What a report is made of: frozen rows read from an edition folder.

Every field that may be missing is None, never 0. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelbook.case_facts import YARDSTICK, Activity, Call, Note, Process
from kernelbook.clock import Clock
from kernelbook.comparability import UNKNOWN, Setting
from kernelbook.cost_model import Ceiling, ForwardCost, GemmCost
from kernelbook.expectations import Judgement
from kernelbook.findings import Finding
from kernelbook.report.ranges import RangeLine, WholeFile
from kernelbook.sdpa_backends import Answer
from kernelbook.trust import Trust, is_restless

HEADLINE = ("sdpa-math-eager", "attention-inplace-eager")


@dataclass(frozen=True)
class Run:
    """One PyTorch build on one machine."""

    run: str
    kind: str
    description: str = ""
    image: str | None = None
    image_digest: str | None = None
    where: str | None = None
    device: str | None = None
    device_type: str | None = None
    capability: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    recorded_utc: str | None = None
    source: str = ""
    status: str = "ok"
    reason: str | None = None


@dataclass(frozen=True)
class CaseSpec:
    """What is shown of a case as config.yaml states it."""

    case: str
    workload: str
    note: str | None = None
    sweep: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Drawn(Activity):
    """One device activity of the representative forward, with starts that count from the forward's own.

    `duration_us` is how long it took in that forward, `median_duration_us` how long it usually takes over all of them.
    `gb_per_s`, `share_of_roof`, `roof`: its rate where its traffic is known, and what of the roof that is, compute's or
    memory's. `built_for`: an architecture older than the device's, with both in words. `tensor_sizes`: elements of the
    tensors that its op takes, largest first. `converts`: of a copy that changes the element type, `bf16 to fp32`.
    """

    correlation: int | None = None
    median_duration_us: float | None = None
    gb_per_s: float | None = None
    share_of_roof: float | None = None
    roof: str | None = None
    built_for: str | None = None
    tensor_sizes: tuple[int, ...] = ()
    converts: str | None = None

    @property
    def usual_us(self) -> float:
        """What tables and strips give: the median, or the one length there is."""
        return self.duration_us if self.median_duration_us is None else self.median_duration_us


@dataclass(frozen=True)
class CaseRun:
    """One case on one run, as `case_facts.merge_processes` takes its processes together.

    `processes`: how many there were; `bad`: those of them that failed or were unsupported; `logs`: by number, the last
    lines that the failed ones wrote. `setting`: what its figures were got with.
    """

    run: str
    case: str
    status: str
    reason: str | None = None
    processes: int = 1
    bad: tuple[Process, ...] = ()
    logs: tuple[tuple[int, tuple[str, ...]], ...] = ()
    setting: Setting = UNKNOWN
    kernels: int | None = None
    memcpys: int | None = None
    memsets: int | None = None
    launches: int | None = None
    cpu_time_us: float | None = None
    device_time_us: float | None = None
    device_busy_us: float | None = None
    forward_time_us: float | None = None
    forward_p05_us: float | None = None
    forward_p95_us: float | None = None
    first_call_us: float | None = None
    inductor_cache: str | None = None
    peak_memory_bytes: int | None = None
    flops: float | None = None
    relative_error: float | None = None
    warnings: tuple[Note, ...] = ()
    trace: Path | None = None
    activities: tuple[Drawn, ...] = ()
    calls: tuple[Call, ...] = ()
    samples: tuple[tuple[int, tuple[float, ...]], ...] = ()
    forwards: tuple[tuple[float | None, float | None], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.run, self.case

    @property
    def restless(self) -> bool:
        """Whether its forward times lie so far apart that their median says little, as trust.py rules."""
        return bool(is_restless(self.forward_p05_us, self.forward_p95_us))


@dataclass(frozen=True)
class Compared:
    """What was said of b against a."""

    run_a: str
    case_a: str
    run_b: str
    case_b: str
    text: str


@dataclass(frozen=True)
class Edition:
    """One edition, read whole."""

    edition: str
    created_utc: str
    runs: tuple[Run, ...]
    left_out: tuple[tuple[str, str], ...]
    cases: tuple[CaseSpec, ...]
    case_runs: tuple[CaseRun, ...]
    judged: tuple[Judgement, ...]
    findings: tuple[Finding, ...]
    words: tuple[str, ...] = ()
    costs: tuple[ForwardCost, ...] = ()
    products: tuple[GemmCost, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    clocks: tuple[Clock, ...] = ()
    compared: tuple[Compared, ...] = ()
    trust: tuple[Trust, ...] = ()
    backends: tuple[Answer, ...] = ()
    ranges: tuple[RangeLine, ...] = ()
    files: tuple[WholeFile, ...] = ()
    title: str = "Kernelbook"
    headline: tuple[str, str] = HEADLINE  # two cases, the slower first
    baseline_run: str = ""

    def by_key(self) -> dict[tuple[str, str], CaseRun]:
        return {row.key: row for row in self.case_runs}

    def yardsticks(self) -> frozenset[str]:
        """The cases that measure what the device can do, and are nobody's work to be improved."""
        return frozenset(case.case for case in self.cases if case.workload == YARDSTICK)

    def workloads(self) -> list[str]:
        """Workloads in the order in which the config first names them."""
        return list(dict.fromkeys(case.workload for case in self.cases))
