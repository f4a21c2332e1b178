"""The recorded job on two H200: what was counted by hand in the traces of both ranks, in a few lines of their own."""

from __future__ import annotations

import gzip
import json
import statistics
from collections import Counter

import pytest

from tests.helpers import ROOT

RECORDED = ROOT / "resources" / "recorded" / "h200-x2-torch2.11"
SIZES = [2**10, 2**14, 2**18, 2**22, 2**26, 2**30]
COLLECTIVES = {"all-reduce": "AllReduce", "all-gather": "AllGather", "reduce-scatter": "ReduceScatter"}
# DDP: a bucket of 1 MiB and then of 25 MiB for 101 MB of gradients. FSDP2: each of 4 layers is gathered in forward and
# in backward, and its gradients are scattered once.
STEPS = {"ddp-step": {"AllReduce": 5}, "fsdp2-step": {"AllGather": 8, "ReduceScatter": 4}}
PER_FORWARD = STEPS | {f"{case}-bytes-{size}": {name: 1} for case, name in COLLECTIVES.items() for size in SIZES}
FORBIDDEN = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def measurement(case, rank):
    return json.loads((RECORDED / case / "1" / f"rank-{rank}" / "measurement.json").read_text())


def collectives_by_forward(case, rank):
    """Of each forward, how many kernels of NCCL were launched inside it (by correlation), by operation."""
    measured = measurement(case, rank)
    text = gzip.decompress((RECORDED / case / "1" / f"rank-{rank}" / measured["trace"]).read_bytes())
    rows = json.loads(text)["traceEvents"]
    name = measured["case"]["annotation"]
    spans = [row for row in rows if row.get("cat") == "user_annotation" and row["name"] == name]
    launches = {row["args"]["correlation"]: row["ts"] for row in rows if row.get("cat", "").startswith("cuda_")
                and "correlation" in row.get("args", {})}  # fmt: skip
    found = [Counter() for _ in spans]
    for row in rows:
        if row.get("cat") == "kernel" and row["name"].startswith("ncclDevKernel_"):
            began = launches.get(row["args"]["correlation"])
            for count, span in zip(found, spans, strict=True):
                if began is not None and span["ts"] <= began < span["ts"] + span["dur"]:
                    count[row["name"].split("_")[1].partition("(")[0]] += 1
    return found


def test_all_cases_are_there_with_two_ranks():
    assert {path.name for path in RECORDED.iterdir()} == set(PER_FORWARD)
    for case in PER_FORWARD:
        job = json.loads((RECORDED / case / "1" / "measurement.json").read_text())
        assert (job["status"], job["ranks"]) == ("ok", 2)
        assert {path.name for path in (RECORDED / case / "1").glob("rank-*")} == {"rank-0", "rank-1"}


@pytest.mark.parametrize("case", PER_FORWARD)
def test_every_forward_of_both_ranks_runs_the_collectives_that_were_counted(case):
    for rank in (0, 1):
        found = collectives_by_forward(case, rank)
        assert len(found) == measurement(case, rank)["profiled_forwards"]
        assert found == [PER_FORWARD[case]] * len(found)


def test_each_rank_ran_on_a_gpu_of_its_own_and_without_multicast():
    for case in PER_FORWARD:
        both = [measurement(case, rank) for rank in (0, 1)]
        assert len({rank["environment"]["gpu_id"] for rank in both}) == 2
        for rank in both:
            assert rank["device"]["name"] == "NVIDIA H200"
            assert rank["environment"]["variables"].items() >= FORBIDDEN.items()


@pytest.mark.parametrize(("case", "factor", "expected"), [("all-reduce", 1, 331), ("all-gather", 0.5, 271),
                                                          ("reduce-scatter", 0.5, 267)])  # fmt: skip
def test_bus_bandwidth_at_1_gib(case, factor, expected):
    """By NCCL's convention, bytes / time x 2 (n - 1) / n of an all-reduce and x (n - 1) / n of the others; GB/s."""
    size = 2**30
    times = [statistics.median(measurement(f"{case}-bytes-{size}", rank)["forward_times_us"]) for rank in (0, 1)]
    assert size / max(times) / 1000 * factor == pytest.approx(expected, rel=0.01)
    assert max(times) / min(times) < 1.01  # the ranks agree
