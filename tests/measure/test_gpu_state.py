"""What nvidia-smi says is read right, and two measurements never share a GPU. A script stands in for nvidia-smi."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

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
        line = process.stderr.readline()
        time.sleep(0.5)
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


def test_a_lock_that_cannot_be_had_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu.tempfile, "gettempdir", lambda: str(tmp_path / "absent"))
    with gpu.lock("GPU-1", lambda _: None) as held:
        assert held is False
