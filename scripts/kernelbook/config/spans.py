"""Numbers and ranges in guesses: 5, "3-5" or {min: 3, max: 5}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NUMBER = r"[0-9]+(?:\.[0-9]+)?"
REVERSED = "must not begin above its end"
RANGE = re.compile(rf"\s*({NUMBER})(?:\s*-\s*({NUMBER}))?\s*")


@dataclass(frozen=True)
class Span:
    """A closed interval. None leaves an end open."""

    low: float | None
    high: float | None

    def holds(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def reversed(self) -> bool:
        """Whether it begins above its end, so that no value is inside."""
        return self.low is not None and self.high is not None and self.low > self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:g}"
        if self.high is None:
            return f"at least {self.low:g}"
        return f"at most {self.high:g}" if self.low is None else f"{self.low:g}-{self.high:g}"


def span(value: Any, open_ended: bool = False) -> Span:
    """The range of a value. `open_ended`: a single number is a lower limit, as for factors.

    Raises ValueError if the value is not a range or the range is reversed.
    """
    interval = as_span(value, open_ended)
    if interval.reversed:
        raise ValueError(f"{REVERSED}, got {interval}: write {interval.high:g}-{interval.low:g}")
    return interval


def as_span(value: Any, open_ended: bool = False) -> Span:
    """As `span`, but also for reversed ranges."""
    if is_ends(value):
        return Span(value.get("min"), value.get("max"))
    if _is_number(value):
        return Span(value, None if open_ended else value)
    ends = RANGE.fullmatch(value) if isinstance(value, str) else None
    if not ends:
        raise ValueError(f'must be a number, a range such as "3-5" or a map of min and max, got {value!r}')
    low = float(ends.group(1))
    return Span(low, float(ends.group(2)) if ends.group(2) else None if open_ended else low)


def is_ends(value: Any) -> bool:
    """Whether a value is a mapping with numbers for min, max or both."""
    if not isinstance(value, Mapping) or not value or not set(value) <= {"min", "max"}:
        return False
    return all(_is_number(end) for end in value.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
