"""Level changes in a series of nightly values.

Method: a penalised least-squares segmentation (ruptures' KernelCPD with the linear kernel) of the despiked series, in
units of its noise. Noise is estimated from night-to-night differences, so that a level change does not inflate it. A
step counts only if it is large enough and significant against the noise around its two levels.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass

import numpy as np

MIN_SEGMENT = 3
"""Nights that a new level needs before it can be called one."""
HAMPEL_HALF_WIDTH = 3
HAMPEL_LIMIT = 3.0
MAD_TO_SIGMA = 1.4826
"""Turns a median absolute deviation into a standard deviation, for normal noise."""
LEAST_Z = 5.0
"""Standard errors that two neighbouring levels are apart at least: every night looks again, some cases are noisy."""
NOISE_FLOOR = 0.002
"""Least relative noise assumed: timers tick, and a series without any noise would see a change in every tick."""


@dataclass(frozen=True)
class LevelChange:
    """A new level from position `index` on; `before` and `after` are the medians of the two levels."""

    index: int
    before: float
    after: float

    @property
    def change(self) -> float:
        """Relative change, 0.05 for 5 % more."""
        return self.after / self.before - 1.0


def despike(values: np.ndarray) -> np.ndarray:
    """Replaces lone outliers by the median around them (Hampel filter, 3 neighbours a side); shape (n,) in and out."""
    values = values.astype(float)
    padded = np.pad(values, HAMPEL_HALF_WIDTH, constant_values=np.nan)  # a window at an end is a shorter one
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * HAMPEL_HALF_WIDTH + 1)
    middle = np.nanmedian(around, axis=1)
    mad = np.nanmedian(np.abs(around - middle[:, None]), axis=1)
    spread = np.maximum(MAD_TO_SIGMA * mad, NOISE_FLOOR * abs(float(np.median(values))))
    return np.where(np.abs(values - middle) > HAMPEL_LIMIT * spread, middle, values)


def noise(values: np.ndarray) -> float:
    """Standard deviation of the noise around the levels, from the differences of neighbours; never 0."""
    differences = np.diff(values)
    mad = float(np.median(np.abs(differences - np.median(differences)))) if len(differences) else 0.0
    return max(MAD_TO_SIGMA * mad / math.sqrt(2.0), NOISE_FLOOR * abs(float(np.median(values))), sys.float_info.min)


def level_changes(values: np.ndarray, *, penalty: float = 5.0, min_change: float = 0.03) -> tuple[LevelChange, ...]:
    """Where the level of `values` (shape (n,), positive, oldest first) changed by at least `min_change`.

    A change costs `penalty * ln(n)` in units of the noise's variance. Fewer than two segments' worth of nights: none.
    """
    n = len(values)
    if n < 2 * MIN_SEGMENT:
        return ()
    smooth = despike(values)
    sigma = noise(values)
    scaled = (smooth / sigma).reshape(-1, 1)
    bounds = _without_weak_steps([0, *_split(scaled, penalty * np.log(n)), n], smooth, sigma, min_change)
    changes = []
    for left, middle, right in zip(bounds, bounds[1:], bounds[2:], strict=False):
        at = _sharpen(smooth, left, middle, right)
        changes.append(LevelChange(at, float(np.median(smooth[left:at])), float(np.median(smooth[at:right]))))
    return tuple(changes)


def _split(scaled: np.ndarray, penalty: float) -> list[int]:
    import ruptures  # half a second to import: only when there is something to judge

    model = ruptures.KernelCPD(kernel="linear", min_size=MIN_SEGMENT).fit(scaled)
    return [int(end) for end in model.predict(pen=penalty)[:-1]]


def _without_weak_steps(bounds: list[int], values: np.ndarray, sigma: float, min_change: float) -> list[int]:
    """Drops the bound with the weakest step until all reach `min_change` and `LEAST_Z`."""
    while len(bounds) > 2:
        strengths = _strengths(bounds, values, sigma, min_change)
        weakest = min(range(len(strengths)), key=strengths.__getitem__)
        if strengths[weakest] >= 1.0:
            break
        bounds = bounds[: weakest + 1] + bounds[weakest + 2 :]
    return bounds


def _strengths(bounds: list[int], values: np.ndarray, sigma: float, min_change: float) -> list[float]:
    """How much of what is required each step has: 1 is just enough."""
    segments = [values[a:b] for a, b in itertools.pairwise(bounds)]
    left = np.concatenate([segment - np.median(segment) for segment in segments])
    sigma = max(sigma, float(np.std(left)))
    strengths = []
    for one, two in itertools.pairwise(segments):
        before, after = float(np.median(one)), float(np.median(two))
        z = abs(after - before) / (sigma * np.sqrt(1 / len(one) + 1 / len(two)))
        strengths.append(min(abs(after / before - 1.0) / min_change, z / LEAST_Z))
    return strengths


def _sharpen(values: np.ndarray, left: int, middle: int, right: int) -> int:
    """The segmentation cannot end a segment inside its last nights; the two levels tell where the step really is."""
    before, after = np.median(values[left:middle]), np.median(values[middle:right])
    candidates = range(max(left + 1, middle - 2), min(right, middle + 3))

    def misfit(at: int) -> float:
        return float(np.sum(np.abs(values[left:at] - before)) + np.sum(np.abs(values[at:right] - after)))

    return min(candidates, key=misfit, default=middle)


def suspect_z(values: np.ndarray, *, nights: int = 20, least: int = 12) -> float | None:
    """Modified z-score of the last value against the median of up to `nights` before it; None with fewer than `least`.

    0.6745 (x - median) / MAD, as in Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993).
    """
    past = values[:-1][-nights:]
    if len(past) < least:
        return None
    middle = float(np.median(past))
    mad = max(float(np.median(np.abs(past - middle))), NOISE_FLOOR * abs(middle) / MAD_TO_SIGMA, sys.float_info.min)
    return 0.6745 * (float(values[-1]) - middle) / mad
