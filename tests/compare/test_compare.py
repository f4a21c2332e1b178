"""compare.py on real processes of torch, on a CPU. Workloads differ by sleeping, so the machine decides no verdict."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.helpers import ROOT
from tests.helpers.forks import forking
from tests.helpers.patience import LONG

pytestmark = pytest.mark.torch

WORKLOAD = """import time

import torch
from workloads import Workload


def block(context):
    def forward(x):
        time.sleep({sleep})
        return {result}

    return Workload(forward, (context.random(8, 8),))
"""
QUICK = ["--device", "cpu", "--confidence", "0.75", "--width", "1", "--min-change", "1", "--budget", "600"]
MEASURE = {"samples": 3, "warmup": 1, "dtype": "float32", "schedule": {"wait": 0, "warmup": 0, "active": 1}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old.py").write_text(WORKLOAD.format(sleep=0.05, result="x @ x"))
    (tmp_path / "new.py").write_text(WORKLOAD.format(sleep=0.25, result="torch.relu(x @ x)"))
    return tmp_path


def compare(folder: Path, a: str, b: str, *words: str) -> tuple[int, str, dict]:
    measure = [word for key, value in MEASURE.items() for word in ("--measure", f"{key}={json.dumps(value)}")]
    variables = os.environ | forking() | {"OMP_NUM_THREADS": "1"}
    command = [variables["FORK_PYTHON"], str(ROOT / "scripts/compare.py"), a, b, *QUICK, *measure, *words]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=LONG)
    file = folder / "results/compare/compare.json"
    return done.returncode, done.stdout + done.stderr, json.loads(file.read_text()) if file.is_file() else {}


@pytest.fixture
def schema() -> dict:
    return json.loads((ROOT / "scripts/kernelbook/compare/compare.schema.json").read_text(encoding="utf-8"))


def test_an_extra_op_and_more_time_are_a_change(folder: Path, schema: dict) -> None:
    status, out, found = compare(folder, "old.py:block", "new.py:block", "--fail-on", "slower,ops")
    assert status == 3, out
    jsonschema.validate(found, schema)
    (case,) = found["cases"]
    assert (case["case"], case["verdict"]) == ("block", "slower")
    assert case["changes"] == ["slower", "ops"]
    assert case["ratio"]["low"] > 2
    (compared,) = found["diff"]["comparisons"]
    assert [op["names"] for op in compared["ops"] if "aten::relu" in op["names"]] != []
    assert "slower" in out
    assert "| block | slower |" in (folder / "results/compare/compare.md").read_text()


def test_the_same_on_both_sides_is_no_difference(folder: Path) -> None:
    status, out, found = compare(folder, "old.py:block", "old.py:block", "--fail-on", "slower,faster,kernels,ops")
    assert status == 0, out
    (case,) = found["cases"]
    assert (case["verdict"], case["changes"]) == ("no difference", [])


def test_a_side_that_fails_is_status_4_with_its_reason(folder: Path) -> None:
    (folder / "bad.py").write_text(WORKLOAD.format(sleep=0, result="x @ x[:3]"))
    status, out, found = compare(folder, "old.py:block", "bad.py:block")
    assert status == 4, out
    (case,) = found["cases"]
    assert case["verdict"] == "failed"
    assert "B failed" in case["reasons"][0]


def test_bad_arguments_are_status_2_before_anything_runs(folder: Path) -> None:
    status, out, found = compare(folder, "old.py:block", "nothing")
    assert (status, found) == (2, {})
    assert "B=nothing" in out


def test_two_commits_of_ones_own_code(folder: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)

    (folder / "config.yaml").write_text(
        "runs: {host: {host: true}}\ncases:\n  mine: {workload: 'mine.py:block'}\n  theirs: {workload: linear}\n"
    )
    (folder / "mine.py").write_text("from helper import block\n")
    (folder / "helper.py").write_text(WORKLOAD.format(sleep=0, result="x @ x"))
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")
    (folder / "helper.py").write_text(WORKLOAD.format(sleep=0, result="torch.relu(x @ x)"))
    status, out, found = compare(folder, "main", ".", "--fail-on", "ops", "--budget", "0.1")
    assert status == 3, out
    assert [(case["case"], case["changes"]) for case in found["cases"]] == [("mine", ["ops"])]
    assert found["a"]["commit"]
    assert found["b"]["commit"] is None
    names = [name for op in found["diff"]["comparisons"][0]["ops"] for name in op["names"]]
    assert "aten::relu" in names
