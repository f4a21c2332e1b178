"""docs/reference/findings.md: the rules for findings, each with its condition."""

from __future__ import annotations

from kernelbook.judge.findings import rules
from kernelbook.reference.markdown import table

INTRO = """# Findings

Each rule checks the representative forward of a case for the condition below. The severity is `high` from 20 % of the
forward's time, `medium` from 5 %, `low` below, and `info` for facts that are no problem. A finding has evidence, a
remedy and, if known, its cost. A rule is a function in `scripts/kernelbook/judge/findings/` and a test.

`kind` is the kind of its time: `recoverable`, time that the remedy could save; `spent`, time that went there; `note`,
no time. Times of findings may overlap (`slower-than-peer` contains the times of other findings), so do not add them
up. If the processes of a case differ by more than 20 %, the text has their range, and the shortest time determines
the order. Equal findings of several cases of a run are merged: the merged finding belongs to the case with the
highest cost, has that case's time, and lists all cases in `cases`.

"""


def findings_page() -> str:
    rows = [
        (f"`{rule.name}`", rule.condition[:1].upper() + rule.condition[1:] + ".") for _, rule in sorted(rules().items())
    ]
    return INTRO + table(("rule", "condition"), rows)
