"""Findings for reading: the costliest for the first screen, and all of them by weight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelbook.cases import CaseFacts, Note
from kernelbook.edition.model import Edition
from kernelbook.judge.findings import Finding
from kernelbook.report.phrases import cost

#: Severities of findings that cost time; the others take less than a twentieth of their forward, or state no time.
COSTLY = ("high", "medium")
#: The number of findings on the first screen, and of others that each of them lists.
COSTLIEST, LISTED = 3, 2
#: Warnings of a case that a finding of this rule states once for all cases of the run.
STATED_BY = {"slow_first": "slow-first"}
#: What a severity means, of the forward's time of the kind that a finding costs.
WEIGHTS = {
    "high": "a fifth of the forward or more",
    "medium": "a twentieth of the forward or more",
    "low": "less than a twentieth of the forward",
    "info": "for information",
}


@dataclass(frozen=True)
class Weighed:
    """The findings of one severity, the costliest first; `more`: how many are left out."""

    weight: str
    findings: tuple[Finding, ...]
    more: int

    @property
    def title(self) -> str:
        """`High: a fifth of the forward or more`."""
        return f"{self.weight.capitalize()}: {WEIGHTS[self.weight]}"


def by_weight(findings: Iterable[Finding], limit: int) -> tuple[Weighed, ...]:
    """Findings of each severity that occurs, the weightiest first, at most `limit` of each."""
    groups: dict[str, list[Finding]] = {}
    for finding in ranked(findings):
        groups.setdefault(finding.severity, []).append(finding)
    return tuple(
        Weighed(weight, tuple(members[:limit]), max(len(members) - limit, 0)) for weight, members in groups.items()
    )


def own_findings(edition: Edition) -> tuple[Finding, ...]:
    """Findings about what is profiled, without those about the cases that measure ceilings."""
    ceilings = edition.ceiling_cases()
    return tuple(finding for finding in edition.findings if finding.case not in ceilings)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The weightiest first."""
    return tuple(sorted(findings, key=lambda finding: finding.rank))


def costliest(findings: Iterable[Finding], limit: int = COSTLIEST) -> tuple[Finding, ...]:
    """The weightiest findings that cost time, at most one of each case and one of each rule."""
    chosen: list[Finding] = []
    for finding in ranked(finding for finding in findings if finding.severity in COSTLY):
        if all(finding.case != other.case and finding.rule != other.rule for other in chosen):
            chosen.append(finding)
    return tuple(chosen[:limit])


def also(finding: Finding, findings: Iterable[Finding]) -> str:
    """What one of the costliest findings leaves out: `` Also in B, 770 µs. Other findings in this case: 672 µs.``

    The text starts with a space and is empty where nothing is left out. It covers the findings that weigh more than the
    last of the costliest and that are not among these because `finding` is of the same rule or case.
    """
    findings = tuple(findings)
    chosen = costliest(findings)
    ordered = ranked(findings)
    end = ordered.index(chosen[-1]) if len(chosen) == COSTLIEST else len(ordered)
    costly = (other for other in ordered[:end] if other.time_us and other.severity in COSTLY and other not in chosen)
    hidden = [other for other in costly if _hidden_by(chosen, other) == finding]
    same = [f"{each.case}{_run(finding, each)}, {cost(each)}" for each in hidden if each.rule == finding.rule]
    rest = [f"{cost(each)}{_run(finding, each)}" for each in hidden if each.rule != finding.rule]
    text = f" Also in {_first(same, '; in ', ';')}." if same else ""
    return text + (f" Other findings in this case: {_first(rest, ', ', '')}." if rest else "")


def _hidden_by(chosen: Sequence[Finding], other: Finding) -> Finding | None:
    """The first of the chosen findings with the same rule or case."""
    return next((one for one in chosen if one.rule == other.rule or one.case == other.case), None)


def _first(parts: Sequence[str], between: str, before_more: str) -> str:
    more = f"{before_more} and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
    return between.join(parts[:LISTED]) + more


def _run(finding: Finding, other: Finding) -> str:
    return f" on {other.run}" if other.run != finding.run else ""


def warnings(edition: Edition, row: CaseFacts) -> tuple[Note, ...]:
    """The warnings of a case, without those that a finding about it states."""
    rules = {finding.rule for finding in edition.findings if finding.run == row.run and row.case in _cases(finding)}
    return tuple(note for note in row.notes if STATED_BY.get(note.code) not in rules)


def _cases(finding: Finding) -> list[str]:
    return [finding.case, *finding.cases]
