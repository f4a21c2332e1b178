"""Images and containers without starting one: names, addresses, arguments, environments, refusals."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from kernelbook.containers import images
from kernelbook.containers.images import ImageError, image_of, obtain, pinned_address
from kernelbook.containers.launching import (
    look_inside,
    prepare_environment,
    start_arguments,
    start_command,
    thread_limits,
)
from kernelbook.extraction.measurement import refusal
from kernelbook.extraction.process_tables import Origin, tables_of
from tests.cluster.oci_registry import layer_of

PINNED = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("where", "kind", "name"),
    [
        ("docker://nvcr.io/nvidia/pytorch:26.09-py3", "remote", "pytorch_26.09-py3-"),
        (f"docker://nvcr.io/nvidia/pytorch@{PINNED}", "remote", "pytorch-"),
        ("oras://registry.example.org:5000/torch:1", "remote", "torch_1-"),
        ("images of mine/torch.sif", "local", "torch.sif"),
        ("a folder, with commas", "local", "a-folder--with-commas"),
        ("containers/torch nightly.def", "definition", "torch-nightly-"),
    ],
)
def test_what_a_run_names_is_an_address_a_definition_or_a_file(tmp_path, where, kind, name):
    image = image_of(where, tmp_path, tmp_path / where.partition("://")[2] if "://" in where else tmp_path / where)
    assert image.kind == kind
    assert image.name.startswith(name)
    assert " " not in image.name


def test_two_addresses_never_share_a_file(tmp_path):
    addresses = ("docker://a.org/torch:1", "docker://b.org/torch:1", "docker://a.org/x/torch:1", "oras://a.org/torch:1")
    assert len({image_of(where, tmp_path, tmp_path).file for where in addresses}) == len(addresses)


def test_a_changed_definition_file_is_another_image(tmp_path):
    definition = tmp_path / "torch.def"
    definition.write_text("From: python:3.12")
    before = image_of("torch.def", tmp_path, definition).file
    definition.write_text("From: python:3.13")
    assert image_of("torch.def", tmp_path, definition).file != before


def test_an_image_folder_that_cannot_be_made_is_told_with_its_remedy(tmp_path):
    (tmp_path / "images").write_text("a file where the folder should be")
    image = image_of("docker://a.org/torch:1", tmp_path / "images", tmp_path)
    with pytest.raises(ImageError, match="name another folder for images by the key `images`"):
        obtain(image, "runs.x.container")


@pytest.mark.parametrize(
    "line",
    [
        "pinging container registry nvcr.io: received unexpected HTTP status: 503 Service Unavailable",
        "Unable to handle docker URI: registry answered 503, service unavailable",
        "reading manifest 26.09-py3 in nvcr.io/nvidia/pytorch: received unexpected HTTP status: 500",
        "Error: unexpected status code 502",
        "toomanyrequests: You have reached your pull rate limit",
        "error fetching blob: 504 Gateway Time-out",
        "Get https://nvcr.io/v2/: net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
        "dial tcp 192.0.2.1:443: i/o timeout",
    ],
)
def test_a_registry_that_is_busy_or_slow_is_tried_again_before_anything_is_corrected(monkeypatch, tmp_path, line):
    runtime = tmp_path / "apptainer"
    runtime.write_text(f"#!/bin/sh\ncat <<'END'\nFATAL:   {line}\nEND\nexit 255\n", encoding="utf-8")
    runtime.chmod(0o755)
    monkeypatch.setattr(images, "runtime", lambda: str(runtime))
    monkeypatch.setattr(images, "pinned_address", lambda address: (address, None))
    image = image_of("docker://a.org/torch:1", tmp_path / "images", tmp_path)
    with pytest.raises(ImageError) as raised:
        obtain(image, "runs.x.container")
    assert ": try again later; " in str(raised.value)
    assert "correct runs.x.container" not in str(raised.value)


def test_a_tag_becomes_the_digest_that_the_registry_gives(registry, tmp_path, monkeypatch):
    monkeypatch.setenv("APPTAINER_NOHTTPS", "1")
    digest = registry.push("of/mine", "7", [layer_of(tmp_path / "layer.tar", texts={"file": "content"})])
    mine = f"docker://{registry.host}/of/mine"
    assert pinned_address(f"{mine}:7") == (f"{mine}@{digest}", digest)
    assert pinned_address(f"{mine}:8") == (f"{mine}:8", None)
    assert pinned_address("docker://127.0.0.1:9/of/mine:7") == ("docker://127.0.0.1:9/of/mine:7", None)


def test_a_digest_is_taken_as_it_stands_and_its_tag_dropped():
    both = f"docker://nvcr.io/nvidia/pytorch:26.09-py3@{PINNED}"
    assert pinned_address(both) == (f"docker://nvcr.io/nvidia/pytorch@{PINNED}", PINNED)
    assert pinned_address("oras://a.org/torch:1") == ("oras://a.org/torch:1", None)


def test_the_environment_for_containers_has_a_gpu_and_no_python_of_the_host():
    environ = {"CUDA_VISIBLE_DEVICES": "3", "APPTAINERENV_PYTHONPATH": "/x", "SINGULARITYENV_PYTHONHOME": "/x"}
    prepare_environment(environ, "")
    once = dict(environ)
    prepare_environment(environ, "")
    assert environ == once
    assert not [name for name in environ if name.endswith(("PYTHONPATH", "PYTHONHOME"))]
    for prefix in ("APPTAINER", "SINGULARITY"):
        assert environ[f"{prefix}_NV"] == "1"
        assert environ[f"{prefix}ENV_PYTHONNOUSERSITE"] == "1"
        assert environ[f"{prefix}ENV_CUDA_VISIBLE_DEVICES"] == "3"
    prepare_environment(environ, "0,1")
    assert {environ[name] for name in environ if name.endswith("CUDA_VISIBLE_DEVICES")} == {"0,1"}


def test_a_gpu_that_was_switched_off_by_hand_stays_off():
    environ = {"APPTAINER_NV": "0"}
    prepare_environment(environ, "")
    assert environ["APPTAINER_NV"] == "0"


def test_a_container_starts_with_our_arguments_before_the_user_s(monkeypatch):
    monkeypatch.setattr("kernelbook.containers.launching.runtime", lambda: "apptainer")
    scripts = "'/a folder/scripts:/a folder/scripts:ro'"
    assert start_command(start_arguments(["/a folder/scripts"]), "--bind /scratch") == (
        f'apptainer exec --home "$PWD" --cleanenv --bind /tmp:/tmp --bind {scripts} --bind /scratch'
    )


def test_thread_limits_are_set_or_lifted():
    assert "OMP_NUM_THREADS=4" in thread_limits(4).split()
    assert thread_limits(0).startswith("env -u OMP_NUM_THREADS")


def test_a_measurement_of_another_image_or_torch_is_refused():
    run = {"kind": "container", "where": "a.sif", "image_name": "a.sif", "torch": "2.13.0"}
    assert refusal(run, {"container": "a.sif", "torch": "2.13.0"}) is None
    assert refusal(run, {}) is None
    assert refusal({"kind": "host"}, {"container": None, "torch": "2.6.0"}) is None
    assert "measured in the container none" in refusal(run, {"container": None, "torch": "2.13.0"})
    assert "measured with torch 2.6.0" in refusal(run, {"container": "a.sif", "torch": "2.6.0"})


def test_a_gpu_that_others_used_or_that_was_not_locked_is_flagged_in_the_row(recorded_h200, tmp_path):
    source = recorded_h200 / "linear-eager" / "1"
    measured = json.loads((source / "measurement.json").read_text(encoding="utf-8"))
    measured["other_gpu_processes"] = [{"pid": 7, "name": "<b>trainer</b>", "used_memory_mib": 512.0}]
    measured["warnings"] = [{"code": "unlocked_gpu", "count": 1, "message": "the GPU could not be locked"}]
    shutil.copy(source / "trace.json.gz", tmp_path)
    (tmp_path / "measurement.json").write_text(json.dumps(measured), encoding="utf-8")
    row = tables_of(Origin("host", "linear-eager", 1, {"kind": "host"}), {}, tmp_path / "measurement.json")["case"]
    warnings = {note["code"]: note["message"] for note in row["warnings"][0].as_py()}
    assert "<b>trainer</b>" in warnings["shared_gpu"]
    assert warnings["unlocked_gpu"] == "the GPU could not be locked"


def test_a_run_of_another_torch_leaves_a_failed_row(recorded_h200):
    status = {"kind": "container", "where": "a.sif", "image_name": "a.sif", "torch": "2.14.0"}
    file = recorded_h200 / "linear-eager" / "1" / "measurement.json"
    row = tables_of(Origin("image", "linear-eager", 1, status), {}, file)["case"].to_pylist()[0]
    assert row["status"] == "failed"
    assert row["reason"].startswith("refused: measured in the container none")
    assert row["device_time_us"] is None


def test_scripts_find_each_other_whatever_the_users_python_is_told():
    environ = {"PYTHONSAFEPATH": "1"}
    prepare_environment(environ, "")
    assert "PYTHONSAFEPATH" not in environ


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Look into an image that has this machine's Python, of any version, and a torch of this text."""
    start = tmp_path / "bin/apptainer"
    start.parent.mkdir()
    start.write_text('#!/bin/sh\nwhile [ "$1" != image.sif ]; do shift; done\nshift\nexec "$@"\n')
    python = tmp_path / "bin/image-python"
    start.chmod(0o755)
    monkeypatch.setenv("PATH", f"{start.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", "/root-of-the-image")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    (tmp_path / "packages/torch").mkdir(parents=True)

    def looked(torch="", version=sys.version_info[:3]):
        code = f"import sys; sys.version_info = {tuple(version)}; exec(sys.argv.pop())"
        python.write_text(f"#!/bin/sh\nshift\nexec {sys.executable} -c '{code}' \"$@\"\n")
        python.chmod(0o755)
        standard = "__version__ = '2.9'\nclass version:\n    cuda = None\n"
        (tmp_path / "packages/torch/__init__.py").write_text(torch + standard)
        return look_inside(Path("image.sif"), "image-python", [], "image.sif", "runs.x")

    return looked


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 7, 17), (3, 8, 20)])
def test_a_python_that_is_too_old_is_refused_whatever_its_torch(look, version):
    found = ".".join(map(str, version))
    with pytest.raises(ImageError, match=f"is Python {found}, and measuring needs 3.9 or later: .* in runs.x.python"):
        look("raise SystemExit\n", version)


@pytest.mark.parametrize(
    "torch", [r"os.write(1, b'\xff\xfe no end of line')", r"os.write(2, b'\xe9\n')", "os.close(2)"]
)
def test_a_torch_that_prints_what_is_no_text_is_looked_at_all_the_same(look, torch):
    with pytest.raises(ImageError, match="its torch is not the image's own"):  # the answer was read: it lies in /tmp
        look(f"import os\n{torch}\n")


def test_a_torch_whose_import_ends_python_is_reported_so(look):
    with pytest.raises(
        ImageError, match=r"the import of its torch ended Python \(status 7, it said nothing\): rebuild it"
    ):
        look("import os\nos._exit(7)\n")
