"""docs/reference/findings.md: the rules that look for findings, each with its condition."""

from __future__ import annotations

from kernelbook.judge.findings import rules
from kernelbook.reference.markdown import table

INTRO = """# Findings

What a report's findings come from: each rule looks at one forward of a case that stands for it, by the condition
below. `high` costs a fifth of the forward or more, `medium` a twentieth, `low` less; `info` is worth knowing and no
fault. A finding gives its evidence, what it costs where that can be said, and a remedy. A rule is a function in
`scripts/kernelbook/judge/findings/` and a test.

`kind` says what its time is: `recoverable`, time that the remedy could save; `spent`, time that went there; `note`, no
claim about time. Times of findings may overlap (`slower-than-peer` has the whole of what others name parts of): do not
add them up. Where the processes of a case lie more than 20 % apart, a text gives the range over them; of such a time
the least ranks. What several cases of a run have alike is one finding: it stands under the case that it costs most,
with that case's time, and `cases` lists all.

"""


def findings_page() -> str:
    """Every rule, by name."""
    rows = [
        (f"`{rule.name}`", rule.condition[:1].upper() + rule.condition[1:] + ".") for _, rule in sorted(rules().items())
    ]
    return INTRO + table(("rule", "found when"), rows)
