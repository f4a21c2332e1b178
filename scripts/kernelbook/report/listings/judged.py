"""Tables of guesses and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kernelbook.judge.findings import Finding
from kernelbook.judge.findings.rules import FindingKey
from kernelbook.report import phrases
from kernelbook.report.case_views import CaseView, GuessLine
from kernelbook.report.findings_section import FindingLine, Weighed
from kernelbook.report.table import Anchors, Cell, Line, Part, Table, TableColumn, case_link, cell, share, table, words
from kernelbook.text import formatting

_GUESS: tuple[TableColumn[GuessLine], ...] = (
    words("guess", lambda line: line.title),
    words("guessed", lambda line: line.expected, 120),
    words("seen", lambda line: line.observed, 120),
    words("verdict", lambda line: Part("held", "ok") if line.verdict == "confirmed" else Part("broke", "no")),
    words("runs", lambda line: ", ".join(line.runs)),
    TableColumn("evidence", lambda line: cell(formatting.listed(line.evidence)), css="wide muted"),
)


def guesses(case: CaseView) -> Table:
    """The guesses of a case that could be judged."""
    lines = (
        Line(tuple(column.cell(line) for column in _GUESS), css=line.verdict.replace(" ", "-")) for line in case.judged
    )
    return Table(f"guesses-{case.spec.case}", "Guessed and seen", _GUESS, tuple(lines), "guesses stacked")


def grid(cases: Sequence[CaseView]) -> Table:
    """A row for each case with guesses, a column for each word."""
    guessed = [case for case in cases if case.judged]
    used = Counter(line.word for case in guessed for line in case.judged)
    name: TableColumn[CaseView] = words("case", lambda case: Part(case.spec.case, href=case.anchor))
    columns = [name, *(TableColumn(word.replace("_", " "), _mark(word)) for word, _ in used.most_common())]
    return replace(table("guess-grid", "Guesses, case by case", columns, guessed, "guess-grid"), titled=False)


def _mark(word: str) -> Callable[[CaseView], Cell]:
    def mark(case: CaseView) -> Cell:
        lines = [line for line in case.judged if line.word == word]
        if not lines:
            return Cell(())
        texts = (f"guessed {line.guessed}, seen {line.observed} on {', '.join(line.runs)}" for line in lines)
        title = formatting.clip("; ".join(texts), 160)
        broke = any(line.verdict == "broken" for line in lines)
        href = f"broke-{case.anchor}" if broke else case.anchor
        return cell(Part("broke" if broke else "held", "no" if broke else "ok", title, href), value=int(not broke))

    return mark


def broken(lines: Sequence[GuessLine], anchors: Anchors) -> Table:
    """Broken guesses of all cases."""
    case: TableColumn[GuessLine] = words("case", lambda line: case_link(line.case, anchors))
    return table("broken-guesses", "Broken guesses", (case, *(c for c in _GUESS if c.title != "verdict")), lines)


def _finding_with_evidence(finding: Finding) -> Cell:
    evidence = Part(formatting.listed(finding.evidence), "muted", page_only=True) if finding.evidence else None
    return cell(formatting.clip(finding.text or finding.rule, 600), evidence)


def _cost(finding: Finding) -> Cell:
    return cell(phrases.cost(finding), Part(finding.of, "muted") if finding.of else None, value=finding.time_us)


_RUN: TableColumn[Finding] = words("run", lambda finding: finding.run)
_KIND: TableColumn[Finding] = words("kind", lambda finding: finding.kind)
_COST: TableColumn[Finding] = TableColumn("time", _cost, "µs", "r num")
_SHARE: TableColumn[Finding] = share("share", lambda finding: finding.share)
_REMEDY: TableColumn[Finding] = words("remedy", lambda finding: finding.remedy, 600, "wide")


def findings_of_case(case: CaseView) -> Table:
    """The findings of a case, with the evidence."""
    weight: TableColumn[Finding] = words("weight", lambda finding: finding.severity)
    columns = (_RUN, weight, _KIND, _COST, _SHARE, TableColumn("finding", _finding_with_evidence, css="wide"), _REMEDY)
    return table(f"findings-{case.spec.case}", "Findings", columns, case.findings, "stacked")


def _of_line(column: TableColumn[Finding]) -> TableColumn[FindingLine]:
    return TableColumn(column.title, lambda line: column.cell(line.finding), column.unit, column.css)


def findings_of_weight(weighed: Weighed, anchors: Anchors, findings: Mapping[FindingKey, str]) -> Table:
    """The findings of one severity over all cases and runs. findings: key of a finding -> anchor of its row."""

    def case(finding: Finding) -> Cell:
        more, names = len(finding.cases) - 1, ", ".join(finding.cases)
        return cell(case_link(finding.case, anchors), Part(f"and {more} more", "muted", names) if more > 0 else None)

    columns = (
        *map(_of_line, (_COST, _SHARE, _KIND, TableColumn("case", case))),
        words("run", lambda line: phrases.on_runs(line.runs)),
        *map(_of_line, (TableColumn("finding", _finding_with_evidence, css="wide"), _REMEDY)),
    )
    name = f"findings-{weighed.weight or 'unknown'}"
    made = table(name, weighed.title, columns, weighed.lines, "stacked findings-table")
    ids = (findings[line.finding.key] for line in weighed.lines)
    return replace(made, lines=tuple(replace(line, anchor=at) for line, at in zip(made.lines, ids, strict=True)))
