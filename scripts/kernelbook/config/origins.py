"""Finds the source of a setting: config.yaml, a file of --configfile, or a word of --config."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kernelbook.config.yaml_text import YamlError, read_yaml

WORDS = "--config"
TOP = "the top level"
_UNKNOWN = re.compile(r"unknown key (['\"])(?P<key>.*?)\1")


class ConfigSource(NamedTuple):
    """A source of settings and its content.

    written: the settings with all values and keys as text, as they are written: "2.10" where `settings` has 2.1.
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
    """Name of the source that a problem (`path: fact`) is in: the last one that has most of its path."""
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
    return (settings, _as_written(text)) if isinstance(settings, Mapping) else ({}, None)


def _as_written(text: str) -> Any:
    """The value of a YAML text with all scalars as text, or the text itself if it is not YAML."""
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return text


def _display(path: Path) -> str:
    """Relative to the working folder, if it is inside."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
