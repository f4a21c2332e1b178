"""The words of a guess: each has a meaning, a schema for its value, and a function that judges it.

A new word is a function with ``@word(...)`` in a module of this package, and a test. It receives the configured value,
the facts of its case and its run, and returns an `Observation`. `scripts/reference_docs.py` writes the schema file and
the reference page; the checks of config.yaml read the schema file.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from kernelbook.cases import CaseFacts, label
from kernelbook.config.spans import as_span, is_ends
from kernelbook.judge.cost_model import Ceilings
from kernelbook.text.meaning import doc
from kernelbook.text.suggestions import closest, near_miss

CONFIRMED, BROKEN, NOT_APPLICABLE = "confirmed", "broken", "not applicable"
CAPABILITIES = ("60", "61", "70", "72", "75", "80", "86", "87", "89", "90", "100", "101", "103", "110", "120", "121")
DEVICE_KEYS = ("cuda", "cpu", *(f"sm{capability}" for capability in CAPABILITIES))


@dataclass(frozen=True)
class Judgement:
    """One word of a guess, judged in one case of one run."""

    run: str
    case: str
    word: Annotated[str, doc("The word under `expect:`.")]
    expected: Annotated[str, doc("What was guessed.")]
    observed: Annotated[str, doc("What was seen, or in a few words why it could not be judged.")]
    verdict: Annotated[str, doc("", CONFIRMED, BROKEN, NOT_APPLICABLE)]
    evidence: Annotated[str, doc("The figures that decide the verdict.")] = ""

    @property
    def broken(self) -> bool:
        return self.verdict == BROKEN

    @property
    def held(self) -> bool:
        """Whether the guess was right; False if it could not be judged."""
        return self.verdict == CONFIRMED


@dataclass(frozen=True)
class Observation:
    """Result of a word's function: whether the guess held (None: undecided), the observed value, and the evidence."""

    held: bool | None
    observed: str
    evidence: str = ""


FORWARDS_DIFFER = "forwards differ"


def agreed(verdicts: Iterable[bool]) -> bool | None:
    """The common verdict of all forwards; None if they differ."""
    distinct = set(verdicts)
    return distinct.pop() if len(distinct) == 1 else None


@dataclass(frozen=True)
class RunFacts:
    """All cases of the judged run by name, and the ceilings of its device."""

    cases: Mapping[str, CaseFacts]
    ceilings: Ceilings


Look = Callable[[Any, CaseFacts, RunFacts], Observation]


@dataclass(frozen=True)
class Word:
    """A word: name, meaning, JSON schema of its value, and whether it needs device activities.

    ``forbids``: whether its value names ops or kernels that must be absent.
    """

    name: str
    means: str
    schema: Mapping[str, Any]
    needs_device: bool
    forbids: bool
    look: Look = field(repr=False)


_WORDS: dict[str, Word] = {}


def word(
    name: str, means: str, schema: Mapping[str, Any], needs_device: bool = True, forbids: bool = False
) -> Callable[[Look], Look]:
    """Register the decorated function as the word ``name``."""

    def register(look: Look) -> Look:
        _WORDS[name] = Word(name, means, schema, needs_device, forbids, look)
        return look

    return register


def vocabulary() -> Mapping[str, Word]:
    """All words by name, in order of definition."""
    return dict(_WORDS)


def unknown_word(name: str, where: str) -> str:
    return f"{where}: unknown word {name!r}: {near_miss(name, [*_WORDS, *DEVICE_KEYS])}"


# --- the forms that values take -------------------------------------------------------------------------------------


def _bounds(number: str, what: str, limit: str) -> dict[str, Any]:
    """The part of a schema for a map of min and max. limit: minimum (0 is allowed) or exclusiveMinimum (it is not)."""
    return {
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {
            end: {"type": number, limit: 0, "description": f"At {word} {what}."}
            for end, word in (("min", "least"), ("max", "most"))
        },
    }


COUNT = {
    "type": ["integer", "string", "object"],
    "minimum": 0,
    "pattern": r"^[0-9]+(\s*-\s*[0-9]+)?$",
    **_bounds("integer", "so many", "minimum"),
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
        **_bounds("number", "this factor", "exclusiveMinimum"),
        "must": 'a factor of 1 or more, a range such as "2-3.5", or a map of min and max',
    },
    "must": "the name of another case, or a map of its name and the factor",
}
FIGURE = {
    "type": ["string", "object"],
    "pattern": r"^[0-9]+(\.[0-9]+)?\s*-\s*[0-9]+(\.[0-9]+)?$",
    **_bounds("number", "this figure", "minimum"),
    "must": 'a range such as "10-12.5", or a map of min and max',
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
    return _map_of(COUNT, f"a map of {kind} and how many")


def figures_of(kind: str) -> dict[str, Any]:
    """The schema of a map from names to ranges of a figure."""
    return _map_of(FIGURE, f"a map of {kind} and ranges")


def _map_of(inner: Mapping[str, Any], must: str) -> dict[str, Any]:
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": r"\S", "must": "a name"},
        "additionalProperties": inner,
        "must": must,
    }


def ordered(schema: Mapping[str, Any], quantity: str, above: bool) -> dict[str, Any]:
    """The schema of a word by which a case is above (or below) other cases in a quantity.

    The checks of config.yaml read ``order``: factors are at least 1, and no case can be above itself.
    """
    return {**schema, "order": {"of": quantity, "above": above}}


def names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        if is_ends(value):
            return str(as_span(value))
        return ", ".join(f"{key}: {value_text(inner)}" for key, inner in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(value_text(inner) for inner in value)
    return str(value)


# --- notes on names that occur nowhere in a run, such as a typo in a guess that an op is absent ----------------------


#: Least length of a text that is searched for in names.
LEAST_LENGTH = 3


def op_notes(patterns: Iterable[str], facts: CaseFacts, run: RunFacts) -> list[str]:
    """A note for each pattern that no op of the run matches, if the name of one is similar."""
    names = {name: None for case in _cases(facts, run) for name in _op_names(case)}
    plain = {name.rpartition("::")[2]: name for name in names}  # the namespace makes all ops similar
    return list(filter(None, (_op_note(pattern, names, plain) for pattern in patterns)))


def activity_notes(patterns: Iterable[str], facts: CaseFacts, run: RunFacts) -> list[str]:
    """A note for each pattern that no device activity of the run matches, if the name of one is similar."""
    activities = {
        (activity.category, activity.name): None
        for case in _cases(facts, run)
        for forward in case.forwards
        for activity in forward.activities
    }
    labels = {name: label(category, name) for category, name in activities}
    words = {word: text for name, text in labels.items() for word in (*re.findall(r"[A-Za-z0-9]+", name), text)}
    return list(filter(None, (_activity_note(pattern, labels, words) for pattern in patterns)))


def _cases(facts: CaseFacts, run: RunFacts) -> list[CaseFacts]:
    return [facts, *(case for name, case in run.cases.items() if name != facts.case)]


def _op_names(facts: CaseFacts) -> list[str]:
    return [call.name for call in facts.ops] + [total.name for total in facts.call_totals if total.category == "op"]


def _op_note(pattern: str, names: Iterable[str], plain: Mapping[str, str]) -> str | None:
    if any(fnmatch.fnmatchcase(name, pattern) for name in names):
        return None
    similar = closest(_text(pattern).rpartition("::")[2], plain)
    return _note(pattern, f"{plain[similar]!r}") if similar else _contained(pattern, names)


def _activity_note(pattern: str, labels: Mapping[str, str], words: Mapping[str, str]) -> str | None:
    if any(fnmatch.fnmatchcase(name, pattern) for name in labels):
        return None
    contained = _contained(pattern, labels)
    similar = None if contained else closest(_text(pattern), words)
    if similar is None:
        return contained
    return _note(pattern, f"{similar!r}" + ("" if similar == words[similar] else f" as in {words[similar]}"))


def _contained(pattern: str, names: Iterable[str]) -> str | None:
    """A note if the text is part of a name, which only a pattern with ``*`` around it matches."""
    text = _text(pattern)
    inside = len(text) >= LEAST_LENGTH and any(text in name for name in names)
    return _note(pattern, f"'*{text}*'") if inside else None


def _text(pattern: str) -> str:
    """The longest part without wildcards."""
    return max(re.split(r"[*?]", pattern), key=len).strip("_ ")


def _note(pattern: str, suggestion: str) -> str:
    return f"{pattern} occurs nowhere in the run: did you mean {suggestion}?"
