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
        places = [str(Path(sys.executable).parent), os.environ["PATH"], str(self.path.parent / "stand-ins")]
        environment = {**os.environ, "PATH": os.pathsep.join(places), "PYTHONPATH": ""}
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
    stand_in = tmp_path / "stand-ins" / "apptainer"  # for dry runs on machines without the real one
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\necho apptainer version 1.4.5\n")
    stand_in.chmod(0o755)
    return Checkout(path)
