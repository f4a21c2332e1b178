"""A comparison as text, Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from kernelbook.compare.result import CHANGES, CaseResult, ComparisonResult
from kernelbook.diffs import as_files
from kernelbook.diffs.as_json import as_json as diff_json
from kernelbook.judge.paired import PairedRatio, Precision
from kernelbook.report import table
from kernelbook.text import formatting
from kernelbook.text.meaning import doc, object_of, plain

SCHEMA: Literal[1] = 1
Change = Annotated[str, doc("", *CHANGES)]
RESULT, REPORT = "compare.json", "compare.md"


class SubjectJson(TypedDict):
    """A side."""

    text: str
    kind: Annotated[str, doc("", "host", "python", "image", "workload", "commit")]
    commit: Annotated[str | None, doc("Full hash; null for the working tree and other kinds.")]


class ComparedCase(TypedDict):
    """A case of both sides."""

    case: str
    verdict: Annotated[str, doc("", "slower", "faster", "no difference", "undecided", "failed", "unsupported")]
    ratio: Annotated[PairedRatio | None, doc("Forward time of b over that of a, paired by round.")]
    changes: list[Change]
    reasons: list[str]


class CompareJson(TypedDict):
    """The whole result."""

    schema: Literal[1]
    a: SubjectJson
    b: SubjectJson
    precision: Precision
    fail_on: list[Change]
    seconds: float
    seed: int
    exit_status: Annotated[int, doc("As that of the command.")]
    cases: list[ComparedCase]
    diff: Annotated[
        dict[str, Any] | None,
        doc("The object of kernelbook diff --json (diffs/diff.schema.json); null if a side has no measurement."),
    ]


def as_json(result: ComparisonResult) -> dict[str, Any]:
    """The whole result. `diff` is the object of `kernelbook diff --json`."""
    made = object_of(
        CompareJson,
        result,
        schema=SCHEMA,
        a=object_of(SubjectJson, result.a),
        b=object_of(SubjectJson, result.b),
        seconds=round(result.seconds, 1),
        cases=[object_of(ComparedCase, case) for case in result.cases],
        diff=diff_json(result.diff) if result.diff else None,
    )
    values: dict[str, Any] = plain(made)
    return values


def verdicts(result: ComparisonResult) -> table.Table:
    columns: list[table.TableColumn[CaseResult]] = [
        table.words("case", lambda case: case.case),
        table.words("B against A", lambda case: case.verdict),
        table.figure("B / A", lambda case: case.ratio and case.ratio.ratio, lambda value: f"{value:.3f}"),
        table.figure("from", lambda case: case.ratio and case.ratio.low, lambda value: f"{value:.3f}"),
        table.figure("to", lambda case: case.ratio and case.ratio.high, lambda value: f"{value:.3f}"),
        table.figure("rounds", lambda case: case.ratio and case.ratio.rounds),
        table.words("other", _others),
    ]
    return table.table("verdicts", "Forward time of B against A", columns, result.cases)


def _others(case: CaseResult) -> str | None:
    """The differences other than in time, and why a side was not measured."""
    exact = [change for change in case.changes if change != case.verdict]
    return "; ".join([*exact, *case.reasons]) or None


def markdown(result: ComparisonResult) -> str:
    """The result as Markdown: verdicts, their method, and the comparison of each case."""
    confidence = f"{100 * result.precision.confidence:g} %"
    lines = [
        f"# {formatting.markdown(f'{result.b.text} against {result.a.text}')}",
        "",
        *(f"- {each.side}: {each.kind} {formatting.code(each.text, 400)}" for each in (result.a, result.b)),
        f"- Measured in turns, one process of each side a round, in random order; {result.seconds:.0f} s in all.",
        f"- Intervals of {confidence} of the ratio of process medians, paired by round (Hodges and Lehmann; Wilcoxon).",
        f"- A change of time counts from {100 * result.precision.least:g} % on.",
        "",
        table.markdown(verdicts(result)),
        "",
    ]
    return "\n".join(map(str, lines)) + ("\n" + as_files.sections(result.diff) if result.diff else "")


def text(result: ComparisonResult) -> str:
    lines = [f"{each.side}  {each.kind} {each.text}" for each in (result.a, result.b)]
    lines += [f"{case.case}: {case.text}" for case in result.cases]
    for comparison in result.diff.comparisons if result.diff else ():
        lines += [f"{comparison.a.case}: {sentence}" for sentence in comparison.sentences]
    return "\n".join(map(formatting.visible, lines))


def write(result: ComparisonResult, folder: Path) -> None:
    """Write compare.json and compare.md. Raises OSError if the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    made = json.dumps(as_json(result), indent=1, allow_nan=False)
    (folder / RESULT).write_text(made + "\n", encoding="utf-8")
    (folder / REPORT).write_text(markdown(result), encoding="utf-8")
