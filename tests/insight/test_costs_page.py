"""The figures of docs/explanation/costs.md, by plain arithmetic over the recorded traces."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model import ceilings_of, forward_cost
from tests.insight.insight_recorded import Facts

SCORES, HEADS, MASK = 2 * 8 * 16 * 1024 * 1024, 2 * 8 * 16 * 1024 * 64, 1024 * 1024  # bytes
FLOPS = 2 * 8 * 16 * 1024 * 1024 * 64


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "explanation" / "costs.md").read_text(encoding="utf-8")


def usual(facts: CaseFacts, position: int) -> float:
    """The median over the forwards of each process, and of that over processes, µs."""
    numbers = {forward.process for forward in facts.forwards}
    times = [[f.activities[position].duration_us for f in facts.forwards if f.process == n] for n in numbers]
    return median(map(median, times))


def test_rows_of_kernels(page: str, recorded_facts: Facts) -> None:
    inplace = recorded_facts["attention-inplace-eager"]
    copy = 2**32 / recorded_facts["ceiling-copy"].device_time_us  # bytes a µs
    for position, op, moved, shown in (
        (2, "`aten::mul_`", 2 * SCORES, "127 µs"),
        (3, "`aten::masked_fill_`, the mask broadcast", 2 * SCORES + MASK, "368 µs"),
        (1, "`aten::bmm`, 57 FLOP per byte", SCORES + 2 * HEADS, "85.1 µs"),
    ):
        rate = moved / usual(inplace, position)
        row = f"| {op} | {moved / 2**20:.0f} | {shown} | {round(rate / 1e3, -1):,.0f} | {100 * rate / copy:.0f} %"
        assert row in page
    assert f"{FLOPS / (SCORES + 2 * HEADS):.0f} FLOP per byte" in page
    best = 2 * 4096**3 / usual(recorded_facts["matmul-add-4096-eager"], 1) / 1e6
    assert f"compared with {best:.0f}, its {FLOPS / usual(inplace, 1) / 1e6:.0f} TFLOP/s would look low" in page


def test_the_shortest_kernel_takes_less_than_the_least_roof(page: str, recorded_facts: Facts) -> None:
    times = [
        (usual(facts, kernel.position), kernel.name)
        for facts in recorded_facts.values()
        for kernel in facts.activities
        if kernel.category == "kernel"
    ]
    shortest, name = min(times)
    assert "FillFunctor" in name
    assert f"The shortest recorded kernel, a fill, takes {shortest:.2f} µs" in page
    assert "which no kernel reaches" not in page


def test_ceilings_and_factors(page: str, recorded_facts: Facts) -> None:
    product = 2 * 4096**3 / usual(recorded_facts["matmul-add-4096-eager"], 1) / 1e6
    copy = 2**32 / recorded_facts["ceiling-copy"].device_time_us / 1e3
    assert f"{product:.0f} of 989 dense 16-bit TFLOP/s, and {copy:,.0f} of 4,800 GB/s" in page
    inplace, flash = recorded_facts["attention-inplace-eager"], recorded_facts["sdpa-flash-eager"]
    moved = 8 * SCORES + MASK + 4 * HEADS  # written by QK^T, read by PV, both by three between them
    assert f"moves {moved // (4 * HEADS + MASK)} times the compulsory bytes" in page
    assert f"take {inplace.device_time_us / (moved / copy / 1e3):.1f} times as long as that traffic requires" in page
    least = 2 * FLOPS * 1025 / 2048 / product / 1e6
    assert f"takes {flash.device_time_us / least:.1f} times as long as its FLOPs require" in page
    words = [forward_cost(facts, ceilings_of(recorded_facts)).limiter for facts in (inplace, flash)]
    assert words == ["excess traffic or work", "kernel efficiency"]
