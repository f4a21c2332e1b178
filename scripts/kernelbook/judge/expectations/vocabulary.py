"""The words an expectation may use: each has a meaning, the form of its value, and the function that looks.

A new word is one function with ``@word(...)`` in one of the modules beside this. It gets the value as configured,
the facts of its case and those of all cases of the run, and returns what it saw.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.config.spans import as_span, is_ends

CONFIRMED, BROKEN, NOT_APPLICABLE = "confirmed", "broken", "not applicable"
CAPABILITIES = ("60", "61", "70", "72", "75", "80", "86", "87", "89", "90", "100", "101", "103", "110", "120", "121")
DEVICE_KEYS = ("cuda", "cpu", *(f"sm{capability}" for capability in CAPABILITIES))


@dataclass(frozen=True)
class Judgement:
    """One word of an expectation, judged in one case of one run. ``evidence`` shows what the verdict stands on."""

    run: str
    case: str
    word: str
    expected: str
    observed: str
    verdict: str
    evidence: str = ""

    @property
    def broken(self) -> bool:
        """Whether the guess was wrong."""
        return self.verdict == BROKEN

    @property
    def held(self) -> bool:
        """Whether the guess was right; neither where it could not be judged."""
        return self.verdict == CONFIRMED


@dataclass(frozen=True)
class Observation:
    """What a word's function saw: whether the guess held (None: cannot be said), in words, and the evidence."""

    held: bool | None
    observed: str
    evidence: str = ""


FORWARDS_DIFFER = "forwards differ"


def agreed(verdicts: Iterable[bool]) -> bool | None:
    """One verdict of those over all forwards: None where they differ, so that it cannot be said of a forward."""
    found = set(verdicts)
    return found.pop() if len(found) == 1 else None


Look = Callable[[Any, CaseFacts, Mapping[str, CaseFacts]], Observation]


@dataclass(frozen=True)
class Word:
    """A word: its name, what it means, the JSON schema of its value, and whether it needs device activities."""

    name: str
    means: str
    schema: Mapping[str, Any]
    needs_device: bool
    look: Look = field(repr=False)


_WORDS: dict[str, Word] = {}


def word(name: str, means: str, schema: Mapping[str, Any], needs_device: bool = True) -> Callable[[Look], Look]:
    """Register the decorated function as the meaning of ``name``."""

    def register(look: Look) -> Look:
        _WORDS[name] = Word(name, means, schema, needs_device, look)
        return look

    return register


def vocabulary() -> Mapping[str, Word]:
    """All words by name, in the order of their definition."""
    return dict(_WORDS)


def unknown_word(name: str, where: str) -> str:
    """The line that refuses a word nobody knows: fact, where, remedy."""
    known = [*_WORDS, *DEVICE_KEYS]
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else f"there is: {', '.join(sorted(known))}"
    return f"{where}: unknown word {name!r}: {remedy}"


# --- the forms that values take -------------------------------------------------------------------------------------

COUNT = {
    "type": ["integer", "string", "object"],
    "minimum": 0,
    "pattern": r"^[0-9]+(\s*-\s*[0-9]+)?$",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "min": {"type": "integer", "minimum": 0, "description": "At least so many."},
        "max": {"type": "integer", "minimum": 0, "description": "At most so many."},
    },
    "must": 'a whole number, a range such as "3-5", or a map of min and max',
}
FACTOR = {
    "type": ["string", "object"],
    "pattern": r"^[a-z][a-z0-9.-]*$",
    "minProperties": 1,
    "additionalProperties": {
        "type": ["number", "string", "object"],
        "exclusiveMinimum": 0,
        "pattern": r"^[0-9]+(\.[0-9]+)?(\s*-\s*[0-9]+(\.[0-9]+)?)?$",
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {
            "min": {"type": "number", "exclusiveMinimum": 0, "description": "At least this factor."},
            "max": {"type": "number", "exclusiveMinimum": 0, "description": "At most this factor."},
        },
        "must": 'a factor of 1 or more, a range such as "2-3.5", or a map of min and max',
    },
    "must": "the name of another case, or a map of its name and the factor",
}
NAMES = {
    "type": ["array", "string"],
    "minItems": 1,
    "pattern": r"\S",
    "items": {"type": "string", "pattern": r"\S", "must": "a name"},
    "must": "a name or a list of names",
}
YES_NO = {"enum": ["yes", "no", True, False], "must": "yes or no"}


def counts_of(kind: str) -> dict[str, Any]:
    """The schema of a map from names to counts."""
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": r"\S", "must": "a name"},
        "additionalProperties": COUNT,
        "must": f"a map of {kind} and how many",
    }


def names(value: Any) -> tuple[str, ...]:
    """One name or several."""
    return (value,) if isinstance(value, str) else tuple(value)


def said(value: Any) -> str:
    """A configured value as one would say it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        if is_ends(value):
            return str(as_span(value))
        return ", ".join(f"{key}: {said(inner)}" for key, inner in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(said(inner) for inner in value)
    return str(value)
