"""A copy of the checkout to work in, as a new user has one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.files import link_or_copy
from tests.helpers.forks import forking
from tests.helpers.patience import LONG

MADE = (".venv", ".snakemake", "results", "logs", "history", "site", "images", "node_modules", "__pycache__")
READ_ONLY = ("resources/", "reports/", "tests/")  # no page has a command that writes to what is there


def files_of(root: Path) -> list[str]:
    """The files of the project, without what was made from them."""
    asked = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [name for name in done.stdout.split("\0") if name and (root / name).is_file()]
    every = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [path.as_posix() for path in every if path.parts[0] not in MADE and "__pycache__" not in path.parts]


class Checkout:
    """A copy of the project at `path`, with this environment's programs first on the PATH."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def python(self, script: str) -> str:
        """Run Python code in it, with `kernelbook` as if it were installed."""
        (self.path / "block.py").write_text(script, encoding="utf-8")
        return self.shell("PYTHONPATH=scripts python block.py")

    def shell(self, script: str) -> str:
        """Run a shell script in it and return all that it printed; a step that fails fails the test."""
        programs = forking()  # python and snakemake; the others are beside this interpreter
        places = [Path(programs["FORK_PYTHON"]).parent, Path(sys.executable).parent, os.environ["PATH"]]
        places = [*map(str, places), str(self.path.parent / "stand-ins")]
        environment = {**os.environ, **programs, "PATH": os.pathsep.join(places), "PYTHONPATH": ""}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def checkout(root, tmp_path):
    path = tmp_path / "a checkout"
    names = files_of(root)
    for folder in {os.path.dirname(name) for name in names}:
        (path / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        copy = link_or_copy if name.startswith(READ_ONLY) else shutil.copy2
        copy(root / name, path / name)
    for compiled in (root / "scripts").rglob("__pycache__"):
        shutil.copytree(compiled, path / compiled.relative_to(root), copy_function=link_or_copy)
    stand_ins = tmp_path / "stand-ins"
    stand_ins.mkdir()
    # Apptainer for dry runs on machines without it, and the command that `pip install .` gives
    for name, line in (
        ("apptainer", "echo apptainer version 1.4.5"),
        ("kernelbook", f'PYTHONPATH="{path}/scripts" exec python -m kernelbook "$@"'),
    ):
        (stand_ins / name).write_text(f"#!/bin/sh\n{line}\n")
        (stand_ins / name).chmod(0o755)
    return Checkout(path)
