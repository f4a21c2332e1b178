"""The ratio of paired processes: published critical values, hand-made rounds, and simulated noise."""

from __future__ import annotations

import numpy as np
import pytest

from kernelbook.judge.paired import NO_DIFFERENCE, UNDECIDED, PairedRatio, Precision, paired_ratio

FINE = Precision()


# Two-sided critical values of the signed-rank statistic (Wilcoxon and Wilcox, 1964): the largest T that is significant.
@pytest.mark.parametrize(
    ("rounds", "confidence", "critical"),
    [(6, 0.95, 0), (8, 0.95, 3), (10, 0.95, 8), (20, 0.95, 52), (8, 0.99, 0), (10, 0.99, 3), (15, 0.99, 15)],
)
def test_the_interval_leaves_out_what_the_published_table_says(rounds: int, confidence: float, critical: int) -> None:
    logs = np.random.default_rng(rounds).normal(0, 0.1, rounds)
    means = sorted((logs[i] + logs[j]) / 2 for i in range(rounds) for j in range(i, rounds))
    ratio = paired_ratio([1.0] * rounds, np.exp(logs).tolist(), confidence)
    assert ratio is not None
    assert ratio.low == pytest.approx(np.exp(means[critical]))
    assert ratio.high == pytest.approx(np.exp(means[-1 - critical]))


@pytest.mark.parametrize(("confidence", "fewest"), [(0.75, 3), (0.9, 5), (0.95, 6), (0.99, 8)])
def test_fewest_rounds_of_an_interval(confidence: float, fewest: int) -> None:
    assert Precision(confidence).fewest_rounds == fewest
    enough = paired_ratio([1.0] * fewest, [1.1] * fewest, confidence)
    too_few = paired_ratio([1.0] * (fewest - 1), [1.1] * (fewest - 1), confidence)
    assert enough is not None
    assert enough.low == pytest.approx(1.1)
    assert too_few is not None
    assert too_few.low is None
    assert too_few.verdict(Precision(confidence)) == UNDECIDED


def test_drift_that_both_share_does_not_count() -> None:
    clock = [1.0, 1.3, 1.7, 2.2, 2.9, 3.7, 4.8, 6.3]
    ratio = paired_ratio([100 * x for x in clock], [105 * x for x in clock], 0.99)
    assert ratio is not None
    assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx((1.05, 1.05, 1.05))
    assert ratio.verdict(FINE) == "slower"


def test_one_disturbed_round_does_not_move_the_ratio() -> None:
    ratio = paired_ratio([100.0] * 11, [100.0] * 10 + [900.0], 0.95)
    assert ratio is not None
    assert ratio.ratio == 1.0


@pytest.mark.parametrize(
    ("low", "centre", "high", "verdict"),
    [
        (1.031, 1.05, 1.07, "slower"),
        (0.9, 0.95, 0.969, "faster"),
        (0.99, 1.0, 1.01, NO_DIFFERENCE),
        (1.001, 1.01, 1.02, NO_DIFFERENCE),  # a change, but none that counts
        (0.99, 1.05, 1.12, UNDECIDED),
        (1.005, 1.02, 1.035, UNDECIDED),
    ],
)
def test_verdicts(low: float, centre: float, high: float, verdict: str) -> None:
    assert PairedRatio(centre, low, high, 20).verdict(FINE) == verdict


def _stopped(random: np.random.Generator, effect: float, noise: float) -> PairedRatio:
    """A comparison that is stopped by the width of its interval, on a machine whose clock wanders."""
    drift = np.cumsum(random.normal(0, 0.01, 60))
    a, b = (factor * np.exp(drift + random.normal(0, noise, 60)) for factor in (1.0, 1.0 + effect))
    for rounds in range(FINE.fewest_rounds, 61):
        ratio = paired_ratio(a[:rounds].tolist(), b[:rounds].tolist(), FINE.confidence)
        assert ratio is not None
        if ratio.narrow(FINE):
            break
    return ratio


def test_stopping_by_width_keeps_the_error_of_the_interval() -> None:
    random = np.random.default_rng(7)
    found = [_stopped(random, 0.0, 0.01) for _ in range(150)]
    assert {each.verdict(FINE) for each in found} == {NO_DIFFERENCE}
    missed = sum(not each.low <= 1.0 <= each.high for each in found if each.low and each.high)
    assert missed <= 5  # 1 % nominal: more than 5 of 150 in one of 300 series
    slower = [_stopped(random, 0.05, 0.01) for _ in range(100)]
    assert {each.verdict(FINE) for each in slower} == {"slower"}
