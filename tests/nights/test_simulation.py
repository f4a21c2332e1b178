"""A small simulation of many nights of watching: how often a steady case alarms, and how soon a 5 % step is told.

Bounds are about twice what several hundred series measured (false alarms) and a little under it (detection), so that
chance does not break them; the seed is fixed. False alarms are those of nightly judging, with what was said before
remembered.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kernelbook.history import detect
from kernelbook.history.detect import MIN_SEGMENT, despike, level_changes, suspect_z
from kernelbook.history.night_events import NightEvent
from kernelbook.history.store import History
from kernelbook.history.verdicts import judge
from tests.nights.made_nights import editions, night

WINDOW, LEAST = 7, 12


def watch(values: np.ndarray) -> list[tuple[int, int]]:
    """(night of the alert, night of the change), as nightly judging would say them."""
    said: list[tuple[int, int]] = []
    for seen in range(LEAST, len(values) + 1):
        for change in level_changes(values[:seen]):
            told = any(abs(change.index - old) <= MIN_SEGMENT for _, old in said)
            if change.index >= seen - WINDOW and not told:
                said.append((seen, change.index))
    return said


def series(
    rng: np.random.Generator,
    nights: int,
    spikes: float,
    step_at: int | None = None,
    step: float = 1.05,
    noise: float = 0.01,
) -> np.ndarray:
    values = 100 * (1 + noise * rng.standard_normal(nights))
    values[rng.random(nights) < spikes] *= rng.uniform(1.1, 1.5)
    if step_at is not None:
        values[step_at:] *= step
    return values


@pytest.mark.parametrize(
    ("noise", "spikes", "bound"), [(0.01, 0.0, 0.01), (0.01, 0.05, 0.15), (0.03, 0.0, 0.06), (0.08, 0.0, 0.08)]
)
def test_false_alarms_of_a_steady_case_in_two_months(noise: float, spikes: float, bound: float) -> None:
    rng = np.random.default_rng(42)
    alarmed = sum(bool(watch(series(rng, 60, spikes, noise=noise))) for _ in range(100))
    assert alarmed / 100 <= bound


@pytest.mark.parametrize("step", [1.05, 1 / 1.05], ids=["slower", "faster"])
@pytest.mark.parametrize(("spikes", "after_3", "after_5"), [(0.0, 0.95, 0.99), (0.05, 0.8, 0.93)])
def test_a_step_of_5_percent_is_told_within_days_at_its_night(
    spikes: float, after_3: float, after_5: float, step: float
) -> None:
    rng = np.random.default_rng(7)
    within, near = {3: 0, 5: 0}, 0
    for _ in range(150):
        at = int(rng.integers(20, 50))
        values = series(rng, at + 5, spikes, at, step)
        for nights in within:
            found = [change for change in level_changes(values[: at + nights]) if abs(change.index - at) <= 2]
            within[nights] += bool(found)
            near += nights == 5 and any(abs(change.index - at) <= 1 for change in found)
    assert within[3] / 150 >= after_3
    assert within[5] / 150 >= after_5
    assert near / 150 >= 0.9


def test_a_step_below_the_gate_is_no_change() -> None:
    rng = np.random.default_rng(3)
    quiet = 100 * (1 + 0.002 * rng.standard_normal(40))
    quiet[20:] *= 1.02
    assert level_changes(quiet) == ()
    assert len(level_changes(quiet, min_change=0.01)) == 1


def test_a_series_without_noise_or_too_short() -> None:
    flat = np.full(30, 50.0)
    assert level_changes(flat) == ()
    assert level_changes(flat[:5]) == ()
    stepped = np.r_[flat, flat * 1.1]
    (change,) = level_changes(stepped)
    assert (change.index, change.before, change.after) == (30, 50.0, pytest.approx(55.0))


def test_despiking_takes_lone_outliers_and_leaves_levels() -> None:
    values = np.array([10.0, 10.1, 9.9, 15.0, 10.0, 10.1, 9.9, 12.0, 12.1, 11.9, 12.0, 12.1])
    smooth = despike(values)
    assert smooth[3] == pytest.approx(10.0, abs=0.1)
    assert list(smooth[8:]) == list(values[8:])


def test_noise_is_that_of_the_levels_and_not_of_the_steps() -> None:
    rng = np.random.default_rng(5)
    values = 100 + rng.standard_normal(200)
    assert detect.noise(values) == pytest.approx(1.0, rel=0.25)
    values[100:] += 50
    assert detect.noise(values) == pytest.approx(1.0, rel=0.25)


def test_modified_z_is_the_published_formula() -> None:
    values = np.array([*range(1, 21), 40], float)  # median 10.5, MAD 5
    assert suspect_z(values) == pytest.approx(0.6745 * 29.5 / 5)
    assert suspect_z(values[-12:]) is None


def test_through_the_whole_judging_each_step_is_told_once_at_its_night_and_steady_cases_are_silent() -> None:
    rng = np.random.default_rng(5)
    cases = [f"case-{number}" for number in range(30)]
    steps = {
        case: (int(rng.integers(18, 34)), float(rng.choice([-1, 1]) * rng.uniform(0.05, 0.25))) for case in cases[:20]
    }
    dates = editions(40)
    tables: list[pa.Table] = []
    judged: dict[str, dict] = {}
    told: list[NightEvent] = []
    for at, date in enumerate(dates):

        def change(run: str, case: str, at: int = at) -> dict:
            begin, size = steps.get(case, (99, 0.0))
            return {"factor": 1 + size * (at >= begin)}

        tables.append(night(date, ["host"], cases, rng, processes=1, change=change)["host"])
        if at >= LEAST:
            history = History(pa.concat_tables(tables), tuple(dates[: at + 1]), ())
            found = judge(history, date, judged, lambda *_: {})
            judged[date] = found.as_json("2026-01-01T00:00:00Z")
            told += found.events
    assert sorted(event.case for event in told) == sorted(steps)
    assert all(abs(dates.index(event.night) - steps[event.case][0]) <= 1 for event in told)
    assert all(0 <= dates.index(event.found) - steps[event.case][0] <= 4 for event in told)
    assert all(event.change == pytest.approx(steps[event.case][1], abs=0.03) for event in told)
