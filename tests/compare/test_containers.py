"""Comparing images: containers are started as the workflow starts them; a stand-in for Apptainer records the calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compare.test_compare import MEASURE, QUICK, WORKLOAD
from tests.helpers import ROOT
from tests.helpers.patience import LONG

#: Runs the command behind the image with this Python, as if it were in the container.
STAND_IN = """#!{python}
import os, sys
words = sys.argv[1:]
with open({record!r}, "a") as file:
    print(words, file=file)
image = next(place for place, word in enumerate(words) if word.endswith(".sif"))
command = words[image + 1 :]
command[command.index("python3")] = sys.executable
os.environ["APPTAINER_NAME"] = os.environ["APPTAINER_CONTAINER"] = os.path.basename(words[image])
os.execvp(command[0], command)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images, a case, and the stand-in in bin/."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "apptainer"
    program.write_text(STAND_IN.format(python=sys.executable, record=str(tmp_path / "calls.txt")))
    program.chmod(0o755)
    for name in ("old.sif", "new.sif"):
        (tmp_path / name).write_text(name)
    (tmp_path / "mine.py").write_text(WORKLOAD.format(sleep=0, result="x @ x"))
    cases = {"mine": {"workload": "mine.py:block"}}
    (tmp_path / "config.yaml").write_text(json.dumps({"runs": {"host": {"host": True}}, "cases": cases}))
    return tmp_path


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    measure = [word for key, value in MEASURE.items() for word in ("--measure", f"{key}={json.dumps(value)}")]
    command = [sys.executable, str(ROOT / "scripts/compare.py"), *words, *QUICK, *measure, "--budget", "0.1"]
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONG)


@pytest.mark.torch
def test_each_image_is_started_as_the_workflow_starts_it(folder: Path) -> None:
    done = compare(folder, "old.sif", "new.sif")
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [line for line in (folder / "calls.txt").read_text().splitlines() if "profile_case.py" in line]
    assert len(calls) == 2  # one round
    for call in calls:
        assert "'exec', '--home'" in call
        assert "'--cleanenv'" in call
        assert f"{ROOT / 'scripts'}:{ROOT / 'scripts'}:ro" in call
        assert "'--require-container'" in call
    assert sum("old.sif" in call for call in calls) == 1
    found = json.loads((folder / "results/compare/compare.json").read_text())
    assert (found["a"]["kind"], found["b"]["kind"]) == ("image", "image")
    assert found["cases"][0]["ratio"]["rounds"] == 1


def test_an_image_that_does_not_start_is_status_2_with_the_reason(folder: Path) -> None:
    (folder / "bin" / "apptainer").write_text("#!/bin/sh\necho 'FATAL: could not open image' >&2\nexit 255\n")
    done = compare(folder, "old.sif", "new.sif")
    assert done.returncode == 2
    assert "compare: A: old.sif does not start" in done.stderr
    assert not list(folder.glob("results/compare/*/mine"))


def test_an_image_that_is_not_there_is_status_2(folder: Path) -> None:
    done = compare(folder, "absent.sif", "new.sif")
    assert done.returncode == 2
    assert "absent.sif" in done.stderr
