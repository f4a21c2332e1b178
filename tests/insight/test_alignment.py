"""Alignments on sequences made by hand: what was matched, replaced, fused, and by what signs."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from kernelbook.cases import Activity
from kernelbook.judge.alignment import align
from kernelbook.judge.comparisons import step_text
from tests.insight.insight_recorded import Facts

GEMM_A = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
GEMM_B = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)"
TABLE = Path(__file__).with_name("kernel_names.tsv")


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
COPY = ("aten::to", "aten::_to_copy", "aten::copy_")


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
        "Fused: five kernels (gelu, 3 × mul, add) into two kernels (triton_poi_fused_gelu_mul_0, "
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
        1, "memcpy", "Memcpy DtoD (Device -> Device)", 1.0, 5.0, op_path=("aten::masked_fill", "aten::copy_")
    )
    a = [*row(GEMM_A), memcpy, replace(row(SOFTMAX)[0], position=2)]
    b = row(GEMM_A, "triton_per_fused__softmax_masked_fill_0")
    assert told(a, b) == [("same", 1, 1), ("fused", 2, 1)]
    other = replace(memcpy, op_path=("aten::clone", "aten::copy_"))
    assert ("removed", 1, 0) in told([a[0], other, a[2]], b)


def test_a_kernel_without_ops_in_its_name_takes_what_lay_in_its_place() -> None:
    liger = row(GEMM_A, "_geglu_tanh_forward_kernel", GEMM_B)
    assert told(row(GEMM_A, GELU, MUL, GEMM_B), liger)[1] == ("fused", 2, 1)
    flash = row("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >()")
    assert told(row(GEMM_A, MUL, SOFTMAX, GEMM_B), flash) == [("fused", 4, 1)]
    assert sorted(told(row(MUL), flash)) == [("added", 0, 1), ("removed", 1, 0)]


def test_an_add_that_is_gone_went_into_the_epilogue_that_adds_now() -> None:
    plain, adding = (f"nvjet_sm90_tst_256x128_64x4_1x2_h_{kind}_coopA_NNT" for kind in ("bz", "badd"))
    assert told(row(plain, ADD), row(adding)) == [("replaced", 2, 1)]
    assert told(row(plain, GELU), row(adding)) == [("replaced", 1, 1), ("removed", 1, 0)]
    assert told(row(adding, ADD), row(plain)) == [("replaced", 1, 1), ("removed", 1, 0)]
    assert told(row(adding, ADD), row(adding)) == [("same", 1, 1), ("removed", 1, 0)]


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
    placed = [
        replace(two[0], op_path=("aten::ones", "aten::fill_")),
        replace(two[1], op_path=("aten::where", "aten::fill_")),
    ]
    for path, kinds_wanted in (("aten::ones", ["same", "removed"]), ("aten::where", ["removed", "same"])):
        other = [replace(one[0], op_path=(path, "aten::fill_"))]
        assert [s.kind for s in align(placed, other)] == kinds_wanted


LAYER_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)"
PRODUCTS = [f"nvjet_sm90_tst_{tile}_64x4_1x2_h_bz_coopA_TNT" for tile in ("256x128", "128x128", "192x128", "64x128")]
UNFUSED = (
    *((PRODUCTS[0], "aten::linear > aten::addmm"), (PRODUCTS[1], "aten::linear > aten::addmm"), (ADD, "aten::add")),
    *((LAYER_NORM, "aten::layer_norm > aten::native_layer_norm"), (PRODUCTS[2], "aten::linear > aten::addmm")),
    *((GELU, "aten::gelu"), (PRODUCTS[3], "aten::linear > aten::addmm"), (ADD, "aten::add")),
    (LAYER_NORM, "aten::layer_norm > aten::native_layer_norm"),
)
FUSED = (
    *(PRODUCTS[:2], ["triton_per_fused_add_addmm_native_layer_norm_1"], PRODUCTS[2:3]),
    *(["triton_poi_fused_addmm_gelu_2"], PRODUCTS[3:], ["triton_per_fused_add_addmm_native_layer_norm_3"]),
)


def test_layer_after_layer_what_is_gone_went_into_the_kernel_of_its_own_layer() -> None:
    layers = 4
    whole = [part for _ in range(layers) for part in UNFUSED]
    a = [
        replace(x, op_path=tuple(path.split(" > ")))
        for x, (_, path) in zip(row(*(n for n, _ in whole)), whole, strict=True)
    ]
    b = row(*(name for _ in range(layers) for part in FUSED for name in part))
    found = [(s.kind, [x.position % len(UNFUSED) for x in s.a]) for s in align(a, b)]
    layer = [("same", [0]), ("same", [1]), ("fused", [2, 3]), ("same", [4])]
    assert found == [*layer, ("replaced", [5]), ("same", [6]), ("fused", [7, 8])] * layers
    assert all(len({x.position // len(UNFUSED) for x in s.a}) == 1 for s in align(a, b))


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
