"""Where counters are asked for: the command line, a run, a case, every Nth night; and what reaches the measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelbook.config.errors import ConfigError
from kernelbook.config.loading import load_config
from kernelbook.history.nights import for_target
from kernelbook.plan.planning import make_plan
from tests.helpers import ROOT

SCHEMAS = ROOT / "workflow" / "schemas"
CASE = {"workload": "linear", "params": {"batch": 2}}


def asked(tmp_path: Path, process: int = 1, run: dict | None = None, case: dict | None = None, **top) -> dict:
    """The keys about counters in the case file of the only case on the only run."""
    config = load_config(
        {"runs": {"host": {"host": True, **(run or {})}}, "cases": {"a": {**CASE, **(case or {})}}, **top}, SCHEMAS
    )
    plan = make_plan(config, tmp_path, ROOT, containers_on=False)
    spec = json.loads(plan.case_json("host", "a", process))
    return {key: spec[key] for key in ("counters", "ncu") if key in spec}


@pytest.mark.parametrize(
    ("top", "run", "case", "wanted"),
    [
        ({}, {}, {}, {}),
        ({"counters": True}, {}, {}, {"counters": True}),
        ({"counters": "true"}, {}, {}, {"counters": True}),
        ({"counters": True}, {"counters": False}, {}, {}),
        ({"counters": True}, {}, {"counters": False}, {}),
        ({}, {"counters": True}, {}, {"counters": True}),
        ({}, {"counters": True}, {"counters": False}, {}),
        ({}, {"counters": False}, {"counters": True}, {"counters": True}),
        ({"counters": True}, {"ncu": "/opt/ncu"}, {}, {"counters": True, "ncu": "/opt/ncu"}),
    ],
)
def test_the_nearest_word_counts(tmp_path, top, run, case, wanted):
    assert asked(tmp_path, run=run, case=case, **top) == wanted


def test_one_process_of_a_case_is_counted(tmp_path):
    assert asked(tmp_path, process=2, counters=True, repeats=3) == {}


def test_a_measurement_without_counters_is_stale_once_they_are_asked_for(tmp_path):
    def stale(process: int, **top) -> str:
        config = load_config({"runs": {"host": {"host": True}}, "cases": {"a": CASE}, "repeats": 2, **top}, SCHEMAS)
        return make_plan(config, tmp_path, ROOT, containers_on=False).makes_stale("host", "a", process)

    assert stale(1) != stale(1, counters=True)
    assert stale(2) == stale(2, counters=True)


def test_the_hosts_ncu_is_bound_into_containers_where_it_is(tmp_path):
    (tmp_path / "nsight").mkdir()
    for folder, bound in ((tmp_path / "nsight", True), (tmp_path / "gone", False)):
        runs = {"image": {"container": "docker://x/y", "ncu": str(folder)}}
        config = load_config({"runs": runs, "cases": {"a": CASE}}, SCHEMAS)
        arguments = make_plan(config, tmp_path / "work", ROOT, containers_on=False).start_arguments()
        assert (f"{folder}:{folder}:ro" in arguments) == bound


def test_a_wrong_word_is_refused():
    with pytest.raises(ConfigError, match="counters"):
        load_config({"runs": {"host": {"host": True}}, "cases": {"a": CASE}, "counters": "sometimes"}, SCHEMAS)


@pytest.mark.parametrize(("every", "dates"), [(0, []), (1, [1, 2, 3, 4, 5, 6]), (3, [3, 6])])
def test_every_nth_date(every, dates):
    """2026-11-03 is day 739,923 of the calendar: 2025 years of 365 days, 491 leap days, and day 307 of 2026."""
    assert (2025 * 365 + 491 + 307) % 3 == 0
    counted = []
    for day in range(1, 7):
        given = {"edition": f"2026-11-{day:02d}", "schedule": {"counters_every": every}}
        if for_target(given, ["nightly"], {}, main_process=True).get("counters"):
            counted.append(day)
    assert counted == dates
