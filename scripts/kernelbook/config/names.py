"""Names in config.yaml: those that nothing bears, those that are taken, and those that two things would share."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelbook.config.spelling import NAME
from kernelbook.text.suggestions import near_miss

RESERVED_EDITIONS = frozenset({"example"})
# what lies beside the folders of the runs in results/<edition>, and of the cases in results/<edition>/<run>
RESERVED_RUNS = frozenset({"edition", "night", "plan.json"})
RESERVED_CASES = frozenset({"cache", "image", "inputs.json", "run.json", "tables.json"})
LONGEST_NAME = 100  # letters; file systems take 255, and some files add to the name
REPEATED = re.compile(r"(.+?)\1{19,}")  # in which Snakemake fears an endless recursion
LOG = ".log"  # the ending of what lies beside those folders in logs/


def is_usable(name: str) -> bool:
    """Whether a folder's name can be that of a case: by its letters, its length, and what else may not be."""
    return NAME.fullmatch(name) is not None and name not in RESERVED_CASES and not any(_unfit("case", name))


def name_errors(given: Mapping[str, Any], recorded: Sequence[str] = ()) -> list[str]:
    """One line a mistake: what, where, remedy. Whatever breaks the schema is passed over here.

    recorded: names of cases in recorded folders, which only_cases may name too.
    """
    return [
        *_edition_errors(given),
        *_nothing_to_do(given),
        *_taken(given),
        *_unfit_names(given),
        *_unknown_names(given, recorded),
        *_compared_with_themselves(given),
    ]


def _taken(given: Mapping[str, Any]) -> list[str]:
    runs, cases = _map(given.get("runs")), _map(given.get("cases"))
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


def _unfit_names(given: Mapping[str, Any]) -> Iterator[str]:
    """Names that no folder of the results or the logs can have."""
    named = {
        "edition": [given.get("edition")],
        "runs": _map(given.get("runs")),
        "cases": all_cases(_map(given.get("cases"))),
    }
    for where, names in named.items():
        for name in (name for name in names if isinstance(name, str)):
            yield from _unfit(where, name)


def _unfit(where: str, name: str) -> Iterator[str]:
    if len(name) > LONGEST_NAME:
        yield f"{where}: {name[:20]}... has {len(name)} letters: a name may have {LONGEST_NAME}"
    elif REPEATED.search(name):
        yield f"{where}: {name!r} repeats itself twenty times: choose another name"
    if name.endswith(LOG):
        yield f"{where}: {name!r} ends as the files of the logs do: choose another name"


def _compared_with_themselves(given: Mapping[str, Any]) -> list[str]:
    """Cases whose guess names the case itself, which would hold whatever is measured."""
    cases = _map(given.get("cases"))
    return [
        f"cases.{case}.expect: compares the case with itself: name another case"
        for case, spec in cases.items()
        if case in _referenced_cases(_map(_map(spec).get("expect")))
    ]


def _edition_errors(given: Mapping[str, Any]) -> list[str]:
    if given.get("edition") in RESERVED_EDITIONS:
        return [f"edition: {given['edition']!r} is taken by the shipped example report: choose another name"]
    return []


def _nothing_to_do(given: Mapping[str, Any]) -> list[str]:
    runs = [name for name, spec in _map(given.get("runs")).items() if {"host", "container"} & set(_map(spec))]
    if "cases" in given or not runs:
        return []
    return [f"the top level: the key 'cases' is missing: add it (run {runs[0]} has nothing to measure)"]


def _unknown_names(given: Mapping[str, Any], recorded: Sequence[str]) -> list[str]:
    """Selections and references that name no run or no case; what breaks the schema is passed over here."""
    runs, specs, report = (_map(given.get(key)) for key in ("runs", "cases", "report"))
    cases = all_cases(specs)
    selectable = [*cases, *(name for name in specs if name not in cases)]  # of a sweep, the name stands for all values
    named = [
        ("only_runs", "run", runs, given.get("only_runs")),
        ("only_cases", "case", [*selectable, *recorded], given.get("only_cases")),
    ]
    named += [
        (f"runs.{run}.cases", "case", selectable, _map(spec).get("cases"))
        for run, spec in runs.items()
        if "recorded" not in _map(spec)
    ]
    named += [
        (f"cases.{case}.expect", "case", cases, _referenced_cases(_map(_map(spec).get("expect"))))
        for case, spec in specs.items()
    ]
    named.append(("report.headline", "case", cases, report.get("headline")))
    return [
        f"{where}: names no {kind}: {pattern!r}: {near_miss(pattern, known)}"
        for where, kind, known, patterns in named
        for pattern in (patterns if isinstance(patterns, list) else [])
        if isinstance(pattern, str) and not _named(pattern, [str(name) for name in known], where)
    ]


def _named(pattern: str, known: Sequence[str], where: str) -> list[str]:
    """The names that a selection takes; a guess and the headline take one by its whole name."""
    whole = where.endswith((".expect", ".headline"))
    return [name for name in known if name == pattern] if whole else fnmatch.filter(known, pattern)


def all_cases(cases: Mapping[str, Any]) -> list[str]:
    """Every name that a case will have; a case that sweeps a parameter has none of its own."""
    found = []
    for name, spec in cases.items():
        sweep = _map(_map(spec).get("sweep"))
        found += [] if sweep else [name]
        for parameter, values in sweep.items():
            found += [sweep_name(name, parameter, value) for value in (values if isinstance(values, list) else [])]
    return found


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _referenced_cases(expect: Mapping[str, Any]) -> list[str]:
    """Cases that the words of an expectation compare with: the values of `..._as` and the keys of `..._than`."""
    found = []
    for word, value in expect.items():
        if word.endswith("_as"):
            found += [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
        elif word.endswith("_than"):
            found += [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping | list) else []
        elif isinstance(value, Mapping):
            found += _referenced_cases(value)
    return [name for name in found if isinstance(name, str)]


def sweep_name(case: str, parameter: str, value: Any) -> str:
    """The name of the case that a sweep makes of one value."""
    return case + "-" + re.sub(r"[^a-z0-9.]+", "-", f"{parameter}-{value}".lower()).strip("-")
