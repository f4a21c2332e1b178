"""Strict YAML: rejects what the standard loader merges silently, expands without limit or cannot load.

`value_errors` also rejects what YAML can express but the rest of the project cannot use: keys that are not text, NaN,
numbers of more than 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml

DEEPEST = 50  # levels of maps and lists
MOST_VALUES = 100_000  # with every alias replaced by its content
MOST_REPEATED = 20  # more than MOST_VALUES are allowed up to this many times the values that are written down
LARGEST_NUMBER = 2**63 - 1
MERGE = "tag:yaml.org,2002:merge"
QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
QUICK_BASE: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Loaders of libyaml, where PyYAML has it: ten times as quick, for texts that are known to be good."""


class YamlError(ValueError):
    """The text cannot be used as YAML. Each line of `problems` begins with a position in the text."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class _Loader(yaml.SafeLoader):
    """The safe loader with a limit on depth. Errors name the line of a value that cannot be constructed."""

    level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.level += 1
        if self.level > DEEPEST:
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {DEEPEST} levels: flatten it", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.level -= 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # such as 2026-13-01, the thirteenth month
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def read_yaml(text: str) -> Any:
    """The value of a YAML text. Raises YamlError with every reason why it cannot be used.

    Rejects invalid YAML, duplicate keys (also keys that are equal only to YAML, such as `1` and `true`), deep nesting
    and aliases that expand to very many values.
    """
    try:
        loader = _Loader(text)
        top = loader.get_single_node()
        if top is None:
            return None
        problems = [*_duplicate_keys(loader, top, set()), *_too_large(top)]
        if problems:
            raise YamlError(*problems)
        return loader.construct_document(top)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}no YAML: {getattr(error, 'problem', None) or error}") from error


def _duplicate_keys(loader: _Loader, node: yaml.Node, visited: set[int]) -> Iterator[str]:
    if id(node) in visited or not isinstance(node, yaml.CollectionNode):
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        first: dict[Hashable, yaml.ScalarNode] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            earlier = first.setdefault(loader.construct_object(key), key)
            if earlier is not key:
                yield _duplicate(key, earlier)
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _duplicate_keys(loader, part, visited)


def _duplicate(key: yaml.ScalarNode, earlier: yaml.ScalarNode) -> str:
    line, before = key.start_mark.line + 1, earlier.start_mark.line + 1
    if key.value == earlier.value:
        return f"line {line}: the key {key.value!r} is there already, in line {before}: rename or delete one"
    return (
        f"line {line}: the key {key.value!r} is the same to YAML as {earlier.value!r} in line {before}: "
        "rename one, or write it in quotes"
    )


def _too_large(top: yaml.Node) -> Iterator[str]:
    sizes: dict[int, int] = {}
    whole = _size(top, sizes)
    if whole > max(MOST_VALUES, MOST_REPEATED * len(sizes)):
        count = f"{whole:,}" if whole < 10**12 else "more than 10^12"
        yield f"its aliases stand for {count} values: write out what is needed"


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Number of values in a node with every alias replaced; an alias within its own anchor counts as one."""
    if id(node) not in sizes:
        sizes[id(node)] = 1
        if isinstance(node, yaml.CollectionNode):
            parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]


def value_errors(raw: Mapping[str, Any]) -> list[str]:
    """One line per mistake: position, fact, remedy. A value without mistakes can be sorted and written as JSON."""
    return list(_value_errors(raw, (), ()))


def _value_errors(value: Any, path: tuple[str, ...], parents: tuple[int, ...]) -> Iterator[str]:
    where = ".".join(path) or "the top level"
    if id(value) in parents:
        yield f"{where}: holds itself (an alias within its own anchor): write it out"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{where}: the key {str(key)!r} is no word for YAML but {type(key).__name__}: quote it"
            yield from _value_errors(item, (*path, str(key)), (*parents, id(value)))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _value_errors(item, (*path, str(place)), (*parents, id(value)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{where}: must be a finite number, got {value}"
    elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        yield f"{where}: must be a number of at most 64 bits, got one of {value.bit_length()}"
    elif isinstance(value, str) and "\0" in value:
        yield f"{where}: holds a NUL character: delete it"
