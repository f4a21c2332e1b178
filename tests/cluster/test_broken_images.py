"""One bad image costs one run: the others are measured, and the rows of the bad one say why and what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelbook.containers.images import ImageError
from kernelbook.containers.launching import look_inside, start_arguments
from tests.cluster.cluster_folder import CASES, Folder
from tests.cluster.oci_registry import Registry, layer_of

pytestmark = [pytest.mark.apptainer, pytest.mark.slow]

BROKEN_TORCH = """
%post
    echo 'raise ImportError("libc10.so: cannot open shared object file")' > /usr/lib/python3/dist-packages/torch.py
"""
FAILING_BUILD = """
%post
    echo "no wheel fits this Python"
    false
"""
EXPECTED = {
    "missing": ("no image file nowhere/torch.sif", "correct runs.missing.container"),
    "junk": ("does not start: it is no image, or a damaged one", "correct runs.junk.container"),
    "bare": ("python3 in it has no torch", "name the Python that has it in runs.bare.python"),
    "misnamed": ("it has no /opt/python", "name its Python in runs.misnamed.python"),
    "broken": ("its torch cannot be imported (ImportError: libc10.so", "rebuild it"),
    "unbuildable": ("cannot be built", "no wheel fits this Python", "correct the definition file"),
    "nodef": ("no definition file nowhere.def", "correct runs.nodef.container"),
    "unreachable": ("the registry cannot be reached from this machine", "snakemake pull_images"),
    "untagged": ("the registry has no such image or tag", "correct runs.untagged.container"),
}


@pytest.fixture(scope="module")
def without_torch(images, registry: Registry, tmp_path_factory):
    """host:port of a registry that has small/python:1, an image without torch; and that image's digest."""
    folder = tmp_path_factory.mktemp("unpacked")
    command = ["apptainer", "build", "--sandbox", folder / "root", images / "no-torch.sif"]
    subprocess.run(command, check=True, capture_output=True)
    layer = layer_of(folder / "layer.tar.gz", folder / "root")
    shutil.rmtree(folder / "root")
    return registry.host, registry.push("small/python", "1", [layer])


@pytest.fixture(scope="module")
def nine_broken(root, images, without_torch, tmp_path_factory):
    """An edition of nine runs that cannot be had and one that can: what Snakemake said, and its folder."""
    folder = Folder(tmp_path_factory.mktemp("nine broken images"))
    (folder.path / "junk.sif").write_bytes(b"not an image")
    base = f"Bootstrap: localimage\nFrom: {images / 'no-torch.sif'}\n"
    (folder.path / "broken torch.def").write_text(base + BROKEN_TORCH, encoding="utf-8")
    (folder.path / "unbuildable.def").write_text(base + FAILING_BUILD, encoding="utf-8")
    host, _ = without_torch
    runs = {
        "missing": {"container": "nowhere/torch.sif"},
        "junk": {"container": "junk.sif"},
        "bare": {"container": str(images / "no-torch.sif")},
        "misnamed": {"container": str(images / "torch-2.6.sif"), "python": "/opt/python"},
        "broken": {"container": "broken torch.def"},
        "unbuildable": {"container": "unbuildable.def"},
        "nodef": {"container": "nowhere.def"},
        "unreachable": {"container": "docker://registry.invalid/torch:1"},
        "untagged": {"container": f"docker://{host}/small/python:2"},
        "fine": {"container": str(images / "torch-2.6.sif")},
    }
    folder.configure_runs(runs)
    environment = {"APPTAINER_NOHTTPS": "true", "KERNELBOOK_IMAGES": str(folder.path / "store of images")}
    return folder, folder.snakemake("--cores", "1", "--use-singularity", status=4, **environment)


def test_the_run_that_is_well_is_measured_and_the_report_made(nine_broken):
    folder, said = nine_broken
    rows = folder.rows()
    assert {rows["fine", case]["status"] for case in CASES} == {"ok"}
    assert (folder.path / "reports/latest/index.html").is_file()
    assert "report: reports/latest/index.html" in said


@pytest.mark.parametrize("run", EXPECTED)
def test_a_lost_run_says_fact_and_remedy_in_each_of_its_rows(nine_broken, run):
    folder, said = nine_broken
    for case in CASES:
        row = folder.rows()[run, case]
        assert row["status"] == "failed"
        for words in EXPECTED[run]:
            assert words in row["reason"]
    assert f"lost: {run}: " in said
    page = (folder.path / "reports/latest/report.md").read_text(encoding="utf-8")
    assert run in page


def test_what_was_built_and_pulled_lies_in_the_folder_of_images_whole(nine_broken):
    folder, _ = nine_broken
    left = [path.name for path in (folder.path / "store of images").iterdir() if not path.name.startswith(".")]
    assert [name.split("-")[0] for name in sorted(left) if name.endswith(".sif")] == ["broken torch"]
    assert not list((folder.path / "store of images").glob("*.part"))


def test_a_tag_is_pulled_by_its_digest_and_the_digest_told(folder, without_torch):
    host, digest = without_torch
    folder.configure_runs({"tagged": {"container": f"docker://{host}/small/python:1"}})
    said = folder.snakemake("--cores", "1", "pull_images", status=1, APPTAINER_NOHTTPS="true")
    assert "python3 in it has no torch" in said  # it was pulled and started
    (image,) = (folder.path / "images").glob("python_1-*.sif")
    assert digest in (folder.path / "images" / f"{image.name}.json").read_text(encoding="utf-8")
    assert f"docker://{host}/small/python@{digest}" in (folder.path / "logs/latest/tagged/probe.log").read_text("utf-8")


def test_torch_of_the_host_is_not_taken_for_the_image_s_own(images, tmp_path, monkeypatch):
    stand_in = tmp_path / "torch"
    stand_in.mkdir()
    (stand_in / "__init__.py").write_text("__version__ = '0'\nclass version:\n    cuda = None\n", encoding="utf-8")
    monkeypatch.setenv("APPTAINER_BIND", f"{tmp_path}:/host")
    monkeypatch.setenv("APPTAINERENV_PYTHONPATH", "/host")
    with pytest.raises(ImageError, match="its torch is not the image's own but /host/torch"):
        look_inside(images / "no-torch.sif", "python3", start_arguments([]), "no-torch.sif", "runs.x")


def test_a_measurement_outside_its_container_is_refused(root, tmp_path):
    case = tmp_path / "case.json"
    case.write_text(
        '{"case": "c", "workload": "linear", "variant": "plain", "annotation": "linear_fwd"}', encoding="utf-8"
    )
    command = [sys.executable, root / "scripts/profile_case.py", "--case-file", case, "--device", "cpu"]
    command += ["--output", tmp_path / "out", "--require-container", "torch.sif"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    said = (tmp_path / "out/measurement.json").read_text(encoding="utf-8")
    assert "refused: this runs in no container, not in torch.sif: run the workflow with --use-singularity" in said


def test_without_apptainer_nothing_is_run_and_the_remedy_said(folder):
    folder.configure_runs({"image": {"container": "torch.sif"}})
    bare = os.pathsep.join(path for path in os.environ["PATH"].split(os.pathsep) if not _has_runtime(path))
    said = folder.snakemake("--cores", "1", "--use-singularity", status=1, PATH=bare)
    assert "neither apptainer nor singularity is installed on this machine: install Apptainer" in said
    assert not (folder.path / "results").exists()


def _has_runtime(folder: str) -> bool:
    return any((Path(folder) / name).exists() for name in ("apptainer", "singularity"))


def test_a_dry_run_of_the_shipped_configuration_explains_itself_with_and_without_the_flag(folder, root, apptainer):
    shutil.copy(root / "config.yaml", folder.path)
    without = folder.snakemake("-n", "--cores", "1")
    assert "left out: ngc-26.09: needs its container: add --use-singularity" in without
    assert "run h200 (recorded, " in without
    assert "ngc-26.09" not in without.split("SNAKEMAKE", 1)[1]
    flagged = folder.snakemake("-n", "--cores", "1", "--use-singularity")
    address = "docker://nvcr.io/nvidia/pytorch:26.09-py3"
    assert f"run ngc-26.09 (container, {address}, to be pulled): " in flagged
    assert "run torch-2.14 (container, containers/torch-2.14.def, to be built): " in flagged
    assert "left out: ngc-26.09" not in flagged
    assert [path.name for path in folder.path.iterdir() if path.name != ".snakemake"] == ["config.yaml"]


def test_a_container_that_does_not_start_any_more_is_a_failed_row(folder, images):
    (folder.path / "image.sif").symlink_to(images / "torch-2.6.sif")
    folder.configure_runs({"image": {"container": "image.sif"}}, {"linear-eager": CASES["linear-eager"]})
    folder.snakemake("--cores", "1", "--use-singularity", "pull_images")
    (link,) = (folder.path / "results/latest/image/image").iterdir()
    link.unlink()
    link.write_bytes(b"not an image")
    folder.snakemake("--cores", "1", "--use-singularity")
    row = folder.rows()["image", "linear-eager"]
    assert row["status"] == "failed"
    assert row["reason"].startswith("the measuring process ended with status 255 (")
    assert (folder.path / "reports/latest/index.html").is_file()
