"""Names that YAML or the command line take for something else: 2.10 for the number 2.1, `on` for true, and so on.

Such a name would be another one without a word, so it is refused with a spelling that works.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelbook.config.origins import Source, written_key, written_value
from kernelbook.text.suggestions import near_miss

NAME = re.compile(r"[a-z][a-z0-9.-]*")
SELECTIONS = {"only_runs": "runs", "only_cases": "cases"}


def misread_names(given: Mapping[str, Any], sources: Sequence[Source]) -> tuple[list[str], dict[str, Any]]:
    """One line for each name that is no text, and the configuration without these."""
    kept = dict(given)
    problems = list(_edition(kept, sources))
    for section in ("runs", "cases"):
        if isinstance(given.get(section), Mapping):
            problems += _keys(section, given[section], sources)
            kept[section] = {key: value for key, value in given[section].items() if isinstance(key, str)}
    for selection, section in SELECTIONS.items():
        problems += _selection(selection, kept, kept.get(section), sources)
    return problems, kept


def _edition(kept: dict[str, Any], sources: Sequence[Source]) -> Iterator[str]:
    if "edition" in kept and not _is_text(kept["edition"]):
        value = kept.pop("edition")
        if value is None:
            yield "edition: is empty: give it a name, or leave the key out"
            return
        written = written_value(sources, "edition") or _plain(value)
        quoted = f', or "{written}" in quotes' if isinstance(value, datetime.date) else ""
        yield f"edition: arrives as {_kind(value)} {_plain(value)}, and a name is text: write {_named(written)}{quoted}"


def _keys(section: str, names: Mapping[Any, Any], sources: Sequence[Source]) -> Iterator[str]:
    for key in names:
        if not isinstance(key, str):
            written = written_key(sources, section, key) or _plain(key)
            spelling = f'"{written}" in quotes' if NAME.fullmatch(written) else _named(written)
            yield f"{section}: the name {written} arrives as {_kind(key)}, and a name is text: write {spelling}"


def _selection(selection: str, kept: dict[str, Any], names: Any, sources: Sequence[Source]) -> Iterator[str]:
    """Mistakes in only_runs or only_cases, which leaves `kept` as a list of names."""
    value = kept.pop(selection, [])
    if value is None:
        yield f"{selection}: is empty: name some, or leave it out to take all that are on"
        return
    words = _words(value)
    if not words and value not in ("", []):
        yield f"{selection}: names nothing, got {value!r}: name some, or leave it out to take all that are on"
    known = [name for name in names if isinstance(name, str)] if isinstance(names, Mapping) else []
    for place, word in enumerate(words):
        if not _is_text(word):
            path = (selection, place) if isinstance(value, list) else (selection,)
            written = written_value(sources, *path) or _plain(word)
            remedy = f"write [{written}]" if written in known else near_miss(written, known)
            yield f"{selection}: {written} arrives as {_kind(word)}, and a name is text: {remedy}"
    if all(_is_text(word) for word in words):
        kept[selection] = words


def _words(value: Any) -> list[Any]:
    """What `--config only_runs=...` gives: names with commas between them, or a list; anything else as it is."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_text(value: Any) -> bool:
    """Whether a name can be left to the schema: a text, or something that is no single value."""
    return isinstance(value, (str, list, Mapping))


def _named(written: str) -> str:
    return "v" + re.sub(r"[^a-z0-9.-]+", "-", written.lower()).strip("-")


def _plain(value: Any) -> str:
    """A value as YAML writes it."""
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if _is_constant(value) else str(value)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _kind(value: Any) -> str:
    if _is_constant(value):
        return "nothing" if value is None else "true or false"
    return "the date" if isinstance(value, datetime.date) else "the number"
