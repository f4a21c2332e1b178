"""Findings as the report lists them: the costliest on the first screen, and all of them by severity."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Edition
from kernelbook.judge.findings import Finding
from kernelbook.judge.findings.rules import FindingKey
from kernelbook.trace import TraceWarning

#: Severities of findings that cost time; the others take less than a twentieth of their forward, or state no time.
COSTLY = ("high", "medium")
#: Warnings of a case that a finding of this rule states once for all cases of the run.
STATED_BY = {"slow_first": "slow-first"}
#: Severity -> its meaning, as a share of the time that a finding is a part of.
WEIGHTS = {
    "high": "a fifth of the forward or more",
    "medium": "a twentieth of the forward or more",
    "low": "less than a twentieth of the forward",
    "info": "for information",
}


@dataclass(frozen=True)
class FindingLine:
    """A finding of several runs that differs only in figures, as one line.

    `finding`: the most severe. `runs`, `keys`: of all of them, those of `finding` first.
    """

    finding: Finding
    runs: tuple[str, ...]
    keys: tuple[FindingKey, ...]


def over_runs(findings: Iterable[Finding]) -> tuple[FindingLine, ...]:
    """A line for each finding of a case, in the order of the findings."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    occurrences: Counter[tuple[object, ...]] = Counter()
    for finding in findings:
        what = (finding.rule, finding.case, finding.cases, re.sub(r"[\d.,]+", "", finding.text))
        groups.setdefault((*what, occurrences[finding.run, what]), []).append(finding)
        occurrences[finding.run, what] += 1
    return tuple(
        FindingLine(group[0], tuple(each.run for each in group), tuple(each.key for each in group))
        for group in groups.values()
    )


@dataclass(frozen=True)
class Weighed:
    """The findings of one severity, the costliest first; `more`: number of findings that are left out."""

    weight: str
    lines: tuple[FindingLine, ...]
    more: int

    @property
    def title(self) -> str:
        """`High: a fifth of the forward or more`."""
        return f"{self.weight.capitalize()}: {WEIGHTS[self.weight]}"


def by_weight(findings: Iterable[Finding], limit: int) -> tuple[Weighed, ...]:
    """The findings by severity, the most severe first, at most `limit` of each."""
    groups: dict[str, list[FindingLine]] = {}
    for line in over_runs(ranked(findings)):
        groups.setdefault(line.finding.severity, []).append(line)
    return tuple(Weighed(weight, tuple(lines[:limit]), max(len(lines) - limit, 0)) for weight, lines in groups.items())


def own_findings(edition: Edition) -> tuple[Finding, ...]:
    """The findings, without those about the cases that measure ceilings."""
    ceilings = edition.ceiling_cases()
    return tuple(finding for finding in edition.findings if finding.case not in ceilings)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, the most severe first."""
    return tuple(sorted(findings, key=lambda finding: finding.rank))


def costliest(findings: Iterable[Finding], limit: int) -> tuple[Finding, ...]:
    """The most severe findings that cost time, at most one of each case and one of each rule."""
    chosen: list[Finding] = []
    for finding in ranked(finding for finding in findings if finding.severity in COSTLY):
        if all(finding.case != other.case and finding.rule != other.rule for other in chosen):
            chosen.append(finding)
    return tuple(chosen[:limit])


def warnings(edition: Edition, row: CaseFacts) -> tuple[TraceWarning, ...]:
    """The warnings of a case, without those that a finding about it states."""
    rules = {finding.rule for finding in edition.findings if finding.run == row.run and row.case in _cases(finding)}
    return tuple(note for note in row.notes if STATED_BY.get(note.code) not in rules)


def _cases(finding: Finding) -> list[str]:
    return [finding.case, *finding.cases]
