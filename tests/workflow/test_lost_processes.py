"""Processes that lose their supervisor, their shell or their folder: each is a failed row, and the others are well."""

import json
import os
import subprocess
import sys

import pytest

from kernelbook.extraction.lost_processes import finish_measurement, log_tail, reason_of
from kernelbook.extraction.measurement import load_measurement
from tests.helpers.snakemake import BROKEN, WorkingFolder

KILLED = "the measuring process was killed (SIGKILL), as the system does when memory runs out: use smaller params"
LOST = "its jobs were killed as a whole before they left a result"
EXPECTED = {
    "fine": ("ok", None),
    "killing-supervisor": ("failed", KILLED),
    "stopping-supervisor": ("failed", LOST),
    "killing-job": ("failed", LOST),
    "removing-output": ("ok", None),
    "obstructing-output": ("failed", KILLED),
}


@pytest.mark.torch
@pytest.mark.slow
def test_each_lost_process_is_a_row_with_its_reason_and_there_is_a_report(tmp_path):
    folder = WorkingFolder(tmp_path, forks=False)
    cases = {name: {"workload": f"{BROKEN}:{name.replace('-', '_')}", "retries": 0} for name in EXPECTED}
    for name in ("removing-output", "obstructing-output"):
        cases[name]["params"] = {"folder": f"results/latest/host/{name}/1"}
    quick = {"samples": 3, "warmup": 0, "schedule": {"active": 1}, "timeout_s": 600}
    config = {"device": "cpu", "measure": quick, "runs": {"host": {"host": True}}, "cases": cases}
    folder.configure(config | {"report": {"headline": ["fine", "fine"]}})
    folder.snakemake()
    rows = folder.cases()
    assert set(rows) == set(EXPECTED)
    for case, (status, reason) in EXPECTED.items():
        assert rows[case]["status"] == status, rows[case]
        assert (rows[case]["reason"] or "").startswith(reason or ""), rows[case]
    assert folder.report()
    assert "Nothing to be done" in folder.snakemake("-n")


def test_a_missing_measurement_becomes_a_failed_one_with_the_end_of_the_log(tmp_path):
    log = tmp_path / "profile.log"
    log.write_bytes(b"\xff not text\n\n" + b"y" * 200_000 + b"\nFATAL:   could not open image: no such file\n")
    case = {"case": "c", "workload": "linear"}
    assert finish_measurement(case, tmp_path / "h/c/1", 255, log) == 0
    found = load_measurement(tmp_path / "h/c/1/measurement.json")
    assert found.status == "failed"
    assert (
        found.reason == f"the measuring process ended with status 255 (could not open image: no such file): see {log}"
    )
    assert found.log_tail[-1] == "FATAL:   could not open image: no such file"
    assert found.case == case == json.loads((tmp_path / "h/c/1/case.json").read_text())


@pytest.mark.parametrize("status", [129, 130, 143])
def test_what_was_stopped_leaves_no_row(tmp_path, status):
    (tmp_path / "measurement.json").write_text("{}")
    assert finish_measurement({}, tmp_path, status, tmp_path / "log") == status
    assert list(tmp_path.iterdir()) == []


def test_a_measurement_that_stands_is_kept(tmp_path):
    (tmp_path / "measurement.json").write_text("anything")
    assert finish_measurement({"case": "c"}, tmp_path, 0, tmp_path / "log") == 0
    assert (tmp_path / "measurement.json").read_text() == "anything"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "it ended well, but its result is gone"),
        (137, "it was killed (SIGKILL), as the system does when memory runs out"),
        (139, "it was ended by signal SIGSEGV: see"),
        (161, "it was ended by signal 33: see"),
        (1, "it ended with status 1 (SyntaxError: invalid syntax): see"),
        (255, "it ended with status 255 (SyntaxError: invalid syntax): see"),
    ],
)
def test_the_reason_is_read_off_the_exit_status(tmp_path, status, words):
    (tmp_path / "log").write_text("Traceback:\n\nSyntaxError: invalid syntax\n")
    assert reason_of("it", status, tmp_path / "log").startswith(words)


def test_a_log_that_is_missing_or_empty_has_no_last_lines(tmp_path):
    assert log_tail(tmp_path / "none") == []
    assert reason_of("it", 2, tmp_path / "none") == f"it ended with status 2 (it said nothing): see {tmp_path}/none"


def test_what_runs_after_each_measurement_starts_light(root):
    """It only looks for a file: what reads traces and tables would take it three times as long."""
    code = "import sys, finish_measurement; print(*{'numpy', 'pyarrow', 'pandas', 'yaml'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
