"""Which of several sources a setting is from: config.yaml, the files of --configfile, the words of --config."""

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


class Source(NamedTuple):
    """Where settings are written down, as people call it, and what it holds.

    written: the same with every value and key as text, as it is written: "2.10" where `settings` has 2.1.
    """

    name: str
    settings: Mapping[str, Any]
    written: Any = None


def read_sources(
    own: Path, named: Iterable[Path], words: Mapping[str, Any], arguments: Iterable[str] = ()
) -> list[Source]:
    """The sources in the order in which they are laid over each other; files that hold no map are left out.

    own: the folder's own config.yaml, which may be missing. named: of --configfile. words: of --config, and arguments:
    the same as they were written, `edition=2.10`.
    """
    found = [Source(_shown(path), *_settings(path)) for path in (own, *named)]
    pairs = (argument.partition("=")[::2] for argument in arguments)
    written = {key: _as_written(value.strip("'\"")) for key, value in pairs}
    return [source for source in (*found, Source(WORDS, words, written)) if source.settings]


def written_value(sources: Sequence[Source], *path: str | int) -> str | None:
    """How the value at a path of keys is written in the last source that has it."""
    for source in reversed(sources):
        found = source.written
        for step in path:
            try:
                found = found[step]
            except (LookupError, TypeError):
                found = None
        if isinstance(found, str):
            return found
    return None


def written_key(sources: Sequence[Source], section: str, key: Any) -> str | None:
    """How a key of a section is written that is no text to YAML."""
    sections = [source.written.get(section) for source in reversed(sources) if isinstance(source.written, Mapping)]
    names = (name for found in sections if isinstance(found, Mapping) for name in found if isinstance(name, str))
    return next((name for name in names if (type(key), key) == (type(read := yaml.safe_load(name)), read)), None)


def source_of(problem: str, sources: Sequence[Source], otherwise: str = "config.yaml") -> str:
    """The source that a problem (`path: fact`) is in, by name: the last one that gives most of its path."""
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
    """How many keys of a dotted path are there; a key may hold dots itself."""
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
        found = read_yaml(text)
    except (OSError, UnicodeDecodeError, YamlError):
        return {}, None
    return (found, _as_written(text)) if isinstance(found, Mapping) else ({}, None)


def _as_written(text: str) -> Any:
    """A YAML text with every value as text; the text itself where it is none."""
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return text


def _shown(path: Path) -> str:
    """Relative to the folder in use, where it lies in it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
