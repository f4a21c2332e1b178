"""Finds guesses that no measurement could meet: reversed ranges, factors below 1, circular comparisons.

Values that violate the schema are skipped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from kernelbook.config.spans import REVERSED, as_span, span

COUNTS = ("kernels", "memcpys", "memsets", "launches", "different_gemms")
MAPS_OF_COUNTS = ("kernel_families", "op_counts")
FACTORS = ("slower_than", "faster_than", "more_cpu_time_than")
#: (quantity, word for more, word for less). No case can be above itself in any of them.
ORDERS = (
    ("device time", "slower_than", "faster_than"),
    ("CPU time", "more_cpu_time_than", None),
    ("kernels", "more_kernels_than", "fewer_kernels_than"),
    ("CPU ops", "more_cpu_ops_than", "fewer_cpu_ops_than"),
)
OPPOSITE = {"slower_than": "faster_than", "faster_than": "slower_than"}
Above = Mapping[str, frozenset[str]]  # case -> the cases that it is guessed to be above


def guess_errors(settings: Mapping[str, Any]) -> list[str]:
    """One line per mistake: position, fact, remedy."""
    cases = _map(settings.get("cases"))
    guesses = {str(case): _map(_map(spec).get("expect")) for case, spec in cases.items()}
    errors = [
        line
        for case, expect in guesses.items()
        for where, words in _blocks(f"cases.{case}.expect", expect)
        for line in _range_errors(where, words)
    ]
    return errors + list(_circles(guesses))


def _blocks(where: str, expect: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The words for all devices, then those for each device."""
    yield where, expect
    yield from ((f"{where}.{key}", inner) for key, inner in expect.items() if _is_device(key, inner))


def _range_errors(where: str, words: Mapping[str, Any]) -> Iterator[str]:
    for word, value in words.items():
        if word in COUNTS:
            yield from _reversed(f"{where}.{word}", value)
        elif word in MAPS_OF_COUNTS:
            for name, inner in _map(value).items():
                yield from _reversed(f"{where}.{word}.{name}", inner)
        elif word in FACTORS:
            for name, inner in _map(value).items():
                yield from _factor(f"{where}.{word}.{name}", word, inner)
        elif word == "ops_in_order":
            for step in _names(value):
                if step.strip() and not all(part.strip() for part in step.split(">")):
                    yield f"{where}.{word}: must name an op on either side of >, got {json.dumps(step)}: add it"


def _reversed(where: str, value: Any) -> Iterator[str]:
    try:
        span(value)
    except ValueError as error:
        if REVERSED in str(error):
            yield f"{where}: {error}"


def _factor(where: str, word: str, value: Any) -> Iterator[str]:
    """A factor is how many times one case is above another, so it is at least 1."""
    wrong = list(_reversed(where, value))
    yield from wrong
    try:
        factor = as_span(value, open_ended=True)
    except ValueError:
        return
    if not wrong and any(end is not None and end < 1 for end in (factor.low, factor.high)):
        remedy = f"for less, use {OPPOSITE[word]}" if word in OPPOSITE else "give 1 or more, or leave it out"
        yield f"{where}: must be a factor of 1 or more, got {json.dumps(value)}: {remedy}"


def _circles(guesses: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """One line per circle of cases that are each guessed to be above the next."""
    devices = (key for expect in guesses.values() for key, inner in expect.items() if _is_device(key, inner))
    reported = set()
    for device in dict.fromkeys(("", *devices)):
        for what, more, less in ORDERS:
            circle = _circle(_above(guesses, device, more, less))
            if len(circle) > 1 and (what, frozenset(circle)) not in reported:
                reported.add((what, frozenset(circle)))
                chain = " > ".join([*circle, circle[0]])
                yield f"cases.{circle[0]}.expect: no {what} can be so: {chain}: delete one of these guesses"


def _is_device(key: str, inner: Any) -> bool:
    return isinstance(inner, Mapping) and (key in ("cuda", "cpu") or key.startswith("sm"))


def _above(guesses: Mapping[str, Mapping[str, Any]], device: str, more: str, less: str | None) -> Above:
    above: dict[str, set[str]] = {case: set() for case in guesses}
    for case, expect in guesses.items():
        words = {**expect, **_map(expect.get(device))}
        for other in _names(words.get(more)):
            above[case].add(other)
        for other in _names(words.get(less)) if less else ():
            above.setdefault(other, set()).add(case)
    return {case: frozenset(others) for case, others in above.items()}


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, Mapping | list) else []


def _circle(above: Above) -> list[str]:
    """Cases that are each above the next, and the last above the first; beginning with the first in the file."""
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][:0:-1]  # from above to below; the error repeats the first at the end
        first = min(range(len(circle)), key=lambda at: list(above).index(circle[at]))
        return circle[first:] + circle[:first]
    return []


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
