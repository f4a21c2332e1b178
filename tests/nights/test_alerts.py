"""Each kind of change that `history.alert_on` may list makes the exit status 3, and makes none where it is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import detect_changes
from kernelbook.history.night_events import KINDS
from kernelbook.history.rules import Rules
from kernelbook.history.store import Store
from tests.nights.made_nights import ADD, GEMM_2, editions, night

EARLIER = 12
BEFORE = {
    "peak_memory_bytes": 1_000_000_000, "relative_error": 0.01, "first_call_us": 1e6, "occupancy_percent": 50.0,
    "graph_breaks": 0, "recompiles": 0,
}  # fmt: skip
CHANGES = {
    "time": {"factor": 1.2},
    "shared": {"factor": 1.1},
    "drift": {},
    "kernels": {"kernels": [GEMM_2, ADD]},
    "launches": {"launches": 4},
    "ops": {"ops": ["aten::linear", "aten::addmm"]},
    "memory": {"peak_memory_bytes": 1_200_000_000},
    "graph_breaks": {"graph_breaks": 1},
    "recompiles": {"recompiles": 1},
    "relative_error": {"relative_error": 0.02},
    "first_call": {"first_call_us": 2e6},
    "occupancy": {"occupancy_percent": 30.0},
    "warnings": {"warnings": ["unattributed"]},
    "series": {"driver": "590.10.01"},
    "gap": {},
}
"""Kind -> what differs from the first 12 nights on."""
SLOWER_A_NIGHT = 0.0005
"""The drift: 70 nights on, a level is 3.5 % above the best one, and only 1.75 % above the median of all nights."""


def history(folder: Path, kind: str) -> tuple[Store, list[str]]:
    """Twelve steady nights and then the change; eight cases where all of them shift, else one."""
    store, rng = Store(folder), np.random.default_rng(4)
    cases = [f"case-{number}" for number in range(8 if kind == "shared" else 1)]
    count = 95 if kind == "drift" else EARLIER + 5
    dates = editions(count + 1)
    del dates[EARLIER if kind == "gap" else -1]
    for at, date in enumerate(dates):
        after = CHANGES[kind] if at >= EARLIER else {}
        drift = {"factor": 1 + SLOWER_A_NIGHT * at} if kind == "drift" else {}
        columns = BEFORE | after | drift
        store.add_night(date, night(date, ["host"], cases, rng, noise=0.003, change=lambda run, case, c=columns: c))
    return store, dates


def statuses(store: Store, dates: list[str], alert_on: list[str]) -> set[int]:
    """Exit statuses of all nights, judged again."""
    shutil.rmtree(store.folder / "events", ignore_errors=True)
    found = set()
    for verdict in detect_changes.judge_nights(store, dates, Rules(alert_on=tuple(alert_on))):
        store.write_events(verdict.edition, verdict.as_json("2026-01-01T00:00:00Z"))
        found.add(verdict.exit_status)
    return found


@pytest.mark.parametrize("kind", CHANGES)
def test_a_kind_alone_makes_the_exit_status_3_and_left_out_none(tmp_path: Path, kind: str) -> None:
    store, dates = history(tmp_path, kind)
    assert statuses(store, dates, [kind]) == {0, 3}
    events, _ = store.read_events()
    assert {event["kind"] for judged in events.values() for event in judged["events"]} == {kind}
    assert statuses(store, dates, [each for each in CHANGES if each != kind]) == {0}


def test_these_are_all_kinds_that_the_schema_allows(root: Path) -> None:
    schema = json.loads((root / "workflow/schemas/nights.schema.json").read_text(encoding="utf-8"))
    allowed = schema["properties"]["history"]["properties"]["alert_on"]["items"]["enum"]
    assert set(CHANGES) == set(allowed) == set(KINDS) - {"failure"}
