"""Problems in a case: rules over its facts, each with evidence and a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import Ceilings, ceilings_of
from kernelbook.judge.findings import (  # noqa: F401 - they define the rules
    attention_backends,
    compiled,
    copies,
    cpu_calls,
    device_fit,
    overhead,
    peers,
    pointwise,
    reliability,
    slow_kernels,
    waits,
)
from kernelbook.judge.findings.rules import (
    RECOVERABLE,
    SEVERITIES,
    Finding,
    Rule,
    Scene,
    rules,
    together,
)

__all__ = ["SEVERITIES", "Finding", "Rule", "find", "find_in_run", "rules"]


def find(
    facts: CaseFacts, others: Mapping[str, CaseFacts] | None = None, ceilings: Ceilings | None = None
) -> list[Finding]:
    """The findings of all rules in one case, sorted by `Finding.rank`. Empty for a failed case.

    ``others``: the cases of the same run by name. ``ceilings``: those of the run, computed from ``others`` by default.
    """
    if facts.status != "ok":
        return []
    scene = Scene(facts, dict(others or {}), ceilings)
    findings = [finding for rule in rules().values() for finding in rule.look(scene)]
    taken = {place for f in findings if f.kind == RECOVERABLE and not rules()[f.rule].yields for place in f.positions}
    left = [f for f in findings if not (rules()[f.rule].yields and taken.intersection(f.positions))]
    return sorted((replace(f, run=facts.run, case=facts.case) for f in left), key=lambda f: f.rank)


def find_in_run(cases: Mapping[str, CaseFacts], ceilings: Ceilings | None = None) -> list[Finding]:
    """The findings of one run, with equal findings of several cases merged.

    In the order of the cases, sorted by `Finding.rank` within each.
    """
    ceilings = ceilings or ceilings_of(cases)
    findings = [finding for facts in cases.values() for finding in find(facts, cases, ceilings)]
    merged = together(findings, (facts.case for facts in cases.values() if facts.ceiling))
    order = {case: number for number, case in enumerate(cases)}
    return sorted(merged, key=lambda f: (order[f.case], f.rank))
