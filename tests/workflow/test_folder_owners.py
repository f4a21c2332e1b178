"""The lock of a killed Snakemake is removed, but only if every Snakemake that may hold it is dead."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from kernelbook.plan import folder_owners
from kernelbook.plan.folder_owners import LOCKS, OWNERS, VARIABLE, Owner, enter, living_owners, wait_for_orphans
from tests.helpers.patience import LONG
from tests.helpers.snakemake import BROKEN, WorkingFolder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a lock of Snakemake's; what `enter` leaves for the end of a process is done at once."""
    monkeypatch.setattr("atexit.register", lambda *_, **__: None)
    monkeypatch.setenv(VARIABLE, "none")
    (tmp_path / LOCKS).mkdir(parents=True)
    (tmp_path / LOCKS / "0.input.lock").write_text("results/a\n")
    (tmp_path / OWNERS).mkdir()
    return tmp_path


def leave(folder, owner):
    (folder / OWNERS / str(owner)).touch()


def locked(folder):
    return any((folder / LOCKS).glob("*.lock"))


def dead():
    """An owner of this host whose process has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return replace(Owner.this_process(), pid=done.pid)


def test_the_lock_of_a_dead_owner_is_lifted(folder):
    leave(folder, dead())
    enter(folder)
    assert not locked(folder)
    assert os.environ[VARIABLE] == str(Owner.this_process())


def test_the_lock_of_a_living_owner_stays(folder, capsys):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        leave(folder, replace(Owner.this_process(), pid=process.pid, started=round(time.time())))
        leave(folder, dead())
        enter(folder)
        assert locked(folder)
        assert [owner.pid for owner in living_owners(folder)] == [process.pid]
        assert f"process {process.pid} on " in capsys.readouterr().err


def test_another_process_that_took_the_number_of_a_dead_owner_is_none(folder):
    me = Owner.this_process()
    leave(folder, replace(me, started=me.started - 3600))
    enter(folder)
    assert not locked(folder)


def test_a_killed_owner_that_nobody_waited_for_is_dead(folder):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leave(folder, replace(Owner.this_process(), pid=process.pid, started=round(time.time())))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    assert living_owners(folder) == []
    process.communicate()


@pytest.mark.parametrize("change", [{"host": "another"}, {"namespace": 1}])
def test_the_lock_of_an_owner_on_another_host_or_in_another_container_stays(folder, change, capsys):
    leave(folder, replace(dead(), **change))
    enter(folder)
    assert locked(folder)
    assert "runs snakemake in this folder, or did" in capsys.readouterr().err
    (folder / LOCKS / "0.input.lock").unlink()  # as snakemake --unlock does
    enter(folder)
    assert living_owners(folder) == []


def test_a_lock_without_an_owner_or_with_one_that_cannot_be_read_stays(folder):
    enter(folder)
    assert locked(folder)
    (folder / OWNERS / "no owner").touch()
    enter(folder)
    assert locked(folder)


def test_what_a_dead_owner_left_running_is_waited_for(folder, monkeypatch):
    owner = dead()
    leave(folder, owner)
    environment = os.environ | {VARIABLE: str(owner)}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment) as orphan:
        monkeypatch.setattr(folder_owners, "ORPHANS_S", 0.1)
        with pytest.raises(SystemExit, match=f"process {orphan.pid} of a killed snakemake does not end: end it first"):
            wait_for_orphans(folder)
        assert living_owners(folder) == []
        assert [file.name for file in (folder / OWNERS).iterdir()] == [str(owner)]
        wait_procs = folder_owners.psutil.wait_procs

        def end_and_wait(processes, timeout):
            assert [process.pid for process in processes] == [orphan.pid]
            orphan.communicate(b"\n")
            return wait_procs(processes, timeout=LONG)

        monkeypatch.setattr(folder_owners.psutil, "wait_procs", end_and_wait)
        wait_for_orphans(folder)
    assert list((folder / OWNERS).iterdir()) == []


@pytest.fixture
def hanging(tmp_path):
    """A working folder with one case, which hangs."""
    hanging = {"workload": f"{BROKEN}:hanging", "retries": 0}
    config = {"runs": {"host": {"host": True}}, "cases": {"hang": hanging}, "report": {"headline": ["hang", "hang"]}}
    folder = WorkingFolder(tmp_path)
    folder.configure(config | {"device": "cpu"})
    return folder


@pytest.mark.torch
@pytest.mark.slow
def test_a_killed_snakemake_is_gone_on_with_and_a_stopped_one_says_how(hanging, tmp_path):
    running = hanging.start_hanging()
    second = hanging.snakemake(status=1)
    assert "LockException" in second
    assert f"process {running.pid} on " in second
    assert locked(tmp_path)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    assert locked(tmp_path)
    again = hanging.start_hanging()
    os.killpg(again.pid, signal.SIGINT)  # as a terminal does
    _, said = again.communicate(timeout=LONG)
    assert again.returncode == 1
    assert "the last snakemake in this folder was killed: going on where it stopped" in said
    assert said.splitlines()[-2:] == [
        "Not finished. What was measured is kept, and is not measured again.",
        f"To go on: snakemake {' '.join(hanging.command[3:])}",
    ]
    assert "stopped from outside by SIGINT" in hanging.hang_log.read_text()
    assert not (tmp_path / "results/latest/host/hang/1/measurement.json").exists()
    assert not locked(tmp_path)
    assert list((tmp_path / OWNERS).iterdir()) == []


@pytest.mark.torch
@pytest.mark.slow
def test_sigterm_ends_it_after_the_job_at_work_with_the_same_last_lines(hanging):
    running = hanging.start_hanging()
    os.kill(running.pid, signal.SIGTERM)
    os.killpg(running.pid, signal.SIGTERM)
    _, said = running.communicate(timeout=LONG)
    assert running.returncode == 1
    assert said.splitlines()[-1].startswith("To go on: snakemake --snakefile ")
    assert "Measuring hang on host, process 1" in hanging.snakemake("--dry-run")


@pytest.mark.torch
@pytest.mark.slow
def test_two_quick_ctrl_c_do_not_cut_the_line_that_says_how_to_go_on(hanging):
    """The second one arrives while Snakemake ends its jobs because of the first."""
    running = hanging.start_hanging()
    for _ in range(2):
        os.killpg(running.pid, signal.SIGINT)
        time.sleep(0.1)
    _, said = running.communicate(timeout=LONG)
    assert running.returncode != 0
    assert f"\nComplete log: {hanging.path}/.snakemake/log/" in said
    assert "\nTo go on: snakemake --snakefile " in said  # a thread that ends a job for long may print after it
