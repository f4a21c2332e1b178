"""The deadline of a night: what still runs then is stopped and counts as failed, and the rest is judged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nightly
from kernelbook.history.nights import DEADLINE_VARIABLE
from tests.helpers import ROOT
from tests.helpers.forks import forking
from tests.helpers.patience import wait_for
from tests.helpers.snakemake import WorkingFolder, run

NIGHT = "2026-11-29"
HANG = """import time


def hang(context):
    while True:
        time.sleep(1)
"""
STANDIN = """import os, sys, time
if os.environ.get("KERNELBOOK_DEADLINE_HOURS"):
    sys.exit(int(sys.argv[1]))
for ending in sys.argv[2:]:
    try:
        open("began", "w").close()
        time.sleep(600)
    except KeyboardInterrupt:
        os.rename("began", ending)
sys.exit(1)
"""
"""Takes the place of Snakemake: it hangs until its last interrupt, and ends at once after the deadline."""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """An open lock, in a working folder of its own; handlers of signals and variables are as before afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DEADLINE_VARIABLE, "")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    taken, _ = nightly.take_lock(tmp_path)
    yield taken
    os.close(taken)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("judged", "ends"), [(0, 4), (3, 5), (4, 4), (5, 5), (1, 1)])
@pytest.mark.parametrize("interrupts", [["stopped"], ["lost", "stopped"]])
def test_at_the_deadline_snakemake_is_interrupted_and_judges(
    lock: int,
    judged: int,
    ends: int,
    interrupts: list[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait = subprocess.Popen.wait

    def until_it_began(process: subprocess.Popen, timeout: float | None = None) -> int:
        if timeout == 2 * 3600:  # the deadline: passed once the stand-in is at work
            wait_for(Path("began").exists)
            raise subprocess.TimeoutExpired("", timeout)
        if timeout == nightly.STOP_S and "lost" in interrupts and not Path("waited").exists():
            wait_for(lambda: Path("lost").exists() and Path("began").exists())
            Path("waited").touch()
            raise subprocess.TimeoutExpired("", timeout)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", until_it_began)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as of a job in the background of a shell: make nightly &
    assert nightly.run_until([sys.executable, "-c", STANDIN, str(judged), *interrupts], 2, lock) == ends
    assert Path("stopped").exists()
    assert "the deadline of 2 hours (schedule.deadline_hours) has passed" in capfd.readouterr().out


@pytest.mark.parametrize(("code", "ends"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_a_night_that_ends_before_its_deadline_ends_as_snakemake_does(lock: int, code: str, ends: int) -> None:
    assert nightly.run_until([sys.executable, "-c", code], 1, lock) == ends


@pytest.mark.torch
@pytest.mark.slow
def test_cases_that_are_not_measured_at_the_deadline_fail_and_the_others_are_judged(tmp_path: Path) -> None:
    (tmp_path / "hang.py").write_text(HANG)
    folder = WorkingFolder(tmp_path)
    config = {
        "device": "cpu",
        "measure": {"samples": 5, "warmup": 1, "schedule": {"active": 2}},
        "schedule": {"repeats": 1, "confirm": 2},
        "runs": {"host": {"host": True}},
        "cases": {"linear-eager": {"workload": "linear", "variant": "plain"}, "hang": {"workload": "hang.py:hang"}},
        "report": {"headline": ["linear-eager", "hang"]},
    }
    folder.configure(config)
    measured = f"results/{NIGHT}/host/linear-eager/1/measurement.json"
    folder.snakemake(measured, "--config", f"edition={NIGHT}")
    folder.configure(config | {"schedule": {"repeats": 1, "confirm": 2, "deadline_hours": 1e-3}})
    command = [forking()["FORK_PYTHON"], ROOT / "scripts/nightly.py", "--cores", "1", "--night", NIGHT]
    out = run(command, tmp_path, status=4, **forking())
    judged = json.loads((tmp_path / f"history/events/{NIGHT}.json").read_text(encoding="utf-8"))
    (failed,) = judged["failed"]
    assert (failed["run"], failed["case"]) == ("host", "hang")
    assert "the night's deadline of 0.001 hours (schedule.deadline_hours) passed" in failed["reason"]
    assert "hang" in out.split("has passed", 1)[1]
    assert (tmp_path / f"site/nights/{NIGHT}/report/index.html").is_file()
    assert json.loads((tmp_path / measured).read_text(encoding="utf-8"))["status"] == "ok"


def test_the_shipped_night_ends_before_its_schedulers_end_it(root: Path) -> None:
    hours = nightly.read_settings(root / "config.yaml").deadline_hours
    assert hours is not None
    assert (
        hours + nightly.MOST_STOPS * nightly.STOP_S / 3600 < 8
    )  # workflow/schedules: TimeoutStartSec=8h, #SCRON --time=08:00:00
    assert "TimeoutStartSec=8h" in (root / "workflow/schedules/kernelbook-nightly.service").read_text()
    assert "--time=08:00:00" in (root / "workflow/schedules/scrontab").read_text()
