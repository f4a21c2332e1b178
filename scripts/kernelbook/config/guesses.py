"""Finds guesses that no measurement could meet: reversed ranges, factors below 1, circular comparisons.

Values that violate the schema are skipped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from kernelbook.config.spans import REVERSED, as_span, span

Words = Mapping[str, Mapping[str, Any]]  # word -> schema of its value, as in expect.schema.json
Above = Mapping[str, frozenset[str]]  # case -> the cases that it is guessed to be above


def guess_errors(settings: Mapping[str, Any], schemas: Path) -> list[str]:
    """One line per mistake: position, fact, remedy. schemas: the folder of expect.schema.json."""
    words = json.loads((schemas / "expect.schema.json").read_text(encoding="utf-8"))["$defs"]["words"]["properties"]
    cases = _map(settings.get("cases"))
    guesses = {str(case): _map(_map(spec).get("expect")) for case, spec in cases.items()}
    errors = [
        line
        for case, expect in guesses.items()
        for where, block in _blocks(f"cases.{case}.expect", expect)
        for line in _range_errors(where, block, words)
    ]
    return errors + list(_circles(guesses, words))


def _blocks(where: str, expect: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The words for all devices, then those for each device."""
    yield where, expect
    yield from ((f"{where}.{key}", inner) for key, inner in expect.items() if _is_device(key, inner))


def _range_errors(where: str, block: Mapping[str, Any], words: Words) -> Iterator[str]:
    for word, value in block.items():
        schema = words.get(word, {})
        if _is_range(schema):
            yield from _reversed(f"{where}.{word}", value)
        elif _is_range(schema.get("additionalProperties")):
            for name, inner in _map(value).items():
                if "order" in schema:
                    yield from _factor(f"{where}.{word}.{name}", _opposite(word, words), inner)
                else:
                    yield from _reversed(f"{where}.{word}.{name}", inner)
        elif word == "ops_in_order":
            for step in _names(value):
                if step.strip() and not all(part.strip() for part in step.split(">")):
                    yield f"{where}.{word}: must name an op on either side of >, got {json.dumps(step)}: add it"


def _is_range(schema: Any) -> bool:
    """Whether its values are numbers or ranges, written as a map of min and max too."""
    return {"min", "max"} <= set(_map(_map(schema).get("properties")))


def _opposite(word: str, words: Words) -> str | None:
    """slower_than for faster_than; None if no word says the opposite."""
    order = words[word]["order"]
    opposite = {"of": order["of"], "above": not order["above"]}
    return next((other for other, schema in words.items() if schema.get("order") == opposite), None)


def _reversed(where: str, value: Any) -> Iterator[str]:
    try:
        span(value)
    except ValueError as error:
        if REVERSED in str(error):
            yield f"{where}: {error}"


def _factor(where: str, opposite: str | None, value: Any) -> Iterator[str]:
    """A factor is how many times one case is above another, so it is at least 1."""
    wrong = list(_reversed(where, value))
    yield from wrong
    try:
        factor = as_span(value, open_ended=True)
    except ValueError:
        return
    if not wrong and any(end is not None and end < 1 for end in (factor.low, factor.high)):
        remedy = f"for less, use {opposite}" if opposite else "give 1 or more, or leave it out"
        yield f"{where}: must be a factor of 1 or more, got {json.dumps(value)}: {remedy}"


def _circles(guesses: Mapping[str, Mapping[str, Any]], words: Words) -> Iterator[str]:
    """One line per circle of cases that are each guessed to be above the next."""
    devices = (key for expect in guesses.values() for key, inner in expect.items() if _is_device(key, inner))
    orders: dict[str, dict[bool, str]] = {}  # quantity -> whether above -> word
    for word, schema in words.items():
        if "order" in schema:
            orders.setdefault(schema["order"]["of"], {})[schema["order"]["above"]] = word
    reported = set()
    for device in dict.fromkeys(("", *devices)):
        for what, by_direction in orders.items():
            circle = _circle(_above(guesses, device, by_direction.get(True), by_direction.get(False)))
            if len(circle) > 1 and (what, frozenset(circle)) not in reported:
                reported.add((what, frozenset(circle)))
                chain = " > ".join([*circle, circle[0]])
                yield f"cases.{circle[0]}.expect: no {what} can be so: {chain}: delete one of these guesses"


def _is_device(key: str, inner: Any) -> bool:
    return isinstance(inner, Mapping) and (key in ("cuda", "cpu") or key.startswith("sm"))


def _above(guesses: Mapping[str, Mapping[str, Any]], device: str, more: str | None, less: str | None) -> Above:
    above: dict[str, set[str]] = {case: set() for case in guesses}
    for case, expect in guesses.items():
        words = {**expect, **_map(expect.get(device))}
        for other in _names(words.get(more)) if more else ():
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
