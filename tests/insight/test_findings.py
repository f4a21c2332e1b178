"""Findings as a whole: weights, kinds, what several cases have alike; and the rules about the profiler's window."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.judge.findings import find, find_in_run, rules
from kernelbook.judge.findings.rules import Finding, together
from tests.insight.insight_findings import found, one, small
from tests.insight.insight_recorded import Facts, Look
from tests.insight.insight_traces import Trace

SGEMM = "ampere_sgemm_128x64_nn"


# --- the window ------------------------------------------------------------------------------------------------------


def test_work_from_before_the_window_is_told_and_not_counted(request: pytest.FixtureRequest) -> None:
    math = request.getfixturevalue("shared_facts")["sdpa-math-eager"]
    assert math.kernels == 20  # and not 69 / 3 = 23
    assert "has 9 device activities that were launched before the profiler window" in one(math, "before-window").text


def test_one_activity_from_before_the_window_was_launched(recorded_facts: Facts, all_recorded_facts: Facts) -> None:
    several = one(recorded_facts["attention-naive-eager"], "before-window")
    assert "has 2 device activities that were launched before" in several.text
    # A case that is off by default: in its trace one kernel has no call that launched it.
    finding = one(all_recorded_facts["matmul-add-4096-fp32"], "before-window")
    assert "has 1 device activity that was launched before" in finding.text
    assert finding.evidence.startswith("1 of them was launched")


def test_a_slow_first_step_is_told(tmp_path: Path, facts_of: Look) -> None:
    assert one(facts_of("linear-eager"), "slow-first").severity == "info"
    trace = Trace()
    for _ in range(4):
        trace.forward([(SGEMM, 10.0)])
    assert found(small(tmp_path, trace), "slow-first") == []


def test_a_slow_first_step_is_slow_on_the_cpu_side_only(recorded_facts: Facts) -> None:
    # Device time of the first forward over the median of the others, by hand: 1.010, 1.026 and 1.030.
    finding = one(recorded_facts["matmul-add-4096-compile"], "slow-first")
    assert "takes longer on the CPU; its device time is 1.01 to 1.03× that of the others" in finding.text


def test_a_first_step_that_the_device_is_slow_in_says_so(tmp_path: Path) -> None:
    trace = Trace()
    for length in (40.0, 10.0, 10.0, 10.0):
        trace.forward([(SGEMM, length)])
    assert "slow on the device too: up to 4.00× the others" in one(small(tmp_path, trace), "slow-first").text


def test_launches_without_kernels_are_a_failed_collection(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([(SGEMM, 10.0)], device=False)
    facts = small(tmp_path, trace)
    assert facts.kernels is None
    assert "could not collect it" in one(facts, "launches-without-kernels").text


def test_one_kernel_that_varies_from_step_to_step(tmp_path: Path) -> None:
    trace = Trace()
    for length in (50.0, 51.0, 63.0):
        trace.forward([(SGEMM, length), ("ampere_sgemm_128x128_nn", 20.0)])
    finding = one(small(tmp_path, trace), "uneven-kernel")
    assert "50.0 µs to 63.0 µs in 3 forwards" in finding.text
    assert (finding.kind, finding.time_us) == ("note", None)


def test_a_kernel_that_varies_in_a_later_process_is_found(tmp_path: Path) -> None:
    trace = Trace()
    for length in (50.0, 51.0, 63.0):
        trace.forward([(SGEMM, length)])
    facts = small(tmp_path, trace)
    even = [replace(f, activities=(replace(f.activities[0], duration_us=50.0),)) for f in facts.forwards]
    later = [replace(forward, process=2) for forward in facts.forwards]
    finding = one(replace(facts, forwards=(*even, *later)), "uneven-kernel")
    assert "ampere_sgemm_128x64_nn in 1 of 2 processes 50.0 µs to 63.0 µs in 3 forwards" in finding.text
    assert finding.evidence == "ampere_sgemm_128x64_nn, process 2: 50.0, 51.0, 63.0 µs"


def test_a_kernel_that_varies_in_many_places_is_told_once_where_it_is_worst(tmp_path: Path) -> None:
    trace = Trace()
    for length in (50.0, 51.0, 63.0):
        trace.forward([(SGEMM, length), (SGEMM, 50.0 + 3 * (length - 50.0))])
    finding = one(small(tmp_path, trace), "uneven-kernel")
    assert finding.text.startswith("One kernel varies between forwards")
    assert "50.0 µs to 89.0 µs" in finding.text


def test_kernels_that_vary_are_one_finding_of_the_case(tmp_path: Path) -> None:
    trace = Trace()
    for length in (50.0, 51.0, 63.0):
        trace.forward([(f"kernel_{number}", length + number * (length - 50.0)) for number in range(3)])
    finding = one(small(tmp_path, trace), "uneven-kernel")
    assert finding.text.startswith("3 kernels vary between forwards")
    assert ": kernel_2 50.0 µs to 89.0 µs in 3 forwards; kernel_1 50.0 µs to 76.0 µs in 3 forwards; " in finding.text


def test_two_microseconds_of_a_millisecond_are_no_finding(recorded_facts: Facts) -> None:
    # Its Triton cast varies from 13.4 to 15.6 µs in one process, in a forward of 1.25 ms.
    assert found(recorded_facts["sdpa-math-compile"], "uneven-kernel") == []


# --- all of them -----------------------------------------------------------------------------------------------------


def test_every_rule_has_a_condition_and_a_test() -> None:
    source = "".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("test_findings*.py"))
    for name, rule in rules().items():
        assert f'"{name}"' in source, f"no test of the rule {name}"
        assert rule.condition


def test_findings_come_with_the_dearest_first_and_a_failed_case_has_none(facts_of: Look) -> None:
    levels = [finding.severity for finding in find(facts_of("sdpa-math-eager"))]
    assert levels == sorted(levels, key=["high", "medium", "low", "info"].index)
    assert find(CaseFacts("r", "c", status="failed")) == []


def test_of_one_weight_cpu_time_under_the_profiler_comes_last() -> None:
    parts = [("a", "CPU, profiled", 90.0), ("b", "forward", 10.0), ("c", "device", 20.0)]
    findings = [Finding(rule, "high", time, 0.5, "", "", "", of=of) for rule, of, time in parts]
    assert [finding.rule for finding in sorted(findings, key=lambda finding: finding.rank)] == ["c", "b", "a"]


def test_a_time_is_of_something_and_a_note_claims_none(recorded_facts: Facts) -> None:
    for facts in recorded_facts.values():
        for finding in find(facts, recorded_facts):
            said = (facts.case, finding.rule)
            assert (finding.of is None) == (finding.time_us is None) == (finding.kind == "note"), said
            assert finding.kind in ("recoverable", "spent", "note"), said
            if finding.time_low_us is not None:
                assert finding.time_low_us <= finding.time_us <= finding.time_high_us, said


def test_a_time_that_processes_differ_in_ranks_by_what_all_of_them_confirm() -> None:
    steady = Finding("a", "high", 50.0, 0.5, "", "", "", of="forward", time_low_us=49.0)
    wild = Finding("b", "high", 109.0, 0.9, "", "", "", of="forward", time_low_us=12.0)
    assert sorted([wild, steady], key=lambda finding: finding.rank) == [steady, wild]


# --- what several cases have alike -----------------------------------------------------------------------------------


def test_a_run_has_one_finding_of_what_its_cases_have_alike(recorded_facts: Facts) -> None:
    told = find_in_run(recorded_facts)
    assert 25 <= len(told) <= 35  # one row each they were 103
    rows = Counter(finding.rule for finding in told)
    for rule in ("slow-first", "occupancy-gap", "workspace-memset", "metadata-ops", "before-window"):
        assert rows[rule] == 1, rule
    (slow,) = (finding for finding in told if finding.rule == "slow-first")
    alone = [case for case, facts in recorded_facts.items() if found(facts, "slow-first")]
    assert list(slow.cases) == alone
    assert slow.text.startswith(f"In {len(alone)} cases ")


def test_what_is_told_together_stands_under_the_case_that_it_costs_most(recorded_facts: Facts) -> None:
    (finding,) = [one for one in find_in_run(recorded_facts) if one.rule == "metadata-ops"]
    times = {case: found(facts, "metadata-ops") for case, facts in recorded_facts.items()}
    dearest = max((case for case in times if times[case]), key=lambda case: times[case][0].time_us)
    assert finding.case == dearest
    assert finding.time_us == times[dearest][0].time_us
    # Its processes take 18.8 to 40.4 µs, and the text tells of cases that take 5.69 µs.
    assert times[dearest][0].time_low_us < finding.time_us < times[dearest][0].time_high_us
    assert (finding.time_low_us, finding.time_high_us) == (None, None)
    assert finding.case in finding.cases


def test_weighty_findings_stand_alone_and_what_is_told_together_never_under_a_yardstick() -> None:
    said = Finding("slow-first", "info", 1.0, None, "e", "r", "t", theme="", case="a")
    weighty = [Finding("overhead-bound", "high", 9.0, 0.9, "e", "r", "t", case=case) for case in ("c", "d")]
    dearer = [replace(said, time_us=time_us, case=case) for time_us, case in ((5.0, "ceiling"), (2.0, "b"))]
    told = [dearer[0], said, dearer[1], *weighty]
    merged, alone = together(told, ["ceiling"])[0], together(told)[1:]
    assert (merged.case, merged.cases) == ("b", ("ceiling", "a", "b"))
    assert [finding.case for finding in alone] == ["c", "d"]
    assert together([said]) == [said]


def test_findings_of_one_rule_that_differ_in_theme_stay_two(recorded_facts: Facts) -> None:
    calls = [finding for finding in find_in_run(recorded_facts) if finding.rule == "library-call"]
    assert len(calls) == 2  # ops that call cuBLAS or cuDNN, and Liger's function
    (liger,) = (finding for finding in calls if finding.text.startswith("LigerGELUMulFunction spends"))
    assert liger.cases == ()
