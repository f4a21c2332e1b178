"""Forty nights whose events are known: each is found, once, and nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import detect_changes
from kernelbook.history.night_events import NightVerdict
from kernelbook.history.rules import Rules
from kernelbook.history.schema import table_of
from kernelbook.history.store import Store
from kernelbook.history.verdicts import judge_last_night
from tests.nights.made_nights import ADD, GEMM, GEMM_2, editions, night, row

CASES = [f"case-{number}" for number in range(8)]
DATES = editions(40)
STEP, REPLACED, DRIVER, MISSING, LOST = DATES[29], DATES[33], DATES[35], DATES[19], DATES[24]
SPIKES = {
    (DATES[14], "host", "case-1"): 1.3,
    (DATES[21], "stable", "case-2"): 1.5,
    (DATES[38], "stable", "case-6"): 0.8,
}


def play(store: Store) -> list[NightVerdict]:
    rng = np.random.default_rng(0)
    for date in DATES:
        if date == MISSING:
            continue

        def change(run: str, case: str, date: str = date) -> dict:
            found: dict = {"factor": SPIKES.get((date, run, case), 1.0)}
            if (run, case) == ("host", "case-3") and date >= STEP:
                found["factor"] *= 1.05
            if (run, case) == ("stable", "case-5") and date >= REPLACED:
                found["kernels"] = [GEMM_2, ADD]
            if run == "host" and date >= DRIVER:
                found["driver"] = "590.10"
            return found

        tables = night(date, ["host", "stable"], CASES, rng, change=change, samples=3)
        if date == LOST:
            tables["stable"] = table_of(
                row(date, "stable", case, 1, status="failed", reason="the image will not start", device=None)
                for case in CASES
            )
        store.add_night(date, tables)
    verdicts = list(detect_changes.judge_nights(store, store.nights(), Rules()))
    for verdict in verdicts:
        store.write_events(verdict.edition, verdict.as_json("2026-01-01T00:00:00Z"))
    return verdicts


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, list[NightVerdict]]:
    store = Store(tmp_path_factory.mktemp("history"))
    return store, play(store)


@pytest.fixture(scope="module")
def said(played: tuple[Store, list[NightVerdict]]) -> list[NightVerdict]:
    return played[1]


@pytest.fixture
def until_replaced(played: tuple[Store, list[NightVerdict]], tmp_path: Path) -> Store:
    """The history as it was after the night in which a kernel was replaced."""
    shutil.copytree(played[0].folder, tmp_path, dirs_exist_ok=True)
    store = Store(tmp_path)
    for date in DATES[34:]:
        shutil.rmtree(tmp_path / "nights" / date)
        (store.events_folder / f"{date}.json").unlink()
    return store


def test_each_event_is_found_once_and_nothing_else(said: list[NightVerdict]) -> None:
    events = [event for judgement in said for event in judgement.events]
    assert [(event.kind, event.night, event.run, event.case) for event in events] == [
        ("gap", DATES[20], None, None),
        ("failure", LOST, "stable", None),
        ("time", STEP, "host", "case-3"),
        ("kernels", REPLACED, "stable", "case-5"),
        ("series", DRIVER, "host", None),
    ]


def test_the_step_is_found_by_the_third_night_with_its_size(said: list[NightVerdict]) -> None:
    event = next(event for judgement in said for event in judgement.events if event.kind == "time")
    assert DATES.index(event.found) - DATES.index(STEP) <= 2
    assert event.change == pytest.approx(0.05, abs=0.015)
    assert event.direction == "slower"
    assert event.causes == ("only the time changed: same kernels, versions and clocks",)


def test_the_kernel_is_told_the_same_night_old_and_new_decoded(said: list[NightVerdict]) -> None:
    event = next(event for judgement in said for event in judgement.events if event.kind == "kernels")
    assert event.found == event.night == REPLACED
    (cause,) = event.causes
    old, new = cause.split("→")
    assert "GEMM" in old
    assert "128x128" in old
    assert GEMM[:40] in old
    assert "256x128" in new or GEMM_2[:40] in new


def test_a_new_driver_starts_new_series_and_says_so(said: list[NightVerdict]) -> None:
    judgement = next(item for item in said if item.edition == DRIVER)
    (event,) = judgement.events
    assert event.causes == ("driver 580.95.05 → 590.10",)
    assert "8 series start again" in event.text
    assert (judgement.insufficient, judgement.compared) == (0, 16)  # judged against the series with the old driver
    assert judgement.exit_status == 0


def test_exit_statuses_follow_from_changes_and_failures(said: list[NightVerdict]) -> None:
    statuses = {item.edition: item.exit_status for item in said if item.exit_status}
    step_found = next(event.found for item in said for event in item.events if event.kind == "time")
    assert statuses == {LOST: 4, step_found: 3, REPLACED: 3}


def test_spikes_are_suspects_of_their_night_and_no_alert(said: list[NightVerdict]) -> None:
    marked = {(item.edition, suspect.run, suspect.case) for item in said for suspect in item.suspects}
    assert set(SPIKES) <= marked
    assert (
        len(marked - set(SPIKES)) <= 2 + 5
    )  # the step's first nights, before it is a change; 1 % noise reaches 3 % once or twice in 28 nights of 16 cases


def test_judging_a_night_again_says_the_same(until_replaced: Store, said: list[NightVerdict]) -> None:
    store = until_replaced
    (first,) = (verdict for verdict in said if verdict.edition == REPLACED)
    judged, _ = store.read_events()
    assert judge_last_night(store.read(until=REPLACED), REPLACED, judged, store.names) == first


def test_a_night_that_was_never_judged_is_told_by_the_next(until_replaced: Store) -> None:
    store = until_replaced
    (store.events_folder / f"{REPLACED}.json").unlink()
    rng = np.random.default_rng(9)
    store.add_night(DATES[34], night(DATES[34], ["host", "stable"], CASES, rng, change=_after_replacement))
    judged, _ = store.read_events()
    found = judge_last_night(store.read(), DATES[34], judged, store.names)
    assert [(event.kind, event.night, event.found) for event in found.events if event.kind == "kernels"] == [
        ("kernels", REPLACED, DATES[34])
    ]


def _after_replacement(run: str, case: str) -> dict:
    if (run, case) == ("stable", "case-5"):
        return {"kernels": [GEMM_2, ADD]}
    return {"factor": 1.05} if (run, case) == ("host", "case-3") else {}
