"""Comparisons: alignments on recorded pairs and on sequences made by hand; ratios on samples of known medians."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from insight_raw import device_time, time_of, usual

from kernelbook.alignment import Step, align
from kernelbook.case_facts import Activity, CaseFacts
from kernelbook.comparisons import compare, ratio_of, refusal, step_text

GEMM_A = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
GEMM_B = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)"
TABLE = Path(__file__).with_name("kernel_names.tsv")
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


GELU = "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>"
MUL = "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<float, MulFunctor<float> > >"
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
CAST = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
)
COPY = "aten::to > aten::_to_copy > aten::copy_"


def told(a: list[Activity], b: list[Activity], *sizes: dict[int, tuple[int, ...]]) -> list[tuple[str, int, int]]:
    return [(step.kind, len(step.a), len(step.b)) for step in align(a, b, *sizes)]


def test_several_kernels_for_one_triton_kernel_are_a_fusion() -> None:
    (first, step, last) = align(
        row(GEMM_A, MUL, SOFTMAX, GEMM_B), row(GEMM_A, "triton_per_fused_mul__softmax_0", GEMM_B)
    )
    assert (first.kind, step.kind, last.kind) == ("same", "fused", "same")
    assert (len(step.a), len(step.b), step.delta_us) == (2, 1, -10.0)


def test_a_product_does_not_go_into_a_pointwise_kernel_and_what_no_name_lists_was_removed() -> None:
    fused = row(GEMM_A, "triton_per_fused_mul__softmax_0", GEMM_B)
    assert told(row(GEMM_A, "ampere_sgemm_128x64_nn", SOFTMAX, GEMM_B), fused) == [
        *(("same", 1, 1), ("removed", 1, 0), ("replaced", 1, 1), ("same", 1, 1)),
    ]  # fmt: skip
    assert told(row(GEMM_A, ADD, SOFTMAX, GEMM_B), fused)[1] == ("removed", 1, 0)


def test_a_fusion_takes_in_what_was_removed_before_another_kernel_if_its_name_says_so() -> None:
    fused = "triton_poi_fused_gelu_mul_0"
    assert told(row(GELU, GEMM_A, MUL), row(GEMM_A, fused)) == [("same", 1, 1), ("fused", 2, 1)]
    # All of an op that is gone went into the only kernel that names it; what comes after that kernel did not.
    assert told(row(GELU, GELU, GEMM_A, MUL), row(GEMM_A, fused)) == [("same", 1, 1), ("fused", 3, 1)]
    assert told(row(GELU, MUL, GEMM_A, GELU), row(fused, GEMM_A)) == [
        *(("fused", 2, 1), ("same", 1, 1), ("removed", 1, 0)),
    ]  # fmt: skip


def test_the_first_of_an_op_went_into_the_first_kernel_that_names_it() -> None:
    a = row(MUL, GEMM_A, MUL, GELU, times=(1.0, 10.0, 2.0, 4.0))
    b = row("triton_poi_fused_mul_0", GEMM_A, "triton_poi_fused_gelu_mul_1")
    steps = align(a, b)
    assert [(step.kind, step.time_a_us) for step in steps] == [("replaced", 1.0), ("same", 10.0), ("fused", 6.0)]


def test_of_two_kernels_that_name_an_op_it_is_not_said_which_took_it() -> None:
    b = row("triton_poi_fused_gelu_mul_0", "triton_poi_fused_add_mul_1")
    (step,) = align(row(GELU, MUL, MUL, MUL, ADD), b)
    assert (step.kind, len(step.a), len(step.b), step.delta_us) == ("fused", 5, 2, -30.0)
    assert step_text(step, 100.0) == (
        "Fused: five kernels (gelu, 3 x mul, add) into two kernels (triton_poi_fused_gelu_mul_0, "
        "triton_poi_fused_add_mul_1), 30.0 µs less, 30.0 %."
    )


def test_a_cast_of_a_larger_tensor_did_not_go_into_a_kernel_of_smaller_ones() -> None:
    a = [replace(x, op_path=COPY) for x in row(CAST, CAST)]
    b = row("triton_poi_fused__to_copy_3")
    sizes = {0: (64, 64), 1: (1024, 1024)}, {0: (64, 64)}
    assert told(a, b, *sizes) == [("replaced", 1, 1), ("removed", 1, 0)]
    assert told(a[::-1], b, {0: (64, 64), 1: (1024, 1024)}, {0: (64, 64)}) == [("removed", 1, 0), ("replaced", 1, 1)]
    assert told(a, b) == [("fused", 2, 1)]  # no sizes: both may have


def test_a_memcpy_goes_where_the_op_went_that_made_it() -> None:
    memcpy = Activity(
        1, "memcpy", "Memcpy DtoD (Device -> Device)", 1.0, 5.0, op_path="aten::masked_fill > aten::copy_"
    )
    a = [*row(GEMM_A), memcpy, replace(row(SOFTMAX)[0], position=2)]
    b = row(GEMM_A, "triton_per_fused__softmax_masked_fill_0")
    assert told(a, b) == [("same", 1, 1), ("fused", 2, 1)]
    other = replace(memcpy, op_path="aten::clone > aten::copy_")
    assert ("removed", 1, 0) in told([a[0], other, a[2]], b)


def test_a_kernel_without_ops_in_its_name_takes_what_lay_in_its_place() -> None:
    liger = row(GEMM_A, "_geglu_tanh_forward_kernel", GEMM_B)
    assert told(row(GEMM_A, GELU, MUL, GEMM_B), liger)[1] == ("fused", 2, 1)
    flash = row("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >()")
    assert told(row(GEMM_A, MUL, SOFTMAX, GEMM_B), flash) == [("fused", 4, 1)]
    assert sorted(told(row(MUL), flash)) == [("added", 0, 1), ("removed", 1, 0)]


def test_seen_from_the_compiled_side_a_fusion_is_a_split() -> None:
    (first, step) = align(row(GEMM_A, "triton_poi_fused_gelu_mul_0"), row(GEMM_A, GELU, MUL))
    assert (first.kind, step.kind, step.delta_us) == ("same", "split", 10.0)
    assert step_text(step, None) == "Split: triton_poi_fused_gelu_mul_0 into two kernels (gelu, mul), 10.0 µs more."
    assert told(row("triton_poi_fused_mul_0", GELU), row(GELU)) == [("removed", 1, 0), ("same", 1, 1)]
    flash = row("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >()")
    assert told(flash, row(GEMM_A, SOFTMAX, GEMM_B)) == [("split", 1, 3)]


def test_sizes_and_paths_decide_between_kernels_of_one_name() -> None:
    two, one = row(CAST, CAST), row(CAST)
    large, small = (1024, 1024), (64, 64)
    assert [s.kind for s in align(two, one, {0: small, 1: large}, {0: large})] == ["removed", "same"]
    assert [s.kind for s in align(two, one, {0: large, 1: small}, {0: large})] == ["same", "removed"]
    placed = [replace(two[0], op_path="aten::ones > aten::fill_"), replace(two[1], op_path="aten::where > aten::fill_")]
    for path, kinds_wanted in (("aten::ones", ["same", "removed"]), ("aten::where", ["removed", "same"])):
        other = [replace(one[0], op_path=f"{path} > aten::fill_")]
        assert [s.kind for s in align(placed, other)] == kinds_wanted


def test_whatever_is_compared_each_activity_is_told_once(recorded_facts: Facts) -> None:
    generator = random.Random(5)
    names = [line.split("\t")[0] for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    made = [row(*(generator.choice(names) for _ in range(generator.randrange(30)))) for _ in range(60)]
    recorded = [list(facts.activities) for facts in recorded_facts.values()]
    for a, b in [*zip(made[::2], made[1::2], strict=True), *product(recorded, recorded)]:
        steps = align(a, b)
        for side, whole in (("a", a), ("b", b)):
            places = [x.position for step in steps for x in getattr(step, side)]
            assert sorted(places) == [x.position for x in whole]
        assert sum(step.delta_us for step in steps) == pytest.approx(sum_of(b) - sum_of(a), abs=1e-6)


def sum_of(activities: list[Activity]) -> float:
    return sum(activity.duration_us for activity in activities)


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


# Positions below are read off the recorded traces by hand: of sdpa-math-eager 0-2 cast q, k and v; 3 and 9 scale q and
# k; 4-8 make the mask; 10 is q times k; 11 adds the mask; 12-16 are the safe softmax; 17 casts the weights, which
# nobody reads; 18 is weights times v; 19 casts the output.
IN_THE_MASK_AND_SOFTMAX = (4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16)


def at(folder: Path, annotation: str, *positions: int) -> float:
    """The usual time of the activities at these positions together, from the JSON of the traces."""
    return usual(folder, annotation, lambda f: sum(by_start(f)[p]["dur"] for p in positions))


def by_start(forward: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return sorted(forward["device"], key=lambda event: event["ts"])


def places(steps: Sequence[Step], kind: str) -> list[tuple[list[int], list[int]]]:
    return [([x.position for x in s.a], [x.position for x in s.b]) for s in steps if s.kind == kind]


def test_compiled_math_fuses_eleven_kernels_into_one_and_drops_the_cast_that_nobody_reads(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    c = compare(recorded_facts["sdpa-math-eager"], recorded_facts["sdpa-math-compile"])
    assert places(c.steps, "fused") == [([0, 3], [0]), ([1, 9], [1]), ([*IN_THE_MASK_AND_SOFTMAX], [3])]
    assert places(c.steps, "replaced") == [([10], [2]), ([2], [4]), ([19], [6])]
    assert places(c.steps, "removed") == [([17], [])]
    assert places(c.steps, "same") == [([18], [5])]
    eager, compiled = (recorded_h200 / f"sdpa-math-{mode}" for mode in ("eager", "compile"))
    saved = at(eager, "sdpa_fwd", *IN_THE_MASK_AND_SOFTMAX) - at(compiled, "sdpa_fwd", 3)
    (large,) = [step for step in c.steps if len(step.a) == len(IN_THE_MASK_AND_SOFTMAX)]
    assert -large.delta_us == pytest.approx(saved, rel=0.005)
    assert saved == pytest.approx(1110, abs=5)
    said = "Fused: eleven kernels (4 x fill, tril, 2 x where, add, softmax, isneginf, all) into triton_per_fused__safe"
    assert any(text.startswith(said) and "1.11 ms less" in text for text in c.sentences)
    assert any(text.startswith("Removed: cast fp32 to bf16, 186 µs") for text in c.sentences)


def test_a_mask_added_stands_for_a_mask_filled_in_and_the_scores_are_scaled_before(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    c = compare(recorded_facts["attention-inplace-eager"], recorded_facts["sdpa-math-eager"])
    assert places(c.steps, "replaced") == [([1], [10]), ([2], [3, 9]), ([3], [11]), ([4], [12]), ([5], [18])]
    assert places(c.steps, "removed") == [([0], [])]  # the memset of cuBLAS
    assert places(c.steps, "added") == [([], [p]) for p in (0, 1, 2, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 19)]
    inplace, math = recorded_h200 / "attention-inplace-eager", recorded_h200 / "sdpa-math-eager"
    mask = next(step for step in c.steps if [x.position for x in step.a] == [3])
    more = at(math, "sdpa_fwd", 11) - at(inplace, "attn_fwd", 3)
    assert mask.delta_us == pytest.approx(more, abs=0.5)
    assert step_text(mask, None) == f"Replaced: masked_fill by add, {more:.1f} µs more."
    scale = next(step for step in c.steps if [x.position for x in step.a] == [2])
    assert step_text(scale, None).startswith("Replaced: mul by 2 x mul, ")
    assert any("(fp32 instead of bf16)" in text for text in c.sentences)


def test_compiled_attention_and_mlp_fuse_all_between_their_products(recorded_facts: Facts, recorded_h200: Path) -> None:
    c = compare(recorded_facts["attention-naive-eager"], recorded_facts["attention-naive-compile"])
    assert places(c.steps, "fused") == [([2, 3, 4, 5], [2])]
    eager, compiled = (recorded_h200 / f"attention-naive-{mode}" for mode in ("eager", "compile"))
    saved = at(eager, "attn_fwd", 2, 3, 4, 5) - at(compiled, "attn_fwd", 2)
    assert -next(s for s in c.steps if s.kind == "fused").delta_us == pytest.approx(saved, rel=0.005)
    assert any("three kernels and one memcpy (mul, Memcpy DtoD, masked_fill, softmax)" in t for t in c.sentences)
    for other, saved_by_hand in (("mlp-compile", 10.7), ("mlp-liger", 22.2)):
        c = compare(recorded_facts["mlp-eager"], recorded_facts[other])
        assert places(c.steps, "fused") == [([4, 5], [4])]
        saved = at(recorded_h200 / "mlp-eager", "mlp_fwd", 4, 5) - at(recorded_h200 / other, "mlp_fwd", 4)
        assert -next(s for s in c.steps if s.kind == "fused").delta_us == pytest.approx(saved, abs=0.5)
        assert saved == pytest.approx(saved_by_hand, abs=0.5)


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
