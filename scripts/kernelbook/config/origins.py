"""Finds the source of a setting: config.yaml, a file of --configfile, or a word of --config."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kernelbook.config.yaml_text import QUICK_BASE, YamlError, read_yaml
from kernelbook.text.suggestions import near_miss

WORDS = "--config"
TOP = "the top level"
_UNKNOWN = re.compile(r"unknown key (['\"])(?P<key>.*?)\1")


class ConfigSource(NamedTuple):
    """A source of settings and its content.

    written: the settings with all keys and values as they are written: "2.10" if `settings` has 2.1.
    """

    name: str
    settings: Mapping[str, Any]
    written: Any = None


def read_sources(
    own: Path, others: Iterable[Path], words: Mapping[str, Any], arguments: Iterable[str] = ()
) -> list[ConfigSource]:
    """The sources, later ones overriding earlier ones. Files that hold no mapping are left out.

    own: config.yaml of the working folder, which may be missing. others: files of --configfile.
    words: of --config. arguments: these words as they were written, such as `edition=2.10`.
    """
    files = [ConfigSource(_display(path), *_settings(path)) for path in (own, *others)]
    pairs = (argument.partition("=")[::2] for argument in arguments)
    written = {key: _as_written(value.strip("'\"")) for key, value in pairs}
    return [source for source in (*files, ConfigSource(WORDS, words, written)) if source.settings]


def written_value(sources: Sequence[ConfigSource], *path: str | int) -> str | None:
    """The text of the value at a path of keys, from the last source that has it."""
    for source in reversed(sources):
        value = source.written
        for step in path:
            try:
                value = value[step]
            except (LookupError, TypeError):
                value = None
        if isinstance(value, str):
            return value
    return None


def written_key(sources: Sequence[ConfigSource], section: str, key: Any) -> str | None:
    """The text of a key that YAML does not read as text."""
    sections = [source.written.get(section) for source in reversed(sources) if isinstance(source.written, Mapping)]
    names = (name for keys in sections if isinstance(keys, Mapping) for name in keys if isinstance(name, str))
    return next((name for name in names if (type(key), key) == (type(read := yaml.safe_load(name)), read)), None)


def source_of(problem: str, sources: Sequence[ConfigSource], otherwise: str = "config.yaml") -> str:
    """Name of the source of a problem (`path: fact`): the last one of those that have the longest part of its path."""
    path, _, fact = problem.partition(": ")
    unknown = _UNKNOWN.match(fact)
    steps = [] if path == TOP else [path]
    steps += [unknown["key"]] if unknown else []
    best, name = 0, otherwise
    for source in sources:
        depth = _depth(source.settings, ".".join(steps))
        if depth and depth >= best:
            best, name = depth, source.name
    return name


def _depth(settings: Any, path: str) -> int:
    """Number of keys of a dotted path that exist. A key may contain dots."""
    if isinstance(settings, (list, tuple)):
        settings = dict(enumerate(settings))
    if not isinstance(settings, Mapping):
        return 0
    depths = [0]
    for key, value in settings.items():
        if path == str(key):
            depths.append(1)
        elif path.startswith(f"{key}."):
            depths.append(1 + _depth(value, path[len(str(key)) + 1 :]))
    return max(depths)


def _settings(path: Path) -> tuple[Mapping[str, Any], Any]:
    try:
        text = path.read_text(encoding="utf-8")
        settings = read_yaml(text)
    except (OSError, UnicodeDecodeError, YamlError):
        return {}, None
    return (settings, yaml.load(text, Loader=QUICK_BASE)) if isinstance(settings, Mapping) else ({}, None)


def _as_written(text: str) -> Any:
    """The value of a word of --config with all scalars as text, or the word itself if it is not YAML."""
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return text


def _display(path: Path) -> str:
    """Relative to the working folder, if it is inside."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


# --- names that YAML reads as another type ---------------------------------------------------------------------------
# Such a name would silently become another one, so it is reported as a mistake, with a spelling that works.


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
