"""The ratio of two times that were measured in pairs, one process of each side after the other.

The two processes of a round share clock, temperature and load of the machine, so drifts over the rounds do not affect
the ratios of rounds. The estimate is that of Hodges and Lehmann (1963): the median of the means of all pairs of rounds,
of the logarithms of the ratios. Its interval is the exact one of Wilcoxon's signed-rank test (Hollander and Wolfe,
Nonparametric Statistical Methods, 1999, section 3.3). It assumes no normal distribution, and is robust to one disturbed
round. Measuring stops when the interval is narrow enough, whatever it contains: that keeps the error of the interval
near its nominal one (Chow and Robbins, 1965), unlike stopping at the first significant result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelbook.judge.ratios import ABOUT_EQUAL_BELOW, FASTER, SLOWER

NO_DIFFERENCE, UNDECIDED = "no difference", "undecided"


@dataclass(frozen=True)
class Precision:
    """The precision of a ratio. confidence: of its interval. least: the smallest relative change that counts.

    width: the interval is narrow enough if its upper end is at most 1 + width times the lower one.
    """

    confidence: float = 0.99
    width: float = 0.03
    least: float = ABOUT_EQUAL_BELOW

    @property
    def fewest_rounds(self) -> int:
        """Least number of rounds for an interval: 8 at 99 %, 6 at 95 %."""
        return math.ceil(math.log2(2 / (1 - self.confidence)) - 1e-9)


@dataclass(frozen=True)
class PairedRatio:
    """Time of b over that of a. low, high: the interval; None with too few rounds."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int

    def narrow(self, precision: Precision) -> bool:
        """Whether the interval is narrow enough to stop."""
        return self.low is not None and self.high is not None and self.high / self.low <= 1 + precision.width

    def verdict(self, precision: Precision) -> str:
        """The verdict on b.

        slower or faster: the interval excludes 1 and the change counts. no difference: no change in the interval
        counts. Else undecided.
        """
        if self.low is None or self.high is None:
            return UNDECIDED
        most = 1 + precision.least
        if self.low > 1 and self.ratio >= most:
            return SLOWER
        if self.high < 1 and self.ratio <= 1 / most:
            return FASTER
        return NO_DIFFERENCE if 1 / most < self.low and self.high < most else UNDECIDED


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float) -> PairedRatio | None:
    """The ratio b to a of times measured in pairs; None without pairs. a, b: medians of processes, round by round."""
    if not len(a):
        return None
    logs = np.log(np.asarray(b) / np.asarray(a))
    means = sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(logs.tolist(), 2))
    ratio = math.exp(float(np.median(means)))
    left_out = _left_out(len(a), confidence)
    if left_out is None:
        return PairedRatio(ratio, None, None, len(a))
    return PairedRatio(ratio, math.exp(means[left_out]), math.exp(means[-1 - left_out]), len(a))


def _left_out(rounds: int, confidence: float) -> int | None:
    """Number of ordered means outside the interval at each end; None if there are too few rounds for an interval.

    The largest k with P(T <= k) <= (1 - confidence) / 2, T being the signed-rank statistic: the sum of a random subset
    of 1, 2, ... rounds.
    """
    subsets = np.zeros(rounds * (rounds + 1) // 2 + 1)
    subsets[0] = 1.0
    for rank in range(1, rounds + 1):
        subsets[rank:] += subsets[:-rank].copy()
    below = np.cumsum(subsets) / 2.0**rounds
    allowed = int(np.searchsorted(below, (1 - confidence) / 2 + 1e-12, side="right"))
    return allowed - 1 if allowed else None
