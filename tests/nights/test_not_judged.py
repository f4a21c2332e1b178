"""A night that was not judged never ends with 0: damaged, empty and missing files; and large and merged histories."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import detect_changes
from kernelbook.history.nights import finished
from kernelbook.history.store import Store
from tests.nights.made_nights import editions, night

DATES = editions(4)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store, rng = Store(tmp_path / "history"), np.random.default_rng(1)
    for date in DATES:
        store.add_night(date, night(date, ["host", "other"], ["case"], rng))
    return store


def judge(store: Store, night_name: str) -> int:
    return detect_changes.main(["--history", str(store.folder), "--night", night_name, "--exit-status"])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"{}"])
def test_tonights_own_damaged_file_is_a_failure_and_stays_one(store: Store, content: bytes) -> None:
    (store.nights_folder / DATES[-1] / "host.parquet").write_bytes(content)
    assert judge(store, DATES[-1]) == 4
    assert judge(store, DATES[-1]) == 4  # the file was set aside by then
    (failed,) = json.loads((store.events_folder / f"{DATES[-1]}.json").read_text())["failed"]
    assert (failed["run"], failed["case"]) == ("host", None)
    assert "is damaged, so this run was not judged" in failed["reason"]
    store.add_night(DATES[-1], night(DATES[-1], ["host", "other"], ["case"], np.random.default_rng(2)))
    assert judge(store, DATES[-1]) == 0  # recorded again


def test_a_damaged_file_of_another_night_does_not_fail_this_one(store: Store) -> None:
    (store.nights_folder / DATES[0] / "host.parquet").write_bytes(b"")
    assert judge(store, DATES[-1]) == 0


def test_a_night_without_any_row_is_a_failure(store: Store) -> None:
    for path in (store.nights_folder / DATES[-1]).iterdir():
        path.unlink()
    assert judge(store, DATES[-1]) == 4


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"events": [null]}', '{"events": [{}]}', '{"events": null}'])
def test_a_night_whose_events_are_damaged_is_not_finished_and_is_judged_again(
    store: Store, tmp_path: Path, content: str
) -> None:
    receipt = tmp_path / "results" / DATES[-1] / "night" / "published.json"
    assert judge(store, DATES[-1]) == 0
    assert finished(DATES[-1], store.folder, receipt)
    events = store.events_folder / f"{DATES[-1]}.json"
    events.write_text(content)
    assert not finished(DATES[-1], store.folder, receipt)
    assert judge(store, DATES[-1]) == 0
    assert finished(DATES[-1], store.folder, receipt)


def test_a_folder_of_a_night_without_files_is_not_finished(store: Store, tmp_path: Path) -> None:
    assert judge(store, DATES[-1]) == 0
    for path in (store.nights_folder / DATES[-1]).iterdir():
        path.unlink()
    assert not finished(DATES[-1], store.folder, tmp_path / "results" / DATES[-1] / "night" / "published.json")


def test_two_clusters_in_one_history_are_series_of_their_own(tmp_path: Path) -> None:
    store, rng = Store(tmp_path), np.random.default_rng(1)
    events = 0
    for at, date in enumerate(editions(30)):
        # by turns on two clusters with other drivers, the second 30 % slower
        second = {"driver": "590.10", "gpu_id": "b", "factor": 1.3} if at % 2 else {"gpu_id": "a"}
        store.add_night(date, night(date, ["host"], ["case"], rng, change=lambda run, case, second=second: second))
        events += len(json.loads(verdict(store, date))["events"])
    assert events == 1  # the first night on the second cluster


def verdict(store: Store, date: str) -> str:
    judge(store, date)
    return (store.events_folder / f"{date}.json").read_text()


def test_the_last_nights_alone_can_be_read(store: Store) -> None:
    assert store.read(until=DATES[2], last=2).nights == tuple(DATES[1:3])
    assert store.read().nights == tuple(DATES)
    assert len(store.read(until=DATES[2], last=2).table) == 2 * 2 * 5  # nights, runs, processes


def test_nights_judged_in_one_go_are_judged_as_one_by_one(store: Store, tmp_path: Path) -> None:
    for date in DATES:
        assert judge(store, date) in (0, 3)
    (store.nights_folder / DATES[1] / "other.parquet").write_bytes(b"")
    one_by_one = {path.name: json.loads(path.read_text()) for path in store.events_folder.glob("*.json")}
    for path in store.events_folder.glob("*.json"):
        path.unlink()
    output = tmp_path / "verdict.json"
    command = ["--history", str(store.folder), "--since", DATES[1], "--output", str(output), "--exit-status"]
    assert detect_changes.main(command) == one_by_one[f"{DATES[-1]}.json"]["exit_status"]
    at_once = {path.name: json.loads(path.read_text()) for path in store.events_folder.glob("*.json")}
    assert sorted(at_once) == [f"{date}.json" for date in DATES[1:]]
    assert json.loads(output.read_text()) == at_once[f"{DATES[-1]}.json"]
    assert at_once[f"{DATES[1]}.json"]["exit_status"] == 4  # its own file is damaged
    for name in (f"{date}.json" for date in DATES[2:]):
        assert [item["file"] for item in at_once[name]["damaged"]] == [f"nights/{DATES[1]}/other.parquet"]
        assert at_once[name]["events"] == one_by_one[name]["events"]


def test_a_first_night_that_is_not_there_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="no night 2025-01-01: record it first"):
        detect_changes.main(["--history", str(store.folder), "--since", "2025-01-01"])
