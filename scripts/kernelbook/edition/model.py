"""One edition: its runs, its cases, and everything that was judged about them.

Fields that may be missing are None, never 0. Times are in µs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from kernelbook.cases import CaseFacts
from kernelbook.counters import KernelCounters
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import Ceiling, ForwardCost, GemmCost, KernelCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.trust import Trust
from kernelbook.text.meaning import doc


@dataclass(frozen=True)
class Run:
    """One PyTorch build on one machine."""

    INTERNAL: ClassVar = ("environment",)

    run: str
    kind: Annotated[str, doc("", "host", "container", "recorded", "published")]
    description: str = ""
    image: str | None = None
    image_digest: str | None = None
    where: Annotated[str | None, doc("The image, folder or file that config.yaml names.")] = None
    device: str | None = None
    device_type: str | None = None
    capability: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    recorded_utc: str | None = None
    source: Annotated[str, doc("Where published figures come from.")] = ""
    status: Annotated[str, doc("", "ok", "lost")] = "ok"
    reason: str | None = None


@dataclass(frozen=True)
class ConfiguredCase:
    """A case as config.yaml states it."""

    case: str
    workload: str
    label: str | None = None
    note: str | None = None
    sweep: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Compared:
    """The comparison of case b with case a in words."""

    run_a: str
    case_a: str
    run_b: str
    case_b: str
    text: str


@dataclass(frozen=True)
class Edition:
    """One edition. `tables` holds the tables that it was made from, and those that its other fields were written to.

    `kernel_costs`: (run, case) -> position in the representative forward -> cost, where the traffic is known.
    `headline`: the two cases whose ratio of device time leads the report, the slower first.
    """

    edition: str
    created_utc: str
    runs: tuple[Run, ...]
    left_out: tuple[tuple[str, str], ...]
    cases: tuple[ConfiguredCase, ...]
    case_runs: tuple[CaseFacts, ...]
    judged: tuple[Judgement, ...]
    findings: tuple[Finding, ...]
    words: tuple[str, ...] = ()
    costs: tuple[ForwardCost, ...] = ()
    kernel_costs: Mapping[tuple[str, str], Mapping[int, KernelCost]] = field(default_factory=dict)
    products: tuple[GemmCost, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    clocks: tuple[Clock, ...] = ()
    compared: tuple[Compared, ...] = ()
    trust: tuple[Trust, ...] = ()
    backends: tuple[Answer, ...] = ()
    title: str = "Kernelbook"
    headline: tuple[str, str] | None = None
    baseline_run: str = ""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def by_key(self) -> dict[tuple[str, str], CaseFacts]:
        """(run, case) -> the case."""
        return {row.key: row for row in self.case_runs}

    def rows_of(self, workload: str) -> list[tuple[CaseFacts, Run, int]]:
        """(case, run, place in `case_runs`) of a workload: cases in config order, runs in the edition's order."""
        places = {row.key: place for place, row in enumerate(self.case_runs)}
        keys = ((run, (run.run, spec.case)) for spec in self.cases if spec.workload == workload for run in self.runs)
        return [(self.case_runs[places[key]], run, places[key]) for run, key in keys if key in places]

    @property
    def counters(self) -> tuple[KernelCounters, ...]:
        """What Nsight Compute measured, of all cases."""
        return tuple(row for case in self.case_runs for row in case.counters)

    def ceiling_cases(self) -> frozenset[str]:
        """Names of the cases that measure the device's ceilings; findings about them are not reported."""
        return frozenset(case.case for case in self.case_runs if case.ceiling)

    def label_of(self, case: str) -> str:
        """What the headline calls a case: its label, or its name."""
        return next((each.label for each in self.cases if each.case == case and each.label), case)

    def workloads(self) -> list[str]:
        """Workloads in the order of the configuration."""
        return list(dict.fromkeys(case.workload for case in self.cases))
