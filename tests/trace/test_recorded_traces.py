"""The recorded H200 traces: counts by hand for those beside the checkout, a plain count for the project's own."""

import pytest

from kernelbook.trace import read_trace
from tests.helpers import ROOT
from tests.trace import plain_count

FILES = sorted(ROOT.glob("resources/recorded/*/*/1/*.json.gz"))
#: Training steps are counted in test_training_traces.py: another thread than that of the range launches their backward.
RECORDED = [path for path in FILES if not path.parts[-3].startswith("training-")]
# kernels, memcpys, memsets, lowest and highest device time of a forward in µs (as rounded), read off by hand
BY_HAND = {
    "linear_eager": (1, 0, 0, 2.7, 2.8), "linear_compile": (1, 0, 0, 2.7, 2.8), "mlp_eager": (5, 0, 2, 232, 235),
    "mlp_compile": (4, 0, 2, 205, 207), "mlp_liger": (4, 0, 2, 210, 215), "attn_naive_eager": (5, 1, 1, 1074, 1077),
    "attn_inplace_eager": (5, 0, 1, 945, 947), "sdpa_math": (20, 0, 0, 2634, 2639), "sdpa_cudnn": (1, 0, 1, 56, 59),
    "sdpa_efficient": (1, 0, 0, 176, 181), "sdpa_flash": (1, 0, 0, 93, 98), "matmul_add_64_eager": (2, 0, 0, 2.7, 2.8),
    "matmul_add_4096_compile": (1, 1, 1, 187, 191),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_every_forward_has_the_counts_found_by_hand(shared_dir, case):
    kernels, memcpys, memsets, lowest, highest = BY_HAND[case]
    rows = read_trace(shared_dir / "traces" / "h200-torch2.11" / f"{case}.json.gz").ranges.to_pylist()
    assert len(rows) == 3
    for row in rows:
        assert (row["kernels"], row["memcpys"], row["memsets"]) == (kernels, memcpys, memsets)
        assert row["launches"] == kernels + memcpys + memsets
        assert lowest <= row["device_time_us"] < highest + 1
        assert row["device_busy_us"] <= row["device_time_us"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: "/".join(path.parts[-4:]))
def test_a_plain_count_finds_the_same(path):
    reading, plain = read_trace(path), plain_count.count(path)
    counts = ("kernels", "memcpys", "memsets", "attributed", "unattributed", "launches")
    assert {name: getattr(reading.totals, name) for name in counts} == {name: plain[name] for name in counts}
    assert reading.totals.device_time_us == pytest.approx(plain["device_time_us"], abs=1e-3)
    assert reading.totals.device_busy_us == pytest.approx(plain["device_busy_us"], abs=1e-3)
    found = [(row["annotation"], row["kernels"]) for row in reading.ranges.to_pylist()]
    assert found == [(name, kernels) for name, kernels, _ in plain["per_range"]]
    ops = {row["name"]: row["self_device_time_us"] for row in reading.ops.to_pylist() if row["self_device_time_us"]}
    assert ops == pytest.approx(plain["self_device_us"], abs=1e-3)


def test_forwards_of_one_annotation_share_out_its_activities(recorded_h200):
    if not RECORDED:
        pytest.skip("no recorded H200 run in the checkout")
    for path in (path for path in RECORDED if path.name == "trace.json.gz" and path.is_relative_to(recorded_h200)):
        for name in set(read_trace(path).ranges["annotation"].to_pylist()):
            reading = read_trace(path, name)
            activities, calls = reading.forwards()
            mine = [row for row in reading.ranges.to_pylist() if row["annotation"] == name]
            per_range = [row["kernels"] + row["memcpys"] + row["memsets"] for row in mine]
            indices = activities["index"].to_pylist()
            assert [indices.count(index) for index in range(len(mine))] == per_range
            own = [row["kernels"] for row in calls.to_pylist() if row["category"] == "runtime"]
            assert sum(own) == sum(row["kernels"] for row in mine if not row["inferred"])
