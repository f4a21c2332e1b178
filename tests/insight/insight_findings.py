"""What the tests of rules share: the findings of one rule in one case."""

from __future__ import annotations

from pathlib import Path

from insight_recorded import facts_of_folder
from insight_traces import Trace

from kernelbook.case_facts import CaseFacts
from kernelbook.findings import Finding, find


def found(facts: CaseFacts, rule: str, others: dict[str, CaseFacts] | None = None) -> list[Finding]:
    """What one rule found."""
    return [finding for finding in find(facts, others) if finding.rule == rule]


def one(facts: CaseFacts, rule: str, others: dict[str, CaseFacts] | None = None) -> Finding:
    """The only finding of a rule."""
    (finding,) = found(facts, rule, others)
    assert finding.text.endswith(".")
    assert finding.remedy.endswith(".")
    assert finding.evidence
    return finding


def small(tmp_path: Path, trace: Trace, **measured: object) -> CaseFacts:
    """The facts of one small trace."""
    trace.write(tmp_path, "small", **measured)
    return facts_of_folder("small", tmp_path)["small"]
