"""Problems in a case: rules over its facts, each with evidence and a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import Ceilings, ceilings_of
from kernelbook.judge.findings import (  # noqa: F401 - they define the rules
    attention_backends,
    copies,
    cpu_calls,
    device_fit,
    dynamo,
    overhead,
    peers,
    products,
    ranks,
    reliability,
    slow_kernels,
    waits,
)
from kernelbook.judge.findings.rules import (
    SEVERITIES,
    Finding,
    Rule,
    Scene,
    rules,
    together,
)

#: A finding is left out if rules of lower `yields` report more than this share of the time of its activities.
MOST_REPORTED = 0.25

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
    lengths = {activity.position: activity.duration_us for activity in facts.activities}
    findings: list[Finding] = []
    for rule in sorted(rules().values(), key=lambda rule: rule.yields):
        lower = (f for f in findings if f.severity != "info" and rules()[f.rule].yields < rule.yields)
        reported = {place for finding in lower for place in finding.positions}
        for finding in rule.look(scene):
            times = {place: lengths.get(place, 0.0) for place in finding.positions}
            twice = sum(times[place] for place in reported.intersection(times))
            if not times or twice <= MOST_REPORTED * sum(times.values()):
                findings.append(finding)
    return sorted((replace(f, run=facts.run, case=facts.case) for f in findings), key=lambda f: f.rank)


def find_in_run(cases: Mapping[str, CaseFacts], ceilings: Ceilings | None = None) -> list[Finding]:
    """The findings of one run, with equal findings of several cases merged.

    In the order of the cases, sorted by `Finding.rank` within each.
    """
    ceilings = ceilings or ceilings_of(cases)
    findings = [finding for facts in cases.values() for finding in find(facts, cases, ceilings)]
    merged = together(findings, (facts.case for facts in cases.values() if facts.ceiling))
    order = {case: number for number, case in enumerate(cases)}
    return sorted(merged, key=lambda f: (order[f.case], f.rank))
