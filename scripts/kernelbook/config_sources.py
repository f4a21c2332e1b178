"""Which of several sources a setting is from: config.yaml, the files of --configfile, the words of --config."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

WORDS = "--config"
TOP = "the top level"
_UNKNOWN = re.compile(r"unknown key (['\"])(?P<key>.*?)\1")


class Source(NamedTuple):
    """Where settings are written down, as people call it, and what it holds."""

    name: str
    settings: Mapping[str, Any]


def read_sources(own: Path, named: Iterable[Path], words: Mapping[str, Any]) -> list[Source]:
    """The sources in the order in which they are laid over each other; files that hold no map are left out.

    own: the folder's own config.yaml, which may be missing. named: of --configfile. words: of --config.
    """
    found = [Source(_shown(path), _settings(path)) for path in (own, *named)]
    return [source for source in (*found, Source(WORDS, words)) if source.settings]


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


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _shown(path: Path) -> str:
    """Relative to the folder in use, where it lies in it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
