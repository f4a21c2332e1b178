"""The Slurm profile on a Slurm of one node with one made-up GPU: what jobs ask for, and that no two share it."""

import json
import re
import shutil
import subprocess
import threading
import time
from datetime import datetime
from itertools import pairwise

import pytest
from cluster_folder import CASES, Folder

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.slow, pytest.mark.xdist_group("cluster")]

ENVIRONMENT = {
    "KERNELBOOK_PARTITION": "gpus",
    "KERNELBOOK_CPUS": "1",
    "KERNELBOOK_MEMORY_MB": "900",
    "KERNELBOOK_SLURM_STATUS": "squeue",
}
SPARE_TIME = ("--latency-wait", "5", "--slurm-init-seconds-before-status-checks", "2")


def slurm_says(*command: str) -> str:
    done = subprocess.run(["timeout", "-k", "1", "10", *command], check=True, capture_output=True, text=True)
    return done.stdout


def jobs_of(folder: Folder) -> list[dict[str, str]]:
    """What Slurm knows of the jobs that were started in this folder."""
    found = [dict(re.findall(r"(\w+)=(\S+)", line)) | {"line": line} for line in slurm_says(
        "scontrol", "show", "jobs", "--oneliner").splitlines()]  # fmt: skip
    return [job for job in found if f"WorkDir={folder.path}" in job["line"]]


def cancel_once(folder: Folder, words: str, cancelled: list[str]) -> None:
    """Take the job whose comment has these words away while it runs, as a lost node does."""
    for _ in range(1200):
        for job in jobs_of(folder):
            if words in job["line"] and job["JobState"] == "RUNNING":
                time.sleep(2)
                slurm_says("scancel", job["JobId"])
                cancelled.append(job["JobId"])
                return
        time.sleep(0.1)


@pytest.fixture(scope="module")
def executed(root, images, slurm, tmp_path_factory):
    """Two images, three cases each, of which one job is cancelled while it runs."""
    folder = Folder(root, tmp_path_factory.mktemp("of a cluster"))
    for name in ("spy_workload.py", "sleepy_workload.py"):
        shutil.copy(root / "tests/cluster" / name, folder.path)
    cases = {"linear-eager": CASES["linear-eager"], "spy": {"workload": "spy_workload.py:spy"}}
    cases |= {"sleepy": {"workload": "sleepy_workload.py:sleepy"}}
    runs = {
        "new": {"container": str(images / "torch-2.13.sif"), "cases": ["spy"]},
        "old": {"container": str(images / "torch-2.6.sif")},
    }
    folder.configure(runs, cases, device="auto")
    cancelled: list[str] = []
    watcher = threading.Thread(target=cancel_once, args=(folder, "sleepy", cancelled), daemon=True)
    watcher.start()
    profile = ("--workflow-profile", str(root / "profiles/slurm"), "--use-singularity", *SPARE_TIME)
    said = folder.snakemake(*profile, environment=ENVIRONMENT)
    return folder, said, cancelled


def test_every_case_is_measured_in_its_image(executed):
    folder, said, _ = executed
    assert {row["status"] for row in folder.rows().values()} == {"ok"}
    torches = {run: folder.measurement(run, "spy")["environment"]["torch"] for run in ("new", "old")}
    assert torches == {"new": "2.13.0+cpu", "old": "2.6.0+debian"}
    assert "report: reports/latest/index.html" in said


def test_a_job_lost_while_it_ran_is_submitted_again(executed):
    folder, _, cancelled = executed
    assert len(cancelled) == 1
    states = {job["JobId"]: job["JobState"] for job in jobs_of(folder)}
    assert states.pop(cancelled[0]) == "CANCELLED"
    assert set(states.values()) == {"COMPLETED"}
    assert len(states) == 4


def test_only_measurements_are_jobs_and_ask_for_one_gpu_their_time_and_memory(executed):
    folder, _, _ = executed
    for job in jobs_of(folder):
        assert "profile_case" in job["line"]
        assert "gpu:1" in job["line"]
        assert job["Partition"] == "gpus"
        assert job["TimeLimit"] == "00:14:00"  # two tries of 120 s, and 10 minutes
        assert "mem=900M" in job["line"]


def test_no_two_jobs_had_the_gpu_at_once(executed):
    folder, _, _ = executed
    spans = sorted(
        (datetime.fromisoformat(job["StartTime"]), datetime.fromisoformat(job["EndTime"])) for job in jobs_of(folder)
    )
    assert len(spans) == 5
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_the_gpu_that_slurm_gave_is_named_inside(executed):
    folder, _, _ = executed
    for image in ("torch-2.13", "torch-2.6"):
        seen = json.loads((folder.path / f"{image}.spy.json").read_text(encoding="utf-8"))
        assert seen["environ"]["CUDA_VISIBLE_DEVICES"] == "0"
        assert not [name for name in seen["environ"] if name.startswith(("SLURM_", "KERNELBOOK_"))]
