"""Medians of the figures of a case: over the forwards of a process, then over the processes; and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelbook.cases.facts import Activity, ProfiledForward


def median(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None if there are none."""
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def medians_by_process(values: Iterable[tuple[int, float | None]]) -> dict[int, float | None]:
    """Process -> the median of its values. values: (process, value) in any order."""
    by_process: dict[int, list[float | None]] = {}
    for process, value in values:
        by_process.setdefault(process, []).append(value)
    return {process: median(of_one) for process, of_one in by_process.items()}


def median_of_processes(values: Iterable[tuple[int, float | None]]) -> float | None:
    """The median over the values of each process, then over the processes. values: (process, value)."""
    return median(medians_by_process(values).values())


def spread(values: Iterable[float | None]) -> float | None:
    """Largest over smallest, minus 1, of the values other than None and 0; None if there are fewer than two."""
    positive = [value for value in values if value]
    return max(positive) / min(positive) - 1 if len(positive) > 1 else None


def median_durations_us(chosen: ProfiledForward, forwards: Sequence[ProfiledForward]) -> tuple[float, ...]:
    """The median duration (µs) of the activity at each position of `chosen`.

    It is taken over those of `forwards` that have the same activities (category and name) in the same order: over the
    forwards of a process, then over the processes, as for device_time_us.
    """
    by_process: dict[int, list[Sequence[Activity]]] = {}
    for forward in (chosen, *(each for each in forwards if each is not chosen)):
        if forward.sequence == chosen.sequence:
            by_process.setdefault(forward.process, []).append(forward.activities)
    return tuple(
        median(median(each[place].duration_us for each in alike) for alike in by_process.values()) or 0.0
        for place in range(len(chosen.activities))
    )
