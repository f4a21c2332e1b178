"""Costs worked out by hand from the shapes of the cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.case_facts import CaseFacts
from kernelbook.cost_model import Ceilings, ceilings_of, forward_cost, gemm_costs, least_bytes, least_flops

Facts = dict[str, CaseFacts]
MIB = 2**20


def test_products_of_the_mlp(recorded_facts: Facts) -> None:
    gate, up, down = gemm_costs(recorded_facts["mlp-eager"])
    assert (gate.m, gate.n, gate.k, gate.batch) == (8192, 3072, 768, 1)
    assert (down.m, down.n, down.k, down.batch) == (8192, 768, 3072, 1)
    assert gate.flops == up.flops == down.flops == 2 * 8192 * 3072 * 768  # 38.7 GFLOP each
    # x 12 MiB, weight 4.5 MiB, result 48 MiB, in two bytes an element.
    assert gate.least_bytes == 12 * MIB + 4.5 * MIB + 48 * MIB
    assert gate.tflops == pytest.approx(gate.flops / gate.time_us / 1e6)
    assert gate.time_us == recorded_facts["mlp-eager"].activities[gate.position].duration_us
    assert gate.intensity == pytest.approx(38.654705664e9 / (64.5 * MIB))


def test_products_of_attention_are_batched_over_batch_and_heads(recorded_facts: Facts) -> None:
    scores, out = gemm_costs(recorded_facts["attention-inplace-eager"])
    assert (scores.batch, scores.m, scores.n, scores.k) == (128, 1024, 1024, 64)
    assert (out.batch, out.m, out.n, out.k) == (128, 1024, 64, 1024)
    assert scores.flops + out.flops == 4 * 8 * 16 * 1024 * 1024 * 64


def test_linear_reads_its_product_from_addmm(recorded_facts: Facts) -> None:
    (gemm,) = gemm_costs(recorded_facts["linear-eager"])
    assert (gemm.m, gemm.n, gemm.k) == (1024, 64, 32)
    # A tile of 64 x 8, its first side along n: one tile across the 64 outputs, 128 down the 1024 rows.
    assert (gemm.tiles, gemm.waves) == (128, pytest.approx(128 / 132))


def test_least_bytes_are_inputs_weights_and_output_once(recorded_facts: Facts) -> None:
    assert least_bytes(recorded_facts["sdpa-flash-eager"]) == 4 * 8 * 16 * 1024 * 64 * 2
    assert least_bytes(recorded_facts["mlp-eager"]) == 2 * (2 * 64 * 128 * 768 + 3 * 768 * 3072)
    assert least_bytes(recorded_facts["ceiling-copy"]) == 2 * 2**31
    assert least_bytes(replace(recorded_facts["mlp-eager"], input_bytes=None)) is None


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
    # An H200 is sold with 989 dense bf16 TFLOP/s and 4.8 TB/s: what is measured lies below, and not far.
    assert 0.6e15 < ceilings.flops_per_s < 0.989e15
    assert 3.6e12 < ceilings.bytes_per_s < 4.8e12
    assert ceilings_of({"mlp-eager": recorded_facts["mlp-eager"]}) == Ceilings(None, None)


def test_a_ceiling_is_not_measured_in_another_element_type(recorded_facts: Facts) -> None:
    faster = replace(recorded_facts["matmul-add-4096-eager"], dtype="float16")
    matmul = recorded_facts["ceiling-matmul"]
    both = ceilings_of({"ceiling-matmul": matmul, "faster": faster})
    assert both == ceilings_of({"ceiling-matmul": matmul})


def test_no_share_is_above_the_whole(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    for case, facts in recorded_facts.items():
        if facts.status != "ok":
            continue
        cost = forward_cost(facts, ceilings)
        shares = [
            cost.share_of_compute,
            cost.share_of_memory,
            *(g.share_of_ceiling for g in gemm_costs(facts, ceilings)),
        ]
        assert all(share is None or share <= 1 for share in shares), case
        assert cost.times_floor is None or cost.times_floor >= 1, case


def test_causal_attention_needs_half_the_products_and_the_diagonal(recorded_facts: Facts) -> None:
    facts = recorded_facts["sdpa-flash-eager"]
    dense = 4 * 8 * 16 * 1024 * 1024 * 64
    pairs = sum(range(1, 1024 + 1))  # query i looks at i keys
    assert least_flops(facts) == 4 * 8 * 16 * 64 * pairs == 17_196_646_400
    cost = forward_cost(facts, Ceilings(8e14, 4e12))
    assert (cost.flops, cost.least_flops) == (dense, 4 * 8 * 16 * 64 * pairs)
    # 17.2 GFLOP at 800 TFLOP/s are 21.5 µs, more than 64 MiB at 4 TB/s, 16.8 µs.
    assert cost.floor_us == pytest.approx(21.4958)
    assert cost.tflops == pytest.approx(dense / facts.device_time_us / 1e6)  # dense
    assert least_flops(recorded_facts["mlp-eager"]) == 3 * 2 * 8192 * 3072 * 768


def test_bytes_out_of_the_cache_set_no_floor() -> None:
    times = {"device_time_us": 500.0, "device_busy_us": 500.0, "forward_time_us": 505.0, "cpu_time_us": 10.0}
    facts = CaseFacts("r", "c", flops=10**11, input_bytes=10**9, output_bytes=10**9, kernels=1, **times)
    cost = forward_cost(facts, Ceilings(5e14, 2e12))  # 2 GB in 0.5 ms: twice the ceiling
    assert (cost.share_of_memory, cost.bound) == (None, "unknown")
    assert cost.gb_per_s == pytest.approx(4000.0)
    assert cost.floor_us == pytest.approx(200.0)  # 0.1 TFLOP at 500 TFLOP/s


def test_floor_and_bound_of_a_forward() -> None:
    times = {"device_time_us": 2500.0, "device_busy_us": 2500.0, "forward_time_us": 2550.0, "cpu_time_us": 10.0}
    facts = CaseFacts("r", "c", flops=10**12, input_bytes=10**9, output_bytes=10**9, kernels=1, **times)
    cost = forward_cost(facts, Ceilings(5e14, 2e12))
    # 1 TFLOP at 500 TFLOP/s is 2 ms, 2 GB at 2 TB/s is 1 ms: the larger is the floor.
    assert cost.floor_us == pytest.approx(2000.0)
    assert cost.times_floor == pytest.approx(1.25)
    assert cost.times_floor_wall == pytest.approx(1.275)
    assert cost.intensity == 500.0
    assert cost.tflops == pytest.approx(400.0)
    assert cost.gb_per_s == pytest.approx(800.0)
    assert (cost.share_of_compute, cost.share_of_memory) == (pytest.approx(0.8), pytest.approx(0.4))
    assert cost.bound == "compute"
    assert forward_cost(facts, Ceilings(5e15, 2e12)).bound == "neither"  # 1 ms of memory, in 2.5 ms
    assert forward_cost(facts, Ceilings(5e15, 1e12)).bound == "memory"
    assert forward_cost(facts, Ceilings()).bound == "unknown"
    assert forward_cost(facts, Ceilings()).floor_us is None
    waits = replace(facts, forward_time_us=9000.0, cpu_time_us=8000.0)
    assert forward_cost(waits, Ceilings(5e14, 2e12)).bound == "launches"


def test_nothing_is_made_up_without_shapes_or_for_unpaired_kernels(recorded_facts: Facts) -> None:
    facts = recorded_facts["linear-eager"]
    assert gemm_costs(replace(facts, trace_path=None)) == []
    assert gemm_costs(recorded_facts["sdpa-flash-eager"]) == []
    assert forward_cost(CaseFacts("r", "c"), Ceilings(1e15, 1e12)).flops is None
