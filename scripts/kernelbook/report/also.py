"""What the first screen's costliest findings leave out, since each is the only one of its rule and of its case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelbook.judge.findings import Finding
from kernelbook.report import story, wording

MOST = 2
#: As many costliest findings as the first screen has.
CHOSEN = 3


def also(finding: Finding, findings: Iterable[Finding]) -> str:
    """`` Also in B, 770 µs. Other findings in this case: 672 µs.`` Empty where it hides none; starts with a space.

    Told are those that weigh more than the last of the costliest, and are left out for this one.
    """
    findings = tuple(findings)
    chosen = story.costliest(findings, CHOSEN)
    hidden = [other for other in _weightier(chosen, findings) if _hides(chosen, other) == finding]
    alike = [
        f"{other.case}{_run(finding, other)}, {wording.cost(other)}" for other in hidden if other.rule == finding.rule
    ]
    rest = [f"{wording.cost(other)}{_run(finding, other)}" for other in hidden if other.rule != finding.rule]
    said = f" Also in {_first(alike, '; in ', ';')}." if alike else ""
    return said + (f" Other findings in this case: {_first(rest, ', ', '')}." if rest else "")


def _first(parts: Sequence[str], between: str, before_more: str) -> str:
    more = f"{before_more} and {len(parts) - MOST} more" if len(parts) > MOST else ""
    return between.join(parts[:MOST]) + more


def _run(finding: Finding, other: Finding) -> str:
    return f" on {other.run}" if other.run != finding.run else ""


def _weightier(chosen: Sequence[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """The others that cost time and come before the last of the costliest; all of them where these are fewer."""
    ordered = story.ranked(findings)
    end = ordered.index(chosen[-1]) if len(chosen) == CHOSEN else len(ordered)
    costly = (other for other in ordered[:end] if other.time_us and other.severity in story.COSTLY)
    return [other for other in costly if other not in chosen]


def _hides(chosen: Sequence[Finding], other: Finding) -> Finding | None:
    """For which of the costliest it was left out."""
    return next((one for one in chosen if one.rule == other.rule or one.case == other.case), None)
