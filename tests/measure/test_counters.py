"""The counter pass with an ncu that is a script: what it is asked for, what is kept, and each refusal as a row."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import pytest
import torch

from tests.helpers.patience import LONG
from workloads import Workload
from workloads.harness import building, counter_child, counters, environment, ncu
from workloads.harness.attempt import Setting
from workloads.harness.case_file import DEFAULTS

RECORD = {
    "device": {"type": "cuda"},
    "environment": {"cuda": "13.0"},
    "key_averages": [{"name": "gemm", "count": 10, "cpu_time_us": 0.0, "self_device_time_us": 100.0}],
    "profiled_forwards": 10,
}
CASE = {**DEFAULTS, "case": "a", "workload": "linear", "annotation": "fwd", "params": {}, "timeout_s": LONG}
HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","device__attribute_chip",'
PAGE = f"""==PROF== Connected to process 7 (/usr/bin/python3)
{HEAD}"dram__bytes_read.sum","dram__bytes_read.max","gpu__time_duration.sum"
"","","","","","","","","byte","byte","ns"
"0","7","python3","secret-host","gemm","(128, 1, 1)","(4, 1, 1)","gh100","1,000","10","2,000"
==PROF== Disconnected from process 7
"""
FAKE = """#!/bin/sh
# an ncu that lists two counters, and else writes what the test wants into its log
[ "$1" = --query-metrics ] && { printf 'sm__throughput  Throughput\\ndram__bytes_read  Counter\\n'; exit 0; }
printf '%s\\n' "$@" > '@FOLDER/asked'
while [ "$1" != --log-file ]; do shift; done
@THEN
"""


def measured(tmp_path: Path, then: str, record: dict | None = None, **case) -> dict:
    """What the counter pass leaves where ncu does this. `$2` is its log file."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "ncu").write_text(FAKE.replace("@FOLDER", str(tmp_path)).replace("@THEN", then))
    (tools / "ncu").chmod(0o755)
    (tmp_path / "out").mkdir(exist_ok=True)
    setting = Setting(device="cuda", output=tmp_path / "out")
    return counters.measure({**CASE, "ncu": str(tools), **case}, setting, None, {**RECORD, **(record or {})})


def printing(tmp_path: Path, text: str, status: int = 0) -> str:
    (tmp_path / "page").write_text(text)
    return f"cat '{tmp_path}/page' > \"$2\"; exit {status}"


def test_what_is_kept_names_no_machine(tmp_path):
    found = measured(tmp_path, printing(tmp_path, PAGE))
    assert found["counters"] == "counters.csv.gz"
    assert (found["counter_pass"]["status"], found["counter_pass"]["kernels"]) == ("ok", 1)
    assert found["counter_pass"]["seconds"] > 0
    with gzip.open(tmp_path / "out" / "counters.csv.gz", "rt") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["ID", "Kernel Name", "Block Size", "Grid Size", "dram__bytes_read.sum", "gpu__time_duration.sum"]
    assert rows[2] == ["0", "gemm", "(128, 1, 1)", "(4, 1, 1)", "1,000", "2,000"]


def test_what_ncu_is_asked_for(tmp_path):
    """Only counters that the GPU has; clocks as they are; nothing outside cudaProfilerStart and Stop."""
    measured(tmp_path, printing(tmp_path, PAGE))
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[asked.index("--profile-from-start") + 1] == "off"
    assert asked[asked.index("--clock-control") + 1] == "none"
    metrics = asked[asked.index("--metrics") + 1].split(",")
    assert {"dram__bytes_read.sum", "launch__waves_per_multiprocessor"} <= set(metrics)
    assert not [name for name in metrics if name.startswith(("dram__bytes_write", "smsp__", "lts__"))]
    assert "--kernel-name" not in asked
    assert asked[-3:-1] == ["-m", "workloads.harness.counter_child"]


DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
BUSY = (
    "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) is "
    "concurrently collecting profiling data."
)


@pytest.mark.parametrize(
    ("text", "fact", "remedy"),
    [
        (DENIED, "lets only administrators read the GPU's counters", "NVreg_RestrictProfilingToAdminUsers=0"),
        (BUSY, "another profiler holds the GPU's counters", "dcgmi profile --pause"),
        ("==ERROR== Metrics are not available for MIG", "counters of this MIG instance", "a whole GPU"),
        ("==WARNING== No kernels were profiled.", "ncu saw no kernel", "runs kernels on the GPU"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "no access to the GPU's counters", "virtual"),
        ("==ERROR== UnsupportedGpu", "does not know the GPU or its driver", "a newer Nsight Compute"),
        ("==ERROR== Out of memory", "no memory left to save", "smaller params"),
        ("==ERROR== Something else", "ncu ended with status 9 (Something else)", "by hand"),
        ("", "ncu ended with status 9 (no message)", "by hand"),
    ],
)
def test_a_refusal_states_fact_and_remedy(tmp_path, monkeypatch, text, fact, remedy):
    monkeypatch.setattr(ncu, "_in_wsl", lambda: False)
    found = measured(tmp_path, printing(tmp_path, text, 9))
    assert found["counters"] is None
    assert found["counter_pass"]["status"] == "refused"
    assert fact in found["counter_pass"]["reason"]
    assert remedy in found["counter_pass"]["reason"].partition(": ")[2]
    assert not (tmp_path / "out" / "counters.csv.gz").exists()


def test_windows_has_a_switch_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "_in_wsl", lambda: True)
    found = measured(tmp_path, printing(tmp_path, DENIED, 1))
    assert "NVIDIA Control Panel" in found["counter_pass"]["reason"]


def test_a_pass_that_takes_too_long_is_ended(tmp_path):
    found = measured(tmp_path, "sleep 1000", timeout_s=0.5)
    assert "stopped at the case's time limit of 0.5 s" in found["counter_pass"]["reason"]
    assert "raise timeout_s" in found["counter_pass"]["reason"]


def test_no_ncu(tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "PLACES", ())
    monkeypatch.setenv("PATH", "")
    assert "name the host's folder of Nsight Compute" in measured(tmp_path, "", ncu=None)["counter_pass"]["reason"]
    gone = measured(tmp_path, "", ncu=str(tmp_path / "gone"))["counter_pass"]["reason"]
    assert gone.startswith(f"there is no ncu in {tmp_path / 'gone'}")


@pytest.mark.parametrize("record", [{"device": {"type": "cpu"}}, {"environment": {"cuda": None}}])
def test_what_is_no_nvidia_gpu_has_no_counters(tmp_path, record):
    assert "did not run on an NVIDIA GPU" in measured(tmp_path, "", record)["counter_pass"]["reason"]


def test_one_forward_is_profiled_after_the_same_warm_up(tmp_path, monkeypatch):
    """Three calls of warm-up, one that the schedule waits, one that it throws away; then the one that counts."""
    events: list[str] = []
    workload = Workload(lambda: events.append("forward"), ())
    monkeypatch.setattr(building, "build", lambda case, params, device: workload)
    monkeypatch.setattr(environment, "choose_device", lambda asked: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: events.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: events.append("stop"))
    monkeypatch.setattr(os, "_exit", lambda status: events.append(f"exit {status}"))
    (tmp_path / "case.json").write_text(json.dumps({**CASE, "warmup": 3, "schedule": {"wait": 1, "warmup": 1}}))
    counter_child.main([str(tmp_path / "case.json")])
    assert events == [*["forward"] * 5, "start", "forward", "stop", "exit 0"]


def test_a_job_with_ranks_has_no_counters(tmp_path):
    assert "a case with ranks has none" in measured(tmp_path, "", ranks=2)["counter_pass"]["reason"]


def average(name: str, count: int, time_us: float, cpu_us: float = 0.0) -> dict:
    return {"name": name, "count": count, "cpu_time_us": cpu_us, "self_device_time_us": time_us}


def test_the_longest_functions_are_profiled_first(tmp_path):
    """Ten forwards, at most 100 kernels: 60 of `a` and 40 of `c` fit, the 50 of `b` in between do not."""
    rows = [
        average("void ns::a<int, 4>(float*)", 600, 900.0),
        average("b", 500, 500.0),
        average("c", 400, 100.0),
        average("Memcpy DtoD (Device -> Device)", 10, 9000.0),
        average("aten::mm", 600, 0.0, 50.0),
    ]
    assert ncu.longest_functions(rows, 10, 100) == ("a", "c")
    assert ncu.longest_functions(rows[:1], 10, 100) == ()
    assert ncu.longest_functions([average("a", 1010, 1.0)], 10, 100) is None
    measured(tmp_path, printing(tmp_path, PAGE), {"key_averages": rows})
    assert "regex:^(a|c)$" in (tmp_path / "asked").read_text().splitlines()


def test_a_range_is_no_kernel(tmp_path):
    """torch gives a range a second row, of its time on the GPU: each function has more kernels than can be profiled."""
    rows = [average("fwd", 10, 0.0, 500.0), average("fwd", 10, 9000.0), average("a", 1010, 8000.0)]
    assert ncu.longest_functions(rows, 10, 100) is None
    assert "more than 100 kernels" in measured(tmp_path, "", {"key_averages": rows})["counter_pass"]["reason"]


@pytest.mark.parametrize(
    "name", ["Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pinned -> Device)", "Memset (Device)"]
)
def test_a_forward_of_copies_has_no_kernel_to_count(tmp_path, name):
    """Rows as a torch 2.11 gives them for a copy inside the range fwd; ncu is not started for it."""
    copies = [average("fwd", 10, 0.0, 635.0), average("aten::copy_", 10, 9000.0, 372.0), average("fwd", 10, 9000.0)]
    copies += [average("cudaMemcpyAsync", 10, 0.0, 245.0), average(name, 10, 9000.0)]
    found = measured(tmp_path, printing(tmp_path, PAGE), {"key_averages": copies})["counter_pass"]
    assert found["status"] == "refused"
    assert found["reason"].startswith("ncu counts kernels, and this forward runs none: it only copies or fills memory")
    assert not (tmp_path / "asked").exists()
    one_kernel = [*copies, average("gemm", 10, 1.0)]
    assert measured(tmp_path, printing(tmp_path, PAGE), {"key_averages": one_kernel})["counter_pass"]["status"] == "ok"


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("void at::native::(anonymous namespace)::softmax_warp_forward<float, 10>(float*)", "softmax_warp_forward"),
        ("void cutlass::Kernel2<cutlass_80_tensorop>(Params)", "Kernel2"),
        ("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"),
    ],
)
def test_the_name_that_ncu_filters_by(kernel, function):
    assert ncu.function_name(kernel) == function


def test_a_measurement_stands_without_its_counters(measure):
    found = measure("linear", counters=True, params={"batch": 2, "in_features": 4, "out_features": 4}, samples=2)
    assert found.measurement["status"] == "ok"
    assert found.measurement["counters"] is None
    assert found.measurement["counter_pass"]["status"] == "refused"
    assert json.dumps(found.measurement["counter_pass"])
