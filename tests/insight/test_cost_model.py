"""Costs of forwards and the ceilings of a run, worked out by hand from the shapes of the cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import (
    Ceilings,
    ceilings_of,
    compulsory_bytes,
    dense_flops,
    forward_cost,
    gemm_costs,
    kernel_costs,
    measured_ceilings,
    useful_flops,
)
from kernelbook.judge.cost_model.forward import LIMITERS
from tests.insight.insight_recorded import Facts

TIMES = {"device_time_us": 2500.0, "device_busy_us": 2500.0, "forward_time_us": 2550.0, "cpu_time_us": 10.0}


def test_compulsory_bytes_are_inputs_weights_and_output_once(recorded_facts: Facts) -> None:
    assert compulsory_bytes(recorded_facts["sdpa-flash-eager"]) == 4 * 8 * 16 * 1024 * 64 * 2
    assert compulsory_bytes(recorded_facts["mlp-eager"]) == 2 * (2 * 64 * 128 * 768 + 3 * 768 * 3072)
    assert compulsory_bytes(recorded_facts["ceiling-copy"]) == 2 * 2**31
    assert compulsory_bytes(replace(recorded_facts["mlp-eager"], input_bytes=None)) is None


def test_ceilings_come_from_the_run_itself(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    matmul, copy = recorded_facts["ceiling-matmul"], recorded_facts["ceiling-copy"]
    alone = ceilings_of({f.case: f for f in (matmul, copy)})
    assert alone.flops_per_s == pytest.approx(2 * 8192**3 / (matmul.device_time_us * 1e-6), rel=0.005)
    # The product of size 4096 ran faster than that of size 8192, during which the device's power was capped.
    (faster,) = (a for a in recorded_facts["matmul-add-4096-eager"].activities if a.family == "GEMM")
    assert ceilings.flops_per_s == pytest.approx(2 * 4096**3 / (faster.duration_us * 1e-6))
    assert ceilings.flops_per_s > 1.02 * alone.flops_per_s
    assert ceilings.bytes_per_s == pytest.approx(2**32 / (copy.device_time_us * 1e-6))
    assert ceilings.dtype == "bfloat16"
    # An H200 is sold with 989 dense bf16 TFLOP/s and 4.8 TB/s: what is measured lies below, and not far.
    assert 0.6e15 < ceilings.flops_per_s < 0.989e15
    assert 3.6e12 < ceilings.bytes_per_s < 4.8e12
    assert ceilings_of({"mlp-eager": recorded_facts["mlp-eager"]}) == Ceilings(None, None)


def test_a_ceiling_names_its_source_and_its_share_of_the_data_sheet(recorded_facts: Facts) -> None:
    compute, memory = measured_ceilings(recorded_facts)
    assert (compute.quantity, compute.case, compute.dtype) == ("compute", "matmul-add-4096-eager", "bfloat16")
    assert compute.kernel == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert (memory.quantity, memory.case, memory.kernel, memory.dtype) == ("memory", "ceiling-copy", None, None)
    # NVIDIA states 1,979 TFLOP/s in bf16 with sparsity, half of it without, and 4.8 TB/s.
    assert compute.share_of_data_sheet == pytest.approx(compute.per_s / 0.989e15)
    assert memory.share_of_data_sheet == pytest.approx(2**32 / recorded_facts["ceiling-copy"].device_time_us / 4.8e6)
    assert compute.source == memory.source == "NVIDIA H200 Tensor Core GPU data sheet"
    elsewhere = {case: replace(facts, device="GPU of tomorrow") for case, facts in recorded_facts.items()}
    assert {(each.share_of_data_sheet, each.source) for each in measured_ceilings(elsewhere)} == {(None, None)}
    in_fp32 = replace(recorded_facts["ceiling-matmul"], dtype="float32")  # the sheet's figure is not of this type
    assert [each.data_sheet_per_s for each in measured_ceilings({"ceiling-matmul": in_fp32})] == [None]


def test_a_ceiling_is_not_measured_in_another_element_type(recorded_facts: Facts) -> None:
    faster = replace(recorded_facts["matmul-add-4096-eager"], dtype="float16")
    matmul = recorded_facts["ceiling-matmul"]
    both = ceilings_of({"ceiling-matmul": matmul, "faster": faster})
    assert both == ceilings_of({"ceiling-matmul": matmul})


def test_no_share_is_above_the_whole(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    for case, facts in recorded_facts.items():
        cost = forward_cost(facts, ceilings)
        products = [gemm.share_of_roof for gemm in gemm_costs(facts, ceilings)]
        assert all(share is None or share <= 1 for share in [cost.share_of_compute, cost.share_of_memory, *products])
        assert cost.times_floor is None or cost.times_floor > 0.9999, case
        # A kernel that mostly reads may pass the rate of a copy by a little.
        kernels = [kernel.share_of_roof for kernel in kernel_costs(facts, ceilings)]
        assert all(share is None or share <= 1.05 for share in kernels), case


def test_causal_attention_counts_half_the_products_and_the_diagonal(recorded_facts: Facts) -> None:
    facts = recorded_facts["sdpa-flash-eager"]
    dense = 4 * 8 * 16 * 1024 * 1024 * 64
    pairs = sum(range(1, 1024 + 1))  # query i looks at i keys
    assert (dense_flops(facts), useful_flops(facts)) == (dense, 17_196_646_400)
    assert 4 * 8 * 16 * 64 * pairs == 17_196_646_400
    cost = forward_cost(facts, Ceilings(8e14, 4e12))
    # 17.2 GFLOP at 800 TFLOP/s are 21.5 µs, more than 64 MiB at 4 TB/s, 16.8 µs.
    assert cost.floor_us == pytest.approx(21.4958)
    assert useful_flops(recorded_facts["mlp-eager"]) == 3 * 2 * 8192 * 3072 * 768


def test_the_columns_of_a_row_agree_on_what_is_counted(recorded_facts: Facts) -> None:
    cost = forward_cost(recorded_facts["attention-flex-compile"], Ceilings(8e14, 4e12))
    assert cost.flops == 17_196_646_400
    assert cost.tflops == pytest.approx(17_196_646_400 / recorded_facts["attention-flex-compile"].device_time_us / 1e6)
    assert cost.share_of_compute == pytest.approx(cost.tflops / 800)
    assert cost.intensity == pytest.approx(17_196_646_400 / 2**26)


def test_bytes_out_of_the_cache_set_no_floor() -> None:
    times = {"device_time_us": 500.0, "device_busy_us": 500.0, "forward_time_us": 505.0, "cpu_time_us": 10.0}
    facts = CaseFacts("r", "c", flops=10**11, input_bytes=10**9, output_bytes=10**9, kernels=1, **times)
    cost = forward_cost(facts, Ceilings(5e14, 2e12))  # 2 GB in 0.5 ms: twice the ceiling
    assert (cost.share_of_memory, cost.limiter) == (None, "unknown")
    assert cost.compulsory_gb_per_s == pytest.approx(4000.0)
    assert cost.floor_us == pytest.approx(200.0)  # 0.1 TFLOP at 500 TFLOP/s


def test_floor_and_limiter_of_a_forward() -> None:
    facts = CaseFacts("r", "c", flops=10**12, input_bytes=10**9, output_bytes=10**9, kernels=1, **TIMES)
    cost = forward_cost(facts, Ceilings(5e14, 2e12))
    # 1 TFLOP at 500 TFLOP/s is 2 ms, 2 GB at 2 TB/s is 1 ms: the larger is the floor.
    assert cost.floor_us == pytest.approx(2000.0)
    assert cost.times_floor == pytest.approx(1.25)
    assert cost.times_floor_wall == pytest.approx(1.275)
    assert cost.intensity == 500.0
    assert cost.tflops == pytest.approx(400.0)
    assert cost.compulsory_gb_per_s == pytest.approx(800.0)
    assert (cost.share_of_compute, cost.share_of_memory) == (pytest.approx(0.8), pytest.approx(0.4))
    assert cost.limiter == "compute"
    assert forward_cost(facts, Ceilings(5e15, 1e12)).limiter == "memory"
    assert forward_cost(facts, Ceilings(5e15, 2e12)).limiter == "unknown"  # 1 ms of 2.5 ms, and no kernel to look at
    assert forward_cost(facts, Ceilings()).limiter == "unknown"
    assert forward_cost(facts, Ceilings()).floor_us is None
    waits = replace(facts, forward_time_us=9000.0, cpu_time_us=8000.0)
    assert forward_cost(waits, Ceilings(5e14, 2e12)).limiter == "overhead"


def test_a_forward_without_flops_may_be_limited_by_memory() -> None:
    copy = CaseFacts("r", "c", input_bytes=2 * 10**9, output_bytes=2 * 10**9, kernels=1, **TIMES)
    assert forward_cost(copy, Ceilings(5e14, 2e12)).limiter == "memory"  # 2 of 2.5 ms
    assert forward_cost(copy, Ceilings(5e14, 8e12)).limiter == "unknown"  # nothing says that it computes nothing


def test_a_floor_below_any_kernel_is_none(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    facts = recorded_facts["matmul-add-64-eager"]
    assert 4 * 64 * 64 * 2 / ceilings.bytes_per_s < 1e-8  # three inputs and an output: 0.008 µs
    cost = forward_cost(facts, ceilings)
    assert (cost.floor_us, cost.times_floor, cost.times_floor_wall) == (None, None, None)
    assert cost.limiter == "overhead"
    kept_busy = replace(facts, cpu_time_us=1.0, forward_time_us=facts.device_busy_us)
    assert forward_cost(kept_busy, ceilings).limiter == "latency"


def test_limiters_of_the_recorded_cases(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    found = {case: forward_cost(facts, ceilings).limiter for case, facts in recorded_facts.items()}
    assert set(found.values()) <= set(LIMITERS)
    assert found["ceiling-copy"] == "memory"
    assert found["ceiling-matmul"] == found["matmul-add-4096-eager"] == found["mlp-eager"] == "compute"
    assert found["matmul-add-64-eager"] == found["linear-compile"] == found["mlp-liger"] == "overhead"
    # The floor is 21 µs; what their kernels move takes 520 of 948 µs, 647 of 1,076, 268 of 325, and of math, without
    # the FLOPs in fp32, 1,501 of 2,632 and 583 of 1,248: the first factor is the larger in each.
    for case in ("inplace-eager", "naive-eager", "naive-compile"):
        assert found[f"attention-{case}"] == "excess traffic or work"
    assert found["sdpa-math-eager"] == found["sdpa-math-compile"] == "excess traffic or work"
    # One kernel that moves what it must, at a fifth of the compute ceiling.
    assert found["sdpa-flash-eager"] == found["sdpa-efficient-eager"] == "kernel efficiency"


def test_a_limiter_says_in_how_many_processes_it_is_so(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    cost = forward_cost(recorded_facts["mlp-compile"], ceilings)
    # One of the three ran beside a slower CPU: its forward takes 316 µs, of which the device is busy for 220.
    assert (cost.limiter, cost.limiter_processes, cost.processes) == ("compute", 2, 3)
    inplace = forward_cost(recorded_facts["attention-inplace-eager"], ceilings)
    assert (inplace.limiter_processes, inplace.processes) == (3, 3)
    alone = forward_cost(CaseFacts("r", "c"), ceilings)
    assert (alone.limiter_processes, alone.processes) == (None, None)


def test_what_the_kernels_move_is_set_beside_what_they_must(recorded_facts: Facts) -> None:
    scores = 8 * 16 * 1024 * 1024 * 2
    tensor, mask = 8 * 16 * 1024 * 64 * 2, 1024 * 1024
    # QK^T, mul_, masked_fill_, softmax and PV.
    moved = (2 * tensor + scores) + 2 * scores + (2 * scores + mask) + 2 * scores + (scores + 2 * tensor)
    cost = forward_cost(recorded_facts["attention-inplace-eager"], Ceilings())
    assert cost.traffic_bytes == moved == 2_215_641_088
    assert cost.compulsory_bytes == 4 * tensor + mask
    assert cost.times_compulsory == pytest.approx(32.5, abs=0.05)
    assert forward_cost(replace(recorded_facts["mlp-eager"], trace_path=None), Ceilings()).traffic_bytes is None
