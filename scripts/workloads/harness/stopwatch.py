"""Where the time of a measurement goes: seconds a phase."""

from __future__ import annotations

import time
from collections.abc import Mapping

SHORTEST_S = 0.05  # phases below this are left out of the line for people


class Stopwatch:
    """Counts seconds for one phase at a time; a phase that comes twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._phase: str | None = None
        self._since = time.monotonic()

    def phase(self, name: str | None) -> None:
        """End the current phase and begin another one; None begins none."""
        now = time.monotonic()
        if self._phase is not None:
            self.seconds[self._phase] = round(self.seconds.get(self._phase, 0.0) + now - self._since, 3)
        self._phase, self._since = name, now

    def add(self, seconds: Mapping[str, float]) -> None:
        """Take over what was counted elsewhere."""
        for name, spent in seconds.items():
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 3)


def summary(seconds: Mapping[str, float], total_s: float) -> str:
    """One line: `time: import of torch 1.9 s, ..., total 6.8 s`."""
    parts = [f"{name} {spent:.1f} s" for name, spent in seconds.items() if spent >= SHORTEST_S]
    return f"time: {', '.join([*parts, f'total {total_s:.1f} s'])}"
