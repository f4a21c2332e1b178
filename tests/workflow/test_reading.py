"""Reading a run: one job, in which a bad process costs its own row alone and only what changed is read again."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from kernelbook.extraction import run_tables
from kernelbook.extraction.arrow_files import read_table
from kernelbook.extraction.process_tables import Origin
from kernelbook.extraction.run_tables import Reading, read_run
from kernelbook.plan.earlier import forget_incomplete, made_from, table_file
from tests.helpers.patience import LONG, wait_for
from tests.helpers.snakemake import WorkingFolder

STEP = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 9}
CASES = ("a", "b", "c")
STATUS = {"run": "old", "kind": "recorded", "status": "ok", "probed_utc": "2026-11-29T15:00:00Z"}


@pytest.fixture
def readings(tmp_path):
    """One bare trace a case; tables in results/old/<case>/1."""
    made = []
    for case in CASES:
        trace = tmp_path / f"{case}.json"
        trace.write_text(json.dumps({"traceEvents": [STEP]}))
        folder, log = tmp_path / "results/old" / case / "1", tmp_path / f"logs/{case}.log"
        made.append(Reading(Origin("old", case, 1, STATUS), {"case": case}, (trace,), folder, log))
    return made


def row(reading):
    (only,) = read_table(table_file(reading.folder, "case")).to_pylist()
    return only


def test_a_second_reading_makes_the_tables_of_changed_processes_alone(readings):
    assert read_run(readings, "code") == 3
    assert [row(reading)["forwards"] for reading in readings] == [1, 1, 1]
    assert read_run(readings, "code") == 0
    readings[1].files[0].write_text(json.dumps({"traceEvents": [STEP, STEP | {"ts": 20}]}))
    before = os.stat(table_file(readings[0].folder, "case")).st_mtime_ns
    assert read_run(readings, "code") == 1
    assert [row(reading)["forwards"] for reading in readings] == [1, 2, 1]
    assert os.stat(table_file(readings[0].folder, "case")).st_mtime_ns == before
    assert read_run(readings, "other code", workers=2) == 3


def test_a_damaged_or_missing_table_is_made_again(readings, tmp_path):
    read_run(readings, "code")
    receipt = tmp_path / "results/old/tables.json"
    rows = [("old", case, 1) for case in CASES]
    receipt.write_text("{}")
    (tmp_path / "results/old/inputs.json").write_text("[]")
    edition = tmp_path / "results/edition"
    edition.mkdir()
    forget_incomplete(tmp_path / "results", rows)
    assert receipt.is_file()
    assert edition.is_dir()
    (table_file(readings[0].folder, "case")).write_bytes(b"ARROW1")
    table_file(readings[2].folder, "ops").unlink()
    assert [made_from(reading.folder) is None for reading in readings] == [True, False, True]
    forget_incomplete(tmp_path / "results", rows)
    assert not receipt.exists()
    assert not edition.exists()
    assert read_run(readings, "code") == 2


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "reading the measurement was killed (SIGKILL)"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "reading the measurement was ended by signal SIGSEGV"),
        (lambda: 1 / 0, "reading the measurement ended with status 1 (ZeroDivisionError: division by zero)"),
    ],
)
def test_a_process_that_ends_while_it_reads_costs_its_own_row(readings, monkeypatch, end, words):
    real = run_tables.tables_of
    monkeypatch.setattr(
        run_tables, "tables_of", lambda origin, *rest: end() if origin.case == "b" else real(origin, *rest)
    )
    assert read_run(readings, "code", workers=2) == 3
    rows = {reading.origin.case: row(reading) for reading in readings}
    assert [rows[case]["status"] for case in CASES] == ["ok", "failed", "ok"]
    assert rows["b"]["reason"].startswith(words)
    assert read_run(readings, "code") == 0


def test_a_stopped_process_leaves_no_row_and_stops_the_job(readings, monkeypatch):
    monkeypatch.setattr(run_tables, "tables_of", lambda *rest: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as stopped:
        read_run(readings, "code")
    assert stopped.value.code == 143
    assert not readings[0].folder.exists()


SLOW = """
import sys, time
sys.path.insert(0, {scripts!r})
import extract_run
from kernelbook.extraction import run_tables

def slow(origin, *rest):
    if origin.case == "b":
        open("began", "w").close()
        time.sleep(600)
    return real(origin, *rest)

real, run_tables.tables_of = run_tables.tables_of, slow
sys.exit(extract_run.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_job_that_is_killed_keeps_what_is_read_and_goes_on_there(root, tmp_path, readings, number):
    inputs = [{"process": 1, "case": {"case": case}, "files": [f"{case}.json"]} for case in CASES]
    (tmp_path / "inputs.json").write_text(json.dumps(inputs))
    (tmp_path / "run.json").write_text(json.dumps(STATUS))
    (tmp_path / "slow.py").write_text(SLOW.format(scripts=str(root / "scripts")))
    command = ["--inputs", "inputs.json", "--run-file", "run.json", "--output", "results/old", "--logs", "logs"]
    running = subprocess.Popen([sys.executable, "slow.py", *command], cwd=tmp_path, start_new_session=True)
    wait_for((tmp_path / "began").exists)
    running.send_signal(number)
    assert running.wait(LONG) != 0
    os.killpg(running.pid, signal.SIGKILL) if number == signal.SIGKILL else None
    tables = [tmp_path / "results/old" / case / "1" for case in CASES]
    assert [made_from(folder) is not None for folder in tables] == [True, False, False]
    assert not (tmp_path / "results/old/tables.json").exists()
    again = [sys.executable, root / "scripts/extract_run.py", *command]
    subprocess.run(again, cwd=tmp_path, check=True, timeout=LONG)
    assert json.loads((tmp_path / "results/old/tables.json").read_text()) == {"processes": 3, "made": 2}


@pytest.mark.slow
def test_a_run_is_read_by_one_job_and_a_changed_case_alone_again(root, tmp_path):
    folder = WorkingFolder(tmp_path)
    recorded = root / "resources/recorded/h200-torch2.11"
    names = ("linear-eager", "mlp-eager")
    for name in names:
        shutil.copytree(recorded / name, tmp_path / "old" / name)
    cases = {name: {"workload": name.partition("-")[0], "annotation": "*_fwd"} for name in names}
    config = {"runs": {"old": {"recorded": "old"}}, "cases": cases, "report": {"headline": list(names)}}
    folder.configure(config)
    said = folder.snakemake("--cores", "2")
    assert said.count(": Reading old") == 1
    receipt = tmp_path / "results/latest/old/tables.json"
    assert json.loads(receipt.read_text()) == {"processes": 6, "made": 6}
    assert "Nothing to be done" in folder.snakemake("-n")
    cases["mlp-eager"]["max_relative_error"] = 0.5
    folder.configure(config)
    folder.snakemake("--cores", "2")
    assert json.loads(receipt.read_text()) == {"processes": 6, "made": 3}
    (tmp_path / "results/latest/old/mlp-eager/2/case.arrow").unlink()
    folder.snakemake("--cores", "2")
    assert json.loads(receipt.read_text()) == {"processes": 6, "made": 1}
    assert "Nothing to be done" in folder.snakemake("-n")
