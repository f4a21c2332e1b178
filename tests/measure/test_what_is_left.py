"""Whatever a workload does to processes, files and outputs: nothing of it is left, and measurement.json is true."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections import deque
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.forks import Served
from tests.helpers.patience import LONG, wait_for
from tests.helpers.processes import ended
from workloads.harness import attempt, guard, notebook, old_python

pytestmark = pytest.mark.torch
SCRIPTS = ROOT / "scripts"
FILE = "tests/measure/fixtures/behaviours.py:"


def pid_in(file: Path) -> int:
    wait_for(lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())


def wait_until_it_says(process: subprocess.Popen, words: str) -> None:
    for line in process.stderr:
        if words in line:
            return


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_daemon_does_not_outlive_its_case(measure, tmp_path):
    got = measure(FILE + "leaves_a_daemon", params={"pid_file": str(tmp_path / "pid")})
    assert got.measurement["status"] == "ok"
    assert ended(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_does_not_outlive_a_supervisor_that_is_ended(measure, tmp_path, number):
    process = measure.start(FILE + "leaves_a_daemon", params={"pid_file": str(tmp_path / "pid"), "then": "hangs"})
    wait_until_it_says(process, "it hangs")
    daemon = pid_in(tmp_path / "pid")
    assert not ended(daemon)
    started = descendants_of(process.pid)
    assert {daemon} < started  # the guard and the child, and the daemon that the guard adopted
    process.send_signal(number)
    process.communicate(timeout=LONG)
    wait_for(lambda: all(ended(pid) for pid in started))


def descendants_of(pid: int) -> set[int]:
    found, todo = set(), [pid]
    while todo:
        place = Path(f"/proc/{todo.pop()}/task")
        for children in place.glob("*/children"):
            todo += [int(child) for child in children.read_text().split()]
        found |= set(todo)
    return found


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_workload_that_kills_its_parent(measure, name):
    got = measure(FILE + "kills_its_parent", params={"name": name}, retries=0)
    assert (got.status, got.measurement["status"]) == (0, "failed")
    assert "during first call" in got.measurement["reason"]


def test_only_what_was_started_meanwhile_is_ended():
    mine = subprocess.Popen(["sleep", "7200"])
    try:
        before = guard.descendants()
        assert mine.pid in before
        other = subprocess.Popen(["sleep", "7200"])
        guard.end_descendants(but=before)
        assert ended(other.pid)
        assert not ended(mine.pid)
        other.wait()
    finally:
        mine.kill()
        mine.wait()


def test_the_guard_ends_as_its_command_ends():
    def run(code: str) -> int:
        command = [sys.executable, "-I", "-S", guard.__file__, str(guard.os.getpid()), sys.executable, "-c", code]
        return subprocess.run(command, check=False).returncode

    assert run("raise SystemExit(7)") == 7
    for number in (signal.SIGKILL, signal.SIGABRT, signal.SIGTERM, signal.SIGUSR1):
        assert run(f"import os; os.kill(os.getpid(), {int(number)})") == -number


# --- output -----------------------------------------------------------------------------------------------------------


class Endless(io.RawIOBase):
    """So many bytes without the end of a line, then one more line."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if self.left <= 0:
            line, self.left = (b"\nlast\n" if self.left == 0 else b""), -1
            buffer[: len(line)] = line
            return len(line)
        size = min(len(buffer), self.left)
        buffer[:size] = b"x" * size
        self.left -= size
        return size


def test_a_line_without_end_is_not_held_in_memory():
    lines: deque[str] = deque(maxlen=attempt.LOG_LINES)
    tracemalloc.start()
    attempt._read_log(io.BufferedReader(Endless(64 * 2**20)), lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
    assert list(lines) == ["x" * attempt.LINE_BYTES, "last"]


def test_a_long_line_does_not_hide_the_reason(measure):
    got = measure(FILE + "prints_one_long_line")
    assert got.measurement["reason"] == "RuntimeError during first call: after the line"
    assert max(map(len, got.measurement["log_tail"])) <= attempt.LINE_BYTES


def test_output_that_is_no_utf8(measure):
    got = measure(FILE + "prints_no_utf8")
    assert got.measurement["reason"] == "RuntimeError during first call: after the bytes"
    assert "caf\ufffd \ufffd\ufffd" in got.measurement["log_tail"]


# --- files ------------------------------------------------------------------------------------------------------------


def measure_beside_its_case(folder: Path, name: str, **params) -> dict:
    """As the workflow does: case.json lies in the output folder, and has to stand there in the end too."""
    output = folder / "out"
    output.mkdir()
    case = {"case": "a", "workload": FILE + name, "annotation": "a_forward", "samples": 20, "timeout_s": LONG}
    case |= {"params": {"folder": str(output), **params}, "retries": 0}
    file = output / "case.json"
    file.write_text(json.dumps(case))
    words = ["--case-file", file, "--device", "cpu", "--output", output, "--lock-dir", folder]
    process = Served([str(SCRIPTS / "profile_case.py"), *map(str, words)], os.environ, ROOT)
    _, stderr = process.communicate(timeout=LONG)
    assert process.returncode == 0, stderr
    assert json.loads(file.read_text()) == case
    return json.loads((output / "measurement.json").read_text())


# 3 calls of warm-up, 23 timed ones, 12 under the profiler, 2 with shapes, then the checks
@pytest.mark.parametrize(("call", "status"), [(1, "ok"), (30, "ok"), (40, "failed"), (42, "failed")])
def test_a_workload_that_removes_its_folder(tmp_path, call, status):
    found = measure_beside_its_case(tmp_path, "removes_its_folder_at", call=call)
    assert found["status"] == status
    left = {path.name for path in (tmp_path / "out").iterdir()}
    if status == "ok":
        assert left == {"case.json", "measurement.json", found["trace"], found["shapes_trace"]}
    else:
        assert found["reason"].startswith("the workload removed its own output while it ran (trace.json.gz")
        assert len(found["forward_times_us"]) == 20


@pytest.mark.parametrize("name", ["removes_its_folder_and_leaves", "puts_a_file_in_place_of_its_folder"])
def test_a_workload_that_leaves_no_record(tmp_path, name):
    found = measure_beside_its_case(tmp_path, name)
    assert found["status"] == "failed"
    assert found["reason"].startswith("the workload removed its own output while it ran (the whole folder)")


# --- what a workload says of itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "kept", "note"),
    [
        ({"sdpa_backends": {"math": 1}}, {"sdpa_backends": {"math": 1}}, None),
        (
            {"forward_times_us": [1], "environment": {}, "stage": "x"},
            {},
            "left out environment, forward_times_us, stage",
        ),
        ([1, 2], {}, "no further facts: TypeError: facts() must return a dict, got list"),
        ({"sdpa_backends": {1, 2}}, {}, "no further facts: TypeError: Object of type set is not JSON serializable"),
        ({"sdpa_backends": "x" * 200_000}, {}, "facts() returned more than 100,000 characters"),
    ],
)
def test_facts_fill_no_key_of_the_harness(tmp_path, facts, kept, note):
    notes = notebook.Notebook(tmp_path / "notes.json", "a-case")
    before = {**notes.record, "notes": []}
    notes.attempt("further facts", lambda: notes.add_facts(facts))
    assert {**notes.record, "notes": []} == {**before, **kept}
    assert [note in line for line in notes.record["notes"]] == ([True] if note else [])


def test_facts_of_a_whole_measurement(measure):
    got = measure(FILE + "tells_facts", params={"facts": {"forward_times_us": [1.0], "sdpa_backends": {"math": 1}}})
    assert got.measurement["status"] == "ok"
    assert len(got.measurement["forward_times_us"]) == 20
    assert got.measurement["sdpa_backends"] == {"math": 1}
    assert "left out forward_times_us" in got.measurement["notes"][0]


def test_a_profiler_that_the_workload_leaves_running(measure):
    got = measure(FILE + "leaves_a_profiler_running")
    (warning,) = got.measurement["warnings"]
    assert warning["code"] == "profiler_running"
    assert "torch.profiler" in warning["message"]


# --- an old Python ----------------------------------------------------------------------------------------------------


def test_a_python_that_is_too_old_leaves_a_failed_row(tmp_path, capsys):
    (tmp_path / "case.json").write_text('{"case": "a", "workload": "linear"}')
    arguments = ["--case-file", str(tmp_path / "case.json"), "--device", "cpu", "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as caught:
        old_python.refuse_old_python(arguments, (3, 8, 18))
    assert caught.value.code == 0
    found = json.loads((tmp_path / "out" / "measurement.json").read_text())
    assert (found["schema"], found["status"], found["case"]["workload"]) == (1, "failed", "linear")
    assert found["reason"].startswith("this is Python 3.8.18, and measuring needs 3.9 or later: use an image")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["--case-file", "no-such-file", "--output", "x"], ["--help"]])
def test_a_python_that_is_too_old_without_a_case(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        old_python.refuse_old_python(arguments, (3, 7, 16))
    assert caught.value.code == 2
    assert "this is Python 3.7.16" in capsys.readouterr().err


def test_a_python_that_is_new_enough_goes_on():
    old_python.refuse_old_python([], (3, 9, 0))


@pytest.mark.parametrize("name", ["profile_case.py", "workloads/__init__.py", "workloads/harness/__init__.py",
                                  "workloads/harness/old_python.py"])  # fmt: skip
def test_what_an_old_python_reads_first_is_in_its_grammar(name):
    compile_in = subprocess.run(
        [sys.executable, "-c", "import ast, sys; ast.parse(sys.stdin.read(), feature_version=(3, 7))"],
        input=(SCRIPTS / name).read_text(), text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert compile_in.returncode == 0, compile_in.stderr
