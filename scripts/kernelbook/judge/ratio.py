"""The forward time of one case over that of another, and how sure that is.

The ratio is that of median unprofiled forward times. Its interval is the percentile bootstrap (Efron and Tibshirani,
1993) over processes, and over forwards within them; the test is that of Mann and Whitney over the medians of
processes, since forwards of one process are not independent. A change counts with p < 0.002 and 3 % or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

MIN_PROCESSES = 7
P_BELOW = 0.002
LEAST_EFFECT = 0.03
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Ratio:
    """Forward time of b over that of a: the ratio of medians, its 95 % interval, and what a test says."""

    ratio: float
    low: float | None
    high: float | None
    p_value: float | None
    verdict: str  # slower, faster, no difference shown, not tested


def ratio_of(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> Ratio | None:
    """Ratio of medians with its interval and test, from the raw forward times of each process; None of none."""
    if not a or not b:
        return None
    centre = _median_of(b) / _median_of(a)
    low, high = _interval(a, b)
    if min(len(a), len(b)) < MIN_PROCESSES:
        return Ratio(centre, low, high, None, "not tested")
    medians = [float(np.median(x)) for x in a], [float(np.median(x)) for x in b]
    p_value = float(stats.mannwhitneyu(*medians, alternative="two-sided").pvalue)
    shown = p_value < P_BELOW and abs(centre - 1) >= LEAST_EFFECT
    verdict = ("slower" if centre > 1 else "faster") if shown else "no difference shown"
    return Ratio(centre, low, high, p_value, verdict)


def _median_of(processes: Sequence[np.ndarray]) -> float:
    return float(np.median([np.median(times) for times in processes]))


def _interval(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> tuple[float | None, float | None]:
    """95 % of the ratios of resampled medians; None where a side has a single forward."""
    if min(sum(map(len, a)), sum(map(len, b))) < 2:
        return None, None
    random = np.random.default_rng(0)
    ratios = _resampled(b, random) / _resampled(a, random)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def _resampled(processes: Sequence[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """BOOTSTRAPS medians: processes drawn with replacement, and in each the forwards."""
    chosen = random.integers(len(processes), size=(BOOTSTRAPS, len(processes)))
    medians = np.empty(chosen.shape)
    for which, times in enumerate(processes):
        places = np.argwhere(chosen == which)
        draws = times[random.integers(len(times), size=(len(places), len(times)))]
        medians[places[:, 0], places[:, 1]] = np.median(draws, axis=1)
    return np.median(medians, axis=1)


def ratio_text(ratio: Ratio) -> str:
    """The ratio and what may be concluded; its interval only where the processes are enough for a test."""
    said = f"Unprofiled forward time: {ratio.ratio:.3f} x"
    if ratio.verdict == "not tested":
        return f"{said}; not tested: under {MIN_PROCESSES} processes a side."
    if ratio.low is not None:
        said += f" (95 % interval {ratio.low:.3f} to {ratio.high:.3f})"
    if ratio.verdict == "no difference shown":
        return f"{said}; no difference shown (p = {ratio.p_value:.3g})."
    return f"{said}: {ratio.verdict} (p = {ratio.p_value:.2g})."
