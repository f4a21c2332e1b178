"""The whole: what the recorded H200 run states by itself, and that a wrong guess is broken with its evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
import yaml
from insight_raw import device_time, time_of, usual

from kernelbook.case_facts import CaseFacts, Forward
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
        "2 GEMM kernels ran in fp32 on CUDA cores",
        "The causal mask is rebuilt at each call",
        "attention-inplace-eager against attention-naive-eager: removed: Memcpy DtoD, ",
        "linear-compile leaves the kernel of linear-eager as it is.",
        "mlp-compile against mlp-eager: fused: two kernels (gelu, mul) into triton_poi_fused__unsafe_view_gelu_mul_0",
        "sdpa-cudnn-eager: Launch-bound",
    ],
)
def test_the_report_states_it_without_help(insight: Insight, part: str) -> None:
    assert any(part in line for line in insight.words), "\n".join(insight.words)


def test_the_headline_is_what_the_traces_hold(insight: Insight, recorded_h200: Path) -> None:
    math = usual(recorded_h200 / "sdpa-math-eager", "sdpa_fwd", device_time)
    inplace = usual(recorded_h200 / "attention-inplace-eager", "attn_fwd", device_time)
    (line,) = [line for line in insight.words if "sdpa-math-eager runs 20 kernels a forward against 5" in line]
    assert float(line.split(" takes ")[1].split(" x ")[0]) == pytest.approx(math / inplace, abs=0.01)
    assert f"({math / 1000:.2f} ms against {inplace:.0f} µs)" in line


def test_cudnn_is_fastest_on_the_device_and_launch_bound_on_the_wall(insight: Insight) -> None:
    (line,) = [line for line in insight.words if line.startswith("sdpa-cudnn-eager")]
    assert "Yet its kernels are the fastest of this workload" in line


def test_the_first_line_counts_and_three_findings_are_named(insight: Insight, recorded_h200: Path) -> None:
    assert "1 broke" in insight.words[0]
    costly = [line for line in insight.words if " a forward in " in line]
    assert len({line.split(" a forward in ")[1].split(" (")[0] for line in costly}) == len(costly) == 3
    math = recorded_h200 / "sdpa-math-eager"
    wanted = sum(usual(math, "sdpa_fwd", time_of(part)) for part in ("xmma_gemm_f32f32", "copy_kernel"))
    assert " ms a forward in sdpa-math-eager (device): " in costly[0]  # the fp32 products of math and their casts
    assert 1000 * float(costly[0].split(" ms ")[0]) == pytest.approx(wanted, rel=0.03)


def test_tables_have_their_keys_and_one_type_a_column(insight: Insight) -> None:
    tables = insight.tables()
    assert set(tables) == {"expectations", "findings", "comparisons", "costs", "clock"}
    for name in ("expectations", "findings", "costs", "clock"):
        assert tables[name].column_names[:2] == ["run", "case"]
    assert tables["comparisons"].column_names[:4] == ["run_a", "case_a", "run_b", "case_b"]
    assert tables["expectations"].column_names[2:] == ["word", "expected", "observed", "verdict", "evidence"]
    assert tables["findings"].column_names[2:] == [
        *("rule", "severity", "time_us", "share", "evidence", "remedy", "text", "of"),
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


def _measured(recorded: Path, case: str) -> dict[str, float]:
    """The first process's measurement, with the median of all processes' median forwards."""
    read = [json.loads(path.read_text()) for path in sorted(recorded.glob(f"{case}/*/measurement.json"))]
    return read[0] | {"forward": median(median(each["forward_times_us"]) for each in read)}


def test_slower_can_be_seen_to_buy_something(recorded_facts: Facts, recorded_h200: Path) -> None:
    math, flash = recorded_facts["sdpa-math-eager"], recorded_facts["sdpa-flash-eager"]
    said = trade_off(math, [math, flash])
    assert said is not None
    mine, theirs = (_measured(recorded_h200, case) for case in ("sdpa-math-eager", "sdpa-flash-eager"))
    assert float(said.split(" x ")[0]) == pytest.approx(mine["forward"] / theirs["forward"], abs=0.01)
    errors = f"{mine['relative_error']:.2g} against {theirs['relative_error']:.2g}"
    assert f"a smaller error against float64 ({errors})" in said
    more = mine["peak_memory_bytes"] / theirs["peak_memory_bytes"]
    assert f"{more:.1f} x the peak memory ({mine['peak_memory_bytes'] / 2**20:.0f} MiB against " in said
    assert trade_off(flash, [math, flash]) is None


def test_the_headline_of_cases_that_may_not_be_compared_gives_no_ratio_and_says_why(recorded_facts: Facts) -> None:
    other = replace(recorded_facts["attention-inplace-eager"], device="NVIDIA A100")
    cases = {f.key: f for f in (recorded_facts["sdpa-math-eager"], other)}
    lines = [line for line in judge_edition(cases, {}, HEADLINE).words if line.startswith("On ")]
    assert len(lines) == 1
    assert "not compared: the GPU differs: NVIDIA A100 and NVIDIA H200" in lines[0]


def test_what_could_not_be_judged_is_counted_by_reason_and_failed_cases_are_named() -> None:
    cpu = CaseFacts("r", "cpu", device_type="cpu", forwards=(Forward(1, 0, 9.0),))
    cases = {f.key: f for f in (cpu, CaseFacts("r", "bad", status="failed", reason="killed"))}
    words = judge_edition(cases, {"cpu": {"kernels": 1, "memcpys": 0}, "bad": {"kernels": 1}}).words
    assert words[0] == (
        "r: of 3 guesses about 2 cases, 0 held, 0 broke, "
        "3 could not be judged (2 no device activities, 1 the case failed). 1 case failed."
    )
