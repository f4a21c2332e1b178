"""The diff of two sides: pairs of cases, and the comparison of each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelbook.cases import CaseFacts
from kernelbook.diffs.sides import Member, Side, SideError, read_side
from kernelbook.judge.comparisons import Comparison, compare
from kernelbook.judge.cost_model import kernel_costs
from kernelbook.judge.cost_model.ceilings import ceilings_of
from kernelbook.judge.ratios import FASTER, SLOWER
from kernelbook.judge.time_split import time_split

Pair = tuple[Member, Member]


@dataclass(frozen=True)
class Diff:
    """b against a. only_a, only_b: cases without a counterpart. skipped: files that could not be read, of both."""

    a: str
    b: str
    comparisons: tuple[Comparison, ...]
    only_a: tuple[CaseFacts, ...] = ()
    only_b: tuple[CaseFacts, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both sides have the same cases, which ran the same activities in the same order and about equal time.

        A time counts only if its ratio was tested, which needs several processes on both sides. Without device
        activities the ops are compared instead.
        """
        return not self.only_a and not self.only_b and all(map(_equal, self.comparisons))


def _equal(comparison: Comparison) -> bool:
    if comparison.a.status != comparison.b.status:
        return False
    if comparison.a.on_device != comparison.b.on_device:
        return False
    same = comparison.same_work if comparison.same_work is not None else not comparison.op_steps
    return same and not (comparison.ratio and comparison.ratio.verdict in (SLOWER, FASTER))


def diff(a: str | Path, b: str | Path, annotation: str | None = None) -> Diff:
    """Compare b with a: two traces, folders of traces, cases, runs or editions.

    annotation: name or glob of the ranges of bare traces; by default those inside no other range.
    Raises SideError if a path has nothing to compare or no case of one side matches one of the other, TraceError if a
    named trace cannot be read.
    """
    return diff_sides(read_side(Path(a), annotation), read_side(Path(b), annotation))


def diff_sides(a: Side, b: Side) -> Diff:
    """As `diff`, for sides that were read. Raises SideError."""
    pairs = list(_pairs(a, b))
    if not pairs:
        names = " and ".join(f"{side.source} ({_listed(side.members)})" for side in (a, b))
        remedy = "name one case on each side; of traces choose ranges by --annotation, such as 'ProfilerStep#*'"
        raise SideError(f"A and B have no range or case of the same name: {names}: {remedy}")
    paired = {id(member) for pair in pairs for member in pair}
    return Diff(
        a.source,
        b.source,
        tuple(_comparison(one.facts, other.facts) for one, other in pairs),
        tuple(member.facts for member in a.members if id(member) not in paired),
        tuple(member.facts for member in b.members if id(member) not in paired),
        (*a.skipped, *b.skipped),
    )


def _pairs(a: Side, b: Side) -> Iterator[Pair]:
    """Cases of the same name, and of the same run if a side has several; two single cases are always a pair."""
    if len(a.members) == len(b.members) == 1:
        yield a.members[0], b.members[0]
        return
    by_run = len(a.runs) > 1 or len(b.runs) > 1
    others = {(case.run if by_run else "", case.case): case for case in b.members}
    for case in a.members:
        other = others.get((case.run if by_run else "", case.case))
        if other is not None:
            yield case, other


def _listed(cases: Sequence[Member]) -> str:
    names = [f"{case.run}/{case.case}" if case.run else case.case for case in cases[:4]]
    return ", ".join([*names, *(["..."] if len(cases) > len(names) else [])])


def _comparison(a: CaseFacts, b: CaseFacts) -> Comparison:
    if a.bare and b.bare:
        b = replace(b, run=a.run)  # conditions that neither trace states then count as equal
    splits = (time_split(case, kernel_costs(case, ceilings_of({case.case: case}))) for case in _alike_timed((a, b)))
    return compare(a, b, *splits)


def _alike_timed(pair: tuple[CaseFacts, CaseFacts]) -> Iterable[CaseFacts]:
    """Both cases with unprofiled forward times if both have them, else both without."""
    timed = all(case.forward_time_us is not None for case in pair)
    return (case if timed else replace(case, forward_time_us=None) for case in pair)
