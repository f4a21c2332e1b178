"""What nvidia-smi says is read right, and two measurements never share a GPU. A script stands in for nvidia-smi."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelbook.containers.launching import start_arguments
from tests.helpers.patience import LONG
from workloads.harness import gpu

SMI = """#!/bin/sh
case "$*" in
  *query-gpu=uuid*) echo GPU-11111111-aaaa; echo GPU-22222222-bbbb ;;
  *clocks_event_reasons*) {event} ;;
  *clocks_throttle_reasons*) echo "1980, 3201, 1980, 41, [N/A], 0x0000000000000004" ;;
  *compute-apps*) echo "4242, /opt/some/where/python3 train.py, 1024"; echo "77, [Insufficient Permissions], [N/A]" ;;
  *driver_version*) echo 580.1.2 ;;
esac
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a stand-in for nvidia-smi first on PATH."""

    def install(event: str = 'echo "1980, 3201, 1980, 41, 350.5, 0x0000000000000021"') -> None:
        script = tmp_path / "bin" / "nvidia-smi"
        script.parent.mkdir(exist_ok=True)
        script.write_text(SMI.format(event=event))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(gpu, "SMI_S", LONG)  # the script answers, however busy the machine

    return install


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, "GPU-11111111-aaaa"),
        ("1", "GPU-22222222-bbbb"),
        ("1,0", "GPU-22222222-bbbb"),
        ("GPU-33", "GPU-33"),
        ("", None),
        ("-1", None),
        ("7", None),
    ],
)
def test_which_gpu_is_meant(smi, monkeypatch, visible, expected):
    smi()
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu.visible_gpu() == expected


UUID = "GPU-0f3a5c1e-0000-4bcd-8eef-0123456789ab"
#: printf %s GPU-0f3a5c1e-0000-4bcd-8eef-0123456789ab | sha256sum | cut -c1-8
HASH = "e9f48345"


@pytest.mark.parametrize(
    "uuid", [UUID, UUID.removeprefix("GPU-"), UUID.replace("abcd", "ABCD").replace("0f3a", "0F3A")]
)
def test_a_gpu_is_told_by_a_hash_however_its_uuid_is_written(uuid):
    assert gpu.gpu_id(uuid) == HASH


@pytest.mark.parametrize(
    "uuid", [None, "", "GPU-0f3a5c1e", "index-0", "MIG-0f3a5c1e-0000-4bcd-8eef-0123456789ab", "None"]
)
def test_what_is_no_whole_uuid_of_a_gpu_has_no_id(uuid):
    assert gpu.gpu_id(uuid) is None


@pytest.mark.torch
@pytest.mark.parametrize(
    ("of_torch", "of_smi", "told"),
    [
        (UUID.removeprefix("GPU-"), "GPU-11111111-aaaa", HASH),  # torch's own is that of the GPU it computes on
        (None, UUID, HASH),  # a torch of before uuid
        (None, "index-0", None),
    ],
)
def test_the_gpu_that_torch_computes_on_is_told(monkeypatch, of_torch, of_smi, told):
    torch = pytest.importorskip("torch")
    environment = pytest.importorskip("workloads.harness.environment")
    properties = SimpleNamespace(uuid=of_torch) if of_torch else SimpleNamespace()
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(gpu, "visible_gpu", lambda: of_smi)
    assert environment._gpu_id(torch.device("cuda", 0)) == told


def test_clocks(smi):
    smi()
    assert gpu.clocks("GPU-11111111-aaaa") == {
        "sm_mhz": 1980.0,
        "memory_mhz": 3201.0,
        "max_sm_mhz": 1980.0,
        "temperature_c": 41.0,
        "power_w": 350.5,
        "throttle_reasons": ["idle", "software thermal slowdown"],
    }


def test_clocks_of_an_older_driver(smi):
    smi(event="exit 2")
    found = gpu.clocks("GPU-11111111-aaaa")
    assert found["throttle_reasons"] == ["software power cap"]
    assert found["power_w"] is None


def test_clocks_that_cannot_be_read(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.clocks("GPU-1") is None
    assert gpu.clocks(None) is None


def test_other_processes_without_their_folders(smi):
    smi()
    assert gpu.other_processes("GPU-11111111-aaaa") == [
        {"pid": 4242, "name": "python3", "used_memory_mib": 1024.0},
        {"pid": 77, "name": "[Insufficient", "used_memory_mib": None},
    ]


@pytest.mark.torch
def test_a_second_measurement_waits_for_the_first(smi, measure, tmp_path):
    pytest.importorskip("torch")
    smi()
    lock = tmp_path / "kernelbook-GPU-11111111-aaaa.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = measure.start(":fine", device="auto")
        line = process.stderr.readline()  # the first thing said: nothing was begun before the lock was asked for
        assert process.poll() is None
    got = measure.finish(process)
    assert "another measurement holds this GPU; waiting for it" in line
    assert got.measurement["status"] in ("ok", "failed")  # a CUDA build of torch finds no real GPU behind the script
    assert {process["pid"] for process in got.measurement["other_gpu_processes"]} == {77, 4242}


@pytest.mark.torch
def test_the_cpu_needs_no_lock(smi, measure, tmp_path):
    pytest.importorskip("torch")
    smi()
    with (tmp_path / "kernelbook-GPU-11111111-aaaa.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert measure(":fine", device="cpu").measurement["status"] == "ok"


def told_nothing(_):
    raise AssertionError("nothing is to be waited for")


def test_a_lock_that_cannot_be_had_is_told(tmp_path):
    with gpu.lock(["GPU-1"], told_nothing, tmp_path / "absent") as held:
        assert held == ()


def test_the_lock_is_in_one_place_whatever_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # read anew
    name = f"GPU-test-{os.getpid()}"
    with gpu.lock([name], told_nothing) as held:
        assert held == (name,)
        found = Path("/tmp") / f"kernelbook-{name}.lock"
        assert found.is_file()
        found.unlink()
    assert list(tmp_path.iterdir()) == []


def test_containers_see_the_folder_of_the_lock():
    arguments = start_arguments([])
    assert arguments[arguments.index("--bind") + 1] == f"{gpu.LOCKS}:{gpu.LOCKS}"


def taken(folder: Path) -> bool:
    """Whether another process would have to wait."""
    with (folder / "kernelbook-GPU-1.lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_a_lock_is_held_and_let_go(tmp_path):
    with gpu.lock(["GPU-1"], told_nothing, tmp_path):
        assert taken(tmp_path)
    assert not taken(tmp_path)


def test_every_user_can_open_the_lock_whatever_the_umask_of_the_first(tmp_path):
    before = os.umask(0o077)
    try:
        with gpu.lock(["GPU-1"], told_nothing, tmp_path):
            assert (tmp_path / "kernelbook-GPU-1.lock").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_another_users_lock_is_taken_as_it_is():
    if os.geteuid() != 0:
        pytest.skip("to be another user takes root")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)  # as /tmp: whoever does not own the file can neither remove it nor create it anew
        with gpu.lock(["GPU-1"], told_nothing, folder):
            pass
        os.seteuid(65534)
        try:
            with gpu.lock(["GPU-1"], told_nothing, folder) as held:
                assert held == ("GPU-1",)
                assert taken(folder)
        finally:
            os.seteuid(0)


def test_a_lock_that_was_cleaned_away_meanwhile_is_not_taken_for_one(tmp_path):
    """A waits for B; a cleaner takes the file away; C makes a new one: A must end up on C's file, not beside it."""
    path = tmp_path / "kernelbook-GPU-1.lock"
    handles = []

    def cleaned(_):
        path.unlink()
        old.close()
        new = path.open("w")
        handles.append(new)

    old = path.open("w")
    fcntl.flock(old, fcntl.LOCK_EX)
    with gpu.lock(["GPU-1"], cleaned, tmp_path) as held:
        assert held == ("GPU-1",)
        assert handles
        assert taken(tmp_path)
    handles[0].close()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "kernelbook-GPU-1.lock").symlink_to(tmp_path / "elsewhere")
    with gpu.lock(["GPU-1"], told_nothing, tmp_path) as held:
        assert held == ()
    assert not (tmp_path / "elsewhere").exists()
