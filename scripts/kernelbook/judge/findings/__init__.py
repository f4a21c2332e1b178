"""What a trace gives away: a table of rules over the facts of a case, each finding with evidence and remedy."""

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
)
from kernelbook.judge.findings.rules import (
    RECOVERABLE,
    SEVERITIES,
    Finding,
    Rule,
    Scene,
    rules,
    together,
    yardstick_cases,
)

__all__ = ["SEVERITIES", "Finding", "Rule", "find", "find_in_run", "rules"]


def find(
    facts: CaseFacts, others: Mapping[str, CaseFacts] | None = None, ceilings: Ceilings | None = None
) -> list[Finding]:
    """All that the rules find in one case, the most severe first, then as `Finding.rank` says.

    ``others``: the cases of the same run by name; ``ceilings``: what that run measured, found from them where it is not
    given. A failed case has no findings.
    """
    if facts.status != "ok":
        return []
    scene = Scene(facts, dict(others or {}), ceilings)
    found = [finding for rule in rules().values() for finding in rule.look(scene)]
    taken = {place for f in found if f.kind == RECOVERABLE and not rules()[f.rule].yields for place in f.positions}
    left = [f for f in found if not (rules()[f.rule].yields and taken.intersection(f.positions))]
    return sorted((replace(f, run=facts.run, case=facts.case) for f in left), key=lambda f: f.rank)


def find_in_run(cases: Mapping[str, CaseFacts]) -> list[Finding]:
    """All that the rules find in one run: what several cases have alike is one finding.

    In the order of the cases, in each as `find` sorts them.
    """
    ceilings = ceilings_of(cases)
    told = [finding for facts in cases.values() for finding in find(facts, cases, ceilings)]
    found = together(told, yardstick_cases(cases.values()))
    order = {case: number for number, case in enumerate(cases)}
    return sorted(found, key=lambda f: (order[f.case], f.rank))
