"""torch's own `key_averages()` as a second opinion on every op of every recorded H200 case."""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from kernelbook.trace import read_trace
from tests.helpers import ROOT

SHARED = ROOT.parent / "shared" / "traces" / "h200-torch2.11"
TRAINING = Path(__file__).with_name("h200-training")
RECORDED = sorted([*ROOT.glob("resources/recorded/*/*/1/measurement.json"), *TRAINING.glob("*/1/measurement.json")])
FIGURES = ("count", "cpu_time_us", "self_cpu_time_us", "device_time_us", "self_device_time_us")
ROUNDING_US = 0.002  # both sides add figures of three decimals


def shared_cases():
    """(id, trace, rows of the CPU side, rows of the device side) of the cases beside the checkout, where there are."""
    short = {"count": "count", "cpu": "cpu_time_us", "self_cpu": "self_cpu_time_us", "dev": "device_time_us"}
    short["self_dev"] = "self_device_time_us"
    for meta in sorted(SHARED.glob("*.meta.json")):
        rows = json.loads(meta.read_text(encoding="utf-8"))["key_averages"]
        named = [(row, {"name": row["key"]} | {long: row[name] for name, long in short.items()}) for row in rows]
        host = [new for row, new in named if row["device_type"] == "DeviceType.CPU"]
        device = [new | {"annotation": row["ann"]} for row, new in named if row["device_type"] == "DeviceType.CUDA"]
        yield pytest.param(meta.with_name(meta.name.replace(".meta.json", ".json.gz")), host, device, id=meta.stem)


def recorded_cases():
    """The same of the project's own recordings, whose rows do not say which side they are of."""
    for path in RECORDED:
        measured = json.loads(path.read_text(encoding="utf-8"))
        if measured["status"] != "ok" or measured["trace"] is None or "key_averages" not in measured:
            continue
        if path.parts[-3] == "mlp-graph":  # the replay of a CUDA graph has no op
            continue
        rows = measured["key_averages"]
        device = [row | {"annotation": None} for row in rows if not row["cpu_time_us"] and row["device_time_us"]]
        name = "-".join(path.parts[-4:-2])
        yield pytest.param(path.with_name(measured["trace"]), rows, device, id=name)


CASES = [*shared_cases(), *recorded_cases()]
each_case = pytest.mark.parametrize(("trace", "host", "device"), CASES or [pytest.param(*[None] * 3, id="none")])


@pytest.fixture(autouse=True)
def _needs_cases():
    if not CASES:
        pytest.skip("no recorded H200 case in the checkout or beside it")


@each_case
def test_every_op_has_torchs_figures(trace, host, device):
    torchs = defaultdict(list)
    for row in host:
        torchs[row["name"]].append([row[name] or 0 for name in FIGURES])
    ops = read_trace(trace).ops.to_pylist()
    assert ops
    for op in ops:
        mine = [op[name] or 0 for name in FIGURES]
        assert any(mine == pytest.approx(row, abs=ROUNDING_US * max(row[0], 1)) for row in torchs[op["name"]]), op[
            "name"
        ]


@each_case
def test_no_op_of_torchs_is_missing(trace, host, device):
    """What torch lists on the CPU besides ops are annotations, the profiler's steps, and runtime calls."""
    reading = read_trace(trace)
    ranges = Counter(reading.ranges["annotation"].to_pylist())
    known = set(reading.ops["name"].to_pylist()) | set(ranges) | {row["name"] for row in device} | {"ProfilerStep*"}
    others = {row["name"] for row in host} - known
    calls = runtime_calls(trace)
    assert others <= set(calls)
    for row in host:
        if row["name"] in others:
            assert row["count"] == calls[row["name"]]


@each_case
def test_device_rows_are_the_kernel_table(trace, host, device):
    """torch groups activities by name as we do: work from before the window is in both."""
    mine = {row["name"]: (row["count"], row["total_us"]) for row in read_trace(trace).kernels.to_pylist()}
    torchs = {row["name"]: (row["count"], row["self_device_time_us"]) for row in device}
    assert set(mine) <= set(torchs)
    for name, (count, total) in mine.items():
        assert torchs[name] == (count, pytest.approx(total, abs=ROUNDING_US * count))


@each_case
def test_where_torch_counts_more_device_time_than_there_is(trace, host, device):
    """torch lists an innermost annotation's span on the GPU as device time of its own: it is in none of our figures."""
    reading = read_trace(trace)
    spans = {row["name"] for row in device} - set(reading.kernels["name"].to_pylist())
    parents = set(reading.ranges["parent"].to_pylist())
    innermost = {row["annotation"] for place, row in enumerate(reading.ranges.to_pylist()) if place not in parents}
    assert spans == innermost
    work = sum(row["self_device_time_us"] for row in device if row["name"] not in spans)
    everything = sum(row["self_device_time_us"] for row in device)
    assert reading.totals.device_time_us == pytest.approx(work, abs=0.01)
    assert everything > work


@pytest.mark.parametrize(
    ("case", "early"), [("sdpa_math", 9), ("attn_naive_eager", 2), ("attn_inplace_eager", 2), ("mlp_eager", 0)]
)
def test_work_from_before_the_window_is_in_torchs_total_and_in_no_forward_of_ours(shared_dir, case, early):
    reading = read_trace(shared_dir / "traces" / "h200-torch2.11" / f"{case}.json.gz")
    per_range = [sum(row[name] for row in reading.ranges.to_pylist()) for name in ("kernels", "memcpys", "memsets")]
    assert reading.activities.num_rows - sum(per_range) == early == reading.totals.unattributed
    codes = {warning.code: warning.count for warning in reading.warnings}
    assert codes.get("before_window", 0) == early


def runtime_calls(trace):
    """Name -> count of runtime and driver calls, with nothing of the engine."""
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    return Counter(e["name"] for e in events if e.get("cat", "").endswith(("_runtime", "_driver")))
