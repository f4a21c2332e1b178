"""A stated time limit fails for slow code, and for nothing else."""

import itertools

import pytest

from tests.helpers import patience


@pytest.fixture(autouse=True)
def _no_work(monkeypatch):
    """The clocks of these tests go on by themselves."""
    monkeypatch.setattr(patience, "yardstick", lambda: None)


def clock_of(*steps: float):
    """A clock that goes on by these seconds, one a call, again and again."""
    now = itertools.accumulate(itertools.cycle(steps))
    return lambda: next(now)


def test_slow_code_misses_its_limit_on_every_machine():
    for slowness in (0.5, 1.0, 8.0):
        clock = clock_of(0.0, patience.YARDSTICK_S * slowness)
        assert patience.best_of(
            lambda slowness=slowness: 3.0 * max(1.0, slowness), 2.0, clock=clock, tries=2
        ) == pytest.approx(3)


def test_a_slow_machine_and_a_moment_of_load_miss_no_limit():
    slow = clock_of(0.0, patience.YARDSTICK_S * 8)
    assert patience.best_of(lambda: 8.0, 2.0, clock=slow) == pytest.approx(1)
    taken = iter([9.0, 9.0, 1.0, 9.0])
    assert patience.best_of(lambda: next(taken), 2.0, clock=clock_of(0.0, patience.YARDSTICK_S)) == pytest.approx(1)
    assert next(taken) == 9.0  # measured no oftener than it takes
