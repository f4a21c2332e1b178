"""What a trace gives away: a table of rules over the facts of a case, each finding with evidence and remedy."""

from __future__ import annotations

from collections.abc import Mapping

from kernelbook.case_facts import CaseFacts
from kernelbook.findings import attention, balance, compiled, copies, shape, window  # noqa: F401  (they define rules)
from kernelbook.findings.registry import SEVERITIES, Finding, Rule, Scene, rules

__all__ = ["SEVERITIES", "Finding", "Rule", "find", "rules"]


def find(facts: CaseFacts, others: Mapping[str, CaseFacts] | None = None) -> list[Finding]:
    """All that the rules find in one case, the most severe first, then as `Finding.rank` says.

    ``others``: the cases of the same run by name; a failed case has no findings.
    """
    if facts.status != "ok":
        return []
    scene = Scene(facts, dict(others or {}))
    found = [finding for rule in rules().values() for finding in rule.look(scene)]
    return sorted(found, key=lambda f: f.rank)
