"""Nights on a Slurm of one node: jobs that are killed, and nodes that are drained."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import yaml

from kernelbook.history.store import Store
from tests.cluster.cluster_folder import CASES, Folder
from tests.cluster.test_slurm import ENVIRONMENT, SPARE_TIME, jobs_of, slurm_says
from tests.helpers import ROOT
from tests.helpers.patience import wait_for
from tests.helpers.snakemake import run

pytestmark = [pytest.mark.slurm, pytest.mark.torch, pytest.mark.slow]

HANG = """import time


def hang(context):
    while True:
        time.sleep(1)
"""
WAIT = """import time
from pathlib import Path

from workloads import Workload


def wait(context):
    Path("began").touch()
    while not Path("go").exists():
        time.sleep(0.2)
    return Workload(lambda x: x + 1, (context.random(8, 8),))
"""
NIGHT = "2026-11-29"
PROFILE = ("--workflow-profile", str(ROOT / "profiles/slurm"), *SPARE_TIME)


def configured(path: Path, cases: dict[str, Any]) -> Folder:
    (path / "hang.py").write_text(HANG, encoding="utf-8")
    (path / "wait.py").write_text(WAIT, encoding="utf-8")
    folder = Folder(path)
    folder.configure_runs({"host": {"host": True}}, cases, schedule={"repeats": 1, "confirm": 0})
    return folder


def night_of(folder: Folder, *arguments: str, status: int, meanwhile: Callable[[threading.Event], None]) -> str:
    """Run the night while something happens to Slurm; `meanwhile` gets an event that is set when the night ends."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(meanwhile, over)
        try:
            out = folder.snakemake(
                "nightly", *PROFILE, "--config", f"edition={NIGHT}", *arguments, status=status, **ENVIRONMENT
            )
        finally:
            over.set()
        watching.result()
    return out


def judged(folder: Folder) -> dict[str, Any]:
    return dict(json.loads((folder.path / "history/events" / f"{NIGHT}.json").read_text(encoding="utf-8")))


def statuses(folder: Folder) -> dict[str, str]:
    table = Store(folder.path / "history").read().table
    tonight = table.filter(pc.equal(table["edition"], NIGHT))
    return dict(zip(tonight["case"].to_pylist(), tonight["status"].to_pylist(), strict=True))


def test_a_job_that_is_killed_each_time_is_a_failure_of_its_night(slurm: str, tmp_path: Path) -> None:
    folder = configured(tmp_path, {"linear-eager": CASES["linear-eager"], "hang": {"workload": "hang.py:hang"}})

    def kill_twice(over: threading.Event) -> None:
        killed: set[str] = set()
        while len(killed) < 2 and not over.is_set():
            for job in jobs_of(folder):
                if "hang" in job["line"] and job["JobState"] == "RUNNING" and job["JobId"] not in killed:
                    slurm_says("scancel", job["JobId"])
                    killed.add(job["JobId"])
            time.sleep(0.2)

    out = night_of(folder, status=4, meanwhile=kill_twice)
    assert statuses(folder) == {"linear-eager": "ok", "hang": "failed"}
    verdict = judged(folder)
    (failed,) = verdict["failed"]
    assert (verdict["exit_status"], failed["run"], failed["case"]) == (4, "host", "hang")
    assert "job" in failed["reason"]
    assert "hang" in out


def test_a_night_waits_for_a_node_that_is_drained_and_is_judged_once_it_is_back(slurm: str, tmp_path: Path) -> None:
    cases = {"wait": {"workload": "wait.py:wait"}, "linear-eager": CASES["linear-eager"]}
    folder = configured(tmp_path, cases)
    (node,) = slurm_says("sinfo", "--noheader", "--format", "%n").split()

    def drain(over: threading.Event) -> None:
        wait_for(lambda: (folder.path / "began").exists() or over.is_set())
        slurm_says("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
        try:
            (folder.path / "go").touch()
            wait_for(lambda: over.is_set() or any("DRAIN" in job["line"] for job in jobs_of(folder)) or done(folder))
            assert not over.is_set()
        finally:
            slurm_says("scontrol", "update", f"NodeName={node}", "State=RESUME")

    night_of(folder, status=0, meanwhile=drain)
    assert statuses(folder) == {"wait": "ok", "linear-eager": "ok"}
    assert judged(folder)["exit_status"] == 0


def test_a_night_on_a_drained_node_ends_at_its_deadline_and_judges_what_was_measured(
    slurm: str, tmp_path: Path
) -> None:
    folder = configured(tmp_path, {"linear-eager": CASES["linear-eager"], "hang": {"workload": "hang.py:hang"}})
    measured = f"results/{NIGHT}/host/linear-eager/1/measurement.json"
    folder.snakemake(measured, *PROFILE, "--config", f"edition={NIGHT}", **ENVIRONMENT)
    config = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    folder.configure(config | {"schedule": config["schedule"] | {"deadline_hours": 0.01}})
    (node,) = slurm_says("sinfo", "--noheader", "--format", "%n").split()
    slurm_says("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        nightly = [sys.executable, ROOT / "scripts/nightly.py", "--night", NIGHT, *PROFILE]
        out = run(nightly, tmp_path, status=4, **ENVIRONMENT)
        assert "CANCELLED" in {job["JobState"] for job in jobs_of(folder)} or "SLURM jobid" not in out
        assert not [job for job in jobs_of(folder) if job["JobState"] in ("PENDING", "RUNNING")]
    finally:
        slurm_says("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert statuses(folder) == {"linear-eager": "ok", "hang": "failed"}
    (failed,) = judged(folder)["failed"]
    assert (failed["case"], "the night's deadline of 0.01 hours" in failed["reason"]) == ("hang", True)
    assert "hang" in out.split("has passed", 1)[1]


def done(folder: Folder) -> bool:
    """Whether all jobs were measured before the node was drained."""
    return len([job for job in jobs_of(folder) if job["JobState"] == "COMPLETED"]) == 2
