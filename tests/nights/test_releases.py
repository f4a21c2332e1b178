"""The level of a time against that with the last release of torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import detect_changes
from kernelbook.history.night_events import NightEvent
from kernelbook.history.releases import release_of, version_order
from kernelbook.history.rules import Rules
from kernelbook.history.store import Store
from tests.nights.made_nights import editions, night


class Builds:
    """Plays nights of one case, with the torch and the factor of each run, and collects the events."""

    def __init__(self, folder: Path) -> None:
        self.store, self.rng, self.dates = Store(folder), np.random.default_rng(5), iter(editions(400))

    def play(self, count: int, **runs: tuple[str, float]) -> list[NightEvent]:
        dates = [next(self.dates) for _ in range(count)]
        change = {run: {"torch": torch, "factor": factor} for run, (torch, factor) in runs.items()}
        for date in dates:
            tables = night(date, runs, ["case"], self.rng, noise=0.002, change=lambda run, case: change[run])
            self.store.add_night(date, tables)
        events: list[NightEvent] = []
        for verdict in detect_changes.judge_nights(self.store, dates, Rules()):
            self.store.write_events(verdict.edition, verdict.as_json("2026-01-01T00:00:00Z"))
            events += verdict.events
        return events


@pytest.fixture
def builds(tmp_path: Path) -> Builds:
    return Builds(tmp_path)


def nightly(day: int) -> str:
    return f"2.10.0.dev202601{day:02d}+cu130"


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("2.9.0", "2.9.0"),
        ("2.9.0+cu130", "2.9.0"),
        ("2.10", "2.10"),
        ("2.10.0.dev20260121+cu130", None),
        ("2.10.0rc1", None),
        ("2.9.0a0+50eac811a6.nv25.09", None),
        ("2.9.0+git1f2e3d", None),
        ("", None),
        (None, None),
    ],
)
def test_a_release_is_a_plain_version(version: str | None, release: str | None) -> None:
    assert release_of(version) == release


def test_versions_are_ordered_by_their_numbers() -> None:
    assert version_order("2.9.1") < version_order("2.10.0.dev20260121") < version_order("2.10.1")


def test_small_changes_that_add_up_are_reported_against_the_release_once(builds: Builds) -> None:
    assert builds.play(20, host=("2.9.0+cu130", 1.0)) == []
    assert builds.play(20, host=(nightly(21), 1.025)) == []  # too little for a step
    (step,) = builds.play(18, host=(nightly(22), 1.025 * 1.25))
    assert (step.kind, step.causes[0]) == ("time", f"torch {nightly(21)} → {nightly(22)}")
    (event,) = builds.play(14, host=(nightly(23), 1.025 * 1.25 * 1.025))  # too little again
    assert (event.kind, event.case, event.direction) == ("drift", "case", "slower")
    assert event.causes == ("compared with torch 2.9.0, the last release",)
    assert event.before == pytest.approx(100, rel=0.01)
    assert event.change == pytest.approx(1.025 * 1.25 * 1.025 - 1, abs=0.01)  # the step that was reported included
    assert event.text.startswith("forward time 3")
    assert " % slower than with torch 2.9.0, the last release: " in event.text
    assert builds.play(10, host=(nightly(24), 1.025 * 1.25 * 1.025)) == []


def test_a_step_that_was_reported_is_not_reported_against_the_release(builds: Builds) -> None:
    builds.play(20, host=("2.9.0", 1.0))
    (event,) = builds.play(30, host=(nightly(21), 1.12))
    assert event.kind == "time"
    assert event.causes[0] == f"torch 2.9.0 → {nightly(21)}"


def test_another_run_with_the_release_is_the_level_too(builds: Builds) -> None:
    events = builds.play(16, stable=("2.9.0", 1.0), old=("2.8.0", 1.3), nightly=(nightly(1), 1.12))
    (event,) = [event for event in events if event.run == "nightly"]
    assert event.text.startswith("forward time 1")
    assert "slower than with torch 2.9.0, the last release: " in event.text
    assert event.change == pytest.approx(0.12, abs=0.01)
    assert [event for event in events if event.run == "old"] == []  # 2.9.0 is later than its own version
    assert builds.play(10, stable=("2.9.0", 1.0), old=("2.8.0", 1.3), nightly=(nightly(2), 1.12)) == []


def test_faster_than_the_release_is_no_event(builds: Builds) -> None:
    assert builds.play(16, stable=("2.9.0", 1.0), nightly=(nightly(1), 0.9)) == []


def test_a_release_of_too_few_nights_has_no_level(builds: Builds) -> None:
    events = builds.play(3, host=("2.9.0", 1.0)) + builds.play(30, host=(nightly(4), 1.02))
    assert events == []
