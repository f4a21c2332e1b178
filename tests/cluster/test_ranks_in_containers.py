"""A case with ranks inside a container, started by Snakemake and by Slurm: measured, one rank failing, stopped."""

from __future__ import annotations

import gzip
import html
import json
import shutil

import pytest

from tests.cluster.cluster_folder import Folder
from tests.cluster.test_slurm import ENVIRONMENT, SPARE_TIME

pytestmark = [pytest.mark.apptainer, pytest.mark.slow]

#: What a machine sets that forbids NVLink multicast, and two more for NCCL.
VARIABLES = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "NCCL_DEBUG": "WARN",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
}
WORKLOAD = {"workload": "rank_workloads.py:total", "ranks": 2, "retries": 0}
CASES = {
    "total": WORKLOAD,
    "raises": WORKLOAD | {"params": {"fails": "raises"}},
    "killed": WORKLOAD | {"params": {"fails": "is killed"}},
    "hangs": WORKLOAD | {"params": {"fails": "hangs"}, "timeout_s": 40},
}


@pytest.fixture(scope="module", params=["cores", pytest.param("slurm", marks=pytest.mark.slurm)])
def measured(request, root, images, tmp_path_factory):
    """The cases in one image: one goes well, and in the others rank 1 raises, is killed, and hangs."""
    folder = Folder(tmp_path_factory.mktemp("ranks of a user"))
    shutil.copy(root / "tests/measure/fixtures/rank_workloads.py", folder.path)
    folder.configure_runs({"new": {"container": str(images / "torch-2.13.sif")}}, CASES)
    arguments, environment = ("--cores", "2"), VARIABLES
    if request.param == "slurm":
        request.getfixturevalue("slurm")
        arguments = ("--workflow-profile", str(root / "profiles/slurm"), *SPARE_TIME)
        environment = VARIABLES | ENVIRONMENT | {"KERNELBOOK_MEMORY_MB": "1800"}
    folder.snakemake(*arguments, "--use-singularity", **environment)
    return folder


def of_rank(folder, case, rank):
    file = folder.path / f"results/latest/new/{case}/1/rank-{rank}/measurement.json"
    return json.loads(file.read_text(encoding="utf-8"))


def test_both_ranks_are_measured_in_the_image(measured):
    assert measured.measurement("new", "total")["status"] == "ok"
    for rank in (0, 1):
        got = of_rank(measured, "total", rank)
        assert (got["status"], got["rank"], got["world_size"]) == ("ok", rank, 2)
        assert got["environment"]["container"] == "torch-2.13.sif"
        assert got["environment"]["torch"].startswith("2.13.0")
        trace = measured.path / f"results/latest/new/total/1/rank-{rank}/trace.json.gz"
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
        assert sum(event.get("name") == "c10d::allreduce_" for event in events) == 3  # one in each profiled forward


def test_variables_of_nccl_and_multicast_reach_the_ranks_in_the_container(measured):
    for rank in (0, 1):
        assert VARIABLES.items() <= of_rank(measured, "total", rank)["environment"]["variables"].items()


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("raises", "rank 1: ValueError during timing without the profiler: the rank's own words"),
        ("killed", "rank 1: the process was ended by SIGKILL during timing without the profiler"),
        ("hangs", "stopped at its time limit of 40 s during timing without the profiler"),
    ],
)
def test_a_rank_that_fails_is_the_reason_of_its_case_alone(measured, case, reason):
    rows = measured.rows()
    assert rows["new", case]["status"] == "failed"
    assert rows["new", case]["reason"].startswith(reason)
    assert rows["new", "total"]["status"] == "ok"
    assert reason in html.unescape(measured.report())
