"""Where the time of a measurement goes: in measurement.json, and as the last line of the log."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from workloads.harness import attempt, notebook


def test_each_phase_gets_its_seconds(monkeypatch):
    times = iter([0.0, 1.0, 3.0, 3.5, 10.0, 12.25])
    monkeypatch.setattr(notebook, "time", SimpleNamespace(monotonic=lambda: next(times)))
    watch = notebook.Stopwatch()  # at 0
    watch.phase("import")  # at 1; what comes before the first phase is nobody's
    watch.phase("profile")  # at 3
    watch.phase("import")  # at 3.5
    watch.phase(None)  # at 10
    watch.phase("end")  # at 12.25
    assert watch.seconds == {"import": 2.0 + 6.5, "profile": 0.5}
    watch.add({"profile": 0.25, "wait": 1.0})
    assert watch.seconds == {"import": 8.5, "profile": 0.75, "wait": 1.0}


def test_the_line_leaves_out_what_takes_no_time():
    line = notebook.summary({"import of torch": 1.94, "warm-up": 0.01, "profile": 0.26}, 6.84)
    assert line == "time: import of torch 1.9 s, profile 0.3 s, total 6.8 s"


@pytest.mark.torch
def test_a_measurement_says_where_its_time_went(measure):
    pytest.importorskip("torch")
    got = measure(":sleeps_on_its_first_call", params={"seconds": 0.5})
    seconds = got.measurement["seconds"]
    assert seconds["first call"] >= 0.5
    assert {"start of the process", "import of torch", "profile", "comparison with float64"} <= set(seconds)
    assert all(spent >= 0 for spent in seconds.values())
    assert sum(seconds.values()) <= got.measurement["duration_s"] + 0.01  # each is rounded to a millisecond
    last = got.stderr.splitlines()[-1]
    assert re.fullmatch(r"profile_case: a-case: time: .*first call \d+\.\d s.*, total \d+\.\d s", last)


@pytest.mark.parametrize(
    "record",
    [{}, {"began": "x", "seconds": {}}, {"began": 1.0, "seconds": []}, {"began": 1.0, "seconds": {"a": "x"}}],
)
def test_notes_that_a_workload_spoilt_cost_only_the_phases(record):
    assert attempt._phases(record, 10.0, 12.5) == {"process": 2.5}


def test_the_start_and_the_end_of_the_process_are_phases():
    phases = attempt._phases({"began": 10.25, "seconds": {"import of torch": 1.5, "profile": 0.25}}, 10.0, 12.5)
    assert phases == {"start of the process": 0.25, "import of torch": 1.5, "profile": 0.25, "end of the process": 0.5}
