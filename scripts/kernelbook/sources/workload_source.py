"""Finds the files that a configuration names, in the working folder or else in the project; checks workloads."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelbook.sources.imports import module_files, parsed, workload_files
from kernelbook.text.suggestions import near_miss


@dataclass(frozen=True)
class Places:
    """root: the working folder. home: the checkout of the project, often the same."""

    root: Path
    home: Path

    def ours(self, path: str) -> str:
        """Path of a file of the project: relative if the checkout is the working folder, otherwise absolute."""
        return path if self.home == self.root else (self.home / path).as_posix()

    def locate(self, path: str) -> Path:
        """A file or folder named in the configuration."""
        if Path(path).is_absolute() or os.path.exists(self.root / path):
            return Path(path)
        return Path(self.ours(path))


@dataclass(frozen=True)
class WorkloadSource:
    """The source of `attention`, `path/to/file.py:function` or `package.module:function`.

    kind: built-in, file or module.
    files: its file and, for a module, the __init__.py of each package above it; empty if there is none.
    folders: where its imports are looked up, in Python's order.
    """

    kind: str
    function: str
    files: tuple[Path, ...]
    folders: tuple[Path, ...]


def find_source(workload: str, root: Path, scripts: Path) -> WorkloadSource:
    """Find a workload as scripts/workloads/harness/building.py does, without importing it.

    root: the working folder. scripts: the folder of the project's scripts.
    """
    name, colon, function = workload.rpartition(":")
    paths = [Path(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    folders = (root, scripts, *paths)
    if name.endswith(".py"):
        file = Path(os.path.normpath(root / name))
        return WorkloadSource("file", function, _existing([file]), (file.parent, *folders))
    if colon:  # `:function` names no module
        return WorkloadSource(
            "module", function, _existing(module_files(name, folders) if name else []), (root, *folders)
        )
    built_in = scripts / "workloads"
    return WorkloadSource("built-in", workload, _existing([built_in / f"{workload}.py"]), (built_in, *folders))


def code_behind_workload(workload: str, texts: Iterable[str], root: Path, scripts: Path) -> tuple[Path, ...]:
    """The code that all workloads share, the source of this one, and the files that it uses.

    texts: further names of data files, from the configuration.
    """
    source = find_source(workload, root, scripts)
    harness = sorted(scripts.glob("workloads/harness/*.py"))
    behind = workload_files(source.files, source.folders, scripts, texts)
    return tuple(harness + [file for file in behind if file not in harness])


def _existing(files: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(file for file in files if file.is_file())


# --- checks ----------------------------------------------------------------------------------------------------------
# Sources are parsed with `ast`; nothing is imported. What the source does not determine is accepted: names defined
# while a module runs, decorated functions, `**kwargs`, computed variants.


DYNAMIC = frozenset({"globals", "locals", "vars", "exec", "eval", "setattr"})
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
CONDITIONAL = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.IfExp, ast.BoolOp, ast.comprehension)


def workload_errors(cases: Mapping[str, Mapping[str, Any]], places: Places, in_container: bool) -> Iterator[str]:
    """One line per mistake: position, fact, remedy.

    cases: specifications of the cases that would be measured. in_container: whether a case may run in a container,
    which can have modules that are missing on this machine.
    """
    for name, spec in cases.items():
        if isinstance(spec.get("workload"), str):
            yield from (f"cases.{name}.{line}" for line in _errors_of(spec, places, in_container))


def _errors_of(spec: Mapping[str, Any], places: Places, in_container: bool) -> Iterator[str]:
    workload = spec["workload"]
    scripts = places.root / places.ours("scripts")
    source = find_source(workload, places.root, scripts)
    if not source.files:
        missing = _missing(workload, source.kind, places.root, scripts, in_container)
        if missing:
            yield f"workload: {missing}"
        return
    module = parsed(source.files[-1])
    if module and source.kind == "file":
        yield from _relative_imports(workload, module[1].body)
    names = _bound(module[1].body) if module else None
    if names is None or module is None:
        return
    function = _lookup(source.function.split("."), names)
    if function is None:
        public = [name for name, nodes in names.items() if isinstance(nodes[-1], ast.FunctionDef) and name[0] != "_"]
        remedy = near_miss(source.function, public)
        yield f"workload: {workload.rpartition(':')[0] or workload} has no {source.function!r}: {remedy}"
    elif isinstance(function, ast.FunctionDef) and not function.decorator_list:
        yield from _call_errors(spec, workload, function, names, module[1])


def _relative_imports(workload: str, body: Iterable[ast.AST]) -> Iterator[str]:
    """The mistake if a file imports relatively at its top level: it is loaded by its path, without a package."""
    first = next((node for node in body if isinstance(node, ast.ImportFrom) and node.level), None)
    if first is not None:
        file, _, function = workload.rpartition(":")
        fact = f"line {first.lineno} of {file} imports relatively, but a file is loaded without its package"
        yield f"workload: {fact}: import by the package's name, or write PACKAGE.MODULE:{function} as workload"


def _missing(workload: str, kind: str, root: Path, scripts: Path, in_container: bool) -> str | None:
    """The mistake in the name of a workload whose source does not exist, or None if it may exist in a container."""
    name, _, function = workload.rpartition(":")
    if kind == "file":
        beside = sorted(path.name for path in (root / name).parent.glob("*.py"))
        remedy = near_miss(Path(name).name, beside) if beside else "paths are relative to the folder you start in"
        return f"there is no file {name!r}: {remedy}"
    if kind == "built-in":
        if workload.endswith(".py"):
            return f"names no function: write {workload}:FUNCTION"
        workloads = [path.stem for path in scripts.glob("workloads/*.py") if path.stem != "__init__"]
        remedy = f"{near_miss(workload, workloads)} A file of yours: path/to/file.py:function"
        return f"there is no workload {workload!r}: {remedy}"
    if not name:
        return f"names no file: write path/to/file.py:{function}"
    top = name.partition(".")[0]
    if in_container or _importable(top):
        return None
    return f"there is no module {name!r}: paths to files end in .py, as in path/to/file.py:{function}"


def _importable(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError, AttributeError):
        return True


Bound = dict[str, list[ast.AST]]  # the values of each name, in source order


def _bound(body: Iterable[ast.AST]) -> Bound | None:
    """Names that the statements of a module or class bind, or None if that depends on running it."""
    names: Bound = {}
    todo = list(body)[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.setdefault(node.name, []).append(node)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                names.setdefault((alias.asname or alias.name).partition(".")[0], []).append(node)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, []).append(node)
            elif node.id in DYNAMIC:
                return None
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1 and isinstance(targets[0], ast.Name):
                names.setdefault(targets[0].id, []).append(node.value)
                todo.append(node.value)
                continue
        todo += ast.iter_child_nodes(node)
    return None if "*" in names or "__getattr__" in names else names


def _lookup(path: Sequence[str], names: Bound) -> ast.AST | None:
    """The value of a name such as `Blocks.make`: None if it is not bound, a constant if the value is unknown."""
    nodes = names.get(path[0])
    if nodes is None:
        return None
    unknown = ast.Constant(None)
    if len(nodes) > 1:
        return unknown
    node = nodes[0]
    if len(path) == 1:
        return node
    if not isinstance(node, ast.ClassDef) or node.bases or node.keywords or node.decorator_list:
        return unknown
    inner = _bound(node.body)
    return unknown if inner is None else _lookup(path[1:], inner)


def _call_errors(
    spec: Mapping[str, Any], workload: str, function: ast.FunctionDef, names: Bound, tree: ast.Module
) -> Iterator[str]:
    """Variants and parameters of a case that its function does not accept."""
    chosen = _variants(function, names, tree)
    variant = spec.get("variant", "plain")
    if chosen is not None and isinstance(variant, str) and variant not in chosen:
        yield f"variant: {workload} has no variant {variant!r}: {near_miss(variant, chosen)}"
    if function.args.kwarg and chosen and _passes_on(function):
        inner = chosen.get(variant) if isinstance(variant, str) else None
        nodes = names.get(inner.id, []) if isinstance(inner, ast.Name) else []
        if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef) or nodes[0].decorator_list:
            return
        function = nodes[0]
    yield from _parameter_errors(spec, workload, function.args)


def _parameter_errors(spec: Mapping[str, Any], workload: str, arguments: ast.arguments) -> Iterator[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    if not plain and not arguments.vararg:
        yield f"workload: the function {workload} takes no argument: its first is the context"
        return
    positional = [argument.arg for argument in arguments.args[0 if arguments.posonlyargs else 1 :]]
    parameters = [*positional, *(argument.arg for argument in arguments.kwonlyargs)]
    passed: dict[str, str] = {}
    for key in ("params", "cpu_params", "sweep"):
        if isinstance(spec.get(key), Mapping):
            passed |= {name: key for name in spec[key] if name not in passed}
    if not arguments.kwarg:
        for name, key in passed.items():
            if name not in parameters:
                yield f"{key}: {workload} takes no {name!r}: {near_miss(name, parameters)}"
    optional = (
        {argument.arg for argument in plain[len(plain) - len(arguments.defaults) :]} if arguments.defaults else set()
    )
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    optional |= {argument.arg for argument, default in pairs if default is not None}
    for name in parameters:
        if name not in optional and name not in passed:
            yield f"params: {workload} needs {name!r}: add it"


def _plain_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes that always run with the statements: neither conditional nor in a nested function."""
    todo = list(body)
    while todo:
        node = todo.pop()
        if not isinstance(node, (*NESTED, *CONDITIONAL)):
            yield node
            todo += ast.iter_child_nodes(node)


def _variants(function: ast.FunctionDef, names: Bound, tree: ast.Module) -> dict[str, ast.AST | None] | None:
    """The variants in `context.choose({...})` with their values, or None if they are unknown."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments or _may_end_early(function):
        return None
    variants: dict[str, ast.AST | None] | None = None
    for node in _plain_nodes(function.body):
        if choices := _choices(node, arguments[0].arg):
            entries = _entries(choices, _bound(function.body) or {}, names, tree)
            if entries is None:
                return None
            variants = entries if variants is None else {key: entries[key] for key in variants if key in entries}
    return variants


def _may_end_early(function: ast.FunctionDef) -> bool:
    plain = {id(node) for node in _plain_nodes(function.body)}
    inner = (node for nested in ast.walk(function) if isinstance(nested, NESTED) and nested is not function
             for node in ast.walk(nested))  # fmt: skip
    skipped = {id(node) for node in inner}
    returns = (node for node in ast.walk(function) if isinstance(node, ast.Return))
    return any(id(node) not in plain and id(node) not in skipped for node in returns)


def _choices(node: ast.AST, context: str) -> ast.expr | None:
    """The argument of `context.choose(...)`, or None for any other node."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
        return None
    owner = node.func.value
    is_choice = node.func.attr == "choose" and isinstance(owner, ast.Name) and owner.id == context
    return node.args[0] if is_choice else None


def _passes_on(function: ast.FunctionDef) -> bool:
    """Whether it calls the chosen function with all its keyword arguments: `context.choose(...)(context, **params)`."""
    keywords = function.args.kwarg
    for node in _plain_nodes(function.body):
        if keywords and isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
            passed = [word.value.id for word in node.keywords if word.arg is None and isinstance(word.value, ast.Name)]
            if passed == [keywords.arg] and len(node.keywords) == 1:
                return True
    return False


def _entries(node: ast.AST, local: Bound, names: Bound, tree: ast.Module) -> dict[str, ast.AST | None] | None:
    """Keys and values of a literal dict (without values, of a list), or None if a part of it is computed."""
    if isinstance(node, ast.Name):
        bound = local.get(node.id) or names.get(node.id) or []
        if len(bound) != 1 or _is_changed(node.id, tree):
            return None
        return _entries(bound[0], local, names, tree)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        texts = [text for item in node.elts if (text := _text(item)) is not None]
        return dict.fromkeys(texts) if len(texts) == len(node.elts) else None
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.fromkeys" and node.args:
        keys = _entries(node.args[0], local, names, tree)
        return None if keys is None else dict.fromkeys(keys)
    if not isinstance(node, ast.Dict):
        return None
    entries: dict[str, ast.AST | None] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            more = _entries(value, local, names, tree)
        else:
            more = None if (text := _text(key)) is None else {text: value}
        if more is None:
            return None
        entries |= more
    return entries


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_changed(name: str, tree: ast.Module) -> bool:
    """Whether a module changes a dict after creating it: `NAME["x"] = ...`, `NAME.update(...)`, `NAME |= ...`."""
    for node in ast.walk(tree):
        target: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in ("update", "setdefault", "append", "add") else None
        elif isinstance(node, ast.AugAssign):
            target = node.target
        if isinstance(target, ast.Name) and target.id == name:
            return True
    return False
