"""Which files a Python file uses: the modules that it imports, and the data files that its source names.

A measurement is stale when one of them changes. Nothing is imported or run: the source is read with `ast`.
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
PATH_CALLS = frozenset({"Path", "join", "joinpath", "with_name", "with_suffix", "str", "fspath"})
WRITING_CALLS = frozenset({"save", "savez", "write_text", "write_bytes", "touch", "mkdir", "makedirs", "unlink"})


@dataclass(frozen=True)
class Source:
    """What one Python file names: modules (relative ones with leading dots) and texts that may be names of files."""

    modules: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


def files_behind(start: Path, folders: Iterable[Path], in_functions: bool = True) -> tuple[Path, ...]:
    """`start` and every file that it imports, those that are imported by these, and so on; sorted, each once.

    folders: where modules are looked for, beside the folder of `start`; what is not found there (torch, the standard
    library) is left out. in_functions: also what is imported only when a function is called. A file that is not Python
    stands for itself alone.
    """
    return tuple(sorted(_follow([start], (start.parent, *folders), in_functions)))


def module_files(module: str, folders: Iterable[Path]) -> list[Path]:
    """The file of a module named with dots, and the __init__.py of each package above it; empty if there is none."""
    roots = tuple(folders)
    return list(_module_files(module, Path(), roots or (Path(),)))


def workload_files(starts: Iterable[Path], folders: Iterable[Path], own: Path, texts: Iterable[str]) -> list[Path]:
    """The files behind a workload: what `starts` import, and the data files that they name.

    folders: where modules are looked for, in Python's order; the first is the folder of the workload and the second the
    working folder, in which data files are looked up. A package that is installed from a folder of its own
    (`pip install --editable`) is followed too. own: a folder whose files name no data. texts: more names of files or
    folders, from the configuration; a folder stands for all files in it.
    """
    roots = tuple(folders)
    found = _follow(starts, roots, in_functions=True, installed=True)
    while True:
        sources = [file for file in found if file.suffix == ".py" and not file.is_relative_to(own)]
        named = {file for source in sources for file in _data_files(source, roots[1])}
        new = [file for file in named if file not in found]
        found.update(new)
        if not any(file.suffix == ".py" for file in new):
            break
        found |= _follow(found, roots, in_functions=True, installed=True)
    for text in texts:
        found.update(_named_by_configuration(text, roots[:2], roots[1]))
    return sorted(found)


def _follow(starts: Iterable[Path], roots: tuple[Path, ...], in_functions: bool, installed: bool = False) -> set[Path]:
    todo = list(starts)
    found = set(todo)
    while todo:
        file = todo.pop()
        for name in source_of(file, in_functions).modules:
            new = [path for path in _module_files(name, file, roots, installed) if path not in found]
            found.update(new)
            todo += new
    return found


def _module_files(name: str, file: Path, roots: tuple[Path, ...], installed: bool = False) -> Iterator[Path]:
    """Files that Python reads for `import name` in `file`: of each package on the way its __init__.py, then the module.

    The last part may be `*`: all modules of the package, since its __all__ may name any of them.
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
    """The folder that a top-level module is taken from; of a namespace package, every folder that has a part of it."""
    endings = (os.path.join("", "__init__.py"), ".py", *EXTENSION_SUFFIXES)
    for root in roots:
        if any(os.path.isfile(os.path.join(root, top, ending) if ending[0] != "." else f"{root / top}{ending}")
               for ending in endings):  # fmt: skip
            return [root]
    return [root for root in roots if (root / top).is_dir()]


@cache
def _installed(top: str) -> list[Path]:
    """The folder of a package that is installed from its source folder; nothing for the standard library and others."""
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


def source_of(file: Path, in_functions: bool = True) -> Source:
    """The names in a Python file; none in a file that is not Python."""
    tree = parsed(file)
    return _names_in(file, tree[0], in_functions) if tree else Source()


def parsed(file: Path) -> tuple[str, ast.Module] | None:
    """A stamp of a Python file and its syntax tree; None where it cannot be read or is not Python."""
    try:
        found = file.stat()
    except OSError:
        return None
    if file.suffix != ".py" or found.st_size > LARGEST_SOURCE:
        return None
    stamp = f"{found.st_size}-{found.st_mtime_ns}"
    tree = _tree(file, stamp)
    return (stamp, tree) if tree else None


@cache
def _tree(file: Path, stamp: str) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@cache
def _names_in(file: Path, stamp: str, in_functions: bool) -> Source:
    modules: set[str] = set()
    texts: set[str] = set()
    written = _written_names(_tree(file, stamp))
    todo: list[ast.AST] = [_tree(file, stamp)]
    while todo:
        node = todo.pop()
        if _is_output(node, written):
            continue
        if in_functions or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
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
    return Source(frozenset(modules), frozenset(texts))


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
    """Variables that stand for a file that is written, as LOG in `open(LOG, "a")` and `Path(LOG).touch()`."""
    names: set[str] = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _writes(call):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            inner = owner.args if isinstance(owner, ast.Call) and _called(owner) in PATH_CALLS else []
            names.update(node.id for node in (owner, *call.args, *inner) if isinstance(node, ast.Name))
    return names


def _is_output(node: ast.AST, written: set[str]) -> bool:
    """Whether what a node names is a result: of a call that writes, or a path given to a variable that is written."""
    if isinstance(node, ast.Call):
        return _writes(node)
    if not isinstance(node, ast.Assign) or not all(getattr(target, "id", None) in written for target in node.targets):
        return False
    return all(_called(call) in PATH_CALLS for call in ast.walk(node.value) if isinstance(call, ast.Call))


def _writes(node: ast.Call) -> bool:
    """Whether a call writes the file that it names: such a file is a result and not an input."""
    called = _called(node)
    if called != "open":
        return called in WRITING_CALLS
    words = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return any(re.fullmatch(r"[rwaxbt+]{1,3}", mode) and set(mode) & set("wax") for mode in modes)


def _data_files(source: Path, working_folder: Path) -> set[Path]:
    """Files that exist under a name that stands in the source of a Python file.

    Looked up in the folder of the file, in those above it, in the working folder, and in every folder whose name stands
    in the source too, as in `Path(__file__).parent / "data" / "n.txt"`. A name with * or ? stands for all that match.
    """
    texts = [text for text in source_of(source).texts if _may_be_name(text)]
    folders = list(dict.fromkeys([source.parent, *source.parents[1:3], working_folder]))
    files = {source.with_suffix(text) for text in texts if re.fullmatch(r"\.\w{1,10}", text)}
    for folder in folders:  # grows meanwhile
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
    """Files that one text of the configuration names: itself, those that match it, or all those of a folder."""
    if not _may_be_name(text):
        return
    for folder in folders:
        for match in glob.glob(text, root_dir=folder, recursive=True):
            path = Path(os.path.normpath(os.path.join(folder, match)))
            inside = path.rglob("*") if path.is_dir() else [path]
            yield from (file for file in inside if _is_input(file, working_folder))
