"""Finds names that YAML or the command line read as another type: 2.10 as the number 2.1, `on` as true.

Such a name would silently become another one, so it is a mistake, reported with a spelling that works.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelbook.config.origins import ConfigSource, written_key, written_value
from kernelbook.text.suggestions import near_miss

NAME = re.compile(r"[a-z][a-z0-9.-]*")
SELECTIONS = {"only_runs": "runs", "only_cases": "cases"}


def misread_names(settings: Mapping[str, Any], sources: Sequence[ConfigSource]) -> tuple[list[str], dict[str, Any]]:
    """(one line per name that is not text, the settings without these names)."""
    valid = dict(settings)
    problems = list(_edition(valid, sources))
    for section in ("runs", "cases"):
        if isinstance(settings.get(section), Mapping):
            problems += _keys(section, settings[section], sources)
            valid[section] = {key: value for key, value in settings[section].items() if isinstance(key, str)}
    for selection, section in SELECTIONS.items():
        problems += _selection(selection, valid, valid.get(section), sources)
    return problems, valid


def _edition(valid: dict[str, Any], sources: Sequence[ConfigSource]) -> Iterator[str]:
    if "edition" in valid and not _is_text(valid["edition"]):
        value = valid.pop("edition")
        if value is None:
            yield "edition: is empty: give it a name, or leave the key out"
            return
        written = written_value(sources, "edition") or _plain(value)
        quoted = f', or "{written}" in quotes' if isinstance(value, datetime.date) else ""
        remedy = f"write {_usable_name(written)}{quoted}"
        yield f"edition: arrives as {_kind(value)} {_plain(value)}, and a name is text: {remedy}"


def _keys(section: str, names: Mapping[Any, Any], sources: Sequence[ConfigSource]) -> Iterator[str]:
    for key in names:
        if not isinstance(key, str):
            written = written_key(sources, section, key) or _plain(key)
            spelling = f'"{written}" in quotes' if NAME.fullmatch(written) else _usable_name(written)
            yield f"{section}: the name {written} arrives as {_kind(key)}, and a name is text: write {spelling}"


def _selection(selection: str, valid: dict[str, Any], names: Any, sources: Sequence[ConfigSource]) -> Iterator[str]:
    """Mistakes in only_runs or only_cases. Without mistakes, the selection in `valid` becomes a list of names."""
    value = valid.pop(selection, [])
    if value is None:
        yield f"{selection}: is empty: name some, or leave it out to take all that are on"
        return
    words = _words(value)
    if not words and value not in ("", []):
        yield f"{selection}: names nothing, got {value!r}: name some, or leave it out to take all that are on"
    choices = [name for name in names if isinstance(name, str)] if isinstance(names, Mapping) else []
    for place, word in enumerate(words):
        if not _is_text(word):
            path = (selection, place) if isinstance(value, list) else (selection,)
            written = written_value(sources, *path) or _plain(word)
            remedy = f"write [{written}]" if written in choices else near_miss(written, choices)
            yield f"{selection}: {written} arrives as {_kind(word)}, and a name is text: {remedy}"
    if all(_is_text(word) for word in words):
        valid[selection] = words


def _words(value: Any) -> list[Any]:
    """The names of `--config only_runs=...`, which may be comma-separated or a list."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_text(value: Any) -> bool:
    """Whether the schema can check a name: it is text, or not a single value."""
    return isinstance(value, (str, list, Mapping))


def _usable_name(written: str) -> str:
    return "v" + re.sub(r"[^a-z0-9.-]+", "-", written.lower()).strip("-")


def _plain(value: Any) -> str:
    """A value in YAML's spelling."""
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if _is_constant(value) else str(value)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _kind(value: Any) -> str:
    if _is_constant(value):
        return "nothing" if value is None else "true or false"
    return "the date" if isinstance(value, datetime.date) else "the number"
