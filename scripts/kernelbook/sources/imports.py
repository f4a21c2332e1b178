"""Finds the files that a Python file uses: the modules that it imports and the data files that its source names.

A measurement is out of date when one of them changes. Nothing is imported or run: the source is parsed with `ast`.
"""

from __future__ import annotations

import ast
import glob
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

STAR = "*"
MOST_FOLDERS = 32  # in which the names of data files are looked up
LONGEST_NAME = 255
LARGEST_SOURCE = 4 << 20  # bytes; a larger .py file is not parsed
PSEUDO_FILES = ("/proc/", "/sys/", "/dev/", "/run/")
#: Conditions of blocks that only type checkers enter.
TYPES_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
PATH_CALLS = frozenset({"Path", "join", "joinpath", "with_name", "with_suffix", "str", "fspath"})
WRITING_CALLS = frozenset({"save", "savez", "write_text", "write_bytes", "touch", "mkdir", "makedirs", "unlink"})


@dataclass(frozen=True)
class NamesInFile:
    """Names in a Python file: modules, relative ones with leading dots, and texts that may be names of files."""

    modules: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


def module_files(module: str, folders: Iterable[Path]) -> list[Path]:
    """The file of a module (dotted name) and the __init__.py of each package above it; empty if there is none."""
    roots = tuple(folders)
    return list(_module_files(module, Path(), roots or (Path(),)))


def workload_files(starts: Iterable[Path], folders: Iterable[Path], own: Path, texts: Iterable[str]) -> list[Path]:
    """The files that a workload uses: what `starts` import, and the data files that they name.

    folders: where modules are looked up, in Python's order. The first is the folder of the workload; the second is the
    working folder, where data files are looked up. Packages installed with `pip install --editable` are followed too.
    own: a folder whose files name no data files.
    texts: further names of files or folders, from the configuration; a folder stands for all files in it.
    """
    roots = tuple(folders)
    files = _follow(starts, roots)
    while True:
        sources = [file for file in files if file.suffix == ".py" and not file.is_relative_to(own)]
        data_files = {file for source in sources for file in _data_files(source, roots[1])}
        new = data_files - files
        files |= new
        if not any(file.suffix == ".py" for file in new):
            break
        files |= _follow(files, roots)
    for text in texts:
        files.update(_named_by_configuration(text, roots[:2], roots[1]))
    return sorted(files)


def _follow(starts: Iterable[Path], roots: tuple[Path, ...]) -> set[Path]:
    todo = list(starts)
    files = set(todo)
    while todo:
        file = todo.pop()
        for name in source_of(file).modules:
            new = [path for path in _module_files(name, file, roots, installed=True) if path not in files]
            files.update(new)
            todo += new
    return files


def _module_files(name: str, file: Path, roots: tuple[Path, ...], installed: bool = False) -> Iterator[Path]:
    """Files that Python reads for `import name` in `file`: the __init__.py of each package, then the module.

    The last part may be `*`, for all modules of the package, since its __all__ may name any of them.
    """
    level = len(name) - len(name.lstrip("."))
    parts = [part for part in name[level:].split(".") if part]
    if level:
        places = [file.parents[level - 1]] if level <= len(file.parents) else []
    else:
        places = _places(parts[0], roots) or (_installed(parts[0]) if installed else [])
    for place in places:
        for depth in range(0 if level else 1, len(parts) + 1):
            module = place.joinpath(*parts[:depth])
            if parts[depth - 1 : depth] == [STAR]:
                yield from sorted(module.parent.glob("*.py")) if (module.parent / "__init__.py").is_file() else ()
                continue
            files = [module / "__init__.py"]
            if depth:
                files += [module.with_name(module.name + suffix) for suffix in (".py", *EXTENSION_SUFFIXES)]
            yield from [path for path in files if path.is_file()][:1]


def _places(top: str, roots: tuple[Path, ...]) -> list[Path]:
    """The folder that a top-level module is imported from; for a namespace package, every folder with a part of it."""
    endings = (os.path.join("", "__init__.py"), ".py", *EXTENSION_SUFFIXES)
    for root in roots:
        if any(os.path.isfile(os.path.join(root, top, ending) if ending[0] != "." else f"{root / top}{ending}")
               for ending in endings):  # fmt: skip
            return [root]
    return [root for root in roots if (root / top).is_dir()]


@cache
def _installed(top: str) -> list[Path]:
    """The source folder of a package that is installed in editable form; empty for all other modules."""
    if top in sys.stdlib_module_names or top == "__main__":
        return []
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return []
    places = list(spec.submodule_search_locations or []) if spec else []
    places += [spec.origin] if spec and spec.origin and not places else []
    libraries = tuple(f"{os.path.realpath(path)}/" for path in sysconfig.get_paths().values())
    return [Path(place).parent for place in places if not os.path.realpath(place).startswith(libraries)]


def source_of(file: Path) -> NamesInFile:
    """The names in a Python file; empty for any other file."""
    module = parsed(file)
    return _names_in(file, module[0]) if module else NamesInFile()


def parsed(file: Path) -> tuple[str, ast.Module] | None:
    """(stamp that changes with the file, its syntax tree), or None if it cannot be read or is not Python."""
    try:
        status = file.stat()
    except OSError:
        return None
    if file.suffix != ".py" or status.st_size > LARGEST_SOURCE:
        return None
    stamp = f"{status.st_size}-{status.st_mtime_ns}"
    tree = _tree(file, stamp)
    return (stamp, tree) if tree else None


@cache
def _tree(file: Path, stamp: str) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@cache
def _names_in(file: Path, stamp: str) -> NamesInFile:
    modules: set[str] = set()
    texts: set[str] = set()
    tree = _tree(file, stamp) or ast.Module([], [])
    written = _written_names(tree)
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if _is_output(node, written):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in TYPES_ONLY:
            todo += node.orelse
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            dot = "." if node.module else ""
            modules |= {base, *(f"{base}{dot}{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call):
            modules |= _imported_by_call(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
    return NamesInFile(frozenset(modules), frozenset(texts))


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _imported_by_call(node: ast.Call) -> set[str]:
    """The module of `import_module("name")` and `__import__("name")`."""
    if _called(node) not in ("import_module", "__import__") or not node.args:
        return set()
    name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
    return {name} if isinstance(name, str) and re.fullmatch(r"\.*\w+(\.\w+)*", name) else set()


def _written_names(tree: ast.Module) -> set[str]:
    """Variables that name a file that is written, such as LOG in `open(LOG, "a")` and `Path(LOG).touch()`."""
    names: set[str] = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _writes(call):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            inner = owner.args if isinstance(owner, ast.Call) and _called(owner) in PATH_CALLS else []
            names.update(node.id for node in (owner, *call.args, *inner) if isinstance(node, ast.Name))
    return names


def _is_output(node: ast.AST, written: set[str]) -> bool:
    """Whether a node names an output: a call that writes, or the assignment of a path that is written."""
    if isinstance(node, ast.Call):
        return _writes(node)
    if not isinstance(node, ast.Assign) or not all(getattr(target, "id", None) in written for target in node.targets):
        return False
    return all(_called(call) in PATH_CALLS for call in ast.walk(node.value) if isinstance(call, ast.Call))


def _writes(node: ast.Call) -> bool:
    """Whether a call writes the file that it names, so that the file is not an input."""
    called = _called(node)
    if called != "open":
        return called in WRITING_CALLS
    words = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return any(re.fullmatch(r"[rwaxbt+]{1,3}", mode) and set(mode) & set("wax") for mode in modes)


def _data_files(source: Path, working_folder: Path) -> set[Path]:
    """Existing files whose names appear in a Python file.

    They are looked up in the folder of the file, in those above it, in the working folder, and in every folder whose
    name appears in the source too, as in `Path(__file__).parent / "data" / "n.txt"`. * and ? are wildcards.
    """
    texts = [text for text in source_of(source).texts if _may_be_name(text)]
    folders = list(dict.fromkeys([source.parent, *source.parents[1:3], working_folder]))
    files = {source.with_suffix(text) for text in texts if re.fullmatch(r"\.\w{1,10}", text)}
    for folder in folders:  # the list grows during the loop
        for text in texts:
            for name in {text, text.lstrip("/")}:
                path = os.path.normpath(os.path.join(folder, name))
                if os.path.isfile(path):
                    files.add(Path(path))
                elif len(folders) < MOST_FOLDERS and os.path.isdir(path) and Path(path) not in folders:
                    folders.append(Path(path))
            if glob.has_magic(text) and "**" not in text and folder not in source.parents[1:]:
                files.update(folder / match for match in glob.glob(text, root_dir=folder))
    return {file for file in files if file != source and _is_input(file, working_folder)}


def _may_be_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and any(map(str.isalnum, text)) and not set(text) & {"\0", "\n"}


def _is_input(file: Path, working_folder: Path) -> bool:
    ours = tuple(
        f"{working_folder / name}/" for name in ("results", "reports", "logs", ".snakemake", "history", "site")
    )
    return file.is_file() and not str(file).startswith((*PSEUDO_FILES, *ours)) and "__pycache__" not in file.parts


def _named_by_configuration(text: str, folders: Iterable[Path], working_folder: Path) -> Iterator[Path]:
    """Files that a text of the configuration names: a file, the matches of a pattern, or all files of a folder."""
    if not _may_be_name(text):
        return
    for folder in folders:
        for match in glob.glob(text, root_dir=folder, recursive=True):
            path = Path(os.path.normpath(os.path.join(folder, match)))
            inside = path.rglob("*") if path.is_dir() else [path]
            yield from (file for file in inside if _is_input(file, working_folder))
