"""A night is a night for all cases: shifts of the machine, GPUs of one kind, boundaries, second measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

import detect_changes
from kernelbook.history.night_events import NightEvent, NightVerdict, event_of
from kernelbook.history.rules import Rules
from kernelbook.history.schema import table_of
from kernelbook.history.store import Store
from tests.nights.made_nights import ADD, GEMM_2, continued, editions, night, row

CASES = [*(f"case-{number}" for number in range(8)), "ceiling-matmul", "ceiling-copy"]
Change = Callable[[str], dict]
"""Columns of a case that differ from the usual ones."""


class Machine:
    """Plays nights of ten cases on one machine; each night is judged by detect_changes.py and remembered."""

    def __init__(self, folder: Path) -> None:
        self.store, self.rng, self.dates = Store(folder), np.random.default_rng(7), iter(editions(400))
        self.verdicts: list[NightVerdict] = []

    def play(
        self, count: int, change: Change = lambda case: {}, again: dict[str, float] | None = None
    ) -> list[NightEvent]:
        """Events of `count` more nights. again: case -> forward time of ten processes that measure it again."""
        return self.play_each([change] * count, again)

    def play_each(self, changes: Iterable[Change], again: dict[str, float] | None = None) -> list[NightEvent]:
        """Events of one more night for each change."""
        dates = []
        for change in changes:
            date = next(self.dates)
            dates.append(date)
            columns = {case: change(case) for case in CASES}
            tables = night(date, ["host"], CASES, self.rng, noise=0.005, change=lambda run, case, of=columns: of[case])
            self.store.add_night(date, tables)
            rows = [
                row(date, "host", case, process, confirmation=True, forward_time_us=time, device_time_us=0.8 * time)
                for case, time in (again or {}).items()
                for process in range(6, 16)
            ]
            if rows:
                self.store.add_confirmation(date, {"host": table_of(rows)})
        verdicts = list(detect_changes.judge_nights(self.store, dates, Rules()))
        for verdict in verdicts:
            self.store.write_events(verdict.edition, verdict.as_json("2026-01-01T00:00:00Z"))
        self.verdicts += verdicts
        return [event for verdict in verdicts for event in verdict.events]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("thirty"))
    made.play(30)
    return made


@pytest.fixture
def steady(thirty: Machine, tmp_path: Path) -> Machine:
    """Thirty nights in which nothing changed."""
    return continued(thirty, tmp_path)


def only(case: str, **columns: object) -> Change:
    return lambda each: columns if each == case else {}


def slower(factor: float, case: str | None = None, case_factor: float = 1.0) -> Change:
    """All cases take `factor` times as long, and one of them `case_factor` times that."""
    return lambda each: {"factor": factor * (case_factor if each == case else 1.0)}


def test_a_machine_that_is_slower_for_a_night_or_two_is_no_change_of_a_case(machine: Machine) -> None:
    machine.play(15)
    assert machine.play_each(map(slower, (1.05, 1.0, 1.06, 1.06, 1.0, 1.05))) == []
    assert [verdict.suspects for verdict in machine.verdicts[-6:]] == [()] * 6


def test_a_shift_of_all_cases_that_lasts_is_one_event_of_its_own(machine: Machine) -> None:
    machine.play(20)
    (event,) = machine.play(9, lambda case: {"factor": 1.08, "sm_clock_mhz": 1800.0})
    assert (event.kind, event.case, event.night, event.direction) == ("shared", None, "2026-01-21", "slower")
    assert event.text.startswith("all 10 cases ")
    assert event.change == pytest.approx(0.08, abs=0.01)
    assert event.causes == ("SM clock lower by 9.1 %",)  # 1800 / 1980
    assert event.kind in Rules().alert_on


def test_a_step_of_one_case_is_seen_through_the_noise_of_the_machine(machine: Machine) -> None:
    noisy = np.random.default_rng(3).uniform(0.95, 1.05, 34)
    steps = [slower(factor, "case-3", 1.05 if at >= 30 else 1.0) for at, factor in enumerate(noisy)]
    (event,) = machine.play_each(steps)
    assert (event.kind, event.case, event.night) == ("time", "case-3", "2026-01-31")
    assert event.change == pytest.approx(0.05, abs=0.015)


def test_gpus_of_one_kind_have_levels_of_their_own_and_a_new_one_is_a_note(machine: Machine) -> None:
    def on(gpu: str) -> Change:
        # the second GPU is 4 % slower, and one case alone is 10 % slower on it
        return lambda case: {"gpu_id": gpu, "factor": 1.0 if gpu == "a" else 1.1 if case == "case-0" else 1.04}

    events = machine.play_each(map(on, "ab" * 15))
    assert [(event.kind, event.night) for event in events if event.kind != "time"] == [("series", "2026-01-02")]
    assert "another GPU of this kind: a → b" in events[0].text
    assert machine.play_each(map(on, "ab" * 10)) == []


def test_slower_with_a_new_driver_is_a_change_with_the_driver_as_cause(machine: Machine) -> None:
    machine.play(20)
    reports = machine.play(4, lambda case: {"driver": "590.10", "factor": 1.6 if case == "case-1" else 1.0})
    (event,) = reports
    assert event.night == "2026-01-21"
    assert {event.kind, *event.also} == {"time", "series"}
    assert event.causes[0] == "driver 580.95.05 → 590.10"
    (time,) = [member for member in event.members if member.kind == "time"]
    assert time.case == "case-1"
    assert time.before == pytest.approx(100, rel=0.02)
    assert time.after == pytest.approx(160, rel=0.03)
    assert machine.verdicts[20].exit_status == 3


def test_kernels_are_compared_across_a_new_driver(machine: Machine) -> None:
    machine.play(15)
    (event,) = machine.play(1, lambda case: {"driver": "590.10"} | ({"memcpys": 1} if case == "case-2" else {}))
    (kernels,) = [member for member in event.members if member.kind == "kernels"]
    assert kernels.case == "case-2"
    assert {"memcpys 0 → 1", "driver 580.95.05 → 590.10"} <= set(kernels.causes)


def test_sixty_changes_of_one_torch_update_are_one_event_with_a_list(machine: Machine) -> None:
    machine.play(15, lambda case: {"torch_git": "a" * 40})
    new = {"torch": "2.14.0", "torch_git": "b" * 40, "kernels": [GEMM_2, ADD]}
    (event,) = machine.play(1, lambda case: {} if case.startswith("ceiling") else new)
    assert (event.kind, event.case, len(event.members)) == ("kernels", None, 8)
    assert event.text.startswith(
        "torch 2.13.0 → 2.14.0; commits of PyTorch to look through: aaaaaaaaaaaa...bbbbbbbbbbbb"
    )
    assert "8 cases changed" in event.text
    lines = list(detect_changes.verdict_lines(machine.verdicts[-1]))
    assert sum(line.startswith("change:") for line in lines) == 1
    assert any("cases: case-0, case-1" in line for line in lines)
    assert machine.play(3, lambda case: {} if case.startswith("ceiling") else new) == []
    assert event_of(json.loads(json.dumps(event.as_json()))) == event


def test_a_second_measurement_that_agrees_makes_a_change_the_same_night(steady: Machine) -> None:
    (event,) = steady.play(1, only("case-4", factor=1.1), again={"case-4": 110.0})
    assert (event.kind, event.case, event.night) == ("time", "case-4", steady.verdicts[-1].edition)
    assert steady.verdicts[-1].suspects == ()


def test_a_second_measurement_that_disagrees_clears_the_suspect(steady: Machine) -> None:
    assert steady.play(1, only("case-4", factor=1.1), again={"case-4": 100.0}) == []
    assert steady.verdicts[-1].suspects == ()
    assert steady.play(3) == []


def test_a_second_measurement_is_read_of_suspects_only(steady: Machine) -> None:
    assert steady.play(1, again=dict.fromkeys(CASES, 500.0)) == []


def test_what_is_measured_again_is_what_stands_out(steady: Machine) -> None:
    steady.play(1, only("case-4", factor=1.1))
    assert detect_changes.to_confirm(steady.verdicts[-1]) == [{"run": "host", "case": "case-4"}]
    steady.play(2, only("case-4", factor=1.1))
    assert detect_changes.to_confirm(steady.verdicts[-1]) == []  # reported, so no suspect any more


@pytest.mark.parametrize(
    ("column", "before", "after", "kind"),
    [
        ("peak_memory_bytes", 2**30, 2**30 + 2**26, "memory"),
        ("relative_error", 1e-3, 2e-3, "relative_error"),
        ("graph_breaks", 0, 2, "graph_breaks"),
        ("recompiles", 0, 1, "recompiles"),
    ],
)
def test_more_than_time_is_watched_the_same_night(
    machine: Machine, column: str, before: float, after: float, kind: str
) -> None:
    machine.play(15, lambda case: {column: before})
    (event,) = machine.play(4, lambda case: {column: after if case == "case-5" else before})
    assert (event.kind, event.case, event.found) == (kind, "case-5", "2026-01-16")


@pytest.mark.parametrize(
    ("column", "before", "after", "kind"),
    [("first_call_us", 2e6, 4e6, "first_call"), ("occupancy_percent", 60.0, 40.0, "occupancy")],
)
def test_the_first_call_and_occupancy_are_watched(
    machine: Machine, column: str, before: float, after: float, kind: str
) -> None:
    machine.play(15, lambda case: {column: before})
    (event,) = machine.play(4, lambda case: {column: after if case == "case-5" else before})
    assert (event.kind, event.case, event.night) == (kind, "case-5", "2026-01-16")


def test_a_slow_drift_is_reported_before_6_percent(machine: Machine) -> None:
    machine.play(40)
    drift = [only("case-6", factor=1 + 0.0015 * nights) for nights in range(1, 40)]  # 5.85 % in the last night
    first = machine.play_each(drift)[0]
    assert first.case == "case-6"
    assert first.kind in ("drift", "time")
