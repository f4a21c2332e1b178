"""Rules about unfused attention, on the recorded run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from kernelbook.text.formatting import duration
from tests.insight.insight_findings import busy, found, one, small
from tests.insight.insight_raw import usual
from tests.insight.insight_recorded import Facts, Look
from tests.insight.insight_traces import Trace


def copies_of(places: tuple[int, ...]) -> Callable[[dict], float]:
    """Summed time of those of a forward's copying kernels, by their order, µs."""

    def of_forward(forward: dict) -> float:
        rows = sorted((e for e in forward["device"] if "copy_kernel" in e["name"]), key=lambda e: e["ts"])
        return sum(rows[place]["dur"] for place in places)

    return of_forward


def gemms(part: str) -> Callable[[dict], float]:
    """Summed time of the kernels with that in their name, µs."""
    return lambda forward: sum(event["dur"] for event in forward["device"] if part in event["name"])


def test_math_runs_its_products_in_fp32_on_cuda_cores(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["sdpa-math-eager"], "fp32-gemm", recorded_facts)
    assert "2 GEMM kernels ran in fp32 on CUDA cores" in finding.text
    assert finding.severity == "high"
    math = recorded_h200 / "sdpa-math-eager"
    # The median of each of the two, as the finding adds them: of their sum it is 959.48 µs, of each 541.93 and 417.76.
    products = sum(usual(math, "sdpa_fwd", gemms(f"xmma_gemm_f32f32_f32f32_f32_{layout}")) for layout in ("tn", "nn"))
    others = ("attention-naive-eager", "attention-inplace-eager", "attention-naive-compile")
    on_tensor_cores = min(usual(recorded_h200 / case, "attn_fwd", gemms("nvjet")) for case in others)
    operands = usual(math, "sdpa_fwd", copies_of((0, 1, 2, 4)))
    assert f"{products:.0f} µs a forward" in finding.text
    assert f"on tensor cores the same products take {on_tensor_cores:.0f} µs" in finding.text
    assert finding.kind == "recoverable"
    assert finding.time_us == pytest.approx(products + operands - on_tensor_cores, rel=0.01)
    assert "allow_fp16_bf16_reduction_math_sdp" in finding.remedy
    assert "set_float32_matmul_precision('high')" in finding.remedy
    assert found(recorded_facts["attention-inplace-eager"], "fp32-gemm") == []


def test_only_casts_of_operands_and_outputs_count_with_the_products(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["sdpa-math-eager"], "fp32-gemm")
    # q, k and v to fp32 before the products, and the output back after them; not the attention weights (the fourth).
    taken = usual(recorded_h200 / "sdpa-math-eager", "sdpa_fwd", copies_of((0, 1, 2, 4)))
    said = finding.text.partition("4 casts of their operands and outputs take ")[2]
    assert float(said.partition(" µs")[0]) == pytest.approx(taken, rel=0.01)
    assert finding.positions == (0, 1, 2, 10, 18, 19)


def test_without_a_case_on_tensor_cores_the_time_of_fp32_products_is_spent(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["sdpa-math-eager"], "fp32-gemm")
    assert finding.kind == "spent"
    assert "on tensor cores the same" not in finding.text


def test_the_remedy_for_math_holds_for_its_compiled_case_too(recorded_facts: Facts) -> None:
    compiled = recorded_facts["sdpa-math-compile"]
    assert "take a fused backend" in one(compiled, "fp32-gemm", recorded_facts).remedy
    assert "fused backend" not in one(compiled, "fp32-gemm").remedy  # nothing says there that it is SDPA


def test_the_weights_that_math_converts_for_nobody_are_found(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["sdpa-math-eager"], "discarded-output")
    # 8 x 16 x 1024 x 1024 weights; the fourth of the five copies.
    assert "from float32 to bfloat16 (134 M elements)" in finding.text
    wanted = usual(recorded_h200 / "sdpa-math-eager", "sdpa_fwd", copies_of((3,)))
    assert finding.time_us == pytest.approx(wanted, rel=0.01)
    assert finding.positions == (17,)
    assert found(recorded_facts["attention-naive-eager"], "discarded-output") == []


def test_math_rebuilds_its_mask_at_each_call(facts_of: Look) -> None:
    finding = one(facts_of("sdpa-math-eager"), "mask-rebuilt")
    # ones, tril, two scalars and where: five kernels before the products.
    assert "5 kernels: ones, tril, 2 × scalar_tensor, where" in finding.text
    assert finding.time_us == pytest.approx(11.3, abs=0.5)
    assert found(facts_of("attention-naive-eager"), "mask-rebuilt") == []


def test_safe_softmax_has_four_kernels_besides_softmax(facts_of: Look) -> None:
    finding = one(facts_of("sdpa-math-eager"), "safe-softmax")
    assert "4 kernels besides softmax" in finding.text
    assert finding.time_us == pytest.approx(667, abs=8)


def saved(recorded: Path, case: str) -> str:
    """By how much less device time the default SDPA takes, off the JSON."""
    own, least = (median(busy(recorded / name, "sdpa_fwd")) for name in (case, "sdpa-auto-eager"))
    return duration(own - least)


@pytest.mark.parametrize("rule", ["fp32-gemm", "safe-softmax", "discarded-output", "mask-rebuilt"])
def test_what_a_fused_backend_saves_stands_beside_it_as_measured(
    recorded_facts: Facts, recorded_h200: Path, rule: str
) -> None:
    remedy = one(recorded_facts["sdpa-math-eager"], rule, recorded_facts).remedy
    assert f"{saved(recorded_h200, 'sdpa-math-eager')} in all, as sdpa-auto-eager shows" in remedy
    alone = one(recorded_facts["sdpa-math-eager"], rule).remedy
    assert "FLASH_ATTENTION" in alone
    assert "in all, as" not in alone


def test_the_time_of_fp32_products_is_told_as_a_part_of_what_the_fastest_case_saves(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    for case in ("sdpa-math-eager", "sdpa-math-compile"):
        finding = one(recorded_facts[case], "fp32-gemm", recorded_facts)
        whole = saved(recorded_h200, case)
        assert finding.text.endswith(
            f"That is {duration(finding.time_us)} of the {whole} by which sdpa-auto-eager is faster."
        )
        assert finding.remedy.startswith("Keep math in 16 bits (")  # what that time is of; then the fused backend


def test_a_mask_of_sdpa_is_not_to_be_built_by_its_caller(recorded_facts: Facts, tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([("void at::native::triu_tril_kernel<bool, int, false, 4>(int)", 10.0)], op="aten::tril")
    assert one(small(tmp_path, trace), "mask-rebuilt").remedy == "Build the mask once, outside the forward."
    remedy = one(recorded_facts["sdpa-math-eager"], "mask-rebuilt", recorded_facts).remedy
    assert "Build the mask once" not in remedy
    assert "attn_mask only avoids these kernels, and excludes FLASH_ATTENTION" in remedy
