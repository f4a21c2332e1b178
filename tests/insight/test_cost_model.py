"""Costs of forwards and the ceilings of a run, worked out by hand from the shapes of the cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.cases import Activity, CaseFacts, ProfiledForward
from kernelbook.judge.cost_model import (
    Ceilings,
    ForwardCost,
    ceilings_of,
    compulsory_bytes,
    dense_flops,
    forward_cost,
    gemm_costs,
    kernel_costs,
    measured_ceilings,
    rates_of,
    run_ceilings,
    used_ceilings,
    useful_flops,
)
from kernelbook.judge.cost_model.forward import LIMITERS
from kernelbook.judge.cost_model.roof import compute_type
from kernelbook.kernel_names import decode
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
    assert alone.compute("16-bit") == pytest.approx(2 * 8192**3 / (matmul.device_time_us * 1e-6), rel=0.005)
    # The product of size 4096 ran faster than that of size 8192, during which the device's power was capped.
    (faster,) = (a for a in recorded_facts["matmul-add-4096-eager"].activities if a.family == "GEMM")
    assert ceilings.compute("16-bit") == pytest.approx(2 * 4096**3 / (faster.duration_us * 1e-6))
    assert ceilings.compute("16-bit") > 1.02 * alone.compute("16-bit")
    assert ceilings.bytes_per_s == pytest.approx(2**32 / (copy.device_time_us * 1e-6))
    # An H200 is sold with 989 dense bf16 TFLOP/s and 4.8 TB/s: what is measured lies below, and not far.
    assert 0.6e15 < ceilings.compute("16-bit") < 0.989e15
    assert 3.6e12 < ceilings.bytes_per_s < 4.8e12


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


def in_fp32(facts: CaseFacts) -> CaseFacts:
    """The same case with fp32 inputs and all products on CUDA cores, by the names of the kernels."""
    sgemm = "ampere_sgemm_128x64_nn"
    forwards = [
        replace(f, activities=tuple(replace(a, name=sgemm) if a.family == "GEMM" else a for a in f.activities))
        for f in facts.forwards
    ]
    return replace(facts, dtype="float32", forwards=tuple(forwards))


def test_a_ceiling_is_not_measured_in_another_element_type(recorded_facts: Facts) -> None:
    faster = in_fp32(recorded_facts["matmul-add-4096-eager"])
    matmul = recorded_facts["ceiling-matmul"]
    both = measured_ceilings({"ceiling-matmul": matmul, "faster": faster})
    assert both == measured_ceilings({"ceiling-matmul": matmul})


def test_each_type_is_measured_by_its_own_ceiling_case(recorded_facts: Facts) -> None:
    matmul = recorded_facts["ceiling-matmul"]
    fp32 = replace(in_fp32(matmul), case="ceiling-fp32", device_time_us=20_000.0)
    rates = {c.compute_type: c for c in measured_ceilings({"ceiling-matmul": matmul, "ceiling-fp32": fp32})}
    assert (rates["16-bit"].case, rates["fp32"].case) == ("ceiling-matmul", "ceiling-fp32")
    assert rates["fp32"].data_sheet_per_s == 67e12
    assert rates["16-bit"].data_sheet_per_s == 989e12


def test_a_run_without_ceiling_cases_takes_them_from_elsewhere(recorded_facts: Facts) -> None:
    measured = measured_ceilings(recorded_facts)
    bare = {"mlp-eager": replace(recorded_facts["mlp-eager"], run="bare")}
    origins = {c.key: (c.origin, c.source) for c in run_ceilings(bare, measured)}
    assert origins["compute", "16-bit"] == origins["memory", None] == ("other run", "run h200-torch2.11")
    assert origins["compute", "fp32"] == ("recorded run", "the project's own measurement, torch 2.11")
    alone = {c.key: c for c in run_ceilings(bare)}
    assert alone["compute", "16-bit"].origin == alone["memory", None].origin == "recorded run"
    # The rates of the recorded run are those that are measured in it.
    assert alone["compute", "16-bit"].per_s == pytest.approx(measured[0].per_s, rel=1e-3)
    assert alone["memory", None].per_s == pytest.approx(measured[1].per_s, rel=1e-3)
    # What the cases ceiling-* took on an H200, in µs: sizes 4096 for fp64 and fp32, 8192 for the others.
    for kind, size, time_us in (("fp64", 4096, 2286), ("fp32", 4096, 2681), ("tf32", 8192, 2683), ("fp8", 8192, 759.3)):
        assert alone["compute", kind].per_s == pytest.approx(2 * size**3 / time_us * 1e6, rel=2e-3)
    rates = rates_of(list(alone.values()))
    assert (rates.l2_bytes_per_s, rates.l2_bytes) == (6166.2e9, 60 * 2**20)
    a100 = {"mlp-eager": replace(recorded_facts["mlp-eager"], run="bare", device="NVIDIA A100-SXM4-80GB")}
    rates = ceilings_of(a100)
    assert rates.flops_per_s == {"16-bit": 312e12, "tf32": 156e12, "fp32": 19.5e12, "fp64": 19.5e12}
    assert rates.bytes_per_s == pytest.approx(2.039e12)
    assert {c.origin for c in run_ceilings(a100)} == {"data sheet"}
    unknown = {"mlp-eager": replace(recorded_facts["mlp-eager"], device="GPU of tomorrow")}
    assert ceilings_of(unknown) == Ceilings()


def test_only_ceilings_that_judge_something_are_listed(recorded_facts: Facts) -> None:
    listed = used_ceilings(recorded_facts, run_ceilings(recorded_facts))
    assert [(c.quantity, c.compute_type, c.origin) for c in listed] == [
        ("compute", "16-bit", "measured"),
        ("compute", "fp32", "recorded run"),  # sdpa-math multiplies in fp32
        ("memory", None, "measured"),
    ]


def test_a_forward_is_judged_by_the_type_that_it_computes_in() -> None:
    times = {"device_time_us": 2690.0, "device_busy_us": 2690.0, "forward_time_us": 2690.0, "cpu_time_us": 10.0}
    sizes = {"flops": 2 * 4096**3, "input_bytes": 2 * 4 * 4096**2, "output_bytes": 4 * 4096**2}
    ceilings = Ceilings({"16-bit": 989e12, "tf32": 494.5e12, "fp32": 67e12}, 4.8e12)

    def cost(name: str, dtype: str) -> ForwardCost:
        forward = ProfiledForward(1, 0, 10.0, activities=(Activity(0, "kernel", name, 0.0, 2690.0),))
        facts = CaseFacts("r", "c", dtype=dtype, kernels=1, forwards=(forward,), chosen=(1, 0), **times, **sizes)
        return forward_cost(facts, ceilings)

    # 137.4 GFLOP in 2690 us are 51.1 TFLOP/s: 76 % of 67 on CUDA cores, and 5 % of what 16 bits could do.
    fp32 = cost("ampere_sgemm_128x64_nn", "float32")
    assert (fp32.compute_type, round(fp32.share_of_compute, 3), fp32.limiter) == ("fp32", 0.763, "compute")
    assert fp32.floor_us == pytest.approx(2 * 4096**3 / 67e6)
    tf32 = cost("ampere_fp16_s1688gemm_fp16_128x128_nn", "float32")
    assert tf32.compute_type == "16-bit"  # autocast
    slow = cost("ampere_sgemm_128x64_nn", "bfloat16")
    assert (slow.compute_type, round(slow.share_of_compute, 3)) == ("16-bit", 0.052)  # 16-bit inputs could do better
    sheet_is_too_low = forward_cost(
        replace(CaseFacts("r", "c", dtype="float32", kernels=1, **times, **sizes), device_time_us=1000.0), ceilings
    )
    assert sheet_is_too_low.share_of_compute is None  # 137 TFLOP/s were not computed in fp32


@pytest.mark.parametrize(
    ("dtype", "name", "expected"),
    [
        ("c10::BFloat16", "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", "16-bit"),
        ("float", "ampere_sgemm_128x64_nn", "fp32"),
        (
            "float",
            "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x8",
            "tf32",
        ),
        ("float32", "unknown_kernel", "fp32"),
        ("double", "unknown_kernel", "fp64"),
        ("c10::Float8_e4m3fn", "unknown_kernel", "fp8"),
        ("c10::BFloat16", "ampere_sgemm_128x64_nn", "fp32"),
        (None, "unknown_kernel", None),
        ("long", "unknown_kernel", None),
    ],
)
def test_compute_type(dtype: str | None, name: str, expected: str | None) -> None:
    assert compute_type(dtype, decode(name)) == expected


def test_no_share_is_above_the_whole(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    for case, facts in recorded_facts.items():
        cost = forward_cost(facts, ceilings)
        products = [gemm.share_of_roof for gemm in gemm_costs(facts, ceilings)]
        assert all(share is None or share <= 1 for share in [cost.share_of_compute, cost.share_of_memory, *products])
        assert cost.times_floor is None or cost.times_floor > 0.9999, case
        # A kernel that mostly reads may pass the rate of a copy by a little: its share is 1.
        kernels = [kernel.share_of_roof for kernel in kernel_costs(facts, ceilings)]
        assert all(share is None or share <= 1 for share in kernels), case


def test_causal_attention_counts_half_the_products_and_the_diagonal(recorded_facts: Facts) -> None:
    facts = recorded_facts["sdpa-flash-eager"]
    dense = 4 * 8 * 16 * 1024 * 1024 * 64
    pairs = sum(range(1, 1024 + 1))  # query i looks at i keys
    assert (dense_flops(facts), useful_flops(facts)) == (dense, 17_196_646_400)
    assert 4 * 8 * 16 * 64 * pairs == 17_196_646_400
    cost = forward_cost(facts, Ceilings({"16-bit": 8e14}, 4e12))
    # 17.2 GFLOP at 800 TFLOP/s are 21.5 µs, more than 64 MiB at 4 TB/s, 16.8 µs.
    assert cost.floor_us == pytest.approx(21.4958)
    assert useful_flops(recorded_facts["mlp-eager"]) == 3 * 2 * 8192 * 3072 * 768


def test_the_columns_of_a_row_agree_on_what_is_counted(recorded_facts: Facts) -> None:
    cost = forward_cost(recorded_facts["attention-flex-compile"], Ceilings({"16-bit": 8e14}, 4e12))
    assert cost.flops == 17_196_646_400
    assert cost.tflops == pytest.approx(17_196_646_400 / recorded_facts["attention-flex-compile"].device_time_us / 1e6)
    assert cost.share_of_compute == pytest.approx(cost.tflops / 800)
    assert cost.intensity == pytest.approx(17_196_646_400 / 2**26)


def test_bytes_out_of_the_cache_set_no_floor() -> None:
    times = {"device_time_us": 500.0, "device_busy_us": 500.0, "forward_time_us": 505.0, "cpu_time_us": 10.0}
    facts = CaseFacts(
        "r", "c", dtype="bfloat16", flops=10**11, input_bytes=10**9, output_bytes=10**9, kernels=1, **times
    )
    cost = forward_cost(facts, Ceilings({"16-bit": 5e14}, 2e12))  # 2 GB in 0.5 ms: twice the ceiling
    assert (cost.share_of_memory, cost.limiter) == (None, "unknown")
    assert cost.compulsory_gb_per_s == pytest.approx(4000.0)
    assert cost.floor_us == pytest.approx(200.0)  # 0.1 TFLOP at 500 TFLOP/s


def test_floor_and_limiter_of_a_forward() -> None:
    facts = CaseFacts(
        "r", "c", dtype="bfloat16", flops=10**12, input_bytes=10**9, output_bytes=10**9, kernels=1, **TIMES
    )
    cost = forward_cost(facts, Ceilings({"16-bit": 5e14}, 2e12))
    # 1 TFLOP at 500 TFLOP/s is 2 ms, 2 GB at 2 TB/s is 1 ms: the larger is the floor.
    assert cost.floor_us == pytest.approx(2000.0)
    assert cost.times_floor == pytest.approx(1.25)
    assert cost.times_floor_wall == pytest.approx(1.275)
    assert cost.intensity == 500.0
    assert cost.tflops == pytest.approx(400.0)
    assert cost.compulsory_gb_per_s == pytest.approx(800.0)
    assert (cost.share_of_compute, cost.share_of_memory) == (pytest.approx(0.8), pytest.approx(0.4))
    assert cost.limiter == "compute"
    assert forward_cost(facts, Ceilings({"16-bit": 5e15}, 1e12)).limiter == "memory"
    assert forward_cost(facts, Ceilings({"16-bit": 5e15}, 2e12)).limiter == "unknown"  # 1 of 2.5 ms, no kernels
    assert forward_cost(facts, Ceilings()).limiter == "unknown"
    assert forward_cost(facts, Ceilings()).floor_us is None
    waits = replace(facts, forward_time_us=9000.0, cpu_time_us=8000.0)
    assert forward_cost(waits, Ceilings({"16-bit": 5e14}, 2e12)).limiter == "overhead"


def test_a_forward_without_flops_may_be_limited_by_memory() -> None:
    copy = CaseFacts("r", "c", input_bytes=2 * 10**9, output_bytes=2 * 10**9, kernels=1, **TIMES)
    assert forward_cost(copy, Ceilings({"16-bit": 5e14}, 2e12)).limiter == "memory"  # 2 of 2.5 ms
    assert forward_cost(copy, Ceilings({"16-bit": 5e14}, 8e12)).limiter == "unknown"  # FLOPs are unknown


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
    assert found["matmul-add-64-eager"] == found["linear-compile"] == found["attention-flex-compile"] == "overhead"
    assert found["mlp-liger"] == "compute"
    # The floor is 21 µs; what their kernels move takes 520 of 948 µs, 647 of 1,076, 268 of 325, and of math, without
    # the FLOPs in fp32, 1,501 of 2,632 and 583 of 1,248: the first factor is the larger in each.
    for case in ("inplace-eager", "naive-eager", "naive-compile"):
        assert found[f"attention-{case}"] == "excess traffic or work"
    assert found["sdpa-math-eager"] == found["sdpa-math-compile"] == "excess traffic or work"
    # One kernel that moves what it must, at a fifth of the compute ceiling.
    assert found["sdpa-flash-eager"] == found["sdpa-efficient-eager"] == "kernel efficiency"


def test_a_limiter_says_in_how_many_processes_it_is_so(recorded_facts: Facts) -> None:
    ceilings = ceilings_of(recorded_facts)
    cost = forward_cost(recorded_facts["attention-flex-compile"], ceilings)
    # The device is busy for 81 µs of 83 in the first process, and of 91 and 127 in the others.
    assert (cost.limiter, cost.limiter_processes, cost.processes) == ("overhead", 2, 3)
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


def l2_copy(copy: CaseFacts, time_us: float) -> CaseFacts:
    """The recorded copy as 2 copies of 10 MB in the L2 cache of 60 MB, each of this length."""
    (memcpy,) = (activity for activity in copy.activities if activity.category == "memcpy")
    copies = tuple(replace(memcpy, position=i, bytes=10_000_000, duration_us=time_us) for i in range(2))
    forward = ProfiledForward(1, 0, 20.0, 2 * time_us, 2 * time_us, 0.0, copies)
    sizes = {"input_bytes": 10_000_000, "output_bytes": 10_000_000, "l2_bytes": 60_000_000}
    names = {"case": "ceiling-copy-l2", "variant": "copy-l2"}
    return replace(copy, forwards=(forward,), chosen=(1, 0), device_time_us=2 * time_us, **names, **sizes)


def test_the_copy_in_l2_measures_a_ceiling_of_its_own(recorded_facts: Facts) -> None:
    copy = recorded_facts["ceiling-copy"]
    # 10 MB read and 10 MB written in 4 us are 5 TB/s; memory has 4.26.
    memory, cache = measured_ceilings({"ceiling-copy": copy, "l2": l2_copy(copy, 4.0)})
    assert (memory.case, memory.largest_bytes) == ("ceiling-copy", None)
    assert (cache.quantity, cache.case, cache.largest_bytes) == ("L2 cache", "ceiling-copy-l2", 60_000_000)
    assert cache.per_s == pytest.approx(5e12)
    assert (cache.data_sheet_per_s, cache.compute_type, cache.dtype) == (None, None, None)
    ceilings = ceilings_of({"ceiling-copy": copy, "l2": l2_copy(copy, 4.0)})
    assert (ceilings.l2_bytes_per_s, ceilings.l2_bytes) == (pytest.approx(5e12), 60_000_000)
    # 20 MB in 5 us are 4 TB/s, less than memory has: that is no ceiling of the cache.
    slow = measured_ceilings({"ceiling-copy": copy, "l2": l2_copy(copy, 5.0)})
    assert [ceiling.quantity for ceiling in slow] == ["memory"]
    # Alone it says nothing about memory.
    assert [ceiling.quantity for ceiling in measured_ceilings({"l2": l2_copy(copy, 4.0)})] == ["L2 cache"]


@pytest.mark.parametrize(
    ("moved", "time_us", "share_of_memory", "share_of_roof", "roof", "least_us"),
    [
        # 4 TB/s of memory, 8 TB/s of an L2 cache of 60 MB
        (40_000_000, 20.0, 0.5, 0.5, "memory", 10.0),
        (40_000_000, 9.8, 1.0, 1.0, "memory", 10.0),  # 4.08 TB/s: within the tolerance of memory
        (40_000_000, 8.0, None, 0.625, "L2 cache", 5.0),  # 5 TB/s, faster than memory can
        (40_000_000, 4.9, None, 1.0, "L2 cache", 5.0),  # 2 % above the measured cache
        (40_000_000, 4.0, None, None, "L2 cache", 5.0),  # 10 TB/s: neither ceiling explains it
        (80_000_000, 16.0, None, None, "memory", 20.0),  # 5 TB/s, and too large for the cache
    ],
)
def test_bytes_that_fit_in_l2_are_judged_by_its_ceiling(
    moved: int, time_us: float, share_of_memory: float | None, share_of_roof: float | None, roof: str, least_us: float
) -> None:
    copied = Activity(0, "memcpy", "Memcpy DtoD (Device -> Device)", 0.0, time_us, bytes=moved // 2)
    times = {"device_time_us": time_us, "device_busy_us": time_us, "forward_time_us": time_us, "cpu_time_us": 1.0}
    sizes = {"input_bytes": moved // 2, "output_bytes": moved // 2}
    forward = ProfiledForward(1, 0, 1.0, activities=(copied,))
    facts = CaseFacts(
        "r", "c", dtype="float32", memcpys=1, kernels=0, forwards=(forward,), chosen=(1, 0), **times, **sizes
    )
    ceilings = Ceilings({}, 4e12, 8e12, 60_000_000)
    (cost,) = kernel_costs(facts, ceilings)
    assert (cost.share_of_memory, cost.share_of_roof) == (share_of_memory, share_of_roof)
    assert (cost.roof, cost.least_us) == (roof, pytest.approx(least_us))
    whole = forward_cost(facts, ceilings)
    from_cache = roof == "L2 cache"
    assert whole.floor_us == (pytest.approx(least_us) if from_cache or moved / time_us <= 4e6 else None)


def test_the_fp8_product_measures_fp8_whatever_its_kernel_is_called(recorded_facts: Facts) -> None:
    matmul = recorded_facts["ceiling-matmul"]
    fp8 = replace(matmul, case="ceiling-fp8", variant="matmul-fp8", device_time_us=800.0)
    rates = {c.compute_type: c for c in measured_ceilings({"ceiling-matmul": matmul, "ceiling-fp8": fp8})}
    assert rates["fp8"].per_s == pytest.approx(2 * 8192**3 / 800e-6)
    assert rates["fp8"].data_sheet_per_s == 1979e12
    assert rates["16-bit"].case == "ceiling-matmul"
