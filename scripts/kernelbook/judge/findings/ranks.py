"""Ranks: the remarks about a job as findings of its case."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kernelbook.collectives.remarks import Remark
from kernelbook.judge.findings.costs import severity
from kernelbook.judge.findings.rules import FORWARD, NOTE, SPENT, Finding, Scene, rule

CONDITIONS = {
    "straggler": "one rank comes last to most collectives, by more than the clocks of the ranks are apart",
    "collective-order": "a rank runs the collectives of a group, or launches those of two groups, in another order",
    "exposed-communication": "communication without compute beside it takes over 10 % of a forward of the slowest rank "
    "(not of forwards that run collectives and nothing else)",
    "bus-bandwidth": "forwards run collectives and nothing else: their bus bandwidth against that of the link",
    "host-bound-rank": "a rank's device is idle for over 20 % of a forward, and kernels start soon after their launch",
    "unequal-work": "a rank runs kernels that others do not run, or computes for a quarter longer",
    "pipeline-bubble": "a pipeline stage is idle, or only sends and receives, for over 10 % of a forward",
    "collectives-serialised": "collectives are queued behind one another on a stream, or share one with compute "
    "(not of forwards that run collectives and nothing else)",
    "small-collectives": "at least 4 collectives of a forward, and half of all, carry less than 1 MiB",
}


def _of_rule(name: str, scene: Scene) -> Iterator[Finding]:
    """The remarks of one rule on the first job of the case."""
    for report in scene.facts.jobs[:1]:
        yield from (_finding(remark) for remark in report.remarks if remark.rule == name)


def _finding(remark: Remark) -> Finding:
    costs = remark.time_us is not None
    return Finding(
        rule=remark.rule,
        severity=severity(remark.share),
        time_us=remark.time_us,
        share=remark.share,
        evidence="all ranks" if remark.rank is None else f"rank {remark.rank}",
        remedy=remark.remedy,
        text=remark.text[:1].upper() + remark.text[1:],
        of=FORWARD if costs else None,
        kind=SPENT if costs else NOTE,
    )


for _name, _condition in CONDITIONS.items():
    rule(_name, _condition)(partial(_of_rule, _name))
