"""`summary.json`, for other programs. docs/ describes each field; `SCHEMA` counts breaking changes."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from kernelbook.cases import CaseFacts
from kernelbook.counters import KernelCounters
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.cost_model import Ceiling
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.judge.trust import Trust
from kernelbook.report import first_screen
from kernelbook.text import formatting
from kernelbook.text.meaning import doc, object_of, plain

SCHEMA: Literal[2] = 2


class VerdictJson(TypedDict):
    """How the guesses fared."""

    sentence: Annotated[str, doc("How many guesses held, in one sentence.")]
    held: int
    judged: Annotated[int, doc("Guesses that held or broke.")]
    not_applicable: Annotated[int, doc("Guesses that could not be judged.")]
    reasons: Annotated[dict[str, int], doc("Reason -> number of guesses that could not be judged for it.")]
    failed_cases: Annotated[int, doc("Cases of runs that failed in all processes, those of lost runs included.")]
    lost_runs: Annotated[int, doc("Runs that could not be started.")]
    cases_failed_in_part: Annotated[int, doc("Cases of runs of which some processes failed.")]


class TimedJson(TypedDict):
    """A case of the headline."""

    case: str
    device_time_us: float


class HeadlineJson(TypedDict):
    """The two cases of the headline on one run."""

    run: str
    fast: TimedJson
    slow: TimedJson
    ratio: Annotated[float, doc("Device time of slow over that of fast.")]


class LeftOutJson(TypedDict):
    """A run that was not measured."""

    run: str
    reason: Annotated[str, doc("Why the run was not measured.")]


class FailedJson(TypedDict):
    """A process of a case that failed or was unsupported."""

    process: int
    status: Annotated[str, doc("", "failed", "unsupported")]
    reason: str | None


class TimesJson(TypedDict):
    """Median and 5-95 % span of unprofiled forward times."""

    median: float | None
    p05: float | None
    p95: float | None


class WarningJson(TypedDict):
    """What to know before the figures of a case are used."""

    code: str
    message: str


class ReportedCase(TypedDict):
    """A case on a run."""

    run: str
    case: str
    workload: str | None
    variant: str | None
    mode: str | None
    dtype: str | None
    params: Annotated[dict[str, Any], doc("Parameters that the workload was measured with.")]
    warmup: int | None
    status: Annotated[str, doc("", "ok", "failed", "unsupported")]
    reason: str | None
    processes: int
    failed_processes: Annotated[
        list[FailedJson], doc("The processes that failed or were unsupported; no figure of the case includes them.")
    ]
    kernels: int | None
    memcpys: int | None
    memsets: int | None
    launches: int | None
    cpu_time_us: float | None
    device_time_us: Annotated[float | None, doc("Sum over kernels, memcpys and memsets.")]
    device_busy_us: Annotated[float | None, doc("Union of their intervals.")]
    forward_time_us: Annotated[TimesJson, doc("Unprofiled.")]
    first_call_us: float | None
    inductor_cache: Annotated[str | None, doc("", "cold", "shared", "unknown", None)]
    peak_memory_bytes: int | None
    flops: float | None
    relative_error: float | None
    kernel_names: Annotated[list[str], doc("Kernels of one forward, in order of start.")]
    warnings: list[WarningJson]


class SummaryJson(TypedDict):
    """The whole file."""

    schema: Literal[2]
    edition: str
    created_utc: Annotated[str, doc("When the edition was collected, ISO 8601.")]
    verdict: VerdictJson
    headline: Annotated[
        list[HeadlineJson],
        doc(
            "The two cases of report.headline in config.yaml, one entry for each run that has both and may compare "
            "them; measured runs first."
        ),
    ]
    runs: list[Run]
    left_out: list[LeftOutJson]
    cases: Annotated[
        list[ReportedCase],
        doc(
            "One entry for each case of each run: counts of the first good process per forward, times as medians over "
            "processes of one machine, 5-95 % over all their forwards."
        ),
    ]
    expectations: list[Judgement]
    findings: list[Finding]
    ceilings: NotRequired[
        Annotated[list[Ceiling], doc("The best rates of each run's device, which shares of ceilings refer to.")]
    ]
    counters: NotRequired[
        Annotated[list[KernelCounters], doc("What Nsight Compute measured of each kernel of a representative forward.")]
    ]
    trust: NotRequired[
        Annotated[list[Trust], doc("How far the figures of each case of each measured run can be trusted.")]
    ]
    sdpa_backends: NotRequired[
        Annotated[list[Answer], doc("Which SDPA backends a device takes for the inputs of its attention cases.")]
    ]


def summary(edition: Edition, created_utc: str) -> dict[str, Any]:
    """The edition as plain JSON values. Times are microseconds; what was not measured is null."""
    verdict = first_screen.verdict(edition)
    made: SummaryJson = {
        "schema": SCHEMA,
        "edition": edition.edition,
        "created_utc": created_utc,
        "verdict": object_of(
            VerdictJson,
            verdict,
            reasons=dict(verdict.reasons),
            failed_cases=verdict.failed + verdict.lost_cases,
            cases_failed_in_part=verdict.in_part,
        ),
        "headline": [
            {
                "run": head.run.run,
                "fast": {"case": head.fast.case, "device_time_us": head.fast_us},
                "slow": {"case": head.slow.case, "device_time_us": head.slow_us},
                "ratio": round(head.ratio, 4),
            }
            for head in first_screen.headlines(edition)
        ],
        "runs": [*edition.runs],
        "left_out": [{"run": run, "reason": reason} for run, reason in edition.left_out],
        "cases": [_case(row) for row in edition.case_runs],
        "expectations": [*edition.judged],
        "findings": [*edition.findings],
        "ceilings": [*edition.ceilings],
        "counters": [*edition.counters],
        "trust": [*edition.trust],
        "sdpa_backends": [*edition.backends],
    }
    values: dict[str, Any] = plain(made)
    return values


def dumps(value: dict[str, Any]) -> str:
    """JSON text that is safe to print: characters that hide or reorder text are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    return formatting.hidden_characters(text, _escaped) + "\n"


def _escaped(sign: str) -> str:
    """A character as JSON's \\uXXXX, one or a pair."""
    units = sign.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
    return "".join(f"\\u{unit}" for unit in units)


def _case(row: CaseFacts) -> ReportedCase:
    return object_of(
        ReportedCase,
        row,
        processes=len(row.processes),
        failed_processes=[object_of(FailedJson, process) for process in row.bad_processes],
        forward_time_us={"median": row.forward_time_us, "p05": row.forward_p05_us, "p95": row.forward_p95_us},
        kernel_names=[kernel.name for kernel in row.kernels_of()],
        warnings=[object_of(WarningJson, warning) for warning in row.notes],
    )
