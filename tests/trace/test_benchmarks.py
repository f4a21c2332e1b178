"""The benchmark scripts run, and memory does not grow with the file as it would if the file were held."""

import json
import os
import subprocess
import sys
import time

import pytest

from kernelbook.trace import read_trace
from tests.helpers.forks import forking
from tests.helpers.patience import LONG
from tests.trace.made_trace import document, forward, kineto, op, write


def measure(root, path):
    """As benchmarks/run.py does, with one arena of memory too: the peak rests on the file, not on the cores."""
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, root / "benchmarks" / "measure.py", "kernelbook", path, str(time.time())]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | alone, timeout=LONG, check=True)
    return json.loads(found.stdout)


def test_memory_stays_far_below_the_size_of_the_file(root, tmp_path):
    frames = [op(f"aten::op{i % 50}", 10.0 * i, 5.0, stack="frame;" * 40, dims=[[8, 1024]] * 4) for i in range(2000)]
    text = json.dumps(document(frames))
    opening, closing = text.index("[", text.index("traceEvents")) + 1, text.rindex("]")
    path = tmp_path / "large.json"
    path.write_text(text[:opening] + ",".join([text[opening:closing]] * 60) + text[closing:])
    size = path.stat().st_size / 1e6
    assert size > 40
    small = measure(root, write(tmp_path / "small.json", forward()))
    assert measure(root, path)["peak_mb"] - small["peak_mb"] < 0.8 * size


def test_the_table(root, tmp_path):
    path = write(tmp_path / "made.json", forward())
    command = [
        sys.executable,
        root / "benchmarks" / "run.py",
        "--trace",
        path,
        "--readers",
        "kernelbook",
        "--rounds",
        "1",
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=True)
    assert "cores" in found.stdout.splitlines()[0]
    row = next(line for line in found.stdout.splitlines() if line.startswith("| kernelbook"))
    assert row.endswith("| 1.0 | 1.0 |")


def test_a_repeated_trace_is_the_same_again_and_again(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from repeating import repeat

    once, often = tmp_path / "once.json", tmp_path / "often.json"
    once.write_text(kineto(forward()))
    repeat(once, often, megabytes=1)
    one, many = read_trace(once), read_trace(often)
    turns = len(many.ranges)
    assert often.stat().st_size > 1e6
    assert (many.totals.attributed, many.totals.launches) == (3 * turns, 3 * turns)
    assert many.totals.device_busy_us == turns * one.totals.device_busy_us
    assert {row["kernels"] for row in many.ranges.to_pylist()} == {2}
    self_times = [reading.ops["self_cpu_time_us"].to_pylist() for reading in (one, many)]
    assert self_times[1] == pytest.approx([turns * time for time in self_times[0]])


@pytest.mark.torch
def test_a_made_trace_is_as_large_as_asked_for(root, tmp_path):
    path = tmp_path / "made.json"
    variables = forking()
    command = [variables["FORK_PYTHON"], root / "benchmarks" / "make_trace.py", "--megabytes", "5", path]
    subprocess.run(command, capture_output=True, env=os.environ | variables, timeout=LONG, check=True)
    reading = read_trace(path)
    assert path.stat().st_size >= 5e6
    assert reading.distributed["rank"] == 0
    assert {"forward", "backward", "optimizer"} <= set(reading.ranges["annotation"].to_pylist())
