"""The Slurm profile on a Slurm of one node with two made-up GPUs: what jobs ask for, and that no two share one."""

import json
import re
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from tests.cluster.cluster_folder import CASES, Folder
from tests.helpers.patience import LONG, TRIES

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.slow]

ENVIRONMENT = {
    "KERNELBOOK_PARTITION": "gpus",
    "KERNELBOOK_CPUS": "1",
    "KERNELBOOK_MEMORY_MB": "900",
    "KERNELBOOK_SLURM_STATUS": "squeue",
}
SPARE_TIME = ("--latency-wait", "5", "--slurm-init-seconds-before-status-checks", "2")


def slurm_says(*command: str) -> str:
    """What a command of Slurm's prints; asked again where the controller does not answer, as on a busy machine."""
    for _ in range(TRIES):
        done = subprocess.run(["timeout", "-k", "1", "60", *command], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout
        time.sleep(1)
    raise AssertionError(
        f"{command[0]} failed {TRIES} times, the last time with status {done.returncode}: {done.stderr}"
    )


def jobs_of(folder: Folder) -> list[dict[str, str]]:
    """What Slurm knows of the jobs that were started in this folder."""
    found = [dict(re.findall(r"(\w+)=(\S+)", line)) | {"line": line} for line in slurm_says(
        "scontrol", "show", "jobs", "--details", "--oneliner").splitlines()]  # fmt: skip
    return [job for job in found if f"WorkDir={folder.path}" in job["line"]]


def cancel_sleepy(folder: Folder, over: threading.Event) -> str:
    """Take the sleepy job away while it runs, as a lost node does, and return its id; `over` says that nothing runs."""
    while not (folder.path / "sleepy.began").exists():
        assert not over.wait(0.1), "the execution ended before the sleepy job began"
    (running,) = (job for job in jobs_of(folder) if "sleepy" in job["line"] and job["JobState"] == "RUNNING")
    slurm_says("scancel", running["JobId"])
    return running["JobId"]


def ended_jobs(folder: Folder) -> list[dict[str, str]]:
    """The jobs of this folder once Slurm has done with all of them."""
    deadline = time.monotonic() + LONG
    jobs = jobs_of(folder)
    while any(job["JobState"] in ("PENDING", "RUNNING", "COMPLETING") for job in jobs):
        assert time.monotonic() < deadline, jobs
        time.sleep(0.1)
        jobs = jobs_of(folder)
    return jobs


@pytest.fixture(scope="module")
def executed(root, images, slurm, tmp_path_factory):
    """Two images, four cases, a job cancelled as it runs: folder, what was said, the job's id, all jobs at the end."""
    folder = Folder(tmp_path_factory.mktemp("of a cluster"))
    for name in ("spy_workload.py", "sleepy_workload.py"):
        shutil.copy(root / "tests/cluster" / name, folder.path)
    cases = {"linear-eager": CASES["linear-eager"], "spy": {"workload": "spy_workload.py:spy"}}
    cases |= {"sleepy": {"workload": "sleepy_workload.py:sleepy"}}
    cases |= {"pair": {"workload": "spy_workload.py:spy", "ranks": 2, "params": {"file": "pair.json"}}}
    runs = {
        "new": {"container": str(images / "torch-2.13.sif"), "cases": ["spy", "pair"]},
        "old": {"container": str(images / "torch-2.6.sif"), "cases": ["linear-eager", "spy", "sleepy"]},
    }
    folder.configure_runs(runs, cases, device="auto")
    profile = ("--workflow-profile", str(root / "profiles/slurm"), "--use-singularity", *SPARE_TIME)
    over = threading.Event()
    with ThreadPoolExecutor(1) as watching:
        cancelled = watching.submit(cancel_sleepy, folder, over)
        try:
            said = folder.snakemake(*profile, **ENVIRONMENT)
        finally:
            over.set()
    return folder, said, cancelled.result(), ended_jobs(folder)


def test_every_case_is_measured_in_its_image(executed):
    folder, said, _, _ = executed
    assert {row["status"] for row in folder.rows().values()} == {"ok"}
    torches = {run: folder.measurement(run, "spy")["environment"]["torch"].partition("+c")[0] for run in ("new", "old")}
    assert torches == {"new": "2.13.0", "old": "2.6.0+debian"}  # +cpu or +cu130, as the index had it
    assert "report: reports/latest/index.html" in said


def test_a_job_lost_while_it_ran_is_submitted_again(executed):
    _, _, cancelled, jobs = executed
    states = {job["JobId"]: job["JobState"] for job in jobs}
    assert states.pop(cancelled) == "CANCELLED"
    assert set(states.values()) == {"COMPLETED"}
    assert len(states) == 5


def gpus_of(job: dict[str, str]) -> int:
    """How many GPUs Slurm granted a job."""
    return int(job["JOB_GRES"].removeprefix("gpu:"))


def test_only_measurements_are_jobs_and_ask_for_their_gpus_time_and_memory(executed):
    for job in executed[3]:
        assert "profile_case" in job["line"]
        assert job["Partition"] == "gpus"
        assert job["TimeLimit"] == "00:30:00"  # two tries of 600 s, and 10 minutes
        assert "mem=900M" in job["line"]


def test_a_case_with_two_ranks_is_granted_two_gpus_and_every_other_one(executed):
    assert sorted(map(gpus_of, executed[3])) == [1] * 5 + [2]
    seen = json.loads((executed[0].path / "torch-2.13.pair.json").read_text(encoding="utf-8"))
    assert seen["environ"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    for rank in (0, 1):
        file = executed[0].path / f"results/latest/new/pair/1/rank-{rank}/measurement.json"
        assert json.loads(file.read_text(encoding="utf-8"))["world_size"] == 2


def test_no_two_jobs_had_a_gpu_at_once(executed):
    spans = [
        (datetime.fromisoformat(job["StartTime"]), datetime.fromisoformat(job["EndTime"]), gpus_of(job))
        for job in executed[3]
    ]
    for start, _, _ in spans:
        assert sum(gpus for begin, end, gpus in spans if begin <= start < end) <= 2


def test_the_gpu_that_slurm_gave_is_named_inside(executed):
    folder = executed[0]
    for image in ("torch-2.13", "torch-2.6"):
        seen = json.loads((folder.path / f"{image}.spy.json").read_text(encoding="utf-8"))
        assert seen["environ"]["CUDA_VISIBLE_DEVICES"] in ("0", "1")
        leaked = {name for name in seen["environ"] if name.startswith(("SLURM_", "KERNELBOOK_"))}
        assert leaked == {"KERNELBOOK_OWNER"}  # by which the next Snakemake finds what a killed one left running
