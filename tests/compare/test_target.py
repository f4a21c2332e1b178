"""`snakemake compare`: one round of real processes on a CPU; the verdict is of ops, which no machine changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compare.test_compare import MEASURE, WORKLOAD
from tests.helpers.snakemake import WorkingFolder

pytestmark = pytest.mark.torch


@pytest.fixture
def working(tmp_path: Path) -> WorkingFolder:
    (tmp_path / "old.py").write_text(WORKLOAD.format(sleep=0, result="x @ x"))
    (tmp_path / "new.py").write_text(WORKLOAD.format(sleep=0, result="torch.relu(x @ x)"))
    return WorkingFolder(tmp_path)


def configure(working: WorkingFolder, **compare: object) -> None:
    working.configure(
        {
            "device": "cpu",
            "measure": MEASURE,
            "runs": {"host": {"host": True}},
            "cases": {"own": {"workload": "old.py:block"}},
            "compare": {"budget_s": 0.1, **compare},
        }
    )


def test_the_workflow_ends_as_the_comparison_was_judged(working: WorkingFolder) -> None:
    configure(working, a="old.py:block", b="new.py:block", fail_on=["ops"])
    printed = working.snakemake("compare", status=3)
    assert "other ops" in printed
    found = json.loads((working.path / "results/compare/compare.json").read_text())
    assert found["exit_status"] == 3
    assert (found["cases"][0]["ratio"]["rounds"], found["cases"][0]["verdict"]) == (1, "undecided")


def test_without_a_and_b_nothing_runs_and_the_keys_are_named(working: WorkingFolder) -> None:
    configure(working)
    assert "compare.a and compare.b must be set" in working.snakemake("compare", status=1)


def test_a_mistake_stops_the_workflow(working: WorkingFolder) -> None:
    configure(working, a="old.py:block", b="absent")
    assert "B=absent" in working.snakemake("compare", status=1)
    assert not (working.path / "results/compare/A").exists()
