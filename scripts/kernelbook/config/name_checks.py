"""Checks names and guesses in config.yaml: references that match nothing, reserved names, ranges that cannot be met."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from kernelbook.config.origins import NAME
from kernelbook.config.spans import REVERSED, as_span, span
from kernelbook.text.suggestions import near_miss

RESERVED_EDITIONS = frozenset({"example"})
# Other entries in results/<edition> and in results/<edition>/<run>.
RESERVED_RUNS = frozenset({"edition", "night", "plan.json"})
RESERVED_CASES = frozenset({"cache", "image", "inputs.json", "run.json", "tables.json"})
LONGEST_NAME = 100  # characters; file systems allow 255, and some files extend the name
REPEATED = re.compile(r"(.+?)\1{19,}")  # Snakemake takes such a name for an endless recursion
LOG = ".log"  # ending of the files next to those folders in logs/


def is_usable(name: str) -> bool:
    return NAME.fullmatch(name) is not None and name not in RESERVED_CASES and not any(_unfit("case", name))


def name_errors(settings: Mapping[str, Any], recorded: Sequence[str] = ()) -> list[str]:
    """One line per mistake: position, fact, remedy. Values that violate the schema are skipped here.

    recorded: names of cases in recorded folders, which only_cases may name too.
    """
    return [
        *_edition_errors(settings),
        *_nothing_to_do(settings),
        *_taken(settings),
        *_unfit_names(settings),
        *_unknown_names(settings, recorded),
        *_compared_with_themselves(settings),
        *_two_numbers_of_ranks(settings),
    ]


def _two_numbers_of_ranks(settings: Mapping[str, Any]) -> list[str]:
    return [
        f"cases.{name}: has ranks and torchrun, which say the same: give one of them"
        for name, spec in _map(settings.get("cases")).items()
        if {"ranks", "torchrun"} <= set(_map(spec))
    ]


def _taken(settings: Mapping[str, Any]) -> list[str]:
    runs, cases = _map(settings.get("runs")), _map(settings.get("cases"))
    errors = [
        f"runs.{name}: the name is taken by a file of the results: choose another"
        for name in runs
        if name in RESERVED_RUNS
    ]
    names = Counter(name for name in all_cases(cases))
    for name, count in names.items():
        if name in RESERVED_CASES:
            errors.append(f"cases.{name}: the name is taken by a file of the results: choose another")
        if count > 1:
            errors.append(
                f"cases: {count} cases would be named {name!r} (a sweep adds its parameter and value): rename one"
            )
    return errors


def _unfit_names(settings: Mapping[str, Any]) -> Iterator[str]:
    """Names that folders of results or logs cannot have."""
    groups = {
        "edition": [settings.get("edition")],
        "runs": _map(settings.get("runs")),
        "cases": all_cases(_map(settings.get("cases"))),
    }
    for where, names in groups.items():
        for name in (name for name in names if isinstance(name, str)):
            yield from _unfit(where, name)


def _unfit(where: str, name: str) -> Iterator[str]:
    if len(name) > LONGEST_NAME:
        yield f"{where}: {name[:20]}... has {len(name)} characters: a name may have {LONGEST_NAME}"
    elif REPEATED.search(name):
        yield f"{where}: {name!r} repeats itself twenty times: choose another name"
    if name.endswith(LOG):
        yield f"{where}: {name!r} ends as the files of the logs do: choose another name"


def _compared_with_themselves(settings: Mapping[str, Any]) -> list[str]:
    """Cases that are compared with themselves, which always holds."""
    cases = _map(settings.get("cases"))
    return [
        f"cases.{case}.expect: compares the case with itself: name another case"
        for case, spec in cases.items()
        if case in compared_cases(_map(_map(spec).get("expect")))
    ]


def _edition_errors(settings: Mapping[str, Any]) -> list[str]:
    if settings.get("edition") in RESERVED_EDITIONS:
        return [f"edition: {settings['edition']!r} is taken by the shipped example report: choose another name"]
    return []


def _nothing_to_do(settings: Mapping[str, Any]) -> list[str]:
    runs = [name for name, spec in _map(settings.get("runs")).items() if {"host", "container"} & set(_map(spec))]
    if "cases" in settings or not runs:
        return []
    return [f"the top level: the key 'cases' is missing: add it (run {runs[0]} has nothing to measure)"]


def _unknown_names(settings: Mapping[str, Any], recorded: Sequence[str]) -> list[str]:
    """Selections and references that match no run or case."""
    runs, specs, report = (_map(settings.get(key)) for key in ("runs", "cases", "report"))
    cases = all_cases(specs)
    selectable = [*cases, *(name for name in specs if name not in cases)]  # a sweep's name selects all its values
    references = [
        ("only_runs", "run", runs, settings.get("only_runs")),
        ("only_cases", "case", [*selectable, *recorded], settings.get("only_cases")),
    ]
    references += [
        (f"runs.{run}.cases", "case", selectable, _map(spec).get("cases"))
        for run, spec in runs.items()
        if "recorded" not in _map(spec)
    ]
    references += [
        (f"cases.{case}.expect", "case", cases, compared_cases(_map(_map(spec).get("expect"))))
        for case, spec in specs.items()
    ]
    references.append(("report.headline", "case", cases, report.get("headline")))
    return [
        f"{where}: names no {kind}: {pattern!r}: {near_miss(pattern, choices)}"
        for where, kind, choices, patterns in references
        for pattern in (patterns if isinstance(patterns, list) else [])
        if isinstance(pattern, str) and not _matching(pattern, [str(name) for name in choices], where)
    ]


def _matching(pattern: str, names: Sequence[str], where: str) -> list[str]:
    """The names that a selection matches; guesses and the headline take whole names only."""
    whole = where.endswith((".expect", ".headline"))
    return [name for name in names if name == pattern] if whole else fnmatch.filter(names, pattern)


def all_cases(cases: Mapping[str, Any]) -> list[str]:
    """Names of all cases, with a sweep replaced by the names of its cases."""
    names = []
    for name, spec in cases.items():
        sweep = _map(_map(spec).get("sweep"))
        names += [] if sweep else [name]
        for parameter, values in sweep.items():
            names += [sweep_name(name, parameter, value) for value in (values if isinstance(values, list) else [])]
    return names


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def compared_cases(expect: Mapping[str, Any]) -> list[str]:
    """Cases that an expectation compares with: the values of `..._as` and the keys of `..._than`."""
    names = []
    for word, value in expect.items():
        if word.endswith("_as"):
            names += [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
        elif word.endswith("_than"):
            names += [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping | list) else []
        elif isinstance(value, Mapping):
            names += compared_cases(value)
    return [name for name in names if isinstance(name, str)]


def sweep_name(case: str, parameter: str, value: Any) -> str:
    return case + "-" + re.sub(r"[^a-z0-9.]+", "-", f"{parameter}-{value}".lower()).strip("-")


# --- guesses that no measurement could meet --------------------------------------------------------------------------


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
