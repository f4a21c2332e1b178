"""What was found alike in several cases of one run, told once: one finding that lists the cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernelbook.cases import YARDSTICK, CaseFacts
from kernelbook.judge.findings.rules import Finding, rules
from kernelbook.text.units import duration


def together(told: Sequence[Finding], yardsticks: Iterable[str] = ()) -> list[Finding]:
    """The findings of one run, those of one rule and theme made one, in the order of their first.

    It stands under the case that it costs most, or the first; never under a yardstick where there is another. Its time
    is that case's, without the range over that case's processes, which the times of the other cases need not lie in.
    """
    groups: dict[tuple[str, str | int], list[Finding]] = {}
    for number, finding in enumerate(told):
        groups.setdefault((finding.rule, number if finding.theme is None else finding.theme), []).append(finding)
    return [one for group in groups.values() for one in _told_once(group, set(yardsticks))]


def _told_once(group: Sequence[Finding], yardsticks: set[str]) -> list[Finding]:
    summary = rules()[group[0].rule].summary
    cases = list(dict.fromkeys(finding.case for finding in group))
    if len(cases) == 1 or summary is None:
        return list(group)
    head = min(group, key=lambda finding: (finding.case in yardsticks, -(finding.time_us or 0.0)))
    told = {"text": summary(group), "evidence": _evidence(group), "cases": ", ".join(cases), "positions": ()}
    return [replace(head, **told, time_low_us=None, time_high_us=None)]


def _evidence(group: Sequence[Finding]) -> str:
    return "; ".join(
        f"{f.case}: {f.evidence}" if f.time_us is None else f"{f.case} {duration(f.time_us)}" for f in group
    )


def yardstick_cases(cases: Iterable[CaseFacts]) -> list[str]:
    """Those that measure what the device can do."""
    return [facts.case for facts in cases if facts.workload == YARDSTICK]


# --- words for the texts ---------------------------------------------------------------------------------------------


def in_cases(group: Sequence[Finding]) -> str:
    """``12 cases``"""
    return f"{len({finding.case for finding in group})} cases"


def times(group: Sequence[Finding]) -> str:
    """The times of all, from the least to the most: ``0.74 µs to 2.34 µs``."""
    known = sorted(finding.time_us for finding in group if finding.time_us is not None)
    ends = list(dict.fromkeys(duration(time) for time in known[:1] + known[-1:]))
    return " to ".join(ends)


def shares(group: Sequence[Finding]) -> str:
    """The shares of all, from the least to the most: ``5 % to 13 %``."""
    known = sorted(finding.share for finding in group if finding.share is not None)
    ends = list(dict.fromkeys(f"{share:.0%}".replace("%", " %") for share in known[:1] + known[-1:]))
    return " to ".join(ends)


def subjects(findings: Iterable[Finding]) -> str:
    """What they are about, each once."""
    return ", ".join(dict.fromkeys(finding.subject for finding in findings if finding.subject))
