"""A diff as one JSON object. Times are in µs, sizes in bytes; an unknown value is null."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from kernelbook.cases import CaseFacts
from kernelbook.diffs.model import Diff
from kernelbook.judge.alignment import OpStep, Step
from kernelbook.judge.comparisons import ActivityCounts, Comparison
from kernelbook.judge.ratios import Ratio
from kernelbook.text.meaning import doc, object_of, plain

SCHEMA: Literal[1] = 1


class DiffedCase(TypedDict):
    """One side of a comparison."""

    run: Annotated[str | None, doc("Null for a single trace.")]
    case: Annotated[str, doc("Name of the case; for a bare trace, of its ranges.")]
    annotation: str | None
    status: Annotated[str, doc("", "ok", "failed", "unsupported")]
    device: str | None


class ActivityJson(TypedDict):
    """A device activity of a step."""

    category: Annotated[str, doc("", "kernel", "memcpy", "memset")]
    name: str
    position: Annotated[int, doc("In the order of start in the forward that stands for the side.")]
    op_path: Annotated[str | None, doc("CPU ops around the launch, outermost first.")]
    duration_us: Annotated[float, doc("Median over forwards.")]


class StepJson(TypedDict):
    """A difference of device activities."""

    kind: Annotated[str, doc("", "changed", "replaced", "fused", "split", "added", "removed")]
    a: list[ActivityJson]
    b: list[ActivityJson]
    time_a_us: float | None
    time_b_us: float | None
    delta_us: float


class FigureJson(TypedDict):
    """A figure of both sides."""

    name: Annotated[str, doc("A column of the table cases.")]
    unit: Annotated[str, doc("", "µs", "bytes", "count", "")]
    a: float | None
    b: float | None


class CauseJson(TypedDict):
    """The time of one cause on both sides."""

    kind: Annotated[str, doc("As in the table time_split.")]
    idle: Annotated[bool, doc("Whether the device is idle meanwhile.")]
    time_a_us: float
    time_b_us: float
    delta_us: float


class ComparisonJson(TypedDict):
    """b against a."""

    a: DiffedCase
    b: DiffedCase
    refused: Annotated[str | None, doc("Why times are not compared.")]
    same_work: Annotated[
        bool | None, doc("Whether both ran the same activities in one order; null if a side has none.")
    ]
    activities: Annotated[ActivityCounts | None, doc("Device activities; null if a side has none.")]
    figures: list[FigureJson]
    steps: Annotated[list[StepJson], doc("Differences of device activities in the order of the forward.")]
    ops: Annotated[list[OpStep], doc("CPU ops that only one side calls.")]
    causes: list[CauseJson]
    rest_us: Annotated[float | None, doc("Difference in device time that no step explains.")]
    ratio: Annotated[
        Ratio | None,
        doc("Unprofiled forward time of b over that of a; null if none was measured, or times are refused."),
    ]
    sentences: list[str]


class DiffJson(TypedDict):
    """The whole diff."""

    schema: Literal[1]
    a: Annotated[str, doc("As on the command line.")]
    b: str
    equal: Annotated[bool, doc("What --exit-status reports.")]
    comparisons: list[ComparisonJson]
    only_a: list[DiffedCase]
    only_b: list[DiffedCase]
    skipped: Annotated[list[str], doc("Files of a folder that cannot be read.")]


def as_json(diff: Diff) -> dict[str, Any]:
    """The whole diff. Steps of kind `same` are left out; they are counted in `activities`."""
    made = object_of(
        DiffJson,
        diff,
        schema=SCHEMA,
        comparisons=[_comparison(comparison) for comparison in diff.comparisons],
        only_a=[_identity(case) for case in diff.only_a],
        only_b=[_identity(case) for case in diff.only_b],
    )
    values: dict[str, Any] = plain(made)
    return values


def _comparison(comparison: Comparison) -> ComparisonJson:
    return object_of(
        ComparisonJson,
        comparison,
        a=_identity(comparison.a),
        b=_identity(comparison.b),
        activities=None if comparison.same_work is None else comparison.counts,
        figures=[object_of(FigureJson, figure) for figure in comparison.figures],
        steps=[_step(step) for step in comparison.steps if step.kind != "same"],
        ops=comparison.op_steps,
        causes=[object_of(CauseJson, cause) for cause in comparison.causes],
    )


def _identity(case: CaseFacts) -> DiffedCase:
    return object_of(DiffedCase, case, run=case.run or None)


def _step(step: Step) -> StepJson:
    return object_of(
        StepJson,
        step,
        a=[object_of(ActivityJson, activity, op_path=activity.launched_by) for activity in step.a],
        b=[object_of(ActivityJson, activity, op_path=activity.launched_by) for activity in step.b],
        time_a_us=step.time_a_us if step.a else None,
        time_b_us=step.time_b_us if step.b else None,
    )
