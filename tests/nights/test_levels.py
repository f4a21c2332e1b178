"""Steps, drifts and shared shifts of made-up values: cases counted by hand, and small simulations with fixed seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelbook.history import levels
from kernelbook.history.levels import (
    find_drift,
    find_step,
    milder,
    scale_of,
    shared_shift,
    suspicion,
    window_means,
)


def noise(nights: int, sigma: float = 0.01, seed: int = 1) -> np.ndarray:
    return sigma * np.random.default_rng(seed).standard_normal(nights)


def stepped(before: int, after: int, shift: float, sigma: float = 0.01, seed: int = 1) -> np.ndarray:
    values = noise(before + after, sigma, seed)
    values[before:] += shift
    return values - np.median(values[:before])


def test_the_scale_of_independent_nights_is_their_standard_deviation() -> None:
    scale = scale_of(noise(2000, 0.02))
    assert scale.sigma == pytest.approx(0.02, rel=0.05)
    assert scale.correlation == 0.0
    assert scale.variance_of_mean(4) == pytest.approx(0.02**2 / 4, rel=0.1)


def test_the_scale_knows_that_neighbouring_nights_are_alike() -> None:
    values = np.zeros(4000)
    steps = noise(4000, 0.01)
    for at in range(1, len(values)):
        values[at] = 0.8 * values[at - 1] + steps[at]
    scale = scale_of(values)
    assert scale.correlation == pytest.approx(0.8, abs=0.05)
    # by hand: the mean of two nights of an AR(1) process has the variance sigma^2 (1 + r) / 2
    assert scale.variance_of_mean(2) == pytest.approx(scale.sigma**2 * (1 + scale.correlation) / 2)


def test_spikes_do_not_widen_the_scale_much() -> None:
    values = noise(60)
    values[[5, 25, 45]] += math.log(3)
    assert scale_of(values).sigma < 0.015


def test_values_without_any_noise_have_the_least_noise() -> None:
    assert scale_of(np.zeros(30)) == levels.Scale(levels.NOISE_FLOOR, 0.0)


def test_means_of_windows_bring_a_lone_outlier_near_the_others() -> None:
    values = np.array([0.0, 0.0, 1.0, 0.0, 0.01])
    assert list(window_means(values, 1, 0.01)) == list(values)
    # of two nights that are 100 sigma apart the milder one, 0, counts alone
    assert list(window_means(values, 2, 0.01)) == pytest.approx([0.0, 0.0, 0.0, 0.005])
    assert list(window_means(values, 3, 0.01)) == pytest.approx([0.01, 0.01, 0.05 / 3])
    assert len(window_means(values, 6, 0.01)) == 0


@pytest.mark.parametrize("way", [1, -1])
def test_a_large_step_is_found_on_its_second_night_at_its_place(way: int) -> None:
    assert find_step(stepped(60, 1, way * 0.1), 0, min_change=0.03) is None
    for nights in (2, 3, 5, 7):
        step = find_step(stepped(60, nights, way * 0.1), 0, min_change=0.03)
        assert step is not None
        assert step.nights == nights
        assert step.shift == pytest.approx(way * 0.1, abs=0.02)


@pytest.mark.parametrize("far", [0.05, 0.1, 0.5])
def test_a_lone_night_far_out_is_no_step_after_a_night_that_is_a_little_off(far: float) -> None:
    values = stepped(60, 1, far)
    values[59] = 1.5 * scale_of(values[:54]).sigma  # with the last one brought to 4.5 sigma, 4.2 standard errors
    assert find_step(values, 0, min_change=0.03) is None
    values[59] = values[60]
    assert find_step(values, 0, min_change=0.03) is not None


def test_one_night_is_enough_if_a_second_measurement_agreed() -> None:
    values, again = stepped(60, 1, 0.1), np.full(61, np.nan)
    assert find_step(values, 0, min_change=0.03, confirmed=again) is None
    again[-1] = milder(values[-1], 0.12)
    step = find_step(values, 0, min_change=0.03, confirmed=again)
    assert step is not None
    assert step.nights == 1
    assert step.shift == pytest.approx(values[-1], abs=0.01)
    assert levels.combined(0.10, 0.12, 0.01) == pytest.approx(0.11)
    assert levels.combined(1.10, 0.01, 0.01) == 0.01  # a spike: they disagree, and the milder one stands


def test_one_night_counts_by_the_milder_of_its_measurements() -> None:
    values, again = stepped(60, 1, 0.1), np.full(61, np.nan)
    again[-1] = milder(values[-1], 0.025)  # their mean is 6 standard deviations away, the second one 2.5
    assert find_step(values, 0, min_change=0.03, confirmed=again) is None
    assert (milder(0.1, 0.05), milder(-0.1, -0.05), milder(0.1, -0.05)) == (0.05, -0.05, 0.0)


def test_two_nights_that_were_measured_once_need_more_than_those_measured_twice() -> None:
    values, again = stepped(60, 2, 0.0, 0.03), np.full(62, np.nan)
    scale = scale_of(values[:55])  # of the nights before the last seven
    level = levels.median(values[:60])
    of_level = scale.variance_of_mean(60)
    values[60:] = level + 4.1 * math.sqrt(scale.variance_of_mean(2) + of_level)
    assert find_step(values, 0, min_change=0.03) is None
    # the second measurement counts for half a night: 2.5 nights in place of 2
    values[60:] = level + 4.1 * math.sqrt(scale.variance_of_mean(2) * 2 / 2.5 + of_level)
    again[-1] = values[-1]
    step = find_step(values, 0, min_change=0.03, confirmed=again)
    assert step is not None
    assert (step.nights, step.z) == (2, pytest.approx(4.1))


@pytest.mark.parametrize("wobble", [0.0, 0.001])
def test_three_nights_on_the_next_rung_of_a_coarse_timer_are_no_step(wobble: float) -> None:
    values = noise(63, wobble)
    values[5:60:11] = 0.04  # 5 of 60 nights a rung higher
    values[10:60:11] = -0.04
    assert scale_of(values[:60]).sigma == pytest.approx(0.04, abs=5 * wobble)
    values[60:] = 0.04
    assert find_step(values, 0, min_change=0.03) is None
    values[60:] = 0.12  # three rungs
    assert find_step(values, 0, min_change=0.03) is not None


def test_two_lasting_levels_are_no_rungs_of_a_coarse_timer() -> None:
    values = noise(60, 0.001)
    values[30:] += 0.04
    assert scale_of(values - np.median(values)).sigma < 0.04  # half their distance, and more for the correlation


def test_a_step_below_the_least_change_is_none() -> None:
    assert find_step(stepped(60, 5, 0.02, 0.002), 0, min_change=0.03) is None
    assert find_step(stepped(60, 5, 0.02, 0.002), 0, min_change=0.01) is not None


def test_a_step_has_to_leave_the_band_of_two_clock_states() -> None:
    values = 0.04 * (np.random.default_rng(3).random(70) < 0.5) + noise(70, 0.002)
    values -= np.median(values)
    values[-4:] = values[:60].max()  # four nights in the slow state
    assert find_step(values, 0, min_change=0.03) is None
    values[-4:] = values[:60].max() + 0.06
    assert find_step(values, 0, min_change=0.03) is not None


def test_a_level_that_was_reported_is_no_step_again() -> None:
    values = stepped(60, 5, 0.1)
    values[60:] -= np.median(values[60:])  # as the level since then
    assert find_step(values, 60, min_change=0.03) is None
    assert abs(suspicion(values, 60)) < 4


def test_two_spikes_in_a_row_are_no_step_where_spikes_are_known() -> None:
    values = noise(62)
    values[[10, 30, 60, 61]] += math.log(3)
    assert find_step(values - np.median(values), 0, min_change=0.03) is None


@pytest.mark.parametrize(("shift", "nights"), [(0.07, 3), (0.2, 2), (0.5, 2)])
def test_a_lone_night_before_delays_only_steps_that_are_not_twice_as_far(shift: float, nights: int) -> None:
    values = stepped(60, 4, shift)
    values[20] = 0.045  # 4.5 standard deviations of the noise
    reported = [count for count in (1, 2, 3, 4) if find_step(values[: 60 + count], 0, min_change=0.03)]
    assert reported[0] == nights
    again = np.full(61, np.nan)
    again[-1] = values[60]
    step = find_step(values[:61], 0, min_change=0.03, confirmed=again)
    assert (step is not None) == (nights == 2)


@pytest.mark.parametrize("rate", [0.001, 0.002])
def test_a_slow_drift_is_found_before_6_percent(rate: float) -> None:
    for seed in range(5):
        drift = np.log1p(rate * np.maximum(np.arange(200) - 60, 0))
        values = noise(200, seed=seed) + drift
        reports = next(at for at in range(60, 200) if find_drift(values[: at + 1], 0))
        assert reports > 60
        assert rate * (reports - 60) < 0.06


def test_noise_is_no_drift() -> None:
    assert [seed for seed in range(20) if find_drift(noise(300, 0.03, seed), 0)] == []
    assert find_drift(np.arange(20) * 0.1, 0) is None  # too few nights for two lasting levels


def test_a_shift_of_all_cases_is_that_of_the_others() -> None:
    residuals = np.zeros((6, 3))
    residuals[:, 1] = 0.04  # all cases slower in the second night
    residuals[0, 2] = 0.5  # one case alone in the third
    shift = shared_shift(residuals, np.zeros(6, bool))
    assert shift[0].tolist() == [0.0, 0.04, 0.0]
    assert np.all(shift[:, 2] == 0.0)
    assert np.all(shared_shift(residuals[:4], np.zeros(4, bool)) == 0.0)  # too few cases to tell


def test_what_the_ceilings_did_not_do_is_no_shift_of_the_machine() -> None:
    residuals = np.zeros((8, 10))
    residuals[2:, -1] = 0.1  # six cases slower, and the two ceilings are not
    ceilings = np.arange(8) < 2
    assert np.all(shared_shift(residuals, ceilings)[:, -1] == 0.0)
    assert np.all(shared_shift(residuals, np.zeros(8, bool))[:, -1] == 0.1)
    residuals[:2, -1] = 0.1  # the machine: ceilings too
    assert np.all(shared_shift(residuals, ceilings)[:, -1] == 0.1)
    residuals[:, -1] = [0.0, 1.1, 0, 0, 0, 0, 0, 0]  # a spike of one ceiling says nothing of the others
    assert np.all(shared_shift(residuals, ceilings)[2:, -1] == 0.0)


def test_steady_cases_of_3_percent_noise_do_not_alarm() -> None:
    alarms = 0
    for seed in range(20):
        values = noise(160, 0.03, seed)
        values -= np.median(values[:60])
        alarms += sum(find_step(values[:at], 0, min_change=0.03) is not None for at in range(60, 160))
    assert alarms <= 2  # 5.5 series-years
