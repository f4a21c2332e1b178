"""The whole: what the recorded H200 run states by itself, and that a wrong guess is broken with its evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kernelbook.case_facts import CaseFacts
from kernelbook.insight import Insight, judge_edition
from kernelbook.trade_off import trade_off

HEADLINE = ("sdpa-math-eager", "attention-inplace-eager")
Facts = dict[str, CaseFacts]


@pytest.fixture(scope="module")
def guesses(root: Path) -> dict[str, dict[str, object]]:
    """The guesses of the shipped configuration."""
    config = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
    return {case: spec.get("expect", {}) for case, spec in config["cases"].items()}


@pytest.fixture(scope="module")
def insight(recorded_facts: Facts, guesses: dict[str, dict[str, object]]) -> Insight:
    """The recorded run, with one guess planted wrong."""
    planted = guesses | {"attention-inplace-eager": {**guesses["attention-inplace-eager"], "kernels": 6}}
    return judge_edition({f.key: f for f in recorded_facts.values()}, planted, HEADLINE)


def test_all_guesses_of_the_shipped_configuration_hold_but_the_planted_one(insight: Insight) -> None:
    verdicts = [(case, j.word, j.verdict) for (_, case), j in insight.expectations]
    assert len(verdicts) > 80
    assert [v for v in verdicts if v[2] != "confirmed"] == [("attention-inplace-eager", "kernels", "broken")]


def test_six_against_five_is_told_with_the_five(insight: Insight) -> None:
    (broken,) = [line for line in insight.words if line.startswith("Broken")]
    assert "expected 6, observed 5 (5 kernels in a forward: nvjet_" in broken
    assert "softmax_warp_forward" in broken


@pytest.mark.parametrize(
    "part",
    [
        "sdpa-math-eager runs 20 kernels a forward against 5 of attention-inplace-eager, and takes 2.8",
        "2 GEMM kernels ran in fp32 on CUDA cores",
        "The causal mask is rebuilt at each call",
        "attention-inplace-eager against attention-naive-eager: removed: Memcpy DtoD, 128.",
        "linear-compile leaves the kernel of linear-eager as it is.",
        "mlp-compile against mlp-eager: fused: two kernels (gelu, mul) into triton_poi_fused__unsafe_view_gelu_mul_0",
        "sdpa-cudnn-eager: Launch-bound",
    ],
)
def test_the_report_states_it_without_help(insight: Insight, part: str) -> None:
    assert any(part in line for line in insight.words), "\n".join(insight.words)


def test_cudnn_is_fastest_on_the_device_and_launch_bound_on_the_wall(insight: Insight) -> None:
    (line,) = [line for line in insight.words if line.startswith("sdpa-cudnn-eager")]
    assert "Yet its kernels are the fastest of this workload" in line


def test_the_first_line_counts_and_three_findings_are_named(insight: Insight) -> None:
    assert "1 broke" in insight.words[0]
    costly = [line for line in insight.words if " a forward in " in line]
    assert len(costly) == 3
    assert costly[0].startswith("1.2")  # ms, the fp32 products of math and their casts
    assert "sdpa-math-eager" in costly[0]


def test_tables_have_their_keys_and_one_type_a_column(insight: Insight) -> None:
    tables = insight.tables()
    assert set(tables) == {"expectations", "findings", "comparisons", "costs", "clock"}
    for name in ("expectations", "findings", "costs", "clock"):
        assert tables[name].column_names[:2] == ["run", "case"]
    assert tables["comparisons"].column_names[:4] == ["run_a", "case_a", "run_b", "case_b"]
    assert tables["expectations"].column_names[2:] == ["word", "expected", "observed", "verdict", "evidence"]
    assert tables["findings"].column_names[2:] == [
        *("rule", "severity", "time_us", "share", "evidence", "remedy", "text"),
    ]  # fmt: skip
    scopes = tables["comparisons"].column("scope").to_pylist()
    assert {"summary", "activity", "op"} == set(scopes)
    gemm_rows = [row for row in tables["costs"].to_pylist() if row["scope"] == "GEMM" and row["case"] == "mlp-eager"]
    assert [row["n"] for row in gemm_rows] == [3072, 3072, 768]


def test_an_empty_edition_is_no_error() -> None:
    empty = judge_edition({}, {})
    assert empty.words == ()
    assert all(table.num_rows == 0 for table in empty.tables().values())


def test_runs_are_compared_with_the_baseline_and_published_ones_left_out(
    recorded_facts: Facts, shared_facts: Facts
) -> None:
    paper = CaseFacts("paper", "linear-eager", kernels=1)
    cases = {f.key: f for f in [*recorded_facts.values(), *shared_facts.values(), paper]}
    found = judge_edition(cases, {"linear-eager": {"kernels": 1}}, published=["paper"])
    across = [c for c in found.comparisons if c.a.run != c.b.run]
    assert {(c.a.run, c.b.run) for c in across} == {("h200-torch2.11", "h200")}
    assert all(c.a.case == c.b.case for c in across)
    assert "paper" not in {run for (run, _), _ in found.expectations}


def test_slower_can_be_seen_to_buy_something(recorded_facts: Facts) -> None:
    math, flash = recorded_facts["sdpa-math-eager"], recorded_facts["sdpa-flash-eager"]
    said = trade_off(math, [math, flash])
    assert said is not None
    assert said.startswith("27.")  # 2609 µs over 95
    assert "a smaller error against float64 (0.0016 against 0.002)" in said
    assert "21.1 x the peak memory (1364 MiB against 65)" in said
    assert trade_off(flash, [math, flash]) is None
