"""A copy of the checkout to work in, as a new user has one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LEFT_BEHIND = {".git", ".venv", ".snakemake", "results", "logs", "history", "site", "images", ".cache", ".dev", ".whl"}


class Checkout:
    """A copy of the project at `path`, with this environment's programs first on the PATH."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def shell(self, script: str) -> str:
        """Run a shell script in it and return all that it printed; a step that fails fails the test."""
        programs = Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def checkout(root, tmp_path):
    path = tmp_path / "a checkout"
    made = {*LEFT_BEHIND, *(f"reports/{each.name}" for each in (root / "reports").glob("*") if each.name != "example")}

    def ignore(folder: str, names: list[str]) -> set[str]:
        places = {name: (Path(folder) / name).relative_to(root).as_posix() for name in names}
        return {name for name, place in places.items() if place in made or name == "__pycache__"}

    shutil.copytree(root, path, ignore=ignore, symlinks=True)
    return Checkout(path)
