"""Measuring in turns: a process of A and one of B a round, until each ratio is known or the budget is spent."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kernelbook.compare.measuring import Measured
from kernelbook.judge.paired import PairedRatio, Precision, paired_ratio

MOST_ROUNDS = 200
#: Measures one process: (side, case, number of the process).
Measure = Callable[[str, str, int], Measured]
Report = Callable[[str], None]


@dataclass
class Turns:
    """The rounds of one case: medians of the processes of A and B in µs, and why it ended early."""

    case: str
    medians: dict[str, list[float]] = field(default_factory=lambda: {"A": [], "B": []})
    ended: dict[str, Measured] = field(default_factory=dict)

    def ratio(self, precision: Precision) -> PairedRatio | None:
        """The ratio of the rounds so far."""
        return paired_ratio(self.medians["A"], self.medians["B"], precision.confidence)

    def done(self, precision: Precision) -> bool:
        """Whether no further round is needed: the interval is narrow, or a side cannot be measured."""
        ratio = self.ratio(precision)
        return bool(self.ended) or (ratio is not None and ratio.narrow(precision))


def take_turns(
    cases: Sequence[str],
    measure: Measure,
    precision: Precision,
    budget_s: float,
    seed: int = 0,
    report: Report = lambda line: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Turns]:
    """Measure all cases round by round, in random order of cases and sides, and return their rounds.

    budget_s: no round of a case begins that would probably end later than this after the start; the first always does.
    seed: of the orders. A process that fails, or gives no forward time, ends its case.
    """
    order = random.Random(seed)
    turns = {case: Turns(case) for case in cases}
    began, longest = clock(), dict.fromkeys(cases, 0.0)
    for number in range(1, MOST_ROUNDS + 1):
        waiting = [case for case in cases if not turns[case].done(precision)]
        order.shuffle(waiting)
        afforded = [case for case in waiting if number == 1 or clock() - began + longest[case] <= budget_s]
        for case in afforded:
            if number > 1 and clock() - began + longest[case] > budget_s:
                continue
            round_began = clock()
            _round(turns[case], measure, number, order)
            longest[case] = max(longest[case], clock() - round_began)
            report(progress(turns[case], precision))
        if not afforded:
            break
    return [turns[case] for case in cases]


def _round(turns: Turns, measure: Measure, number: int, order: random.Random) -> None:
    """One process of each side; the pair counts only if both gave a time."""
    sides = ["A", "B"]
    order.shuffle(sides)
    measured: dict[str, Measured] = {side: measure(side, turns.case, number) for side in sides}
    for side, each in measured.items():
        if each.status != "ok":
            turns.ended[side] = each
    times = {side: each.median_us for side, each in measured.items()}
    if not turns.ended and all(times.values()):
        for side, median in times.items():
            turns.medians[side].append(median or 0.0)
    elif not turns.ended:
        turns.ended.update({side: each for side, each in measured.items() if not each.median_us})


def progress(turns: Turns, precision: Precision) -> str:
    """One line on how a case stands."""
    ratio = turns.ratio(precision)
    if turns.ended:
        return f"{turns.case}: {'; '.join(ends(turns))}"
    if ratio is None:
        return f"{turns.case}: no round yet"
    if ratio.low is None or ratio.high is None:
        return f"{turns.case}: round {ratio.rounds}, B / A {ratio.ratio:.3f}, {precision.fewest_rounds} rounds at least"
    return f"{turns.case}: round {ratio.rounds}, B / A {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _end(side: str, each: Measured) -> str:
    return f"{side} {each.status}: {each.reason}" if each.status != "ok" else f"{side} has no forward time"


def ends(turns: Turns) -> Iterator[str]:
    """Why the sides of a case could not be measured, a sentence each."""
    for side, each in turns.ended.items():
        yield _end(side, each)
