"""Where the files that a configuration names are: in the working folder, or else in the project's own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelbook.sources.imports import module_files, workload_files


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
