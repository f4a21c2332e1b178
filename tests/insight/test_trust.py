"""How far figures can be trusted: on states made by hand, and on the recorded run against its own files."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from insight_recorded import case_rows_of_folder

from kernelbook.case_facts import Activity, CaseFacts, Forward, Process
from kernelbook.clock import bound_of, clock_of
from kernelbook.process_state import process_state
from kernelbook.trust import SCHEMA, Trust, agreement, spread, trust_of, trust_table

BASE = CaseFacts("r", "c", device_type="cuda", kernels=2, device_busy_us=100.0, cpu_time_us=50.0)
IDLE_START = {"sm_mhz": 1980.0, "max_sm_mhz": 1980.0, "throttle_reasons": ["idle"]}


def two_kernels(gap: float) -> tuple[Forward, ...]:
    acts = (Activity(0, "kernel", "a", 0.0, 60.0), Activity(1, "kernel", "b", 60.0 + gap, 40.0))
    return (Forward(1, 0, 50.0, 100.0, 100.0, 0.0, acts),)


@pytest.mark.parametrize(
    ("whole", "cpu", "gap", "flushed", "verdict"),
    [
        (101.9, 500.0, 0.0, False, "GPU-bound"),
        (98.1, 50.0, 0.0, False, "GPU-bound"),
        (97.0, 50.0, 0.0, False, "shorter"),
        (102.5, 50.0, 1.5, False, "idle gaps"),  # 101.5 in all, and 2 %
        (104.0, 50.0, 1.5, False, "unexplained"),
        (109.0, 150.0, 15.0, False, "idle gaps"),  # by less than a tenth
        (115.0, 150.0, 15.0, False, "launch-bound"),  # a gap of 15 µs is a wait for the launch
        (115.0, 50.0, 0.0, True, "L2 flushed"),
        (None, 50.0, 0.0, False, None),
    ],
)
def test_the_unprofiled_forward_against_busy_time(whole, cpu, gap, flushed, verdict) -> None:
    facts = replace(BASE, forward_time_us=whole, cpu_time_us=cpu, forwards=two_kernels(gap))
    assert agreement(facts, (), flushed) == verdict


def test_a_process_outside_the_two_percent_makes_it_borderline() -> None:
    facts = replace(BASE, forward_time_us=101.0)
    assert agreement(facts, [1.0, 1.01, None]) == "GPU-bound"
    assert agreement(facts, [1.0, 1.01, 1.4]) == "borderline"


def test_launch_bound_is_one_word_for_one_thing(trusted, recorded_facts) -> None:
    """In the recorded run, what the clock calls bound by launches and nothing else is launch-bound here."""
    here = {case for case, found in trusted.items() if found.agreement == "launch-bound"}
    assert here == {case for case, facts in recorded_facts.items() if bound_of(facts)[0] == "launches"}
    assert trusted["sdpa-auto-eager"].agreement == "idle gaps"  # by 4 %


def test_without_a_device_there_is_no_verdict() -> None:
    assert agreement(replace(BASE, device_busy_us=None, forward_time_us=100.0)) is None


def test_spread_needs_two() -> None:
    assert spread([100.0, 103.0, None]) == pytest.approx(0.03)
    assert spread([100.0, None]) is None


def row(process: int = 1, **more: object) -> dict[str, object]:
    clocks = {"before": IDLE_START, "after": IDLE_START}
    known = {"run": "r", "case": "c", "process": process, "status": "ok", "attempts": 1, "device_time_us": 100.0}
    return known | {"clocks": json.dumps(clocks), "other_gpu_processes": "[]"} | more


def test_circumstances_of_several_processes_come_together() -> None:
    slowed = {"sm_mhz": 1515.0, "max_sm_mhz": 1980.0, "throttle_reasons": ["software power cap", "idle"]}
    rows = [
        row(1, first_call_us=9e6, inductor_cache="cold", warmup_check='{"still_falling": true}'),
        row(2, first_call_us=2e6, inductor_cache="shared", warmup_check='{"still_falling": false}', attempts=2),
        row(
            3,
            first_call_us=4e6,
            inductor_cache="shared",
            device_time_us=105.0,
            clocks=json.dumps({"before": IDLE_START, "after": slowed}),
            other_gpu_processes='[{"pid": 7, "name": "Xorg"}]',
        ),
        row(4, status="failed", device_time_us=None, attempts=2),
    ]
    found = trust_of(BASE, clock_of(BASE), [process_state(each) for each in rows])
    assert (found.processes, found.failed_processes, found.retried_processes) == (3, 1, 2)
    assert found.device_spread == pytest.approx(0.05)
    assert (found.checked_processes, found.falling_processes) == (2, 1)
    assert (found.sm_before_mhz, found.sm_after_mhz) == (1980.0, 1515.0)
    assert (found.clock_reasons, found.throttled_processes) == ("software power cap", 1)
    assert found.other_gpu_processes == "Xorg"
    assert (found.first_call_us, found.first_call_cold_us, found.first_call_shared_us) == (None, 9e6, 3e6)


def test_a_process_of_another_machine_is_counted_and_left_out() -> None:
    facts = replace(BASE, processes=(Process(1, "ok"), Process(2, "ok"), Process(3, "ok", merged=False)))
    rows = [row(1), row(2, device_time_us=101.0), row(3, device_time_us=200.0)]
    found = trust_of(facts, clock_of(facts), [process_state(each) for each in rows])
    assert (found.processes, found.elsewhere_processes, found.failed_processes) == (2, 1, 0)
    assert found.device_spread == pytest.approx(0.01)


def test_what_cannot_be_read_is_unknown_and_what_is_empty_is_none() -> None:
    unread = trust_of(BASE, clock_of(BASE), [process_state({"status": "ok", "clocks": '{"before": null}'})])
    assert unread == Trust("r", "c", processes=1, device_busy_us=100.0)
    read = trust_of(BASE, clock_of(BASE), [process_state(row())])
    assert (read.clock_reasons, read.throttled_processes, read.other_gpu_processes) == ("none", 0, "none")


def test_clocks_that_someone_set_are_told_and_are_no_throttling() -> None:
    set_by_hand = {"sm_mhz": 1200.0, "throttle_reasons": ["applications clocks setting"]}
    state = process_state(row(clocks=json.dumps({"before": set_by_hand, "after": set_by_hand})))
    found = trust_of(BASE, clock_of(BASE), [state])
    assert (found.clock_reasons, found.throttled_processes) == ("applications clocks setting", 0)


def test_an_edition_without_cases_has_an_empty_table() -> None:
    assert trust_table(pa.table({}), {}, {}).schema == SCHEMA


# --- the recorded run -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trusted(recorded_h200: Path, recorded_facts: dict[str, CaseFacts]) -> dict[str, Trust]:
    facts = {each.key: each for each in recorded_facts.values()}
    clocks = {key: clock_of(each) for key, each in facts.items()}
    table = trust_table(case_rows_of_folder("h200-torch2.11", recorded_h200), facts, clocks)
    return {each["case"]: Trust(**each) for each in table.to_pylist()}


def files_of(folder: Path, case: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((folder / case).glob("*/measurement.json"))]


def test_launch_bound_rows_of_the_recorded_run_are_those_whose_kernels_are_short(trusted, recorded_h200) -> None:
    """torch's own sum of device time per forward, not ours, says which rows wait for their launches."""
    for case, found in trusted.items():
        medians = [statistics.median(m["forward_times_us"]) for m in files_of(recorded_h200, case)]
        whole = statistics.median(medians)
        busy = statistics.median(_torch_device_time_us(m) for m in files_of(recorded_h200, case))
        assert found.busy_ratio == pytest.approx(whole / busy, rel=0.03), case
        if whole > 1.1 * busy:
            assert found.agreement == "launch-bound", case
        if found.agreement == "launch-bound":
            assert whole > 1.07 * busy, case  # a tenth over busy time, of which torch's sum knows to 3 %
        if found.agreement == "GPU-bound":
            assert max(medians) <= 1.04 * busy, case


def _torch_device_time_us(measurement: dict) -> float:
    """Per forward; of the two rows named like the annotation, the one of the CPU sums what it launched."""
    name = measurement["case"]["annotation"]
    return next(
        row["device_time_us"] / row["count"]
        for row in measurement["key_averages"]
        if row["name"] == name and row["cpu_time_us"] > 0
    )


def test_device_time_of_recorded_processes_agrees_within_two_percent(trusted) -> None:
    assert all(found.processes == 3 and found.device_spread < 0.02 for found in trusted.values())


def test_reasons_and_falling_times_are_counted_as_the_files_have_them(trusted, recorded_h200) -> None:
    for case, found in trusted.items():
        texts = [path.read_text() for path in (recorded_h200 / case).glob("*/measurement.json")]
        assert found.throttled_processes == sum("power cap" in text or "slowdown" in text for text in texts), case
        assert found.falling_processes == sum('"still_falling": true' in text for text in texts), case
    assert trusted["ceiling-matmul"].clock_reasons == "software power cap"


def test_overhead_is_small_where_the_gpu_has_long_work_and_large_where_it_waits(trusted) -> None:
    assert abs(trusted["ceiling-copy"].overhead_share) < 0.02
    assert abs(trusted["sdpa-math-eager"].overhead_share) < 0.02
    assert trusted["linear-eager"].overhead_share > 0.5
