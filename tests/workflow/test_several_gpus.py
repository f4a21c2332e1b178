"""`--cores N` on a machine with several GPUs: as many measurements at once as there are GPUs with cores for each."""

import json
import os
from pathlib import Path

import pytest

from kernelbook.plan import surroundings
from kernelbook.plan.surroundings import measurements_at_once
from tests.helpers.patience import LONG
from tests.helpers.snakemake import WorkingFolder

TWO_AND_ANOTHER = ["NVIDIA H200", "NVIDIA H200", "NVIDIA T400"]


@pytest.mark.parametrize(
    ("cores", "models", "visible", "expected"),
    [
        (1, ["NVIDIA H200"] * 2, None, 1),  # one core is for one
        (7, ["NVIDIA H200"] * 2, None, 1),
        (8, ["NVIDIA H200"] * 2, None, 2),
        (64, ["NVIDIA H200"] * 2, None, 2),
        (16, ["NVIDIA H200"] * 8, None, 4),
        (64, TWO_AND_ANOTHER, None, 2),
        (64, TWO_AND_ANOTHER, "2,0,1", 1),
        (64, TWO_AND_ANOTHER, "1", 1),
        (64, TWO_AND_ANOTHER, "0,1", 2),
        (64, TWO_AND_ANOTHER, "GPU-1,GPU-2", 2),
        (64, TWO_AND_ANOTHER, "", 1),
        (64, TWO_AND_ANOTHER, "-1", 1),
        (64, [], None, 1),
        (None, TWO_AND_ANOTHER, None, 1),  # a cluster gives a job its GPU
    ],
)
def test_one_measurement_a_gpu_as_far_as_there_are_cores(monkeypatch, cores, models, visible, expected):
    monkeypatch.setattr(surroundings, "models_and_driver", lambda: (models, "580.1" if models else None))
    assert measurements_at_once(cores, "auto", visible) == expected


def test_on_a_cpu_one_after_the_other(monkeypatch):
    monkeypatch.setattr(surroundings, "models_and_driver", lambda: (TWO_AND_ANOTHER, "580.1"))
    assert measurements_at_once(64, "cpu", None) == 1


MEET = '''
"""Goes on once two processes, told apart by the GPU that they see, are here at once."""
import os
import time

from workloads import Workload


def meet(context, folder):
    open(os.path.join(folder, os.environ["CUDA_VISIBLE_DEVICES"]), "w").close()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.02)
    return Workload(lambda x: x + 1, (context.random(8),))
'''
SMI = """#!/bin/sh
case "$*" in
*query-gpu=uuid*) echo GPU-11111111-aaaa, NVIDIA H200; echo GPU-22222222-bbbb, NVIDIA H200 ;;
*query-gpu=name*) echo NVIDIA H200, 580.1; echo NVIDIA H200, 580.1 ;;
esac
"""


@pytest.mark.torch
@pytest.mark.slow
def test_two_cases_are_measured_at_once_on_two_gpus(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    if torch.version.cuda or surroundings.NVIDIA.exists():
        pytest.skip("a script stands in for two GPUs, and here is a real one or a torch that looks for it")
    files = {"meet.py": MEET, "bin/nvidia-smi": SMI}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    (tmp_path / "meeting").mkdir()
    case = {"workload": "meet.py:meet", "params": {"folder": str(tmp_path / "meeting")}}
    measure = {"samples": 5, "warmup": 1, "schedule": {"active": 3}, "timeout_s": LONG}
    config = {"runs": {"host": {"host": True}}, "measure": measure, "cases": {"one": case, "other": case}}
    folder = WorkingFolder(tmp_path)
    folder.configure(config)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    targets = [f"results/latest/host/{name}/1/measurement.json" for name in config["cases"]]
    folder.snakemake("--cores", "8", *targets, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    found = [json.loads(Path(tmp_path, target).read_text()) for target in targets]
    assert [one["status"] for one in found] == ["ok", "ok"], [one["reason"] for one in found]
    assert sorted(os.listdir(tmp_path / "meeting")) == ["GPU-11111111-aaaa", "GPU-22222222-bbbb"]
