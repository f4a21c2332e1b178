"""An image as NVIDIA ships it, pulled from a real registry by the exact command; and a registry that fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelbook.containers.images import image_of, obtain
from tests.cluster import nvidia_image
from tests.cluster.cluster_folder import Folder
from tests.cluster.oci_registry import PASSWORD, USER, Registry, digest_of, dying, layer_of, running

pytestmark = [pytest.mark.apptainer, pytest.mark.slow]

NAME = "nvidia/pytorch"
CASE = {"linear-eager": {"workload": "linear"}}
COMMAND = ("--cores", "1", "--use-singularity")
#: The usual compression takes a minute of each pull.
QUICK_SQUASH = """#!/bin/sh
PATH=${PATH#*:}
exec mksquashfs "$@" -Xcompression-level 1
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Plain HTTP, and Apptainer's caches in a folder of the tests."""
    folder = tmp_path_factory.mktemp("caches")
    (folder / "bin").mkdir()
    (folder / "bin" / "mksquashfs").write_text(QUICK_SQUASH, encoding="utf-8")
    (folder / "bin" / "mksquashfs").chmod(0o755)
    return {
        "APPTAINER_NOHTTPS": "true",
        "APPTAINER_CACHEDIR": str(folder / "cache"),
        "KERNELBOOK_IMAGES": str(folder / "images"),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }


@pytest.fixture(scope="module")
def measured(root, images, registry: Registry, environment, tmp_path_factory):
    """The image measured by its tag, as a user does it."""
    scratch = tmp_path_factory.mktemp("layers")
    unpacked = scratch / "root"
    command = ["apptainer", "--quiet", "build", "--sandbox", unpacked, images / "torch-2.6.sif"]
    subprocess.run(command, check=True, capture_output=True)
    layers = nvidia_image.base(unpacked, scratch)
    shutil.rmtree(unpacked)
    first = [*layers, nvidia_image.last(scratch, "26.09")]
    digest = registry.push(NAME, "26.09-py3", first, nvidia_image.SETTINGS)
    folder = Folder(tmp_path_factory.mktemp("of a user"))
    shutil.copy(root / "tests/cluster/spy_workload.py", folder.path)
    folder.configure_runs(
        {"nvidia": {"container": f"docker://{registry.host}/{NAME}:26.09-py3"}},
        {"spy": {"workload": "spy_workload.py:spy"}},
    )
    said = folder.snakemake(*COMMAND, **environment)
    return SimpleNamespace(folder=folder, said=said, digest=digest, layers=layers, scratch=scratch)


def seen_inside(folder: Folder) -> dict:
    (file,) = folder.path.glob("*.spy.json")
    return json.loads(file.read_text(encoding="utf-8"))


def test_the_exact_command_measures_it_by_its_tag(measured):
    row = measured.folder.rows()["nvidia", "spy"]
    assert (row["status"], row["reason"]) == ("ok", None)
    assert (row["torch"], row["image_digest"]) == ("2.6.0+debian", measured.digest)
    assert measured.folder.run_json("nvidia")["python"].startswith("3.13")
    assert "report: reports/latest/index.html" in measured.said


def test_its_environment_is_the_measurement_s_and_its_banner_is_in_nothing_that_is_written(measured):
    environ = seen_inside(measured.folder)["environ"]
    for name in ("NVIDIA_PRODUCT_NAME", "_CUDA_COMPAT_PATH", "PYTORCH_VERSION", "BASH_ENV"):
        assert environ[name] == nvidia_image.ENVIRONMENT[name]
    assert "/usr/local/cuda/compat/lib" in environ["LD_LIBRARY_PATH"].split(":")
    for file in (measured.folder.path / "results").rglob("*.json"):
        assert nvidia_image.BANNER not in file.read_text(encoding="utf-8"), file


def test_what_a_later_layer_deletes_is_gone(measured, environment):
    """Were it not, no measurement would have come so far: torch itself would be another."""
    (image,) = Path(environment["KERNELBOOK_IMAGES"]).glob("*.sif")
    listing = ["find", "/opt/nvidia", "/usr/lib/python3/dist-packages/sitecustomize.py"]
    done = subprocess.run(["apptainer", "exec", image, *listing], capture_output=True, text=True, check=False)
    assert "/opt/nvidia/python/nvidia_release.py" in done.stdout
    assert "torch" not in done.stdout
    assert "sitecustomize.py" not in done.stdout
    assert ".wh." not in done.stdout


def test_pinned_by_its_digest_it_is_the_same_image(measured, folder, registry, environment):
    name = f"docker://{registry.host}/{NAME}"
    pinned = {"digest": f"{name}@{measured.digest}", "both": f"{name}:26.09-py3@{measured.digest}"}
    folder.configure_runs({run: {"container": address} for run, address in pinned.items()})
    said = folder.snakemake("--cores", "1", "pull_images", **environment)
    assert said.count("torch 2.6.0+debian") == 2
    assert {folder.run_json(run)["image_digest"] for run in pinned} == {measured.digest}


def test_a_tag_that_moved_is_measured_again_once_its_file_is_deleted(measured, registry, environment):
    moved = [*measured.layers, nvidia_image.last(measured.scratch, "26.10")]
    digest = registry.push(NAME, "26.09-py3", moved, nvidia_image.SETTINGS)
    assert digest != measured.digest
    folder = measured.folder
    assert "Nothing to be done" in folder.snakemake(*COMMAND, **environment)
    before = folder.measurement("nvidia", "spy")["started_utc"]
    (link,) = (folder.path / "results/latest/nvidia/image").iterdir()
    link.resolve().unlink()
    folder.snakemake(*COMMAND, **environment)
    assert folder.rows()["nvidia", "spy"]["image_digest"] == digest
    assert folder.measurement("nvidia", "spy")["started_utc"] > before


@pytest.fixture(scope="module")
def failing(root, registry, environment, tmp_path_factory):
    """One edition of four images that cannot be pulled: its folder, the reasons by run, and the closed registry."""
    scratch = tmp_path_factory.mktemp("small")
    small = [
        layer_of(scratch / "small.tar", texts={"etc/os-release": "ID=small\n", "bin/sh": "#!/bin/false\n"}),
        layer_of(scratch / "noise.tar.gz", texts={"noise": os.urandom(1 << 20).hex()}),
    ]
    lost = digest_of(small[1])
    registry.push("team/holes", "1", small)
    registry.forget(lost)
    folder = Folder(tmp_path_factory.mktemp("of four"))
    with running(scratch / "closed") as filled:
        filled.push("team/closed", "1", small)
    with running(scratch / "closed", login=True) as closed, running(scratch / "dies") as dies:
        dies.push("team/dying", "1", small)
        with dying(dies, lost) as host:
            runs = {
                "closed": f"docker://{closed.host}/team/closed:1",
                "password": f"docker://{USER}:{PASSWORD}@{closed.host}/team/closed:1",
                "holes": f"docker://{registry.host}/team/holes:1",
                "dying": f"docker://{host}/team/dying:1",
            }
            folder.configure_runs({run: {"container": address} for run, address in runs.items()}, CASE)
            folder.snakemake(*COMMAND, status=4, **environment)
        reasons = {run: row["reason"] for (run, _), row in folder.rows().items() if row["status"] == "failed"}
        yield SimpleNamespace(folder=folder, reasons=reasons, closed=closed)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("closed", "cannot be pulled: the registry wants a login, or has no such image"),
        ("password", "a user and a password cannot stand in it: apptainer registry login"),
        ("holes", "cannot be pulled: the registry lacks a part of the image"),
        ("dying", "cannot be pulled: the registry broke off"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_a_row_with_fact_and_remedy(failing, run, words):
    assert words in failing.reasons[run]
    assert words in (failing.folder.path / "reports/latest/report.md").read_text(encoding="utf-8")


def test_nothing_is_left_of_a_half_pulled_image(failing, environment):
    names = [path.name for path in Path(environment["KERNELBOOK_IMAGES"]).iterdir()]
    assert not [name for name in names if name.startswith(("dying", "holes", "closed")) or name.endswith(".part")]


def test_a_password_in_an_address_is_written_nowhere(failing):
    assert f"docker://{failing.closed.host}/team/closed:1" in failing.reasons["password"]
    folders = ("results", "logs", "reports")
    written = [path for name in folders for path in (failing.folder.path / name).rglob("*") if path.is_file()]
    assert len(written) > 20
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]


def test_who_has_a_login_can_pull(failing, environment, tmp_path, monkeypatch):
    login = {"APPTAINER_DOCKER_USERNAME": USER, "APPTAINER_DOCKER_PASSWORD": PASSWORD}
    for name, value in {**environment, **login}.items():
        monkeypatch.setenv(name, value)
    image = image_of(f"docker://{failing.closed.host}/team/closed:1", tmp_path, tmp_path)
    assert obtain(image, "runs.closed.container").file_digest
    assert image.file.is_file()
