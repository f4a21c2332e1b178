"""The ratio of two cases' forward times, with an interval and a test.

The ratio is that of median unprofiled forward times. Its interval is a percentile bootstrap (Efron and Tibshirani,
1993) over processes, and over forwards within each process. The test is that of Mann and Whitney over the medians of
processes, because forwards of one process are not independent. A change counts with p < 0.002 and a size of 3 % or
more; if the whole interval is within 3 %, the times are about equal. With too few processes for the test, their pairs
vote (`vote`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

import numpy as np

from kernelbook.cases import CaseFacts
from kernelbook.text.meaning import doc

# --- a vote of all pairs of processes --------------------------------------------------------------------------------


#: Medians closer than this share are about equal: clocks and caches alone make the same kernel differ by 1 to 2 %.
ABOUT_EQUAL_BELOW = 0.03
#: Largest difference of a pair of processes of two cases that are about equal.
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
    """A column of the merged processes that have it, else the figure of the case; empty if that is missing too."""
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


# --- interval and test -----------------------------------------------------------------------------------------------


MIN_PROCESSES = 7
P_BELOW = 0.002
BOOTSTRAPS = 2000
NO_DIFFERENCE, NOT_TESTED = "no difference shown", "not tested"


@dataclass(frozen=True)
class Ratio:
    """Forward time of b over that of a: ratio of medians, 95 % interval, and the result of the test.

    verdict: slower, faster, about equal, processes differ, no difference shown, or not tested (one process on a side).
    ``split``: how the processes vote if they differ.
    """

    ratio: float
    low: Annotated[float | None, doc("End of the 95 % interval.")]
    high: float | None
    p_value: float | None
    verdict: Annotated[
        str, doc("", "slower", "faster", "about equal", "processes differ", "no difference shown", "not tested")
    ]
    split: str = ""


def ratio_of(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> Ratio | None:
    """Ratio of medians with interval and test; None if a side has no forward times.

    a, b: unprofiled forward times (n,) in µs for each process.
    """
    if not a or not b:
        return None
    centre = _median_of(b) / _median_of(a)
    low, high = _interval(a, b)
    medians = [float(np.median(x)) for x in a], [float(np.median(x)) for x in b]
    if min(len(a), len(b)) < MIN_PROCESSES:
        voted = vote(medians[1], medians[0]) if min(len(a), len(b)) > 1 else None
        return Ratio(centre, low, high, None, voted.verdict if voted else NOT_TESTED, voted.split if voted else "")
    from scipy import stats  # takes a second to import; few editions have enough processes

    p_value = float(stats.mannwhitneyu(*medians, alternative="two-sided").pvalue)
    if low is not None and high is not None and max(abs(low - 1), abs(high - 1)) < ABOUT_EQUAL_BELOW:
        verdict = ABOUT_EQUAL
    elif p_value < P_BELOW and abs(centre - 1) >= ABOUT_EQUAL_BELOW:
        verdict = SLOWER if centre > 1 else FASTER
    else:
        verdict = NO_DIFFERENCE
    return Ratio(centre, low, high, p_value, verdict)


def _median_of(processes: Sequence[np.ndarray]) -> float:
    return float(np.median([np.median(times) for times in processes]))


def _interval(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> tuple[float | None, float | None]:
    """95 % interval of the ratios of resampled medians; None if a side has a single forward."""
    if min(sum(map(len, a)), sum(map(len, b))) < 2:
        return None, None
    random = np.random.default_rng(0)
    ratios = _resampled(b, random) / _resampled(a, random)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def _resampled(processes: Sequence[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """BOOTSTRAPS medians: processes drawn with replacement, and forwards within each."""
    chosen = random.integers(len(processes), size=(BOOTSTRAPS, len(processes)))
    medians = np.empty(chosen.shape)
    for which, times in enumerate(processes):
        places = np.argwhere(chosen == which)
        draws = times[random.integers(len(times), size=(len(places), len(times)))]
        medians[places[:, 0], places[:, 1]] = np.median(draws, axis=1)
    return np.median(medians, axis=1)


def ratio_text(ratio: Ratio) -> str:
    """A sentence with the ratio and the conclusion; it has an interval only if both sides have enough processes."""
    text = f"Unprofiled forward time: {ratio.ratio:.3f}×"
    if ratio.verdict == NOT_TESTED:
        return f"{text}, without a significance test: a side has one process."
    if ratio.p_value is None:
        by_vote = {ABOUT_EQUAL: ABOUT_EQUAL, PROCESSES_DIFFER: f"{PROCESSES_DIFFER}, {ratio.split}"}
        return f"{text}, {by_vote.get(ratio.verdict, f'{ratio.verdict} in all pairs of processes')}."
    if ratio.low is not None:
        text += f" (95 % interval {ratio.low:.3f} to {ratio.high:.3f})"
    return f"{text}: {ratio.verdict} (p = {ratio.p_value:.2g})."
