"""Pointwise kernels, softmax and reductions slower than the device copies, on the recorded run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.judge.findings import Finding, rules
from kernelbook.judge.findings.rules import Scene, together
from tests.insight.insight_findings import found, one
from tests.insight.insight_raw import device_time, time_of, usual
from tests.insight.insight_recorded import Facts


def ceiling(recorded: Path) -> float:
    """Bytes a µs of the ceiling's copy, which reads and writes 2 GiB."""
    return 2 * 2**31 / usual(recorded / "ceiling-copy", "ceiling_copy", time_of("Memcpy"))


def slow(facts: Facts, case: str, kernel: str) -> list[Finding]:
    """What the rule says of the kernels of a case with that in their label, be they part of a chain or not."""
    findings = rules()["slow-pointwise"].look(Scene(facts[case], facts))
    return [replace(f, case=case) for f in findings if f"[{kernel}]" in f.evidence]


def test_a_pointwise_kernel_that_does_not_load_several_elements_at_once_is_slow(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    (finding,) = slow(recorded_facts, "attention-inplace-eager", "masked_fill")
    time_us = usual(recorded_h200 / "attention-inplace-eager", "attn_fwd", time_of("masked_fill"))
    # Scores read and written, and a mask of one byte an element.
    rate = ceiling(recorded_h200)
    moved = 2 * 2 * 8 * 16 * 1024 * 1024 + 1024 * 1024
    share = moved / time_us / rate
    assert f"{share:.0%}".replace("%", " % of the memory ceiling") in finding.text
    assert f"{moved / time_us / 1e3:,.0f} GB/s" in finding.text
    assert finding.time_us == pytest.approx(time_us - moved / rate, rel=0.01)
    assert (finding.kind, finding.severity) == ("recoverable", "high")
    assert "vectorized_elementwise_kernel [mul] in the same forward reaches 99 %" in finding.text
    assert "one element at a time" in finding.remedy


def test_pointwise_kernels_near_the_ceiling_are_no_finding(recorded_facts: Facts) -> None:
    for case in ("mlp-eager", "mlp-liger", "matmul-add-4096-eager"):  # 78 % and more, Liger's 79 %
        assert found(recorded_facts[case], "slow-pointwise", recorded_facts) == [], case
    # Reduction of safe softmax at 33 %, and 4 % of the forward; softmax of math at 90, Inductor's at 82 and 98.
    assert found(recorded_facts["attention-naive-compile"], "slow-pointwise", recorded_facts) == []
    assert found(recorded_facts["attention-inplace-eager"], "slow-pointwise") == []  # no ceiling, no share


def test_a_kernel_that_another_rule_calls_recoverable_is_not_told_again(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["sdpa-math-eager"], "slow-pointwise", recorded_facts)
    # add_ of the mask; not where, at 61 % and 410 µs, which is one of the four kernels of safe softmax.
    assert finding.positions == (11,)
    assert 16 in one(recorded_facts["sdpa-math-eager"], "safe-softmax", recorded_facts).positions


def test_what_math_launches_no_caller_can_change(recorded_facts: Facts, recorded_h200: Path) -> None:
    remedy = one(recorded_facts["sdpa-math-eager"], "slow-pointwise", recorded_facts).remedy
    assert "one element at a time" not in remedy
    assert "take a fused backend" in remedy
    math, auto = (usual(recorded_h200 / f"sdpa-{of}-eager", "sdpa_fwd", device_time) for of in ("math", "auto"))
    assert f"{(math - auto) / 1e3:.2f} ms in all, as sdpa-auto-eager shows" in remedy


def test_a_softmax_is_held_against_the_ceiling_too(recorded_facts: Facts, recorded_h200: Path) -> None:
    (finding,) = slow(recorded_facts, "attention-inplace-eager", "softmax")
    folder = recorded_h200 / "attention-inplace-eager"
    time_us, rate = usual(folder, "attn_fwd", time_of("softmax_warp_forward")), ceiling(recorded_h200)
    moved = 2 * 2 * 8 * 16 * 1024 * 1024  # scores read, weights written
    assert f"{moved / time_us / rate:.0%}".replace("%", " % of the memory ceiling") in finding.text
    assert finding.time_us == pytest.approx(time_us - moved / rate, rel=0.01)
    fused = usual(recorded_h200 / "attention-naive-compile", "attn_fwd", time_of("triton_per_fused__softmax"))
    assert f" in attention-naive-compile moves as much in {fused:.0f} µs, 82 %." in finding.text
    assert "torch.compile" in finding.remedy
    assert "one element at a time" not in finding.remedy


def test_a_fused_kernel_of_inductor_is_held_against_one_that_moves_as_much(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["mlp-compile"], "slow-pointwise", recorded_facts)
    time_us = usual(recorded_h200 / "mlp-compile", "mlp_fwd", time_of("triton_poi_fused"))
    moved = 3 * 2 * 64 * 128 * 3072  # gate and up read, their product written
    share = moved / time_us / ceiling(recorded_h200)
    assert f"144 MiB in {time_us:.1f} µs" in finding.text
    assert f"{share:.0%}".replace("%", " % of the memory ceiling") in finding.text
    # gelu reads one tensor and writes one; mul alone moves as much as both in one.
    eager = usual(recorded_h200 / "mlp-eager", "mlp_fwd", time_of("MulFunctor"))
    assert f"vectorized_elementwise_kernel [mul] in mlp-eager moves as much in {eager:.1f} µs" in finding.text
    assert "max-autotune" in finding.remedy


def test_a_chain_stands_for_its_slow_kernels(recorded_facts: Facts) -> None:
    """mul, masked_fill and softmax of in-place attention: one finding says what fusing all three would save."""
    facts = recorded_facts["attention-inplace-eager"]
    assert len(one(facts, "unfused-chain", recorded_facts).positions) == 3
    assert found(facts, "slow-pointwise", recorded_facts) == []


def test_the_same_slow_kernel_in_two_cases_is_told_once_of_the_dearer(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    cases = ("attention-inplace-eager", "attention-naive-eager")
    (finding,) = together([f for case in cases for f in slow(recorded_facts, case, "masked_fill")])
    assert finding.cases == ("attention-inplace-eager", "attention-naive-eager")
    assert finding.case == "attention-inplace-eager"  # by hand: 358.5 µs in it, 358.2 µs in the other
    assert finding.severity == "high"
    other = usual(recorded_h200 / "attention-naive-eager", "attn_fwd", time_of("masked_fill"))
    assert finding.text.endswith(f"The same kernel in attention-naive-eager: {other:.0f} µs.")
