"""Where the source of a workload lies, by the name that a case gives."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelbook.sources.imports import module_files, workload_files


@dataclass(frozen=True)
class WorkloadSource:
    """The source of `attention`, `path/to/file.py:function` or `package.module:function`.

    kind: built-in | file | module. files: its file; of a module also the __init__.py of each package above it; empty
    where there is none. folders: where its imports are looked for, in Python's order.
    """

    kind: str
    function: str
    files: tuple[Path, ...]
    folders: tuple[Path, ...]


def find_source(workload: str, root: Path, scripts: Path) -> WorkloadSource:
    """Look up a workload as the measuring side does (scripts/workloads/harness/building.py), without importing it.

    root: the working folder. scripts: the project's own.
    """
    name, colon, function = workload.rpartition(":")
    paths = [Path(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    folders = (root, scripts, *paths)
    if name.endswith(".py"):
        file = Path(os.path.normpath(root / name))
        return WorkloadSource("file", function, _there([file]), (file.parent, *folders))
    if colon:  # without a name, as in `:function`, there is no such module
        return WorkloadSource("module", function, _there(module_files(name, folders) if name else []), (root, *folders))
    built_in = scripts / "workloads"
    return WorkloadSource("built-in", workload, _there([built_in / f"{workload}.py"]), (built_in, *folders))


def code_behind_workload(workload: str, texts: Iterable[str], root: Path, scripts: Path) -> tuple[Path, ...]:
    """The code that all workloads share, the source of this one, and the files behind it.

    texts: more names of data files, from the configuration.
    """
    source = find_source(workload, root, scripts)
    harness = sorted(scripts.glob("workloads/harness/*.py"))
    behind = workload_files(source.files, source.folders, scripts, texts)
    return tuple(harness + [file for file in behind if file not in harness])


def _there(files: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(file for file in files if file.is_file())
