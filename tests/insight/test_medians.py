"""How long each activity of a case usually takes: by hand, and on the recorded run against its raw traces."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kernelbook.cases import Activity, CaseFacts, ProfiledForward, median_durations_us
from tests.helpers import ROOT, default_cases
from tests.insight.insight_raw import forwards


def forward(process: int, index: int, *lengths: float, names: str = "ab") -> ProfiledForward:
    acts = tuple(Activity(i, "kernel", name, 10.0 * i, t) for i, (name, t) in enumerate(zip(names, lengths)))  # noqa: B905
    return ProfiledForward(process, index, 50.0, sum(lengths), sum(lengths), 0.0, acts)


FORWARDS = (
    forward(1, 0, 3.0, 10.0),
    forward(1, 1, 1.0, 11.0),
    forward(1, 2, 2.0, 90.0),
    forward(2, 0, 5.0, 20.0),
    forward(3, 0, 4.0, 30.0),
    forward(3, 1, 100.0, 100.0, names="ba"),  # another order: in no median
    forward(3, 2, 100.0),  # too short
)


def test_medians_are_over_the_forwards_of_a_process_and_then_over_processes() -> None:
    # Process medians are 2, 5 and 4 of a; 11, 20 and 30 of b.
    assert median_durations_us(FORWARDS[0], FORWARDS) == (4.0, 20.0)


def test_a_forward_of_its_own_order_keeps_its_lengths() -> None:
    assert median_durations_us(FORWARDS[5], FORWARDS) == (100.0, 100.0)
    assert median_durations_us(FORWARDS[0], ()) == (3.0, 10.0)
    assert median_durations_us(ProfiledForward(1, 0, 50.0), FORWARDS) == ()


def test_what_is_quoted_is_a_median_and_what_is_drawn_is_one_forward() -> None:
    facts = CaseFacts("r", "c", kernels=2, forwards=FORWARDS, chosen=(1, 0))
    assert [a.duration_us for a in facts.activities] == [4.0, 20.0]
    assert [a.start_us for a in facts.activities] == [0.0, 10.0]
    assert [a.duration_us for a in facts.representative.activities] == [3.0, 10.0]
    assert CaseFacts("r", "c").activities == ()
    assert replace(facts, forwards=FORWARDS[:1]).activities == FORWARDS[0].activities


# --- the recorded run -------------------------------------------------------------------------------------------------


def test_every_recorded_activity_is_as_long_as_its_raw_events_say(recorded_facts, recorded_h200: Path) -> None:
    for case, facts in recorded_facts.items():
        names = [activity.name for activity in facts.activities]
        lengths = [activity.duration_us for activity in facts.activities]
        assert lengths == pytest.approx(_usual_us(recorded_h200 / case, names), abs=1e-6), case


def test_the_table_has_medians_in_the_representative_forward_alone(recorded_h200: Path) -> None:
    rows = pq.read_table(ROOT / "reports/example/tables/activities.parquet").to_pylist()
    assert all((row["median_duration_us"] is not None) == bool(row["representative"]) for row in rows)
    rows = [row for row in rows if row["run"] == "h200"]
    assert {row["case"] for row in rows} == default_cases()
    for case in {row["case"] for row in rows}:
        mine = sorted((r for r in rows if r["case"] == case and r["representative"]), key=lambda row: row["position"])
        usual = _usual_us(recorded_h200 / case, [row["name"] for row in mine])
        assert [row["median_duration_us"] for row in mine] == pytest.approx(usual, abs=1e-6), case


def _usual_us(case: Path, names: list[str]) -> list[float]:
    """Medians over processes of their medians, of the raw forwards whose activities have these names."""
    processes = []
    for folder in sorted(case.iterdir()):
        annotation = json.loads((folder / "measurement.json").read_text())["case"]["annotation"]
        found = forwards(folder / "trace.json.gz", annotation)
        ordered = [sorted(each["device"], key=lambda event: event["ts"]) for each in found]
        processes.append([f for f in ordered if [event["name"] for event in f] == names])
    return [
        statistics.median(statistics.median(f[place]["dur"] for f in found) for found in processes)
        for place in range(len(names))
    ]
