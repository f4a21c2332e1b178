"""A machine with several GPUs: each measurement takes one that is free, and sees it alone. A script is nvidia-smi."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from workloads.harness import gpu

UUIDS = [f"GPU-{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "123"]
MODELS = ["NVIDIA H200", "NVIDIA T400", "NVIDIA H200"]
FIRST, SMALL, SECOND = UUIDS


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stands in for nvidia-smi on a machine with two GPUs of one model and a small one between them."""
    rows = "\n".join(f"echo {uuid}, {model}" for uuid, model in zip(UUIDS, MODELS, strict=True))
    script = tmp_path / "bin" / "nvidia-smi"
    script.parent.mkdir()
    # While a process is looked for, the child has long begun: it is given time to do what it must not do.
    looking = f"sleep 1; echo looked >> {tmp_path}/log"
    script.write_text(f'#!/bin/sh\ncase "$*" in\n*query-gpu=uuid*) {rows} ;;\n*compute-apps*) {looking} ;;\nesac\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@contextlib.contextmanager
def held(folder: Path, uuids: Sequence[str]):
    """Hold the locks of these GPUs, as another measurement does."""
    with contextlib.ExitStack() as stack:
        for uuid in uuids:
            file = stack.enter_context((folder / f"kernelbook-{uuid}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [FIRST, SECOND]),
        ("2,0", [SECOND, FIRST]),
        (f"{SECOND},0,2", [SECOND, FIRST]),
        ("1,0,2", [SMALL]),
        ("0", [FIRST]),
        ("0,-1,2", [FIRST]),  # as CUDA has it, nothing after the first that is none
        ("0,7,2", [FIRST]),
        ("", []),
        ("-1", []),
        ("7", []),
        ("MIG-1", ["MIG-1"]),
    ],
)
def test_gpus_of_the_first_ones_model(smi, monkeypatch, visible, expected):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu.gpus_of_one_model() == expected


def test_without_nvidia_smi_there_is_the_first_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
    assert gpu.gpus_of_one_model() == ["GPU-1"]


@pytest.mark.parametrize(("busy", "taken"), [([], FIRST), ([FIRST], SECOND), ([SECOND], FIRST)])
def test_the_first_free_gpu_is_locked(tmp_path, busy, taken):
    with held(tmp_path, busy), gpu.lock([FIRST, SECOND], pytest.fail, tmp_path) as got:
        assert got == (taken,)
        with pytest.raises(BlockingIOError):
            gpu._locked(tmp_path / f"kernelbook-{taken}.lock")


def test_where_all_are_held_the_next_that_is_free_is_taken(tmp_path):
    said = []
    with contextlib.ExitStack() as other:
        other.enter_context(held(tmp_path, [FIRST]))
        freed = other.enter_context(contextlib.ExitStack())
        freed.enter_context(held(tmp_path, [SECOND]))

        def say(line):
            said.append(line)
            freed.close()  # the other measurement on the second GPU ends

        with gpu.lock([FIRST, SECOND], say, tmp_path) as got:
            assert got == (SECOND,)
    assert said == ["another measurement holds each GPU; waiting for one"]


def measured(measure, tmp_path, **keys):
    params = {"log": str(tmp_path / "log")}
    got = measure(":says_which_gpu_it_sees", device="auto", params=params, **keys)
    assert got.measurement["status"] == "ok", got.measurement["reason"]
    return got, (tmp_path / "log").read_text().splitlines()


@pytest.mark.torch
def test_a_measurement_sees_its_own_gpu_alone(smi, measure, tmp_path):
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("a CUDA build of torch finds no real GPU behind the script")
    with held(tmp_path, [FIRST]):
        got, log = measured(measure, tmp_path, extra=["--one-gpu"])
    assert f"made {SECOND}" in log
    short = hashlib.sha256(SECOND.encode()).hexdigest()[:8]
    assert got.measurement["environment"]["variables"]["CUDA_VISIBLE_DEVICES"] == f"GPU {short}"
    assert f"a-case: on GPU {short}, one of 2" in got.stderr
    assert SECOND not in (got.output / "measurement.json").read_text() + got.stderr
    # other processes are looked for before the case may touch its GPU, and again once it has ended
    assert log == ["looked", f"made {SECOND}", "looked"]


@pytest.mark.torch
def test_without_the_flag_a_case_sees_all_gpus_as_the_user_has_it(smi, measure, tmp_path):
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("a CUDA build of torch finds no real GPU behind the script")
    got, log = measured(measure, tmp_path)
    assert log == ["looked", "made None", "looked"]
    assert "CUDA_VISIBLE_DEVICES" not in got.measurement["environment"]["variables"]


@pytest.mark.torch
def test_two_measurements_at_once_take_a_gpu_each(smi, measure, tmp_path):
    """Each waits until the other one is there too: they can only end if they run at once, each with its own GPU."""
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("a CUDA build of torch finds no real GPU behind the script")
    (tmp_path / "meeting").mkdir()
    both = [type(measure)(tmp_path / name) for name in "ab"]
    extra = ["--one-gpu", "--lock-dir", str(tmp_path)]
    for each in both:
        each.folder.mkdir()
    params = {"folder": str(tmp_path / "meeting")}
    started = [each.start(":meets_another_one", device="auto", params=params, extra=extra) for each in both]
    ended = [each.finish(process) for each, process in zip(both, started, strict=True)]
    assert [got.measurement["status"] for got in ended] == ["ok", "ok"]
    assert sorted(os.listdir(tmp_path / "meeting")) == [FIRST, SECOND]
