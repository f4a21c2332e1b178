"""Measuring in turns, with a measurement that answers at once: rounds, orders, budget, failures."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from kernelbook.compare.measuring import MeasuredProcess, Turns, take_turns
from kernelbook.compare.result import CaseResult, ComparisonResult, results
from kernelbook.compare.subjects import Subject
from kernelbook.judge.paired import Precision

PRECISION = Precision()


class Machine:
    """A machine whose processes take `seconds` each; `time(side, case)` is the median of a process in µs."""

    def __init__(self, time: Callable[[str, str], float | None], seconds: float = 1.0, status: str = "ok") -> None:
        self.time, self.seconds, self.status = time, seconds, status
        self.now = 0.0
        self.calls: list[tuple[str, str, int]] = []

    def measure(self, side: str, case: str, number: int) -> MeasuredProcess:
        self.calls.append((side, case, number))
        self.now += self.seconds
        median = self.time(side, case)
        status = self.status if side == "B" else "ok"
        return MeasuredProcess(status, median, None if status == "ok" else "no memory", self.seconds)

    def turns(self, *cases: str, budget: float = 1e6, seed: int = 0) -> list[Turns]:
        return take_turns(cases, self.measure, PRECISION, budget, seed, clock=lambda: self.now)


def noisy(factor: float, noise: float = 0.005, seed: int = 3) -> Callable[[str, str], float]:
    """Processes of A at 100 µs, of B at `factor` times that."""
    source = random.Random(seed)
    return lambda side, case: 100 * (factor if side == "B" else 1) * (1 + source.gauss(0, noise))


def verdicts(turns: list[Turns]) -> dict[str, str]:
    return {each.case: each.verdict for each in results(turns, (), PRECISION)}


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "no difference"), (1.1, "slower"), (0.9, "faster")])
def test_a_change_is_found_and_none_is_made_up(factor: float, verdict: str) -> None:
    assert verdicts(Machine(noisy(factor)).turns("one")) == {"one": verdict}


@pytest.mark.parametrize("draw", [random.Random.gauss, lambda source, mean, sigma: mean + sigma * student_t3(source)])
def test_of_200_comparisons_of_a_with_itself_at_most_the_stated_share_finds_a_change(
    draw: Callable[[random.Random, float, float], float],
) -> None:
    source = random.Random(20)
    found = []
    for seed in range(200):
        machine = Machine(lambda side, case: 100 * math.exp(draw(source, 0.0, 0.03)))
        (turns,) = machine.turns("one", budget=30.0, seed=seed)  # 15 rounds of two processes, a second each
        (result,) = results([turns], (), PRECISION)
        assert result.ratio is not None
        assert result.ratio.rounds <= 15
        found.append((result.verdict, result.ratio.low <= 1 <= result.ratio.high))
    assert sum(verdict in ("slower", "faster") for verdict, _ in found) <= 2  # 1 % of 200
    assert sum(covers for _, covers in found) >= 196  # the interval of 99 %, which may stop early


def student_t3(source: random.Random) -> float:
    """A value of Student's t distribution with three degrees of freedom."""
    return source.gauss(0, 1) / math.sqrt(sum(source.gauss(0, 1) ** 2 for _ in range(3)) / 3)


def test_without_any_budget_a_case_is_undecided_after_its_first_round() -> None:
    (turns,) = Machine(noisy(2.0)).turns("one", budget=0.0)
    (result,) = results([turns], (), PRECISION)
    assert len(turns.medians["A"]) == 1
    assert (result.verdict, _whole(result).exit_status) == ("undecided", 0)


def test_one_case_that_fails_does_not_end_the_others() -> None:
    source = noisy(1.1)

    def time(side: str, case: str) -> float | None:
        return None if (side, case) == ("A", "broken") else source(side, case)

    turns = Machine(time).turns("broken", "good")
    made = results(turns, (), PRECISION)
    assert [result.verdict for result in made] == ["failed", "slower"]
    assert made[0].reasons == ("A has no forward time",)
    assert _whole(*made).exit_status == 5


def test_each_round_is_a_process_of_each_side_in_both_orders() -> None:
    machine = Machine(noisy(1.0, noise=0.02))
    machine.turns("one")
    rounds = [tuple(side for side, _, number in machine.calls if number == n) for n in range(1, 9)]
    assert all(sorted(each) == ["A", "B"] for each in rounds)
    assert {("A", "B"), ("B", "A")} <= set(rounds)


def test_a_case_that_is_known_is_not_measured_further() -> None:
    source = random.Random(1)

    def time(side: str, case: str) -> float:
        return 100.0 if case == "quiet" else 100 * (1 + source.gauss(0, 0.03))

    quiet, loud = Machine(time).turns("quiet", "loud")
    assert len(quiet.medians["A"]) == 8  # the fewest rounds of an interval at 99 %
    assert len(loud.medians["A"]) > 8


def test_the_budget_ends_the_rounds_and_leaves_the_case_undecided() -> None:
    machine = Machine(noisy(1.0), seconds=10.0)
    (turns,) = machine.turns("one", budget=65.0)
    assert len(turns.medians["A"]) == 3  # rounds of 20 s: the fourth would end after 80 s
    assert verdicts([turns]) == {"one": "undecided"}


def test_the_first_round_is_measured_whatever_the_budget() -> None:
    machine = Machine(noisy(1.0), seconds=10.0)
    first, second = machine.turns("one", "two", budget=1.0)
    assert len(first.medians["A"]) == len(second.medians["A"]) == 1


@pytest.mark.parametrize(("status", "verdict", "code"), [("failed", "failed", 4), ("unsupported", "unsupported", 0)])
def test_a_side_that_cannot_be_measured_ends_its_case(status: str, verdict: str, code: int) -> None:
    machine = Machine(noisy(1.0), status=status)
    turns = machine.turns("one")
    assert len(machine.calls) == 2
    (result,) = results(turns, (), PRECISION)
    assert (result.verdict, result.reasons) == (verdict, (f"B {status}: no memory",))
    assert _whole(result).exit_status == code


def test_no_forward_time_is_a_failure_and_not_a_zero() -> None:
    (turns,) = Machine(lambda side, case: None).turns("one")
    (result,) = results([turns], (), PRECISION)
    assert (result.verdict, result.ratio) == ("failed", None)


def _whole(*cases: CaseResult, fail_on: tuple[str, ...] = ("slower", "kernels")) -> ComparisonResult:
    sides = (Subject("A", "old", "commit"), Subject("B", "new", "commit"))
    return ComparisonResult(*sides, cases, None, PRECISION, fail_on)


@pytest.mark.parametrize(
    ("changes", "verdict", "code"),
    [((), "no difference", 0), (("faster",), "faster", 0), (("slower",), "slower", 3), (("kernels",), "undecided", 3)],
)
def test_the_exit_status_follows_the_changes_that_were_asked_for(
    changes: tuple[str, ...], verdict: str, code: int
) -> None:
    assert _whole(CaseResult("one", verdict, None, changes)).exit_status == code
    broken = CaseResult("two", "failed", None, ())
    assert _whole(CaseResult("one", verdict, None, changes), broken).exit_status == {0: 4, 3: 5}[code]
