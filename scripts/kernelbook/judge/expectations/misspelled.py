"""Notes on names that occur nowhere in a run: a guess that they are absent may be right only because of a typo."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping

from kernelbook.cases import CaseFacts, label
from kernelbook.judge.expectations.vocabulary import RunFacts
from kernelbook.text.suggestions import closest

#: Shorter texts are parts of too many names.
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
