"""How long tests wait, and how a stated time limit is checked on a machine that is slow or busy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

LONG = 1800
"""Seconds. Only ends what would never end: no test says anything about speed by it."""
TRIES = 10
YARDSTICK_S = 0.15
"""Seconds that `yardstick` takes on the machine for which the project states its limits: a core of an AMD EPYC."""


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; the limit only ends a test that would never end."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def yardstick() -> None:
    """Fixed work of the kind that the project does: JSON, text, sorting."""
    rows = [{"name": f"kernel_{at * 7919 % 1000}", "us": at * 1.5} for at in range(40_000)]
    for _ in range(2):
        rows = sorted(json.loads(json.dumps(rows)), key=lambda row: (row["name"], row["us"]))


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """What `work` takes by a clock; by default CPU time of this process."""
    began = clock()
    work()
    return clock() - began


def best_of(
    measure: Callable[[], float], limit_s: float, *, clock: Callable[[], float] = time.process_time, tries: int = TRIES
) -> float:
    """The least of `measure()` in seconds, measured again until it is below the limit, `tries` times at most.

    Where the yardstick takes longer by the same clock than where the limits are stated, the machine is slower, or
    others work on it: the seconds count for as much less. So slower code misses a limit, and a slower machine does not.
    """
    least = float("inf")
    for _ in range(tries):
        before = seconds(yardstick, clock)
        taken = measure()
        slowness = max(1.0, min(before, seconds(yardstick, clock)) / YARDSTICK_S)
        least = min(least, taken / slowness)
        if least < limit_s:
            break
    return least
