"""Which files of the project a Python file takes in, so that a change of one of them makes stale what it made."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path


def files_behind(start: Path, folders: Iterable[Path], in_functions: bool = True) -> tuple[Path, ...]:
    """`start` and every file that it imports, those that are imported by these, and so on; sorted, each once.

    folders: where modules are looked for, beside the folder of `start`; what is not found there (torch, the standard
    library) is left out. in_functions: also what is imported only when a function is called. A file that is no Python
    stands for itself alone.
    """
    roots = (start.parent, *folders)
    found, todo = {start}, [start]
    while todo:
        for name in _imported(todo.pop(), in_functions):
            new = [file for file in _files_of(name, roots) if file not in found]
            found.update(new)
            todo += new
    return tuple(sorted(found))


def _files_of(name: str, roots: Iterable[Path]) -> Iterator[Path]:
    """The file of a module in the first folder that has it, and the __init__.py of each package above it."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        for root in roots:
            place = root.joinpath(*parts[:depth])
            file = next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)
            if file:
                yield file
                break


@cache
def _imported(file: Path, in_functions: bool) -> frozenset[str]:
    """Full names of all modules that a file imports; of `from a import b` both a and a.b."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if in_functions or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)
