"""Steps and drifts in nightly values: pure functions of arrays, one value a night, oldest first.

All values are logarithms of ratios to a level, so that 0.05 is about 5 % more. A step is a mean of the last nights that
the variation of the nights before cannot explain:

- The scale is the variation between nights: the winsorised standard deviation (Wilcox, "Introduction to Robust
  Estimation and Hypothesis Testing", 2012, chapter 2), the spread of the middle 80 %, or the gap between the steps of a
  coarse timer, whichever is largest.
- A night that was measured twice is an outlier only if both measurements are.
- Neighbouring nights are correlated. The variance of a mean of k nights with lag-1 autocorrelation r is that of an
  AR(1) process (Box, Jenkins, Reinsel, "Time Series Analysis", 2008, chapter 2); r is corrected for its bias, which is
  -(1 + 3 r) / n (Kendall, "Note on bias in the estimation of autocorrelation", 1954).
- A step is outside the range of all means of equally many neighbouring nights before. This needs no assumption about
  the noise: two clock states or a weekly rhythm widen the range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

NOISE_FLOOR = 0.002
"""Least noise assumed; without it, every tick of the timer would be a change in a series without noise."""
LONGEST = 7
"""Largest number of nights of a step."""
SCALE_NIGHTS = 90
"""Nights from which the scale is taken."""
SHORT = 3
"""In a step of at most this many nights each has at least a quarter of its shift: two spikes are no step of three."""
LASTING = 14
"""Nights of a lasting level: two weeks, so that a weekly rhythm cancels."""
STEP_Z = 4.25
"""Standard errors of a step of several nights."""
STEP_AGAIN_Z = 3.95
"""The same if a night of the step was measured twice, which excludes single outliers."""
EARLY_Z = 6.0
"""The same if the level before is younger than a week: its first nights were selected for being far away."""
CONFIRMED_Z = 3.55
"""Standard deviations of one night in both of its measurements."""
CONFIRMATION = 0.5
"""Weight of a second measurement, in nights; less than 1, since both share the state of the machine."""
BAND = 1.1
"""Factor by which a step has to exceed the range of earlier means."""
DRIFT_Z = 6.8
"""Standard errors between two lasting levels; it is high because the best of many levels is compared."""
TREND = 2
"""Degree of the curve that is subtracted before the noise of a drift is estimated."""
LEAST_DRIFT = 0.035
OUTLIER_Z = 3.0
"""Standard deviations by which two measurements of a night, or a night and its neighbours, disagree."""
SPIKY_Z = 3.5
SPIKY_SHARE = 0.5
SPIKY_MORE = 1.5
"""If an earlier night deviated by more than 3.5 standard deviations, and by more than half of the step, the step needs
one night and 1.5 standard errors more."""
OUTER = 2
COARSE = 0.1
"""Widest gap that counts as a step of a coarse timer; the OUTER values at either end are ignored as outliers."""
ERROR_OF_MEDIAN = 1.253 * 1.4826
"""Standard error of the median of n normal values, times the root of n, over their median absolute deviation."""
LIMIT_OF_CEILINGS = 3.0
"""Ceilings and other cases moved differently if they differ by this many median absolute deviations of the cases, about
two standard deviations."""


@dataclass(frozen=True)
class Scale:
    """Standard deviation of a night, and the correlation of neighbouring nights."""

    sigma: float
    correlation: float

    def variance_of_mean(self, nights: int) -> float:
        """Variance of the mean of neighbouring nights."""
        if not self.correlation:
            return self.sigma**2 / nights
        lags = np.arange(1, nights)
        return self.sigma**2 / nights * (1 + 2 * float(np.sum((1 - lags / nights) * self.correlation**lags)))


@dataclass(frozen=True)
class LevelStep:
    """The last `nights` nights differ by `shift` from the level before. z: the shift in standard errors."""

    nights: int
    shift: float
    z: float


def scale_of(values: np.ndarray) -> Scale:
    """Scale of centred values (n,), without missing ones."""
    n = len(values)
    ordered = np.sort(values)
    low, high = np.interp((0.1 * (n - 1), 0.9 * (n - 1)), np.arange(n), ordered)
    spread = float(high - low) / 2.563
    limit = 4.0 * max(spread, NOISE_FLOOR)
    clipped = np.minimum(np.maximum(values, -limit), limit)
    variance = float(clipped @ clipped) / max(n - 1, 1)
    sigma = max(math.sqrt(variance), spread, NOISE_FLOOR)
    sigma = max(sigma, _coarseness(values, ordered))
    if n < 3 or variance == 0:
        return Scale(sigma, 0.0)
    raw = float(clipped[1:] @ clipped[:-1]) / (n - 1) / (float(clipped @ clipped) / n)
    if raw < 2 / math.sqrt(n):  # indistinguishable from 0
        return Scale(sigma, 0.0)
    corrected = min((raw * n + 1) / max(n - 3, 1), 0.95)
    # the level is estimated from the same nights, which lowers their variance
    lost = min((1 + corrected) / (1 - corrected) / n, 0.5)
    return Scale(sigma / math.sqrt(1 - lost), corrected)


def _coarseness(values: np.ndarray, ordered: np.ndarray) -> float:
    """The widest gap between the values (n,) if they alternate across it, else 0. ordered: the values sorted."""
    inner = ordered[OUTER : len(ordered) - OUTER]
    if len(inner) < 2:
        return 0.0
    widest = int(np.argmax(np.diff(inner)))
    gap = float(inner[widest + 1] - inner[widest])
    crossings = np.count_nonzero(np.diff(values > inner[widest] + gap / 2))
    return gap if gap < COARSE and crossings >= 2 * OUTER else 0.0


def median(values: np.ndarray) -> float:
    """Median of values (n,), n > 0; several times faster than np.median for so few."""
    ordered = np.sort(values)
    return float(ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def window_means(values: np.ndarray, nights: int, sigma: float) -> np.ndarray:
    """Mean of each `nights` neighbouring values, (n - nights + 1,), with single outliers clipped.

    Values are clipped to 3 sigma around the median of the window; for an even number the median is the middle value
    nearer to 0. If two nights differ by more, only the one nearer to 0 counts, so that an outlier beside a slightly
    shifted night is not a step.
    """
    if len(values) < nights:
        return np.empty(0)
    one = len(values) == nights  # numpy's view takes longer than the rest
    windows = values[None] if one else np.lib.stride_tricks.sliding_window_view(values, nights)
    if nights == 1:
        return windows[:, 0]
    ordered = np.sort(windows, axis=1)
    low, high = ordered[:, (nights - 1) // 2], ordered[:, nights // 2]
    middle = np.where(np.abs(low) < np.abs(high), low, high)[:, None]
    if nights == 2:
        return np.where(high - low < OUTLIER_Z * sigma, (low + high) / 2, middle[:, 0])
    return np.asarray(np.clip(windows, middle - OUTLIER_Z * sigma, middle + OUTLIER_Z * sigma).mean(axis=1))


def _past(n: int) -> slice:
    """The nights from which the scale is taken: those before the last ones, which may hold a step."""
    return slice(max(0, n - LONGEST - SCALE_NIGHTS), max(n - LONGEST, n // 2))


def find_step(
    values: np.ndarray,
    begin: int,
    *,
    min_change: float,
    confirmed: np.ndarray | None = None,
    least: int = 2,
    least_z: float = STEP_Z,
    steady: int = SHORT,
) -> LevelStep | None:
    """The step of the last nights away from the level before them, or None.

    values (n,): earlier levels are aligned with the present one, which began at `begin`. confirmed (n,): for nights
    that were measured twice, the measurement nearer to the level, NaN for the others; if both of the last night are
    outliers, one night is enough. least: nights that a step needs otherwise; one more if an earlier night deviated half
    as much. steady: in a step of at most this many nights each has a quarter of the shift.
    """
    n = len(values)
    past, offset = values[_past(n)], _past(n).start
    scale = scale_of(past)
    again = np.full(n, np.nan) if confirmed is None else confirmed
    twice = np.isfinite(again)
    spike = np.abs(past).max(initial=0.0) if least > 1 else 0.0
    recent = values[max(begin, n - LONGEST) :]
    best, least_misfit = None, math.inf
    for nights in range(1 if twice[-1] else least, LONGEST + 1):
        before = values[begin : n - nights][-SCALE_NIGHTS:]
        if not len(before):
            break
        level, variance = median(before), scale.variance_of_mean(nights)
        if nights == 1 and least > 1:
            shift, limit = float(again[-1]) - level, CONFIRMED_Z
        else:
            again_nights = int(twice[n - nights :].sum())
            shift = float(window_means(values[n - nights :] - level, nights, scale.sigma)[0])
            limit = STEP_AGAIN_Z if again_nights else least_z
            variance *= nights / (nights + CONFIRMATION * again_nights)
        if spike > max(SPIKY_Z * scale.sigma, SPIKY_SHARE * abs(shift)):
            if nights <= least:
                continue
            limit += SPIKY_MORE
        z = shift / math.sqrt(variance + scale.variance_of_mean(len(before)))
        if begin and len(before) < LONGEST:
            limit = max(limit, EARLY_Z)
        if abs(z) < limit or abs(math.expm1(shift)) < min_change:
            continue
        if nights <= steady and ((values[n - nights :] - level) / shift).min() < 0.25:
            continue
        kept = past - np.where(np.arange(len(past)) + offset < begin, 0.0, level)
        band = (window_means(kept, nights, scale.sigma) * math.copysign(1, shift)).max(initial=0.0)
        misfit = float(np.abs(recent - level - shift * (np.arange(len(recent), 0, -1) <= nights)).sum())
        if abs(shift) > BAND * band and misfit < least_misfit:
            best, least_misfit = LevelStep(nights, shift, z), misfit
    return best


def suspicion(values: np.ndarray, begin: int) -> float:
    """Distance of the last value from the level since `begin`, in standard errors; 0 without a level."""
    before = values[begin:-1][-SCALE_NIGHTS:]
    if not len(before):
        return 0.0
    scale = scale_of(values[_past(len(values))])
    return (float(values[-1]) - median(before)) / math.sqrt(scale.sigma**2 + scale.variance_of_mean(len(before)))


def combined(first: float, second: float, sigma: float) -> float:
    """The value of a night with two measurements: their mean, or the one nearer to 0 if they disagree."""
    return (first + second) / 2 if abs(first - second) < OUTLIER_Z * sigma else min(first, second, key=abs)


def milder(first: float, second: float) -> float:
    """The one of two measurements that is nearer to 0; 0 if they are on either side of it."""
    return min(first, second, key=abs) if first * second > 0 else 0.0


def scale_beside_a_trend(values: np.ndarray) -> Scale:
    """Scale of the last nights of a level, without its slow trend."""
    recent = values[-SCALE_NIGHTS:]
    nights = np.arange(len(recent))
    return scale_of(recent - np.polyval(np.polyfit(nights, recent, TREND), nights))


def find_drift(values: np.ndarray, begin: int) -> float | None:
    """How far the present lasting level is above the best one since `begin`; None if that is within the noise."""
    since = values[begin:]
    if len(since) < 2 * LASTING:
        return None
    scale = scale_beside_a_trend(since)
    levels = window_means(since, LASTING, scale.sigma)
    rise = float(levels[-1] - levels.min())
    limit = max(LEAST_DRIFT, DRIFT_Z * math.sqrt(scale.variance_of_mean(LASTING)))
    return rise if rise > limit else None


def shared_shift(residuals: np.ndarray, is_ceiling: np.ndarray, least: int = 4) -> np.ndarray:
    """The shift of the other cases of the run, for each case and night; 0 if there are too few others.

    residuals (cases, nights): distance of each case from its level, NaN if missing. The shift is the median of the
    other cases. Ceilings change only with the machine: if they moved less than the other cases, their shift is used.
    Medians of independent cases differ by chance, so the shift is reduced by the share that chance explains (James,
    Stein, "Estimation with Quadratic Loss", 1961).
    """
    shift = np.zeros_like(residuals)
    enough = np.isfinite(residuals).sum(axis=0) > least
    if not enough.any():
        return shift
    present = residuals[:, enough]
    for case in range(len(residuals)):
        others = np.arange(len(residuals)) != case
        rest, ceilings = present[others], present[others & is_ceiling]
        middle = column_medians(rest)
        spread = median(column_medians(np.abs(rest - middle)))
        if len(ceilings):
            limit = max(LIMIT_OF_CEILINGS * spread, 0.01)
            moved = np.nan_to_num(ceilings, nan=np.inf)
            least_moved = moved[np.argmin(np.abs(moved - middle), axis=0), np.arange(moved.shape[1])]
            middle = np.where(np.abs(least_moved) + limit < np.abs(middle), least_moved, middle)
        by_chance = 2 * (ERROR_OF_MEDIAN * spread) ** 2 / len(rest)
        variance = np.maximum(np.maximum(np.mean(middle**2), middle**2), NOISE_FLOOR**2)
        shift[case, enough] = middle * np.maximum(0.0, 1 - by_chance / variance)
    return shift


def column_medians(values: np.ndarray) -> np.ndarray:
    """Median of each column without missing values; each column must have a value. Faster than np.nanmedian."""
    ordered = np.sort(values, axis=0)  # NaN sorts last
    count = np.isfinite(values).sum(axis=0)
    columns = np.arange(values.shape[1])
    return np.asarray((ordered[(count - 1) // 2, columns] + ordered[count // 2, columns]) / 2)
