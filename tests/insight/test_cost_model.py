"""Costs worked out by hand from the shapes of the cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.case_facts import CaseFacts
from kernelbook.cost_model import Ceilings, ceilings_of, forward_cost, gemm_costs, least_bytes

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
    assert ceilings.flops_per_s == pytest.approx(2 * 8192**3 / (matmul.device_time_us * 1e-6))
    assert ceilings.bytes_per_s == pytest.approx(2**32 / (copy.device_time_us * 1e-6))
    # An H200 is sold with 989 dense bf16 TFLOP/s and 4.8 TB/s: what is measured lies below, and not far.
    assert 0.6e15 < ceilings.flops_per_s < 0.989e15
    assert 3.6e12 < ceilings.bytes_per_s < 4.8e12
    assert ceilings_of({"mlp-eager": recorded_facts["mlp-eager"]}) == Ceilings(None, None)


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
