"""Comparisons: alignments on recorded pairs and on sequences made by hand; ratios on samples of known medians."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from insight_raw import device_time, time_of, usual

from kernelbook.alignment import align
from kernelbook.case_facts import Activity, CaseFacts
from kernelbook.comparisons import compare, ratio_of, refusal

GEMM_A = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
GEMM_B = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)"
Facts = dict[str, CaseFacts]


def row(*names: str, times: tuple[float, ...] | None = None) -> list[Activity]:
    """Kernels of these names, 10 µs each or as given."""
    lengths = times or (10.0,) * len(names)
    return [Activity(i, "kernel", n, 100.0 * i, t) for i, (n, t) in enumerate(zip(names, lengths, strict=True))]


def kinds(a: list[Activity], b: list[Activity]) -> list[str]:
    return [step.kind for step in align(a, b)]


def test_equal_sequences_are_the_same_and_times_may_change() -> None:
    assert kinds(row(GEMM_A, SOFTMAX), row(GEMM_A, SOFTMAX)) == ["same", "same"]
    assert kinds(row(GEMM_A, times=(10.0,)), row(GEMM_A, times=(12.0,))) == ["changed"]
    assert kinds(row(GEMM_A, times=(10.0,)), row(GEMM_A, times=(10.9,))) == ["same"]
    assert kinds(row(GEMM_A, times=(1.0,)), row(GEMM_A, times=(1.9,))) == ["same"]  # under a microsecond


def test_what_is_missing_was_removed_and_what_is_new_was_added() -> None:
    assert kinds(row(GEMM_A, SOFTMAX, GEMM_B), row(GEMM_A, GEMM_B)) == ["same", "removed", "same"]
    assert kinds(row(GEMM_A, GEMM_B), row(GEMM_A, SOFTMAX, GEMM_B)) == ["same", "added", "same"]
    assert kinds([], row(GEMM_A)) == ["added"]
    assert kinds([], []) == []


def test_only_one_family_replaces_another() -> None:
    assert kinds(row(GEMM_A), row(GEMM_B)) == ["replaced"]
    assert sorted(kinds(row(GEMM_A), row(SOFTMAX))) == ["added", "removed"]


def test_several_kernels_for_one_triton_kernel_are_a_fusion() -> None:
    (first, step, last) = align(
        row(GEMM_A, "ampere_sgemm_128x64_nn", SOFTMAX, GEMM_B), row(GEMM_A, "triton_per_fused_mul__softmax_0", GEMM_B)
    )
    assert (first.kind, step.kind, last.kind) == ("same", "fused", "same")
    assert (len(step.a), len(step.b), step.delta_us) == (2, 1, -10.0)


def test_a_fusion_takes_in_what_was_removed_before_another_kernel_if_its_name_says_so() -> None:
    gelu = "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>"
    mul = "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<float, MulFunctor<float> > >"
    fused = "triton_poi_fused_gelu_mul_0"
    steps = align(row(gelu, GEMM_A, mul), row(GEMM_A, fused))
    assert [(step.kind, len(step.a)) for step in steps] == [("same", 1), ("fused", 2)]
    # Of two that were removed it cannot be said which one went in.
    steps = align(row(gelu, gelu, GEMM_A, mul), row(GEMM_A, fused))
    assert [step.kind for step in steps] == ["removed", "removed", "same", "replaced"]


def test_long_sequences_are_aligned_too() -> None:
    long = row(*[GEMM_A, SOFTMAX] * 600)
    steps = align(long, long[:-1])
    assert [step.kind for step in steps if step.kind != "same"] == ["removed"]


def test_in_place_removed_one_memcpy_and_what_it_saved(shared_facts: Facts) -> None:
    c = compare(shared_facts["attention-naive-eager"], shared_facts["attention-inplace-eager"])
    assert "Removed: Memcpy DtoD, 128 µs, 11.9 %." in c.sentences
    assert "The same five kernels by name." in c.sentences
    assert [step.kind for step in c.steps if step.kind != "same"] == ["removed"]
    assert any("aten::clone" in op.names for op in c.op_steps if op.kind == "removed")


def test_in_place_of_the_shipped_run(recorded_facts: Facts, recorded_h200: Path) -> None:
    c = compare(recorded_facts["attention-naive-eager"], recorded_facts["attention-inplace-eager"])
    (removed,) = [step for step in c.steps if step.kind == "removed"]
    memcpy = usual(recorded_h200 / "attention-naive-eager", "attn_fwd", time_of("Memcpy DtoD"))
    assert removed.delta_us == pytest.approx(-memcpy, rel=0.05)
    assert any(text.startswith(f"Removed: Memcpy DtoD, {-removed.delta_us:.0f} µs, ") for text in c.sentences)


@pytest.mark.parametrize("fixture", ["shared_facts", "recorded_facts"])
def test_twenty_against_five_kernels_and_the_ratio(
    fixture: str, request: pytest.FixtureRequest, recorded_h200: Path
) -> None:
    facts = request.getfixturevalue(fixture)
    c = compare(facts["attention-inplace-eager"], facts["sdpa-math-eager"])
    assert c.sentences[0].startswith("20 kernels against 5, 2.")
    if fixture == "recorded_facts":
        math = usual(recorded_h200 / "sdpa-math-eager", "sdpa_fwd", device_time)
        inplace = usual(recorded_h200 / "attention-inplace-eager", "attn_fwd", device_time)
        assert c.device_ratio == pytest.approx(math / inplace, rel=1e-3)
    else:
        assert c.device_ratio == pytest.approx(2622 / 937, abs=0.02)  # by hand from the recorded sums
    assert c.ratio is not None
    assert c.ratio.verdict == "not tested"


@pytest.mark.parametrize("fixture", ["shared_facts", "recorded_facts"])
def test_compile_leaves_the_linear_kernel_and_fuses_two_of_the_mlp(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    facts = request.getfixturevalue(fixture)
    linear = compare(facts["linear-eager"], facts["linear-compile"])
    assert "The same kernel by name." in linear.sentences
    assert [step.kind for step in linear.steps] == ["same"]
    mlp = compare(facts["mlp-eager"], facts["mlp-compile"])
    assert "The same three GEMMs by name." in mlp.sentences
    (fused,) = [step for step in mlp.steps if step.kind == "fused"]
    assert [a.decoded.fused_ops for a in fused.a] == [("gelu",), ("mul",)]
    assert fused.b[0].name == "triton_poi_fused__unsafe_view_gelu_mul_0"


def test_times_of_different_machines_are_not_compared(shared_facts: Facts) -> None:
    here = shared_facts["linear-eager"]
    there = replace(here, run="a100", device="NVIDIA A100-SXM4-80GB")
    c = compare(here, there)
    assert c.refused == "the GPU differs: NVIDIA H200 and NVIDIA A100-SXM4-80GB"
    assert c.ratio is None
    assert c.device_ratio is None
    assert "The same kernel by name." in c.sentences
    assert refusal(here, replace(here, dtype="float16")) == "the element type differs: bfloat16 and float16"
    assert refusal(here, replace(here, params={"batch": 2})) is not None
    assert refusal(here, replace(here, driver="550")) == "the driver differs: unknown and 550"
    assert refusal(here, replace(here, status="failed", reason="killed")) == "linear-eager of h200 failed: killed"


# --- ratios ----------------------------------------------------------------------------------------------------------


def processes(number: int, centre: float, spread: float = 0.01, seed: int = 0) -> list[np.ndarray]:
    """Forward times of so many processes around a centre."""
    random = np.random.default_rng(seed)
    return [centre * (1 + spread * random.standard_normal(40)) for _ in range(number)]


def test_a_real_difference_is_shown_with_an_interval_that_holds_it() -> None:
    ratio = ratio_of(processes(7, 100.0), processes(7, 110.0, seed=1))
    assert ratio is not None
    assert ratio.verdict == "slower"
    # Seven against seven without overlap: 2 of the 3432 ways to deal the ranks.
    assert ratio.p_value == pytest.approx(2 / 3432)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 1.10 < ratio.high
    faster = ratio_of(processes(7, 110.0), processes(7, 100.0, seed=1))
    assert faster is not None
    assert faster.verdict == "faster"


def test_under_three_percent_or_without_a_small_p_no_difference_is_shown() -> None:
    small = ratio_of(processes(7, 100.0, 0.001), processes(7, 102.0, 0.001, seed=1))
    assert small is not None
    assert (small.verdict, small.p_value) == ("no difference shown", pytest.approx(2 / 3432))
    same = ratio_of(processes(8, 100.0), processes(8, 100.0, seed=1))
    assert same is not None
    assert same.verdict == "no difference shown"


def test_six_processes_are_not_tested_and_one_forward_has_no_interval() -> None:
    few = ratio_of(processes(6, 100.0), processes(9, 150.0))
    assert few is not None
    assert (few.verdict, few.p_value) == ("not tested", None)
    single = ratio_of([np.array([100.0])], [np.array([150.0])])
    assert single is not None
    assert (single.ratio, single.low, single.high) == (1.5, None, None)
    assert ratio_of([], processes(1, 1.0)) is None
