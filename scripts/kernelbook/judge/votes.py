"""Whether one case takes longer than another, decided by the processes of both: every pair of them votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from kernelbook.cases import CaseFacts

#: Medians closer than this share are about equal: clocks and caches alone make the same kernel differ by 1 to 2 %.
ABOUT_EQUAL_BELOW = 0.03
#: Unless a pair of processes is further apart than this.
APART_FROM = 0.2
SLOWER, FASTER, ABOUT_EQUAL, PROCESSES_DIFFER = "slower", "faster", "about equal", "processes differ"


@dataclass(frozen=True)
class Vote:
    """``ratio``: median of one case over that of the other. ``ratios``: the same for every pair of their processes."""

    ratio: float
    ratios: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """slower or faster if all pairs agree, about equal, else processes differ."""
        apart = max(max(each, 1 / each) for each in self.ratios) > 1 + APART_FROM
        if _direction(self.ratio) == ABOUT_EQUAL:
            return PROCESSES_DIFFER if apart else ABOUT_EQUAL
        if all(each > 1 for each in self.ratios):
            return SLOWER
        return FASTER if all(each < 1 for each in self.ratios) else PROCESSES_DIFFER

    @property
    def split(self) -> str:
        """``slower in 4, about equal in 2 of 6 pairs of processes``."""
        return counted(map(_direction, self.ratios), "pairs of processes")


def vote(mine: Sequence[float], theirs: Sequence[float]) -> Vote | None:
    """The vote on figures of the processes of two cases, in one unit; zeros are skipped; None if a side has none."""
    mine, theirs = [figure for figure in mine if figure], [figure for figure in theirs if figure]
    if not mine or not theirs:
        return None
    return Vote(median(mine) / median(theirs), tuple(a / b for a in mine for b in theirs))


def by_process(facts: CaseFacts, figure: str) -> list[float]:
    """A column of each merged process that has it; without one, the figure of the case; () if that is missing too."""
    values = [getattr(process, figure) for process in facts.processes if process.merged]
    return [value for value in values if value is not None] or [v for v in [getattr(facts, figure)] if v is not None]


def counted(verdicts: Iterable[str], what: str) -> str:
    """``gpu in 2, launches in 1 of 3 processes``, the most frequent first."""
    counts = Counter(verdicts)
    parts = ", ".join(f"{verdict} in {count}" for verdict, count in counts.most_common())
    return f"{parts} of {counts.total()} {what}"


def _direction(ratio: float) -> str:
    if max(ratio, 1 / ratio) < 1 + ABOUT_EQUAL_BELOW:
        return ABOUT_EQUAL
    return SLOWER if ratio > 1 else FASTER
