"""Comparisons: alignments of recorded pairs against their raw traces; ratios on samples of known medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelbook.cases import Activity, CaseFacts, ProfiledForward
from kernelbook.judge.alignment import Step
from kernelbook.judge.comparisons import Comparison, compare, refusal, step_text
from kernelbook.judge.findings.rules import Scene
from kernelbook.judge.insight_tables import comparison_rows
from kernelbook.judge.ratios import ratio_of, ratio_text, vote
from tests.insight.insight_raw import device_time, time_of, usual
from tests.insight.insight_recorded import Facts


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


def _said_ratio(c: Comparison) -> float:
    """The ratio of device times that its first sentence gives: `20 kernels against 5, 2.80× the device time`."""
    return float(c.sentences[0].partition(", ")[2].partition("× the device time")[0])


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
        assert _said_ratio(c) == pytest.approx(math / inplace, abs=0.01)
    else:
        assert _said_ratio(c) == pytest.approx(2622 / 937, abs=0.02)  # by hand from the recorded sums
    assert c.ratio is not None
    several = len(facts["sdpa-math-eager"].processes) > 1
    assert c.ratio.verdict == ("slower" if several else "not tested")


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


def each_at(folder: Path, annotation: str, *positions: int) -> float:
    """The sum of the usual times of the activities at these positions, from the JSON of the traces."""
    return sum(at(folder, annotation, position) for position in positions)


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
    said = "Fused: eleven kernels (4 × fill, tril, 2 × where, add, softmax, isneginf, all) into triton_per_fused__safe"
    assert any(text.startswith(said) and f"{saved / 1e3:.2f} ms less" in text for text in c.sentences)
    cast = at(eager, "sdpa_fwd", 17)
    assert any(text.startswith(f"Removed: cast fp32 to bf16, {cast:.0f} µs") for text in c.sentences)


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
    assert step_text(scale, None).startswith("Replaced: mul by 2 × mul, ")
    assert any("(fp32 instead of bf16)" in text for text in c.sentences)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_x",
            "",
        ),
        ("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT", "ampere_sgemm_128x64_nn", " (fp32 instead of bf16)"),
    ],
)
def test_a_name_that_says_16_bits_changes_no_type(before: str, now: str, said: str) -> None:
    a, b = (Activity(0, "kernel", name, 0.0, time) for name, time in ((before, 20.0), (now, 30.0)))
    text = step_text(Step("replaced", (a,), (b,)), None)
    assert text.endswith(f"{said}, 10.0 µs more.")
    assert ("instead of" in text) == bool(said)


def test_sdpa_by_cudnn_is_in_the_type_of_the_others(recorded_facts: Facts) -> None:
    for case in ("sdpa-flash-eager", "sdpa-efficient-eager"):
        c = compare(recorded_facts[case], recorded_facts["sdpa-auto-eager"])
        assert [step.kind for step in c.steps] == ["added", "replaced"]
        assert not any("instead of" in text for text in c.sentences)


def test_compiled_attention_and_mlp_fuse_all_between_their_products(recorded_facts: Facts, recorded_h200: Path) -> None:
    c = compare(recorded_facts["attention-naive-eager"], recorded_facts["attention-naive-compile"])
    assert places(c.steps, "fused") == [([2, 3, 4, 5], [2])]
    eager, compiled = (recorded_h200 / f"attention-naive-{mode}" for mode in ("eager", "compile"))
    saved = at(eager, "attn_fwd", 2, 3, 4, 5) - at(compiled, "attn_fwd", 2)
    assert -next(s for s in c.steps if s.kind == "fused").delta_us == pytest.approx(saved, rel=0.005)
    assert any("three kernels and one memcpy (mul, Memcpy DtoD, masked_fill, softmax)" in t for t in c.sentences)
    # The medians of gelu and mul are summed; that of both together is another, as in turn either is slow.
    for other in ("mlp-compile", "mlp-liger"):
        c = compare(recorded_facts["mlp-eager"], recorded_facts[other])
        assert places(c.steps, "fused") == [([4, 5], [4])]
        saved = each_at(recorded_h200 / "mlp-eager", "mlp_fwd", 4, 5) - at(recorded_h200 / other, "mlp_fwd", 4)
        assert -next(s for s in c.steps if s.kind == "fused").delta_us == pytest.approx(saved, abs=0.001)


def test_compiled_matmul_adds_in_its_epilogue_after_a_copy(recorded_facts: Facts, recorded_h200: Path) -> None:
    c = compare(recorded_facts["matmul-add-4096-eager"], recorded_facts["matmul-add-4096-compile"])
    assert (places(c.steps, "replaced"), places(c.steps, "added")) == ([([1, 2], [2])], [([], [0])])
    eager, compiled = (recorded_h200 / f"matmul-add-4096-{mode}" for mode in ("eager", "compile"))
    saved = at(eager, "matmul_add", 1, 2) - at(compiled, "matmul_add", 2)
    (replaced,) = [step for step in c.steps if step.kind == "replaced"]
    assert -replaced.delta_us == pytest.approx(saved, abs=0.5)


@pytest.mark.parametrize(
    ("a", "b", "annotations", "of"),
    [
        ("mlp-eager", "mlp-compile", "mlp_fwd mlp_fwd", "The kernels that stay the same, and rounding of medians"),
        ("matmul-add-4096-eager", "matmul-add-4096-compile", "matmul_add matmul_add", "The kernels that stay the same"),
        ("attention-inplace-eager", "sdpa-math-eager", "attn_fwd sdpa_fwd", "Rounding of medians"),
    ],
)
def test_the_differences_add_up_to_that_of_the_device_times(
    a: str, b: str, annotations: str, of: str, recorded_facts: Facts, recorded_h200: Path
) -> None:
    c = compare(recorded_facts[a], recorded_facts[b])
    before, after = (usual(recorded_h200 / x, y, device_time) for x, y in zip((a, b), annotations.split(), strict=True))
    assert sum(deltas(c)) == pytest.approx(after - before, abs=0.01)
    assert len(deltas(c, "rest")) == 1
    assert f" {'more' if after > before else 'less'})" in c.sentences[0]
    assert any(text.startswith(of) for text in c.sentences)


def deltas(c: Comparison, *kinds: str) -> list[float]:
    rows = [row for row in comparison_rows(c) if row["scope"] == "activity"]
    return [row["delta_us"] for row in rows if not kinds or row["kind"] in kinds]


FLASH, AUTO = "sdpa-flash-eager", "sdpa-auto-eager"


def test_where_nothing_is_left_no_rest_is_stated(recorded_facts: Facts, recorded_h200: Path) -> None:
    linear = compare(recorded_facts["linear-eager"], recorded_facts["linear-compile"])
    assert linear.sentences[0] == "1 kernel against 1, 1.00× the device time, about equal."
    flash = compare(recorded_facts[FLASH], recorded_facts[AUTO])
    before, after = (usual(recorded_h200 / case, "sdpa_fwd", device_time) for case in (FLASH, AUTO))
    times = f"{after / before:.2f}× the device time ({before - after:.1f} µs less)"
    assert flash.sentences[0] == f"1 kernel against 1, {times}."
    for c in (linear, flash):
        assert deltas(c, "rest") == []
        assert not any("rounding of medians" in text.lower() for text in c.sentences)
    refused = compare(recorded_facts["mlp-eager"], replace(recorded_facts["mlp-compile"], dtype="float16"))
    assert refused.sentences[0] == "4 kernels against 5."
    assert (refused.rest_us, deltas(refused, "rest")) == (None, [])


def test_times_of_different_machines_are_not_compared(shared_facts: Facts) -> None:
    here = shared_facts["linear-eager"]
    there = replace(here, run="a100", device="NVIDIA A100-SXM4-80GB")
    c = compare(here, there)
    assert c.refused == "the GPU differs: NVIDIA H200 and NVIDIA A100-SXM4-80GB"
    assert c.ratio is None
    assert "device time" not in " ".join(c.sentences)
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


def test_within_three_percent_times_are_about_equal_whatever_p() -> None:
    small = ratio_of(processes(7, 100.0, 0.001), processes(7, 102.0, 0.001, seed=1))
    assert small is not None
    assert (small.verdict, small.p_value) == ("about equal", pytest.approx(2 / 3432))
    same = ratio_of(processes(8, 100.0), processes(8, 100.0, seed=1))
    assert same is not None
    assert same.verdict == "about equal"


def test_an_interval_beyond_three_percent_without_a_small_p_shows_no_difference() -> None:
    # Medians 90 to 114 on both sides, b 1 higher: far apart within a side, so nothing is shown either way.
    a, b = ([np.full(40, centre + more) for centre in range(90, 115, 4)] for more in (0.0, 1.0))
    ratio = ratio_of(a, b)
    assert ratio is not None
    assert ratio.verdict == "no difference shown"
    assert ratio_text(ratio).endswith(f": no difference shown (p = {ratio.p_value:.2g}).")


def test_few_processes_vote_and_one_process_is_not_tested() -> None:
    few = ratio_of(processes(6, 100.0), processes(9, 150.0))
    assert few is not None
    assert (few.verdict, few.p_value) == ("slower", None)
    assert ratio_text(few).endswith("×, slower in all pairs of processes.")
    single = ratio_of([np.array([100.0])], [np.array([150.0])])
    assert single is not None
    assert (single.ratio, single.low, single.high, single.verdict) == (1.5, None, None, "not tested")
    assert ratio_text(single) == "Unprofiled forward time: 1.500×, without a significance test: a side has one process."
    assert ratio_of([], processes(1, 1.0)) is None


def test_a_split_vote_of_processes_is_stated() -> None:
    # By hand: 110/100 and 110/105 are slower, 95/100 and 95/105 faster; medians 102.5 of both.
    a, b = ([np.full(5, time) for time in times] for times in ((100.0, 105.0), (110.0, 95.0)))
    ratio = ratio_of(a, b)
    assert ratio is not None
    assert (ratio.ratio, ratio.verdict) == (1.0, "about equal")
    wider = ratio_of(a, [np.full(5, 140.0), np.full(5, 95.0)])  # 117.5 / 102.5
    assert wider is not None
    assert wider.verdict == "processes differ"
    assert ratio_text(wider) == (
        "Unprofiled forward time: 1.146×, processes differ, slower in 2, faster in 2 of 4 pairs of processes."
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "verdict"),
    [([101.0], [100.0], "about equal"), ([100.0], [101.0], "about equal"), ([103.1], [100.0], "slower"),
     ([100.0], [103.1], "faster"), ([101.0, 99.0, 100.0], [100.0, 101.5], "about equal"),
     ([110.0, 105.0], [100.0, 104.0], "slower"), ([110.0, 103.0], [100.0, 104.0], "processes differ"),
     ([50.0, 150.0], [100.0, 100.0], "processes differ")],  # the same median, and nobody knows why
)  # fmt: skip
def test_the_verdict_of_a_vote(mine: list[float], theirs: list[float], verdict: str) -> None:
    voted = vote(mine, theirs)
    assert voted is not None
    assert voted.verdict == verdict


def test_a_vote_needs_figures_on_both_sides() -> None:
    assert vote([], [1.0]) is None
    assert vote([1.0], [0.0]) is None


def test_the_same_kernel_is_not_slower_than_itself_by_one_percent() -> None:
    kernel = (Activity(0, "kernel", "gemm", 0.0, 100.0),)
    a = CaseFacts(
        "r",
        "a",
        device_type="cuda",
        kernels=1,
        device_time_us=100.0,
        forwards=(ProfiledForward(1, 0, 9.0, activities=kernel),),
    )
    c = compare(a, replace(a, case="b", device_time_us=101.0))
    assert c.sentences[0] == "1 kernel against 1, 1.01× the device time (1.00 µs more), about equal."


def test_an_unwarmed_case_is_no_eager_twin_whatever_its_name() -> None:
    """What a case is follows from how it was measured: `warmup: 0`, not from how its name ends."""

    def case(name: str, **more: Any) -> CaseFacts:
        return CaseFacts("r", name, workload="linear", variant="plain", dtype="bfloat16", **{"mode": "eager"} | more)

    compiled = case("compiled", mode="compile", warmup=3)
    others = [case("first-call", warmup=0), case("warm-cold-eager", warmup=3), compiled]
    twin = Scene(compiled, {each.case: each for each in others}).eager_twin()
    assert twin is not None
    assert twin.case == "warm-cold-eager"
