"""The exact command `snakemake --cores 1 --use-singularity`, over three runs of two PyTorch builds and two Pythons."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.cluster_folder import CASES, Folder

pytestmark = [pytest.mark.apptainer, pytest.mark.slow]

PARTS = ("Snakefile", "workflow", "scripts", "profiles")
LEAKS = {"PYTHONPATH": "/of/the/host", "APPTAINERENV_PYTHONPATH": "/of/the/host", "KERNELBOOK_TEST_LEAK": "host"}


@pytest.fixture(scope="module")
def measured(root, images, tmp_path_factory):
    """A copy of the project in a folder with a space, measured in a .sif, in another, and in a folder image."""
    path = tmp_path_factory.mktemp("of a cluster")
    for part in PARTS:
        source = root / part
        if source.is_dir():
            shutil.copytree(source, path / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, path / part)
    (path / "my image.sif").symlink_to(images / "torch-2.13.sif")
    shutil.copy(root / "tests/cluster/spy_workload.py", path)
    sandbox = path / "box of torch"
    subprocess.run(
        ["apptainer", "build", "--sandbox", sandbox, images / "torch-2.6.sif"], check=True, capture_output=True
    )
    folder = Folder(path, root=path)
    spy = {"spy": {"workload": "spy_workload.py:spy"}, "linear-compile": CASES["linear-eager"] | {"mode": "compile"}}
    runs = {
        "new": {"container": "my image.sif"},
        "old": {"container": str(images / "torch-2.6.sif"), "python": "/usr/bin/python3"},
        "box": {"container": "box of torch", "cases": ["linear-eager"]},
        "host": {"host": True, "cases": ["linear-eager"]},
    }
    folder.configure_runs(runs, CASES | spy, threads=1, visible_devices="7,8")
    said = folder.snakemake("--cores", "1", "--use-singularity", **LEAKS)
    return folder, said


def test_every_run_is_measured_with_the_torch_of_its_own_image(measured):
    folder, _ = measured
    rows = folder.rows()
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert {run: rows[run, "linear-eager"]["torch"].partition("+c")[0] for run in ("new", "old", "box")} == {
        "new": "2.13.0",  # +cpu or +cu130, as the index had it
        "old": "2.6.0+debian",
        "box": "2.6.0+debian",
    }
    pythons = {run: folder.measurement(run, "linear-eager")["environment"]["python"][:4] for run in ("new", "old")}
    assert pythons == {"new": "3.11", "old": "3.13"}


def test_what_ran_is_recorded_by_digest_and_shown(measured, images):
    folder, _ = measured
    for run, file in (("new", "torch-2.13.sif"), ("old", "torch-2.6.sif")):
        with (images / file).open("rb") as stream:
            digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
        assert folder.rows()[run, "linear-eager"]["image_digest"] == digest
        assert digest in (folder.path / "reports/latest/index.html").read_text(encoding="utf-8")
    assert folder.rows()["box", "linear-eager"]["image_digest"] is None
    assert folder.rows()["new", "linear-eager"]["image"] == "my image.sif"


@pytest.mark.parametrize("run", ["new", "old"])
def test_nothing_of_the_host_is_seen_inside(measured, run):
    folder, _ = measured
    image = folder.run_json(run)["image_name"]
    seen = json.loads((folder.path / f"{image.removesuffix('.sif')}.spy.json").read_text(encoding="utf-8"))
    environ = seen["environ"]
    assert environ["PYTHONNOUSERSITE"] == "1"
    assert environ["HOME"] != os.path.expanduser("~")
    assert not [name for name, value in environ.items() if value in LEAKS.values() or "/of/the/host" in value]
    allowed = ("/usr/lib/python3", "/usr/local/lib/python3", str(folder.path))
    assert [path for path in seen["path"] if path and not path.startswith(allowed)] == []
    assert seen["torch_file"].startswith(("/usr/lib/python3", "/usr/local/lib/python3"))


@pytest.mark.parametrize("run", ["new", "old"])
def test_threads_devices_and_caches_are_passed_explicitly(measured, run):
    folder, _ = measured
    image = folder.run_json(run)["image_name"]
    environ = json.loads((folder.path / f"{image.removesuffix('.sif')}.spy.json").read_text(encoding="utf-8"))[
        "environ"
    ]
    assert environ["CUDA_VISIBLE_DEVICES"] == "7,8"
    assert environ["OMP_NUM_THREADS"] == "1"
    assert folder.measurement(run, "spy")["environment"]["threads"] == 1
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        cache = folder.path / "results" / "latest" / run / "cache"
        assert Path(environ[name]).resolve().is_relative_to(cache)  # by a link, since the path has a space


def test_the_measurement_says_which_container_it_was_in(measured):
    folder, _ = measured
    assert folder.measurement("new", "linear-eager")["environment"]["container"] == folder.run_json("new")["image_name"]
    assert folder.measurement("box", "linear-eager")["environment"]["container"] == "box-of-torch"
    assert folder.measurement("host", "linear-eager")["environment"]["container"] is None


def test_a_second_execution_runs_nothing_and_a_changed_image_is_measured_again(measured, images):
    folder, _ = measured
    arguments = ("--cores", "1", "--use-singularity")
    assert "Nothing to be done" in folder.snakemake(*arguments, **LEAKS)
    before = {run: folder.measurement(run, "linear-eager")["started_utc"] for run in ("new", "old")}
    link = folder.path / "my image.sif"
    link.unlink()
    link.symlink_to(images / "torch-2.6.sif")
    folder.snakemake(*arguments, **LEAKS)
    assert folder.rows()["new", "linear-eager"]["torch"] == "2.6.0+debian"
    assert folder.measurement("new", "linear-eager")["started_utc"] > before["new"]
    assert folder.measurement("old", "linear-eager")["started_utc"] == before["old"]


def test_without_the_flag_the_runs_with_an_image_are_left_out_and_listed(measured):
    folder, _ = measured
    said = folder.snakemake("--cores", "1", "--config", "edition=flagless")
    for run in ("new", "old", "box"):
        assert f"left out: {run}: needs its container: add --use-singularity" in said
    assert not (folder.path / "results/flagless/new").exists()
    assert (folder.path / "reports/flagless/index.html").is_file()
