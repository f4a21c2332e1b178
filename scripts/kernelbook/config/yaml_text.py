"""YAML read strictly: what the standard loader would merge, expand without end or not survive is refused."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import yaml

DEEPEST = 50  # levels of maps and lists
LARGEST = 100_000  # values after every alias is replaced by what it stands for
MOST_REPEATED = 20  # times the values that are written down; larger than that, and larger than LARGEST, is refused
MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """A text that cannot be used as YAML; `problems` holds one line each, which begins with the place in the text."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class _Loader(yaml.SafeLoader):
    """The safe loader, with a limit on depth, and with the line of a value that cannot be made."""

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

    Refused beside what is not YAML: keys that are given twice in one map (also those that only YAML takes for equal,
    such as `1` and `true`), nesting that is too deep, and aliases that stand for too much.
    """
    try:
        loader = _Loader(text)
        top = loader.get_single_node()
        if top is None:
            return None
        problems = [*_given_twice(loader, top, set()), *_too_large(top)]
        if problems:
            raise YamlError(*problems)
        return loader.construct_document(top)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}no YAML: {getattr(error, 'problem', None) or error}") from error


def _given_twice(loader: _Loader, node: yaml.Node, seen: set[int]) -> Iterator[str]:
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        first: dict[Hashable, yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            earlier = first.setdefault(loader.construct_object(key), key)
            if earlier is not key:
                yield _twice(key, earlier)
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _given_twice(loader, part, seen)


def _twice(key: yaml.ScalarNode, earlier: yaml.ScalarNode) -> str:
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
    if whole > max(LARGEST, MOST_REPEATED * len(sizes)):
        shown = f"{whole:,}" if whole < 10**12 else "more than 10^12"
        yield f"its aliases stand for {shown} values: write out what is needed"


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Values in a node with every alias replaced; an alias within its own anchor counts as one."""
    if id(node) not in sizes:
        sizes[id(node)] = 1
        if isinstance(node, yaml.CollectionNode):
            parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]
