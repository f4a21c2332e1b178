"""Parts of cells that several tables share."""

from __future__ import annotations

from collections.abc import Mapping

from kernelbook.report.table import Part

#: case -> anchor of its panel on the page
Anchors = Mapping[str, str]


def case_link(case: str, anchors: Anchors) -> Part:
    """The name of a case, as a link to its panel."""
    return Part(case, href=anchors.get(case, "matrix"))


def yes(value: bool) -> Part:
    """`yes` or `no`, in the colours of a verdict."""
    return Part("yes", "ok") if value else Part("no", "no")
