"""What a night says, and what it does not: causes, once each, back and forth, failures, gaps and marks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import detect_changes
from kernelbook.history.night_events import NightEvent, NightVerdict, event_of, exit_status
from kernelbook.history.rules import Rules, rules_of
from kernelbook.history.schema import table_of
from kernelbook.history.store import Store
from kernelbook.history.verdicts import judge_last_night
from tests.nights.made_nights import ADD, GEMM, GEMM_2, continued, editions, night, row

TRITON = "triton_poi_fused_add_gelu_mul_0"
Change = Callable[[str, str], dict]


class Nights:
    """Plays nights of one case one after the other; each is judged and remembered."""

    def __init__(self, folder: Path, noise: float = 0.004) -> None:
        self.store, self.rng, self.noise = Store(folder), np.random.default_rng(11), noise
        self.dates = iter(editions(400))

    def play(self, count: int, rules: Rules | None = None, skip: int = 0, **change: object) -> list[NightVerdict]:
        for _ in range(skip):
            next(self.dates)
        dates = [next(self.dates) for _ in range(count)]
        for date in dates:
            tables = night(date, ["host"], ["case"], self.rng, noise=self.noise, change=lambda run, case: change)
            self.store.add_night(date, tables)
        verdicts = list(detect_changes.judge_nights(self.store, dates, rules or Rules()))
        for verdict in verdicts:
            self.store.write_events(verdict.edition, verdict.as_json("2026-01-01T00:00:00Z"))
        return verdicts

    def judge(self, date: str, rules: Rules | None = None) -> NightVerdict:
        judged, _ = self.store.read_events()
        found = judge_last_night(self.store.read(until=date), date, judged, self.store.names, rules)
        self.store.write_events(date, found.as_json("2026-01-01T00:00:00Z"))
        return found


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    made = Nights(tmp_path_factory.mktemp("twenty"))
    made.play(20)
    return made


@pytest.fixture
def steady(twenty: Nights, tmp_path: Path) -> Nights:
    """Twenty nights in which nothing changed."""
    return continued(twenty, tmp_path)


def events(judgements: list[NightVerdict]) -> list[NightEvent]:
    return [event for judgement in judgements for event in judgement.events]


@pytest.mark.parametrize(
    ("after", "kind", "cause"),
    [
        ({"kernels": [GEMM_2, ADD]}, "kernels", "kernel replaced: GEMM"),
        ({"kernels": [GEMM, TRITON, ADD], "kernel_count": 3}, "kernels", "kernel added: "),
        ({"kernels": [GEMM], "kernel_count": 1}, "kernels", "kernel removed: "),
        ({"kernels": [ADD, GEMM]}, "kernels", "the same kernels in another order"),
        ({"memcpys": 1}, "kernels", "memcpys 0 → 1"),
        ({"launches": 4}, "launches", "launches 3 → 4"),
        ({"ops": ["aten::linear", "aten::addmm"]}, "ops", "op removed: aten::add"),
        ({"warnings": ["unattributed"]}, "warnings", "new warning: unattributed"),
    ],
)
def test_what_ran_is_compared_exactly_the_same_night(nights: Nights, after: dict, kind: str, cause: str) -> None:
    assert events(nights.play(3)) == []
    (event,) = events(nights.play(3, **after))
    assert (event.kind, event.night, event.found) == (kind, "2026-01-04", "2026-01-04")
    assert any(line.startswith(cause) for line in event.causes), event.causes


def test_warnings_that_come_and_go_with_noise_are_no_change(nights: Nights) -> None:
    passing = ["shared_gpu", "slow_first"]
    assert events([*nights.play(2), *nights.play(1, warnings=passing), *nights.play(2)]) == []


def test_a_gpu_that_others_used_is_the_cause(steady: Nights) -> None:
    (event,) = events(steady.play(5, factor=1.2, warnings=["shared_gpu"]))
    assert (event.kind, event.causes) == ("time", ("other processes used the GPU",))


def test_one_process_that_ran_something_else_is_no_change(nights: Nights) -> None:
    nights.play(3)
    date = next(nights.dates)
    rows = [
        row(date, "host", "case", process, kernels=[GEMM_2] if process == 2 else [GEMM, ADD]) for process in range(1, 6)
    ]
    nights.store.add_night(date, {"host": table_of(rows)})
    assert nights.judge(date).events == ()


def test_a_new_build_that_is_slower_is_told_with_the_build(steady: Nights) -> None:
    news = {"torch": "2.14.0.dev20260121", "image_digest": "sha256:" + "b" * 64}
    found = events(steady.play(6, factor=1.06, **news))
    (event,) = found
    assert (event.kind, event.direction, event.night) == ("time", "slower", "2026-01-21")
    assert event.causes[:2] == ("torch 2.13.0 → 2.14.0.dev20260121", "image aaaaaaaaaaaa → bbbbbbbbbbbb")


def test_a_build_that_changed_the_night_after_is_named_as_such(steady: Nights) -> None:
    found = events([*steady.play(1, factor=1.06), *steady.play(5, factor=1.06, torch="2.14.0")])
    assert [event.causes for event in found] == [("torch 2.13.0 → 2.14.0 (the night after)",)]


def test_an_improvement_is_news_too(steady: Nights) -> None:
    judgements = steady.play(6, factor=0.9)
    (event,) = events(judgements)
    assert (event.kind, event.direction) == ("time", "faster")
    assert event.change == pytest.approx(-0.1, abs=0.01)
    assert [judgement.exit_status for judgement in judgements].count(3) == 1


def test_lower_clocks_are_the_cause(steady: Nights) -> None:
    (event,) = events(steady.play(6, factor=1.1, sm_clock_mhz=1800.0))
    assert event.causes == ("SM clock lower by 9.1 %",)  # 1800 / 1980


def test_only_cpu_time_changed(steady: Nights, tmp_path: Path) -> None:
    found = []
    for _ in range(5):
        date = next(steady.dates)
        rows = [row(date, "host", "case", process, forward_time_us=110.0 + process / 10) for process in range(1, 6)]
        steady.store.add_night(date, {"host": table_of(rows)})
        found += steady.judge(date).events
    (event,) = found
    assert event.metric == "forward_time_us"
    assert event.causes == ("only CPU time changed: the device time is the same",)


def test_a_replaced_kernel_that_is_slower_is_one_change_not_two(steady: Nights) -> None:
    (event,) = events(steady.play(10, factor=1.08, kernels=[GEMM_2, ADD]))
    assert event.kind == "kernels"
    assert event.change == pytest.approx(0.08, abs=0.02)
    assert "forward time +" in event.text


def test_a_slowdown_the_night_after_a_harmless_kernel_change_is_told(steady: Nights) -> None:
    found = events([*steady.play(1, kernels=[GEMM_2, ADD]), *steady.play(8, factor=1.15, kernels=[GEMM_2, ADD])])
    assert [event.kind for event in found] == ["kernels", "time"]


def test_two_steps_a_week_apart_are_two_changes(steady: Nights) -> None:
    found = events([*steady.play(7, factor=1.06), *steady.play(8, factor=1.12)])
    assert [(event.kind, event.night) for event in found] == [("time", "2026-01-21"), ("time", "2026-01-28")]


def test_a_time_that_goes_back_and_forth_is_a_suspect_the_third_time(nights: Nights) -> None:
    judgements = nights.play(20)
    for turn in range(5):
        judgements += nights.play(5, factor=1.1 if turn % 2 == 0 else 1.0)
    found = events(judgements)
    assert [(event.direction, event.night) for event in found] == [("slower", "2026-01-21"), ("faster", "2026-01-26")]
    assert sum("goes back and forth" in item.text for judgement in judgements[-15:] for item in judgement.suspects) == 3
    (event,) = events(nights.play(6, factor=1.3))
    assert event.direction == "slower"


def test_a_worse_step_right_after_the_first_is_told_too(steady: Nights) -> None:
    found = events([*steady.play(3, factor=1.06), *steady.play(8, factor=1.3)])
    assert [(event.kind, event.direction) for event in found] == [("time", "slower")] * 2
    assert found[1].after == pytest.approx(130, rel=0.02)


def test_an_old_change_is_not_told_when_a_history_is_judged_for_the_first_time(nights: Nights) -> None:
    for factor, count in ((1.0, 20), (1.2, 20)):
        for _ in range(count):
            date = next(nights.dates)
            tables = night(
                date, ["host"], ["case"], nights.rng, change=lambda run, case, factor=factor: {"factor": factor}
            )
            nights.store.add_night(date, tables)
    assert nights.judge(date).events == ()


def test_with_little_history_time_is_not_judged_but_kernels_are(nights: Nights) -> None:
    judgements = nights.play(5) + nights.play(6, factor=1.5, kernels=[GEMM_2, ADD])
    assert [event.kind for event in events(judgements)] == ["kernels"]
    assert (judgements[-1].insufficient, judgements[-1].compared) == (1, 0)
    last = nights.play(1, factor=1.5, kernels=[GEMM_2, ADD])[0]
    assert (last.insufficient, last.compared) == (0, 1)


def test_back_and_forth_alerts_twice_and_is_a_suspect_then(nights: Nights) -> None:
    nights.play(3)
    judgements = []
    for turn in range(6):
        judgements += nights.play(1, kernels=[GEMM_2, ADD] if turn % 2 == 0 else [GEMM, ADD])
    assert len(events(judgements)) == 2
    assert all("goes back and forth" in judgement.suspects[0].text for judgement in judgements[2:])
    assert [judgement.exit_status for judgement in judgements] == [3, 3, 0, 0, 0, 0]


def test_a_single_slow_night_is_a_suspect_and_never_an_alert(steady: Nights) -> None:
    (slow,) = steady.play(1, factor=1.12)
    assert slow.events == ()
    assert slow.exit_status == 0
    assert slow.suspects[0].change == pytest.approx(0.12, abs=0.02)
    assert events(steady.play(6)) == []


def test_another_gpu_is_a_series_of_its_own_and_coming_back_is_no_news(nights: Nights) -> None:
    nights.play(3)
    (event,) = events([*nights.play(2, device="NVIDIA A100"), *nights.play(2), *nights.play(1, device="NVIDIA A100")])
    assert (event.kind, event.case) == ("series", "case")
    assert event.causes == ("device NVIDIA H200 → NVIDIA A100",)


def test_other_parameters_start_a_new_series(nights: Nights) -> None:
    nights.play(2)
    (event,) = events(nights.play(2, params='{"batch": 64}'))
    assert event.causes == ('params {} → {"batch": 64}',)


def test_why_a_series_starts_anew_is_one_line(nights: Nights) -> None:
    nights.play(2)
    (judgement,) = nights.play(1, params='{"batch": 64}')
    lines = list(detect_changes.verdict_lines(judgement))
    assert [line for line in lines if '{"batch": 64}' in line] == [lines[1]]


def test_a_case_that_fails_is_told_when_it_begins_and_counts_every_night(nights: Nights) -> None:
    nights.play(3)
    judgements = []
    for _ in range(3):
        date = next(nights.dates)
        rows = [row(date, "host", "case", 1), row(date, "host", "other", 1, status="failed", reason="out of memory")]
        nights.store.add_night(date, {"host": table_of(rows)})
        judgements.append(nights.judge(date))
    (event,) = events(judgements)
    assert (event.kind, event.case, event.night) == ("failure", "other", judgements[0].edition)
    assert [judgement.exit_status for judgement in judgements] == [4, 4, 4]


def test_names_and_reasons_lose_what_would_hide_or_reorder_them(nights: Nights) -> None:
    nights.play(2)
    (event,) = events(nights.play(1, kernels=["kernel\u202egnp.exe\x00", ADD]))
    assert "kernel[U+202E]gnp.exe[U+0000]" in event.text
    date = next(nights.dates)
    nights.store.add_night(date, {"host": table_of([row(date, "host", "x", 1, status="failed", reason="a\nb\u202e")])})
    assert nights.judge(date).failed[0].reason == "a b[U+202E]"


def test_unsupported_and_left_out_are_well(nights: Nights) -> None:
    date = next(nights.dates)
    rows = [row(date, "host", "flex", 1, status="unsupported", reason="needs CUDA")]
    left = [
        {"edition": date, "night": date, "run": "ngc", "line": "ngc", "status": "left out", "reason": "no container"}
    ]
    nights.store.add_night(date, {"host": table_of(rows), "ngc": table_of(left)})
    judgement = nights.judge(date)
    assert (judgement.failed, judgement.events, judgement.exit_status) == ((), (), 0)


def test_a_missing_night_is_told_once_and_a_weekly_rhythm_has_none(nights: Nights, tmp_path: Path) -> None:
    judgements = [*nights.play(5), *nights.play(1, skip=2), *nights.play(3)]
    (event,) = events(judgements)
    assert event.text == "2 nights missing after 2026-01-05"
    weekly = Nights(tmp_path / "weekly")
    assert events([weekly.play(1, skip=6)[0] for _ in range(10)]) == []


def test_a_night_without_a_kernel_record_is_no_change(nights: Nights) -> None:
    blind = {"kernels": None, "device_time_us": None, "memcpys": None, "memsets": None, "launches": None}
    assert events([*nights.play(2), *nights.play(2, **blind), *nights.play(2), *nights.play(1, **blind)]) == []
    (event,) = events(nights.play(2, kernels=[GEMM_2, ADD]))
    assert event.causes[0].startswith("kernel replaced")


def test_times_of_zero_are_no_times(nights: Nights) -> None:
    judgements = [
        *nights.play(10, device_time_us=0.0),
        *nights.play(10),
        *nights.play(4, device_time_us=0.0, factor=1.2),
    ]
    assert [(event.kind, event.metric) for event in events(judgements)] == [("time", "forward_time_us")]


def test_what_makes_the_exit_status_is_configured(nights: Nights) -> None:
    rules = rules_of({"alert_on": ["time"], "folder": "elsewhere"})
    assert rules.alert_on == ("time",)
    nights.play(3, rules)
    (judgement,) = nights.play(1, rules, kernels=[GEMM_2, ADD])
    assert len(judgement.events) == 1
    assert judgement.exit_status == 0


@pytest.mark.parametrize(
    ("changed", "failed", "status"), [(False, False, 0), (True, False, 3), (False, True, 4), (True, True, 5)]
)
def test_exit_statuses_are_the_documented_ones(changed: bool, failed: bool, status: int) -> None:
    assert exit_status(changed=changed, failed=failed) == status


def test_an_event_survives_being_remembered(nights: Nights) -> None:
    nights.play(3)
    (event,) = events(nights.play(1, launches=4))
    assert event_of(event.as_json() | {"a later key": 1}) == event


def test_a_night_that_is_not_recorded_cannot_be_judged(nights: Nights) -> None:
    nights.play(1)
    with pytest.raises(ValueError, match="record it first"):
        judge_last_night(nights.store.read(), "2026-05-05", {}, nights.store.names)
