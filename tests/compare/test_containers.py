"""Comparing images: two real ones, one that does not start, and one that is not there."""

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images, a case, and in bin/ an apptainer that cannot open an image."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "apptainer"
    program.write_text("#!/bin/sh\necho 'FATAL: could not open image' >&2\nexit 255\n")
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


@pytest.mark.slow
@pytest.mark.apptainer
def test_two_real_images_are_compared(folder: Path, images: Path) -> None:
    (folder / "bin" / "apptainer").unlink()
    done = compare(folder, str(images / "torch-2.6.sif"), str(images / "torch-2.13.sif"))
    assert done.returncode in (0, 3), done.stdout + done.stderr  # two versions of torch may differ in ops
    found = json.loads((folder / "results/compare/compare.json").read_text())
    assert (found["a"]["kind"], found["b"]["kind"]) == ("image", "image")
    assert found["cases"][0]["ratio"]["rounds"] == 1
    for side, version in (("A", "2.6"), ("B", "2.13")):
        (file,) = (folder / "results/compare" / side / "mine").glob("*/measurement.json")
        measured = json.loads(file.read_text())
        assert measured["status"] == "ok"
        assert measured["environment"]["torch"].startswith(version)
        assert measured["environment"]["container"]


def test_an_image_that_does_not_start_is_status_2_with_the_reason(folder: Path) -> None:
    done = compare(folder, "old.sif", "new.sif")
    assert done.returncode == 2
    assert "compare: A: old.sif does not start" in done.stderr
    assert not list(folder.glob("results/compare/*/mine"))


def test_an_image_that_is_not_there_is_status_2(folder: Path) -> None:
    done = compare(folder, "absent.sif", "new.sif")
    assert done.returncode == 2
    assert "absent.sif" in done.stderr
