"""How far figures can be trusted: on states made by hand, and on the recorded run against its own files."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.cases import CaseFacts, Process
from kernelbook.cases.records import record_of, records_of
from kernelbook.judge.clock import bound_of, bounds_by_process, clock_of
from kernelbook.judge.trust import SCHEMA, Trust, spread, trust_of, trust_table
from kernelbook.report.trust_section import statements, warm_up
from tests.insight.insight_raw import by_process, cpu_time, device_time

BASE = CaseFacts("r", "c", device_type="cuda", kernels=2, device_busy_us=100.0, cpu_time_us=50.0)
IDLE_START = {"sm_mhz": 1980.0, "max_sm_mhz": 1980.0, "throttle_reasons": ["idle"]}


def test_the_unprofiled_forward_against_busy_time() -> None:
    facts = replace(BASE, forward_time_us=115.0, cpu_time_us=150.0)
    found = trust_of(facts, clock_of(facts))
    assert (found.busy_ratio, found.bound, found.bound_processes) == (1.15, "launches", None)
    lone = replace(BASE, device_busy_us=None, forward_time_us=100.0)
    found = trust_of(lone, clock_of(lone))
    assert (found.busy_ratio, found.bound) == (None, "unknown")


def test_a_bound_is_told_with_the_number_of_its_processes() -> None:
    def process(number: int, whole: float) -> Process:
        return Process("r", "c", process=number, forward_time_us=whole, device_busy_us=100.0, cpu_time_us=150.0)

    facts = replace(BASE, forward_time_us=101.0, processes=(process(1, 100.0), process(2, 101.0), process(3, 143.0)))
    found = trust_of(facts, clock_of(facts))
    assert (found.bound, found.bound_processes) == ("gpu", 2)


def test_the_bound_is_that_of_the_clock(trusted, recorded_facts) -> None:
    assert {case: found.bound for case, found in trusted.items()} == {
        case: bound_of(facts)[0] for case, facts in recorded_facts.items()
    }
    for case in ("attention-flex-compile", "mlp-eager"):
        bounds = list(bounds_by_process(recorded_facts[case]).values())
        assert trusted[case].bound_processes == bounds.count(trusted[case].bound), case
    mlp = recorded_facts["mlp-eager"]  # busy for all of its 241 µs
    slow = replace(mlp, processes=(*mlp.processes[:2], replace(mlp.processes[2], forward_time_us=316.0)))
    found = trust_of(slow, clock_of(slow))
    assert (found.bound, found.bound_processes) == ("gpu", 2)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([100.0] * 10 + [500.0] * 10, False),  # 5 times as long is not above it
        ([100.0] * 10 + [501.0] * 10, True),
        ([100.0] * 99 + [9000.0], False),  # one of a hundred is no unrest
        ([100.0] * 94 + [9000.0] * 6, True),
        ([], None),
    ],
)
def test_forwards_are_restless_where_the_95th_percentile_is_above_five_times_the_5th(times, expected) -> None:
    half = len(times) // 2
    processes = (
        Process("r", "c", process=1, forward_times_us=tuple(times[:half])),
        Process("r", "c", process=2, forward_times_us=tuple(times[half:])),
        Process("r", "c", process=3, forward_times_us=(1.0, 1e6), merged=False),  # ran on another machine
    )
    facts = replace(BASE, processes=processes)
    assert trust_of(facts, clock_of(facts)).restless is expected


def test_no_recorded_forward_is_restless(trusted) -> None:
    assert not any(found.restless for found in trusted.values())


def test_spread_needs_two() -> None:
    assert spread([100.0, 103.0, None]) == pytest.approx(0.03)
    assert spread([100.0, None]) is None


def test_cpu_times_of_processes_lie_apart() -> None:
    times = {1: 100.0, 2: 150.0, 3: None, 4: 900.0}
    processes = tuple(Process("r", "c", process=n, cpu_time_us=time, merged=n != 4) for n, time in times.items())
    facts = replace(BASE, processes=processes)
    assert facts.cpu_spread == pytest.approx(0.5)
    assert trust_of(facts, clock_of(facts)).cpu_spread == pytest.approx(0.5)
    assert BASE.cpu_spread is None


def row(process: int = 1, **more: object) -> Process:
    clocks = {"before": IDLE_START, "after": IDLE_START}
    known = {"run": "r", "case": "c", "process": process, "attempts": 1, "device_time_us": 100.0}
    return record_of(Process, known | {"clocks": clocks, "other_gpu_processes": ()} | more)


def trust_in(*processes: Process) -> Trust:
    return trust_of(replace(BASE, processes=processes), clock_of(BASE))


def test_circumstances_of_several_processes_come_together() -> None:
    slowed = {"sm_mhz": 1515.0, "max_sm_mhz": 1980.0, "throttle_reasons": ["software power cap", "idle"]}
    rows = [
        row(1, first_call_us=9e6, inductor_cache="cold", warmup_check={"still_falling": True}),
        row(2, first_call_us=2e6, inductor_cache="shared", warmup_check={"still_falling": False}, attempts=2),
        row(
            3,
            first_call_us=4e6,
            inductor_cache="shared",
            device_time_us=105.0,
            clocks={"before": IDLE_START, "after": slowed},
            other_gpu_processes=({"pid": 7, "name": "Xorg"},),
        ),
        row(4, status="failed", device_time_us=None, attempts=2, merged=False),
    ]
    found = trust_in(*rows)
    assert (found.processes, found.failed_processes, found.retried_processes) == (3, 1, 2)
    assert found.device_spread == pytest.approx(0.05)
    assert (found.checked_processes, found.falling_processes) == (2, 1)
    assert (found.sm_before_mhz, found.sm_after_mhz) == (1980.0, 1515.0)
    assert (found.clock_reasons, found.throttled_processes) == (("software power cap",), 1)
    assert found.other_gpu_processes == ("Xorg",)
    assert (found.first_call_us, found.first_call_cold_us, found.first_call_shared_us) == (None, 9e6, 3e6)
    assert found.first_call_unknown_us is None


@pytest.mark.parametrize(
    ("check", "rising"),
    [
        ({"still_falling": False, "rising": True}, True),
        ({"still_falling": False, "rising": False}, False),
        # measured before rising times were noticed: by the two medians
        ({"still_falling": False, "first_median_us": 10.0, "rest_median_us": 12.0}, True),
        ({"still_falling": False, "first_median_us": 10.0, "rest_median_us": 10.5}, False),
        ({"still_falling": True, "first_median_us": 12.0, "rest_median_us": 10.0}, False),
        (None, None),
    ],
)
def test_times_that_rise_are_counted(check: dict | None, rising: bool | None) -> None:
    found = trust_in(row(1, warmup_check=check), row(2, warmup_check={"still_falling": False}))
    assert found.rising_processes == (None if rising is None else int(rising))


def test_times_that_rise_are_reported_like_those_that_fall() -> None:
    both = Trust("r", "c", processes=3, checked_processes=3, falling_processes=1, rising_processes=2)
    assert warm_up(both) == "still falling in 1 of 3, rising in 2 of 3"
    assert warm_up(replace(both, falling_processes=0)) == "rising in 2 of 3"
    assert warm_up(replace(both, falling_processes=0, rising_processes=0)) == "settled"
    assert warm_up(replace(both, falling_processes=0, rising_processes=None)) == "settled"
    sentences = [named.sentence for named in statements([both])]
    assert "Forward times rose from the first to the last (1 of 1 row): c." in sentences


def test_a_process_of_another_machine_is_counted_and_left_out() -> None:
    found = trust_in(row(1), row(2, device_time_us=101.0), row(3, device_time_us=200.0, merged=False))
    assert (found.processes, found.elsewhere_processes, found.failed_processes) == (2, 1, 0)
    assert found.device_spread == pytest.approx(0.01)


def test_what_cannot_be_read_is_unknown_and_what_is_empty_is_an_empty_list() -> None:
    unread = trust_in(record_of(Process, {"run": "r", "case": "c", "clocks": {"before": None}}))
    assert unread == Trust("r", "c", processes=1, device_busy_us=100.0)
    read = trust_in(row())
    assert (read.clock_reasons, read.throttled_processes, read.other_gpu_processes) == ((), 0, ())


def test_clocks_that_someone_set_are_told_and_are_no_throttling() -> None:
    set_by_hand = {"sm_mhz": 1200.0, "throttle_reasons": ["applications clocks setting"]}
    found = trust_in(row(clocks={"before": set_by_hand, "after": set_by_hand}))
    assert (found.clock_reasons, found.throttled_processes) == (("applications clocks setting",), 0)


@pytest.mark.parametrize(
    ("clock", "reasons", "throttled"),
    [
        (1515.0, [], 1),  # 77 % of the highest, and nothing says why at this moment
        (1600.0, [], 0),
        (345.0, ["idle"], 0),
        (1200.0, ["applications clocks setting"], 0),
        (1980.0, ["software power cap"], 1),
        (345.0, None, None),  # whether it was idle is not known
        (None, [], 0),
    ],
)
def test_a_clock_far_below_the_highest_is_held_down_though_no_reason_is_given(clock, reasons, throttled) -> None:
    reading = {"sm_mhz": clock, "max_sm_mhz": 1980.0, "throttle_reasons": reasons}
    assert trust_in(row(clocks={"before": None, "after": reading})).throttled_processes == throttled


def test_a_first_call_beside_a_filled_cache_is_of_unknown_state() -> None:
    rows = [row(n, first_call_us=t, inductor_cache="unknown") for n, t in ((1, 3e6), (2, 1e6), (3, 4e6))]
    found = trust_in(*rows)
    assert (found.first_call_unknown_us, found.first_call_shared_us, found.first_call_us) == (3e6, None, None)


def test_an_edition_without_cases_has_an_empty_table() -> None:
    assert trust_table({}, {}).schema == SCHEMA


# --- the recorded run -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trusted(recorded_facts: dict[str, CaseFacts]) -> dict[str, Trust]:
    facts = {each.key: each for each in recorded_facts.values()}
    clocks = {key: clock_of(each) for key, each in facts.items()}
    return {each.case: each for each in records_of(Trust, trust_table(facts, clocks))}


def files_of(folder: Path, case: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((folder / case).glob("*/measurement.json"))]


def test_ratios_and_bounds_of_the_recorded_run_are_those_of_torchs_own_sums(trusted, recorded_h200) -> None:
    """torch's own sum of device time per forward, not ours, says which rows wait for their launches."""
    for case, found in trusted.items():
        medians = [statistics.median(m["forward_times_us"]) for m in files_of(recorded_h200, case)]
        whole = statistics.median(medians)
        busy = statistics.median(_torch_device_time_us(m) for m in files_of(recorded_h200, case))
        assert found.busy_ratio == pytest.approx(whole / busy, rel=0.03), case
        if whole > 1.13 * busy:  # a tenth over busy time, of which torch's sum knows to 3 %
            assert found.bound == "launches", case
        if whole < 1.07 * busy:
            assert found.bound == "gpu", case


def _torch_device_time_us(measurement: dict) -> float:
    """Per forward; of the two rows named like the annotation, the one of the CPU sums what it launched."""
    name = measurement["case"]["annotation"]
    return next(
        row["device_time_us"] / row["count"]
        for row in measurement["key_averages"]
        if row["name"] == name and row["cpu_time_us"] > 0
    )


def test_spreads_and_gpus_of_the_recorded_run_are_those_of_its_raw_events(
    trusted, recorded_h200, recorded_facts
) -> None:
    for case, found in trusted.items():
        assert found.processes == 3, case
        annotation = files_of(recorded_h200, case)[0]["case"]["annotation"]
        for share, figure in ((found.cpu_spread, cpu_time), (found.device_spread, device_time)):
            medians = by_process(recorded_h200 / case, annotation, figure)
            assert share == pytest.approx(max(medians) / min(medians) - 1, abs=0.0005), (case, figure.__name__)
    for case, found in trusted.items():
        ids = {m["environment"]["gpu_id"] for m in files_of(recorded_h200, case)}
        assert set(found.gpus) == ids, case
        assert len(found.gpus) == 1, case  # the whole run is of one GPU
    facts = recorded_facts["mlp-compile"]
    first, second, third = facts.processes
    two = replace(facts, processes=(first, replace(second, gpu_id="other"), third))
    assert trust_of(two, clock_of(two)).gpus == (first.gpu_id, "other")  # in the order of the processes, each once


def test_reasons_and_falling_times_are_counted_as_the_files_have_them(trusted, recorded_h200) -> None:
    for case, found in trusted.items():
        texts = [path.read_text() for path in (recorded_h200 / case).glob("*/measurement.json")]
        clocks = [json.loads(text)["clocks"] for text in texts]
        readings = [list(clock.values()) for clock in clocks]
        # Below four fifths of 1980 MHz, or, as one process at 1620 MHz, held down for the reason that it gives.
        capped = [any("software power cap" in each["throttle_reasons"] for each in of) for of in readings]
        slow = [cap or min(each["sm_mhz"] for each in of) < 1600 for cap, of in zip(capped, readings, strict=True)]
        assert found.throttled_processes == sum(slow), case
        assert found.falling_processes == sum('"still_falling": true' in text for text in texts), case
        checks = [json.loads(text)["warmup_check"] for text in texts]
        rose = [check["rest_median_us"] / check["first_median_us"] > 1.1 for check in checks]
        assert found.rising_processes == sum(rose), case
    assert trusted["ceiling-matmul"].clock_reasons == ("software power cap",)  # as two of its three processes say
    assert trusted["ceiling-matmul"].throttled_processes == 3


def test_overhead_is_small_where_the_gpu_has_long_work_and_large_where_it_waits(trusted) -> None:
    assert abs(trusted["ceiling-copy"].overhead_share) < 0.02
    assert abs(trusted["sdpa-math-eager"].overhead_share) < 0.02
    assert trusted["linear-eager"].overhead_share > 0.5
