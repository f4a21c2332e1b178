"""Figures side by side, time by cause: expected values counted by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.judge.comparisons import compare, figure_changes
from kernelbook.judge.time_split import time_split
from tests.insight.insight_recorded import facts_of_folder
from tests.insight.insight_traces import Trace

GEMM = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>(int)"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[CaseFacts, CaseFacts]:
    """a runs a GEMM of 10 µs; b runs the same GEMM of 30 µs and a relu of 4 µs."""
    for case, kernels in (("a", [(GEMM, 10.0)]), ("b", [(GEMM, 30.0), (RELU, 4.0)])):
        trace = Trace()
        for _ in range(3):
            trace.forward(kernels)
        trace.write(tmp_path, case)
    facts = facts_of_folder("made", tmp_path)
    return facts["a"], facts["b"]


def test_more_and_less_and_other_are_counted(pair: tuple[CaseFacts, CaseFacts]) -> None:
    a, b = pair
    there, back, same = compare(a, b), compare(b, a), compare(a, a)
    assert (there.counts.same, there.counts.more, there.counts.less, there.counts.other) == (1, 1, 0, 0)
    assert (back.counts.same, back.counts.more, back.counts.less, back.counts.other) == (1, 0, 1, 0)
    assert (there.same_work, back.same_work, same.same_work) == (False, False, True)
    assert compare(replace(a, kernels=None), b).same_work is None


def test_figures_stand_side_by_side(pair: tuple[CaseFacts, CaseFacts]) -> None:
    figures = {figure.name: figure for figure in compare(*pair).figures}
    assert (figures["kernels"].a, figures["kernels"].b, figures["kernels"].ratio) == (1, 2, 2.0)
    assert (figures["device_time_us"].a, figures["device_time_us"].b) == (10.0, 34.0)
    assert figures["device_time_us"].texts() == ("10.0 µs", "34.0 µs")
    assert not figures["memcpys"].differs


def test_a_figure_that_one_side_lacks_is_not_zero(pair: tuple[CaseFacts, CaseFacts]) -> None:
    a, b = (replace(side, peak_memory_bytes=size) for side, size in zip(pair, (None, 2048), strict=True))
    (memory,) = (change for change in figure_changes(a, b) if change.name == "peak_memory_bytes")
    assert (memory.a, memory.ratio, memory.differs) == (None, None, False)
    assert memory.texts() == ("n/a", "2.00 KiB")


def test_the_differences_by_cause_add_up_to_that_of_the_forwards(pair: tuple[CaseFacts, CaseFacts]) -> None:
    a, b = (replace(side, forward_time_us=None) for side in pair)
    splits = time_split(a), time_split(b)
    comparison = compare(a, b, *splits)
    assert splits[0]
    assert splits[1]
    by_kind = {change.kind: change for change in comparison.causes}
    assert (by_kind["device work"].time_a_us, by_kind["device work"].time_b_us) == (10.0, 34.0)
    whole = splits[1].time_us - splits[0].time_us
    assert sum(change.delta_us for change in comparison.causes) == pytest.approx(whole)


def test_no_causes_where_times_may_not_be_compared(pair: tuple[CaseFacts, CaseFacts]) -> None:
    a, b = pair
    other = replace(b, device="NVIDIA A100")
    assert compare(a, other, time_split(a), time_split(other)).causes == ()
