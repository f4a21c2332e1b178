"""Tables of guesses and findings."""

from __future__ import annotations

from collections.abc import Sequence

from kernelbook.judge.findings import Finding
from kernelbook.report import story, wording
from kernelbook.report.case_views import CaseView, GuessLine
from kernelbook.report.listings.links import Anchors, case_link
from kernelbook.report.table import Cell, Column, Line, Part, Table, cell, share, table, words
from kernelbook.text import formatting

_GUESS: tuple[Column[GuessLine], ...] = (
    words("guess", lambda line: line.title),
    words("guessed", lambda line: line.expected, 120),
    words("seen", lambda line: line.observed, 120),
    words("verdict", lambda line: Part("held", "ok") if line.verdict == "confirmed" else Part("broke", "no")),
    words("runs", lambda line: ", ".join(line.runs)),
    Column("evidence", lambda line: cell(formatting.listed(line.evidence)), css="wide muted"),
)


def guesses(case: CaseView) -> Table:
    """The guesses of a case that could be judged."""
    lines = (
        Line(tuple(column.cell(line) for column in _GUESS), css=line.verdict.replace(" ", "-")) for line in case.judged
    )
    return Table(f"guesses-{case.spec.case}", "Guessed and seen", _GUESS, tuple(lines), "guesses stacked")


def broken(lines: Sequence[GuessLine], anchors: Anchors) -> Table:
    """Broken guesses of all cases."""
    named: Column[GuessLine] = words("case", lambda line: case_link(line.case, anchors))
    return table("broken-guesses", "Broken guesses", (named, *(c for c in _GUESS if c.title != "verdict")), lines)


def _finding(found: Finding) -> Cell:
    return cell(formatting.clip(found.text or found.rule, 600))


def _finding_with_evidence(found: Finding) -> Cell:
    beside = Part(formatting.listed(found.evidence), "muted", page_only=True) if found.evidence else None
    return cell(formatting.clip(found.text or found.rule, 600), beside)


def _cost(found: Finding) -> Cell:
    return cell(wording.cost(found), Part(found.of, "muted") if found.of else None, value=found.time_us)


_RUN: Column[Finding] = words("run", lambda found: found.run)
_KIND: Column[Finding] = words("kind", lambda found: found.kind)
_COST: Column[Finding] = Column("time", _cost, "µs", "r num")
_SHARE: Column[Finding] = share("share", lambda found: found.share)
_REMEDY: Column[Finding] = words("remedy", lambda found: found.remedy, 600, "wide")


def findings_of_case(case: CaseView) -> Table:
    """What was found in a case, with the evidence."""
    weight: Column[Finding] = words("weight", lambda found: found.severity)
    columns = (_RUN, weight, _KIND, _COST, _SHARE, Column("finding", _finding_with_evidence, css="wide"), _REMEDY)
    return table(f"findings-{case.spec.case}", "Found in it", columns, case.findings, "stacked")


def findings_of_weight(weighed: story.Weighed, anchors: Anchors) -> Table:
    """The findings of one weight over all cases."""

    def named(found: Finding) -> Cell:
        more = len(found.cases.split(", ")) - 1 if found.cases else 0
        return cell(case_link(found.case, anchors), Part(f"and {more} more", "muted", found.cases) if more else None)

    columns = (_COST, _SHARE, _KIND, Column("case", named), _RUN, Column("finding", _finding, css="wide"), _REMEDY)
    name = f"findings-{weighed.weight or 'unknown'}"
    return table(name, weighed.title, columns, weighed.findings, "stacked findings-table")
