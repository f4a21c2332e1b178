"""Every way of failing that can be made on a CPU leaves a measurement.json that says what happened and what to do."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers.patience import LONG, wait_for
from tests.helpers.processes import ended
from workloads import Context, Unsupported, Workload, gpu_remedy
from workloads.harness import attempt

pytestmark = pytest.mark.torch


def wait_until_it_hangs(process: subprocess.Popen) -> list[str]:
    """Read on until the workload itself runs; returns the supervisor's children."""
    for line in process.stderr:
        if "first call" in line:
            break
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


@pytest.mark.parametrize(
    ("workload", "params", "status", "reason"),
    [
        (":raises", {}, "failed", "RuntimeError during first call: the workload's own words"),
        (":refuses", {}, "unsupported", "this device has no such unit: use another variant"),
        (":needs_package", {}, "unsupported", "a_package_that_is_not_there cannot be imported"),
        (":leaves", {"status": 7}, "failed", "left with status 7 during first call"),
        (":fine", {"sizes": 8}, "failed", "unexpected keyword argument 'sizes'; it takes size"),
        (":half_a_character", {}, "failed", "half ? a character"),
    ],
)
def test_what_a_workload_does_wrong(measure, workload, params, status, reason):
    got = measure(workload, params=params)
    assert got.status == 0
    assert got.measurement["status"] == status
    assert reason in got.measurement["reason"]
    assert got.measurement["attempts"] == 1
    assert sorted(path.name for path in got.output.iterdir()) == ["measurement.json"]


def test_a_workload_that_removes_its_output_folder_and_goes_on(measure):
    got = measure(":removes_its_folder", params={"folder": str(measure.output), "then": "goes on"})
    assert (got.status, got.measurement["status"]) == (0, "ok")
    assert (got.output / got.measurement["trace"]).is_file()


def test_a_workload_that_removes_its_output_folder_and_fails(measure):
    got = measure(":removes_its_folder", params={"folder": str(measure.output), "then": "raises"})
    assert (got.status, got.measurement["status"]) == (0, "failed")
    assert "RuntimeError during first call: after that" in got.measurement["reason"]


@pytest.mark.parametrize("workload", [":closes_outputs", ":drops_outputs"])
def test_a_workload_without_outputs_is_measured_all_the_same(measure, workload):
    got = measure(workload)
    assert (got.measurement["status"], got.measurement["reason"]) == ("ok", None)


def test_notes_that_the_workload_spoilt_are_no_notes(measure):
    got = measure(":spoils_the_notes", params={"notes": str(measure.output / ".child.json")})
    assert got.measurement["status"] == "failed"
    assert "left with status 3" in got.measurement["reason"]


def test_memory_is_tried_twice(measure):
    got = measure(":out_of_memory")
    assert got.measurement["status"] == "failed"
    assert got.measurement["reason"].startswith("the machine ran out of memory during making of the inputs")
    assert "use smaller cpu_params" in got.measurement["reason"]
    assert got.measurement["attempts"] == 2
    assert "trying once more" in got.stderr


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_signals(measure, name):
    got = measure(":ended_by", params={"name": name}, retries=0)
    assert got.status == 0
    assert f"ended by {name} during first call" in got.measurement["reason"]
    assert got.measurement["device"]["type"] == "cpu"  # known before the end
    if name == "SIGSEGV":
        assert any("faults.py" in line for line in got.measurement["log_tail"])  # where it was


def test_a_signal_that_does_not_come_back_costs_one_attempt(measure, tmp_path):
    got = measure(":ended_by_once", params={"name": "SIGKILL", "marker": str(tmp_path / "seen")})
    assert got.measurement["status"] == "ok"
    assert got.measurement["attempts"] == 2
    assert got.measurement["reason"] is None


def test_time_limit_ends_the_whole_group_and_says_where_it_hung(measure, monkeypatch, tmp_path):
    """The limit is not a time but an event here: it expires once the workload says that it hangs."""
    pid_file = tmp_path / "pid"
    wait = subprocess.Popen.wait

    def until_it_hangs(process, timeout=None):
        if timeout == 60:
            wait_for(lambda: pid_file.exists() and pid_file.read_text())
            raise subprocess.TimeoutExpired(process.args, timeout)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", until_it_hangs)
    monkeypatch.setattr(attempt, "ANSWER_S", LONG)
    got = measure.here(":hangs_with_a_child", params={"pid_file": str(pid_file)}, timeout_s=60, retries=0)
    assert got.status == 0
    assert got.measurement["reason"].startswith("stopped at its time limit of 60 s during first call: raise timeout_s")
    assert any("in action" in line for line in got.measurement["log_tail"])
    assert "_run_module_as_main" in got.measurement["log_tail"][-1]  # its stack to the end, which is not waited out
    wait_for(lambda: ended(int(pid_file.read_text())))


def test_a_time_limit_that_is_short_expires(measure):
    """Wherever it is by then: on a slow machine that may be the import of torch."""
    got = measure(":hangs", timeout_s=0.5, retries=0)
    assert got.status == 0
    assert got.measurement["reason"].startswith("stopped at its time limit of 0.5 s during ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_supervisor_told_to_stop(measure, number):
    process = measure.start(":hangs")
    children = wait_until_it_hangs(process)
    process.send_signal(number)
    got = measure.finish(process)
    assert got.status == 128 + number
    assert got.measurement["status"] == "failed"
    assert f"stopped from outside by {number.name}" in got.measurement["reason"]
    assert len(children) == 1
    wait_for(lambda: all(ended(int(pid)) for pid in children))


def test_the_child_does_not_outlive_a_killed_supervisor(measure):
    process = measure.start(":hangs")
    (child,) = wait_until_it_hangs(process)
    process.kill()
    process.communicate(timeout=LONG)
    wait_for(lambda: ended(int(child)))


def test_a_measurement_waits_for_another_that_still_writes_into_its_folder(measure):
    """As after a workflow that was killed: its last measurement lives on while the next workflow repeats it."""
    first = measure.start(":hangs")
    wait_until_it_hangs(first)
    second = measure.start(":fine")
    told = second.stderr.readline()
    assert "another measurement still writes into it" in told
    first.terminate()
    assert measure.finish(first).status == 128 + signal.SIGTERM
    got = measure.finish(second)
    assert (got.status, got.measurement["status"]) == (0, "ok")
    assert sorted(path.name for path in got.output.iterdir()) == ["measurement.json", "shapes.json.gz", "trace.json.gz"]


def test_full_disk_under_a_trace(measure):
    measure.output.mkdir()
    (measure.output / ".trace.json.gz").symlink_to("/dev/full")
    got = measure(":fine")
    assert got.status == 0
    assert got.measurement["reason"].startswith("the disk is full during profile")
    assert "free some space" in got.measurement["reason"]
    assert len(got.measurement["forward_times_us"]) == 20  # measured before, and kept
    assert got.measurement["trace"] is None


def test_full_disk_under_everything(measure):
    """A real file system of 400 KiB: even then measurement.json finds its room."""
    measure.output.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(measure.output)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system needs the right to mount one")
    try:
        got = measure(":fills_the_disk", params={"folder": str(measure.output)})
        assert got.status == 0
        assert got.measurement["reason"].startswith("the disk is full during first call")
    finally:
        subprocess.run(["umount", str(measure.output)], check=True)


def test_a_folder_that_cannot_be_made(measure):
    measure.output.write_text("a file")
    got = measure.finish(measure.start(":fine", extra=["--output", str(measure.output / "below")]))
    assert got.status == 2
    assert "cannot be written" in got.stderr


def test_no_torch(measure, tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    got = measure(":fine", env={"PYTHONPATH": str(tmp_path)})
    assert got.status == 0
    assert got.measurement["reason"] == (
        "a package cannot be imported during import of torch (No module named 'torch'): install it in this environment"
    )


def test_no_compiler(measure, tmp_path):
    got = measure(
        "attention",
        variant="naive",
        mode="compile",
        params={"batch": 1, "heads": 1, "seq": 8, "head_dim": 8},
        extra=["--cache-dir", str(tmp_path / "cache")],
        env={"CXX": str(tmp_path / "no-such-compiler")},
    )
    assert got.measurement["status"] == "failed"
    assert got.measurement["reason"].startswith("torch.compile found no working compiler during first call")
    assert "install g++" in got.measurement["reason"]
    assert got.measurement["inductor_cache"] == "cold"


def test_a_gpu_asked_for_and_absent(measure):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    got = measure(":fine", device="cuda")
    assert got.status == 0
    assert got.measurement["status"] == "failed"
    assert "device: cpu" in got.measurement["reason"]
    assert got.measurement["environment"]["torch"] == torch.__version__


@pytest.mark.parametrize("variant", ["sdpa-efficient", "sdpa-cudnn"])
def test_backends_that_a_cpu_has_not(measure, variant):
    got = measure("attention", variant=variant, params={"batch": 1, "heads": 2, "seq": 16, "head_dim": 8})
    assert got.measurement["status"] == "unsupported"
    assert "refuses these inputs" in got.measurement["reason"]
    backends = got.measurement["sdpa_backends"]
    assert backends["math"] == {"usable": True, "reasons": []}
    assert backends[variant[5:]]["usable"] is False
    assert backends[variant[5:]]["reasons"]


def test_liger_needs_a_gpu(measure):
    got = measure("mlp", variant="liger", params={"batch": 1, "seq": 2, "dim": 8, "hidden": 16})
    assert got.measurement["status"] == "unsupported"
    assert got.measurement["reason"].endswith(f"runs on a GPU alone and the device is cpu: {gpu_remedy()}")


@pytest.mark.parametrize(
    ("there", "remedy"),
    [(False, "measure it on a machine with a GPU"), (True, "set device: cuda (or auto) in the config")],
)
def test_a_gpu_is_advised_where_there_is_one(monkeypatch, there, remedy):
    torch = pytest.importorskip("torch")
    from workloads.harness.building import in_mode

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    context = Context("plain", torch.device("cpu"), torch.float32, 0)
    with pytest.raises(Unsupported) as caught:
        context.need_cuda("it")
    assert str(caught.value).endswith(remedy)
    graph = {"mode": "graph"}
    with pytest.raises(Unsupported) as caught:
        in_mode(graph, Workload(abs, ()), torch.device("cpu"))
    assert str(caught.value).endswith(remedy)


def test_a_failure_leaves_the_last_lines_of_its_process_in_the_log(measure):
    got = measure(":ended_by", params={"name": "SIGABRT"}, retries=0, env={})  # in a fork, its stack would be longer
    said = got.stderr.splitlines()
    tail = got.measurement["log_tail"]
    assert any("Fatal Python error: Aborted" in line for line in tail)
    begin = next(place for place, line in enumerate(said) if line.endswith("the last lines of its process:"))
    assert said[begin + 1 : begin + 1 + len(tail)] == [f"  {line}" for line in tail]
    assert "failed" in said[begin + 1 + len(tail)]


def test_a_process_leaves_nothing_in_the_temporary_folder(measure, tmp_path):
    measure(":fine")
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith("torchinductor_")}  # torch's own
    assert left == {"case.json", "out"}
    assert os.path.exists(measure.output / "trace.json.gz")
