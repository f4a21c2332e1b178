"""What a measurement holds, and that its figures are what they say."""

from __future__ import annotations

import gzip
import json
import os
import socket
import statistics
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.torch


def events(path: Path) -> list[dict]:
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def named(rows: list[dict], category: str, name: str) -> list[dict]:
    return [row for row in rows if row.get("cat") == category and row.get("name") == name]


@pytest.fixture(scope="module")
def plain(measure_once):
    """matmul_add of 32, with cpu_params that differ from params."""
    return measure_once("matmul_add", params={"size": 4096}, cpu_params={"size": 32}, annotation="matmul_add")


def test_status(plain):
    assert plain.status == 0
    assert plain.measurement["status"] == "ok"
    assert plain.measurement["reason"] is None
    assert plain.measurement["log_tail"] == []
    assert plain.measurement["attempts"] == 1


def test_a_file_of_a_workload_is_run_once(measure, tmp_path):
    runs, file = tmp_path / "runs.txt", tmp_path / "mine.py"
    file.write_text(
        f"open({str(runs)!r}, 'a').write('x')\n"
        "def block(context, rows, columns):\n"
        "    return (lambda x: x + 1), (context.random(rows, columns),)\n"
    )
    measured = measure(f"{file}:block", params={"columns": 3, "rows": 2}).measurement
    assert measured["status"] == "ok"
    assert list(measured["params_used"]) == ["rows", "columns"]
    assert runs.read_text() == "x"


def test_the_case_is_kept_as_given_and_the_parameters_as_used(plain):
    assert plain.measurement["case"]["params"] == {"size": 4096}
    assert "seed" not in plain.measurement["case"]
    assert plain.measurement["params_used"] == {"size": 32}


def test_times(plain):
    found = plain.measurement
    assert len(found["forward_times_us"]) == 20
    assert found["forward_timer"] == "wall"
    assert all(time > 0 for time in found["forward_times_us"])
    assert found["duration_s"] * 1e6 > sum(found["forward_times_us"]) + found["first_call_us"]


def test_a_forward_takes_as_long_as_it_sleeps(measure):
    # A sleep is never shorter than asked for, however busy the machine: the only bound that a time has everywhere.
    found = measure(":sleeps", params={"seconds": 0.02}).measurement
    assert min(found["forward_times_us"]) >= 20_000
    assert found["first_call_us"] >= 20_000


def test_what_only_the_first_call_does_is_in_its_time(measure):
    found = measure(":sleeps_on_its_first_call", params={"seconds": 0.5}).measurement
    assert found["first_call_us"] >= 500_000


def test_times_are_those_of_the_calls_and_of_nothing_between_them(monkeypatch):
    """By a clock that only the forwards move: 500 µs the first of them, 3 µs each other one, 7 ms what is between."""
    timing = pytest.importorskip("workloads.harness.timing")
    now = [0]
    takes = iter([500_000, *[3_000] * (timing.LEAD + 20)])

    def step():
        now[0] += next(takes)

    def clock():
        now[0] += 7_000_000
        return now[0]

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=clock))
    cpu = SimpleNamespace(type="cpu")
    assert timing.timed_call_us(step, cpu) == 500 + 7_000  # the second look at the clock belongs to the call
    assert timing.forward_times_us(step, cpu, 20) == [3 + 7_000] * 20


def test_work_and_bytes_by_hand(plain):
    found = plain.measurement
    assert (found["flops"], found["flops_source"]) == (2 * 32**3, "counter")
    assert found["input_bytes"] == 3 * 32 * 32 * 2
    assert found["output_bytes"] == 32 * 32 * 2
    assert found["peak_memory_bytes"] is None


def test_bf16_error_has_the_size_of_its_rounding(plain):
    # bfloat16 keeps 8 significant bits: one rounding errs by at most 2^-9 = 0.2 %, two or three by little more.
    assert 2**-12 < plain.measurement["relative_error"] < 2**-7


def test_the_profile_is_as_planned(plain):
    rows = events(plain.output / plain.measurement["trace"])
    assert len(named(rows, "user_annotation", "matmul_add")) == plain.measurement["profiled_forwards"] == 10
    assert len(named(rows, "cpu_op", "aten::mm")) == 10
    assert len(named(rows, "cpu_op", "aten::add")) == 10
    assert not any("Input Dims" in row.get("args", {}) for row in rows)
    assert not any(row.get("cat") == "python_function" for row in rows)


def test_shapes_have_a_trace_of_their_own(plain):
    rows = events(plain.output / plain.measurement["shapes_trace"])
    (product,) = named(rows, "cpu_op", "aten::mm")
    assert product["args"]["Input Dims"] == [[32, 32], [32, 32]]
    assert product["args"]["Input type"] == ["c10::BFloat16", "c10::BFloat16"]


def test_averages_are_torchs(plain):
    rows = {row["name"]: row for row in plain.measurement["key_averages"]}
    traced = named(events(plain.output / "trace.json.gz"), "cpu_op", "aten::mm")
    assert rows["aten::mm"]["count"] == 10
    assert rows["aten::mm"]["cpu_time_us"] == pytest.approx(sum(row["dur"] for row in traced), rel=0.001, abs=0.1)
    assert set(rows["aten::mm"]) == {
        "name", "count", "cpu_time_us", "self_cpu_time_us", "device_time_us", "self_device_time_us",
    }  # fmt: skip


def test_nothing_tells_which_machine_it_was(plain):
    texts = [gzip.decompress(path.read_bytes()).decode() for path in plain.output.glob("*.gz")]
    texts.append((plain.output / "measurement.json").read_text())
    assert len(texts) == 3
    for text in texts:
        for secret in (str(plain.output.parent), os.getcwd(), os.path.expanduser("~"), "host_name", "/tmp/"):
            assert secret not in text
        assert f'"{socket.gethostname()}"' not in text


def test_environment(plain):
    import torch

    environment = plain.measurement["environment"]
    assert environment["torch"] == torch.__version__
    assert environment["threads"] >= 1
    assert environment["cpu"]
    assert environment["gpu_id"] is None  # measured on the CPU
    assert environment["container"] is None or environment["container"].count("/") == 0


def test_only_three_files_are_left(plain):
    assert sorted(path.name for path in plain.output.iterdir()) == [
        "measurement.json", "shapes.json.gz", "trace.json.gz",
    ]  # fmt: skip


def test_a_cold_case_profiles_first(measure):
    got = measure("matmul_add", params={"size": 8}, warmup=0, schedule={"active": 3})
    stages = [line for line in got.stderr.splitlines() if "a-case:" in line]
    order = [line.split("a-case: ")[1].split(" (")[0] for line in stages]
    assert order.index("profile") < order.index("timing without the profiler")
    assert "first call" not in order
    assert "warm-up" not in order
    assert got.measurement["first_call_us"] > 0
    assert got.measurement["profiled_forwards"] == 3
    assert len(named(events(got.output / "trace.json.gz"), "user_annotation", "a_forward")) == 3


def test_compiled(measure, tmp_path):
    folder = ["--cache-dir", str(tmp_path / "cache")]
    keys = {"mode": "compile", "params": {"size": 16}, "compile_options": {"fullgraph": True, "dynamic": False}}
    cold = measure("matmul_add", extra=folder, **keys).measurement
    shared = measure("matmul_add", extra=folder, **keys).measurement
    other = measure("matmul_add", extra=folder, **{**keys, "params": {"size": 24}}).measurement
    assert (cold["status"], cold["inductor_cache"]) == ("ok", "cold")
    assert (shared["status"], shared["inductor_cache"]) == ("ok", "shared")
    assert other["inductor_cache"] == "cold"  # another case's kernels in the folder do not count
    assert cold["flops"] == 2 * 16**3  # counted on the eager twin
    assert any("addmm" in row["name"] for row in cold["key_averages"])
    assert (tmp_path / "cache" / "inductor").is_dir()


def test_a_pair_is_a_workload_and_its_own_float64_the_reference(measure):
    got = measure(":returns_a_pair", dtype="float32")
    assert got.measurement["status"] == "ok"
    assert got.measurement["relative_error"] == 0.0  # doubling is exact
    assert (got.measurement["flops"], got.measurement["flops_source"]) == (None, None)


def test_a_result_that_is_no_number(measure):
    got = measure(":not_a_number")
    assert got.measurement["status"] == "ok"
    assert got.measurement["relative_error"] is None
    (warning,) = got.measurement["warnings"]
    assert (warning["code"], warning["count"]) == ("not_finite", 8)
    assert warning["message"].startswith("the result is not finite: 8 of its 8 values")
    assert got.measurement["notes"] == ["no relative error: the result or its reference is not finite"]


def test_a_result_of_another_shape_than_its_reference(measure):
    got = measure(":of_another_shape")
    assert got.measurement["status"] == "ok"
    assert got.measurement["relative_error"] is None
    assert got.measurement["notes"] == ["no relative error: the result is of shape [8], its reference of [8, 8]"]


def test_a_reference_that_fails_costs_only_its_figure(measure):
    got = measure(":takes_no_float64")
    assert got.measurement["status"] == "ok"
    assert got.measurement["relative_error"] is None
    assert got.measurement["notes"] == ["no relative error: RuntimeError: float64 is not for this device"]


def test_the_warm_up_is_judged_by_the_times_as_they_are(measure):
    """Whether they fall or rise is up to the machine; test_workload_values.py has times that do and that do not."""
    found = measure(":fine", samples=50).measurement
    first, rest = (statistics.median(found["forward_times_us"][span]) for span in (slice(10), slice(25, None)))
    check = found["warmup_check"]
    assert (check["first_median_us"], check["rest_median_us"]) == (first, rest)
    assert check["still_falling"] is (first > 1.1 * rest)
    assert (check["message"] is not None) is (check["still_falling"] or rest > 1.1 * first)


def test_an_earlier_measurement_does_not_survive(measure):
    assert measure(":fine").measurement["status"] == "ok"
    got = measure(":raises")
    assert got.measurement["status"] == "failed"
    assert sorted(path.name for path in got.output.iterdir()) == ["measurement.json"]
