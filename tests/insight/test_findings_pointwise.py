"""Pointwise kernels that move their bytes more slowly than the device copies, on the recorded run."""

from __future__ import annotations

from pathlib import Path

import pytest
from insight_findings import found, one
from insight_raw import time_of, usual

from kernelbook.case_facts import CaseFacts
from kernelbook.findings import find_in_run

Facts = dict[str, CaseFacts]


def ceiling(recorded: Path) -> float:
    """Bytes a µs of the ceiling's copy, which reads and writes 2 GiB."""
    return 2 * 2**31 / usual(recorded / "ceiling-copy", "ceiling_copy", time_of("Memcpy"))


def test_a_pointwise_kernel_that_does_not_load_several_elements_at_once_is_slow(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["attention-inplace-eager"], "slow-pointwise", recorded_facts)
    time_us = usual(recorded_h200 / "attention-inplace-eager", "attn_fwd", time_of("masked_fill"))
    # Scores read and written, and a mask of one byte an element.
    rate = ceiling(recorded_h200)
    moved = 2 * 2 * 8 * 16 * 1024 * 1024 + 1024 * 1024
    share = moved / time_us / rate
    assert f"{share:.0%}".replace("%", " % of the measured copy ceiling") in finding.text
    assert f"{moved / time_us / 1e3:,.0f} GB/s" in finding.text
    assert finding.time_us == pytest.approx(time_us - moved / rate, rel=0.01)
    assert (finding.kind, finding.severity) == ("recoverable", "high")
    assert "vectorized_elementwise_kernel [mul] in the same forward reaches 99 %" in finding.text
    assert "one element at a time" in finding.remedy


def test_pointwise_kernels_near_the_ceiling_are_no_finding(recorded_facts: Facts) -> None:
    for case in ("mlp-eager", "mlp-liger", "matmul-add-4096-eager"):  # 76 % and more, Liger's 79 %
        assert found(recorded_facts[case], "slow-pointwise", recorded_facts) == [], case
    assert len(found(recorded_facts["sdpa-math-eager"], "slow-pointwise", recorded_facts)) == 2  # add_ and where
    assert found(recorded_facts["attention-inplace-eager"], "slow-pointwise") == []  # no ceiling, no share


def test_a_fused_kernel_of_inductor_is_held_against_one_that_moves_as_much(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["mlp-compile"], "slow-pointwise", recorded_facts)
    time_us = usual(recorded_h200 / "mlp-compile", "mlp_fwd", time_of("triton_poi_fused"))
    moved = 3 * 2 * 64 * 128 * 3072  # gate and up read, their product written
    share = moved / time_us / ceiling(recorded_h200)
    assert f"144 MiB in {time_us:.1f} µs" in finding.text
    assert f"{share:.0%}".replace("%", " % of the measured copy ceiling") in finding.text
    # gelu reads one tensor and writes one; mul alone moves as much as both in one.
    eager = usual(recorded_h200 / "mlp-eager", "mlp_fwd", time_of("MulFunctor"))
    assert f"vectorized_elementwise_kernel [mul] in mlp-eager moves as much in {eager:.1f} µs" in finding.text
    assert "max-autotune" in finding.remedy


def test_the_same_slow_kernel_in_two_cases_is_told_once_of_the_dearer(recorded_facts: Facts) -> None:
    told = [one for one in find_in_run(recorded_facts) if one[1].rule == "slow-pointwise" and one[1].cases]
    ((case, finding),) = told
    assert finding.cases == "attention-inplace-eager, attention-naive-eager"
    assert case == "attention-inplace-eager"  # by hand: 368.3 µs in it, 367.2 µs in the other
    assert finding.severity == "high"
    assert finding.text.endswith("So it is in attention-naive-eager.")
