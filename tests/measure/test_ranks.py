"""A case with ranks, started for real on the CPU with gloo: files, windows, failures, what reaches the ranks."""

from __future__ import annotations

import fcntl
import gzip
import json
import time

import pytest

from tests.helpers.patience import LONG
from tests.helpers.processes import descendants, ended
from workloads.harness import gpu, ranks, repeats
from workloads.harness.case_file import CaseError, load_case

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

WORKLOADS = "tests/measure/fixtures/rank_workloads.py"
FILES = ["measurement.json", "shapes.json.gz", "trace.json.gz"]
QUICK = {"ranks": 2, "samples": 5, "warmup": 1, "schedule": {"wait": 1, "warmup": 1, "active": 3}, "retries": 0}
FORBIDDEN = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def of_rank(got, rank):
    return json.loads((got.output / f"rank-{rank}" / "measurement.json").read_text())


def trace_of(got, rank):
    return json.loads(gzip.decompress((got.output / f"rank-{rank}" / "trace.json.gz").read_bytes()))


@pytest.fixture(scope="module")
def job(measure_once):
    """Two ranks that went well, on a machine that forbids NVLink multicast."""
    return measure_once(f"{WORKLOADS}:total", env=FORBIDDEN, **QUICK)


def test_each_rank_leaves_a_measurement_and_its_traces(job):
    assert job.measurement["status"] == "ok", job.measurement["reason"]
    assert sorted(path.name for path in job.output.iterdir()) == ["measurement.json", "rank-0", "rank-1"]
    for rank in (0, 1):
        assert sorted(path.name for path in (job.output / f"rank-{rank}").iterdir()) == FILES
        measured = of_rank(job, rank)
        assert (measured["rank"], measured["world_size"], measured["local_rank"]) == (rank, 2, rank)
        assert measured["status"] == "ok"
        assert len(measured["forward_times_us"]) == 5
        assert measured["profiled_forwards"] == 3


def test_the_job_states_its_ranks_and_no_figure_of_its_own(job):
    assert job.measurement["ranks"] == 2
    assert job.measurement["environment"]["torch"] == torch.__version__
    assert job.measurement["device"]["type"] == "cpu"
    assert (job.measurement["forward_times_us"], job.measurement["trace"]) == ([], None)


def test_each_trace_names_its_rank_and_holds_one_collective_a_forward(job):
    for rank in (0, 1):
        trace = trace_of(job, rank)
        assert trace["distributedInfo"]["rank"] == rank
        assert trace["distributedInfo"]["world_size"] == 2
        names = [event.get("name") for event in trace["traceEvents"] if event.get("ph") == "X"]
        assert names.count("a_forward") >= 3
        assert names.count("c10d::allreduce_") == 3  # none of the ranks' own meetings is in the window
        assert not [name for name in names if "barrier" in str(name)]


def test_the_windows_of_the_ranks_begin_together(job):
    """Every forward waits for the other rank: the first forward of one ends after that of the other has begun."""
    spans = []
    for rank in (0, 1):
        trace = trace_of(job, rank)
        base = trace.get("baseTimeNanoseconds", 0) / 1e3
        first = min(
            (event["ts"] + base, event["ts"] + base + event["dur"])
            for event in trace["traceEvents"]
            if event.get("name") == "a_forward" and event.get("ph") == "X" and event.get("cat") == "user_annotation"
        )
        spans.append(first)
    assert max(begin for begin, _ in spans) < min(end for _, end in spans)


def test_what_the_machine_forbids_reaches_every_rank(job):
    for rank in (0, 1):
        assert FORBIDDEN.items() <= of_rank(job, rank)["environment"]["variables"].items()


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        ("raises", "rank 1: ValueError during timing without the profiler: the rank's own words"),
        ("crashes", "rank 1: the process was ended by SIGSEGV during timing without the profiler"),
        ("is killed", "rank 1: the process was ended by SIGKILL during timing without the profiler"),
        ("leaves", "rank 1: the process left with status 0 during timing without the profiler"),
    ],
)
def test_a_rank_that_fails_fails_the_case_with_its_own_reason(measure, fails, reason):
    got = measure(f"{WORKLOADS}:total", params={"fails": fails}, **QUICK)
    assert (got.status, got.measurement["status"]) == (0, "failed")
    assert got.measurement["reason"].startswith(reason)
    for rank in (0, 1):
        measured = of_rank(got, rank)
        assert (measured["status"], measured["reason"]) == ("failed", got.measurement["reason"])
        assert [path.name for path in (got.output / f"rank-{rank}").iterdir()] == ["measurement.json"]


def test_all_ranks_have_one_time_limit_and_each_shows_where_it_was(measure):
    began = time.monotonic()
    case = {**QUICK, "timeout_s": 15}
    got = measure(f"{WORKLOADS}:total", params={"fails": "hangs", "call": 1}, **case)
    assert time.monotonic() - began < LONG
    assert got.measurement["status"] == "failed"
    assert got.measurement["reason"].startswith("stopped at its time limit of 15 s during ")
    log = "\n".join(got.measurement["log_tail"])
    assert "in hangs" in log.partition("rank 1:")[2]


def test_a_case_that_every_rank_refuses_is_unsupported(measure):
    got = measure(f"{WORKLOADS}:refuses", **QUICK)
    assert got.measurement["status"] == "unsupported"
    assert got.measurement["reason"] == "this device has no such unit: use another variant"


def test_a_workload_of_ranks_in_a_case_without_them(measure):
    got = measure("data_parallel", variant="ddp")
    assert "needs a process group: give the case `ranks: 2`" in got.measurement["reason"]


def test_what_stands_in_place_of_a_ranks_folder_is_removed_and_not_followed(tmp_path):
    output, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (output, elsewhere):
        folder.mkdir()
    (elsewhere / "kept").write_text("mine")
    (output / "rank-0").symlink_to(elsewhere)
    (output / "rank-1").write_text("a file")
    ranks.prepare(output, 2)
    assert sorted(path.name for path in output.iterdir() if path.is_dir() and not path.is_symlink()) == [
        "rank-0",
        "rank-1",
    ]
    assert (elsewhere / "kept").read_text() == "mine"


def test_ranks_of_an_earlier_measurement_are_removed(measure):
    (measure.output / "rank-7").mkdir(parents=True)
    (measure.output / "rank-7" / "trace.json.gz").write_text("old")
    got = measure("matmul_add", samples=2, params={"size": 8})
    assert got.measurement["status"] == "ok"
    assert not list(got.output.glob("rank-*"))


@pytest.mark.parametrize("variant", ["all-reduce", "all-gather", "reduce-scatter"])
def test_the_result_of_a_shipped_collective_is_right(measure, variant):
    got = measure("collective", variant=variant, params={"bytes": 4096}, dtype="float32", **QUICK)
    for rank in (0, 1):
        measured = of_rank(got, rank)
        assert (measured["warnings"], measured["notes"]) == ([], [])
        assert measured["relative_error"] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["ddp", "fsdp2"])
def test_a_shipped_training_step_runs_on_two_ranks(measure, variant):
    params = {"batch": 1, "seq": 4, "dim": 8, "heads": 2, "layers": 1}
    got = measure("data_parallel", variant=variant, params=params, dtype="float32", **QUICK)
    assert got.measurement["status"] == "ok", got.measurement["reason"]
    assert [of_rank(got, rank)["warnings"] for rank in (0, 1)] == [[], []]


# --- GPUs -------------------------------------------------------------------------------------------------------------


def test_fewer_gpus_than_ranks_are_unsupported(monkeypatch):
    from workloads import Unsupported
    from workloads.harness import job

    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(Unsupported, match="the case has 2 ranks and torch sees 1 GPU of one model here: measure it"):
        job.device_of_rank(torch.device("cuda", 0))


def test_a_job_holds_as_many_gpus_as_it_has_ranks(tmp_path):
    with (tmp_path / "kernelbook-GPU-b.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with gpu.lock(["GPU-a", "GPU-b", "GPU-c"], pytest.fail, tmp_path, 2) as got:
            assert got == ("GPU-a", "GPU-c")


def test_where_there_are_fewer_gpus_the_job_holds_those(tmp_path):
    with gpu.lock(["GPU-a"], pytest.fail, tmp_path, 2) as got:
        assert got == ("GPU-a",)


def test_two_gpus_are_waited_for_together(tmp_path):
    said = []
    with (tmp_path / "kernelbook-GPU-b.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def say(line):
            said.append(line)
            with gpu.lock(["GPU-a"], pytest.fail, tmp_path) as free:
                assert free == ("GPU-a",)  # it is not held while the other is waited for
            fcntl.flock(other, fcntl.LOCK_UN)

        with gpu.lock(["GPU-a", "GPU-b"], say, tmp_path, 2) as got:
            assert got == ("GPU-a", "GPU-b")
    assert said == ["another measurement holds one of the 2 GPUs that this one needs; waiting for it"]


# --- parts ------------------------------------------------------------------------------------------------------------


def rank(tmp_path, number, status=None, at=None, **record):
    return ranks.Rank(number, tmp_path, record, status, at)


def error(kind, message, at):
    return {"error": {"kind": kind, "message": message, "at": at}, "stage": "profile"}


def test_a_lost_connection_is_a_consequence_even_where_it_was_noticed_first(tmp_path):
    """A process that crashes closes its connections before it has ended: here a second earlier."""
    lost = error("RuntimeError", "[pair.cc:553] Connection closed by peer [127.0.0.1]:1212", 10.0)
    both = [rank(tmp_path, 0, 1, 10.1, **lost), rank(tmp_path, 1, -11, 11.0, stage="profile")]
    assert ranks.first_failure(both, []).reason.startswith("rank 1: the process was ended by SIGSEGV during profile")


def test_of_two_failures_the_earlier_one_is_the_reason(tmp_path):
    both = [
        rank(tmp_path, 0, 1, 9.0, **error("ValueError", "later", 8.0)),
        rank(tmp_path, 1, 1, 9.5, **error("ValueError", "earlier", 7.0)),
    ]
    assert ranks.first_failure(both, []).reason == "rank 1: ValueError during profile: earlier"


def test_what_all_ranks_say_is_said_once(tmp_path):
    both = [rank(tmp_path, number, 1, 9.0, **error("ValueError", "same", number)) for number in (0, 1)]
    assert ranks.first_failure(both, []).reason == "ValueError during profile: same"


def test_a_rank_that_was_ended_for_another_is_no_reason(tmp_path):
    ended, well = rank(tmp_path, 0, stage="profile"), rank(tmp_path, 1, 0, 5.0, stage=None, seconds={})
    assert ranks.first_failure([ended, well], []) is None


def test_stages_are_of_which_rank_each(tmp_path):
    states = [rank(tmp_path, 0, stage="profile"), rank(tmp_path, 1), rank(tmp_path, 2, stage="profile")]
    assert ranks.stages(states) == "profile (rank 0, 2), its start (rank 1)"
    assert ranks.stages(states[::2]) == "profile"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cudaEventQuery", False),  # NCCL's watchdog asks for its events, as often as it comes to that
        ("cudaThreadExchangeStreamCaptureMode", False),
        ("hipEventQuery", False),
        ("cuLaunchKernelEx", True),
        ("cudaMemcpyAsync", True),
        ("cudaMemsetAsync", True),
        ("aten::mm", True),
        ("cumulative_sum", True),
        ("cudagraph_step", True),
    ],
)
def test_only_calls_that_queue_work_are_compared_between_forwards(name, counts):
    assert (repeats.IDLE_CALL.match(name) is None) == counts


@pytest.mark.parametrize("wrong", [0, -1, True, "2", 1.5])
def test_a_case_file_with_no_number_of_ranks(tmp_path, wrong):
    file = tmp_path / "case.json"
    file.write_text(json.dumps({"case": "a", "workload": "linear", "annotation": "a", "ranks": wrong}))
    with pytest.raises(CaseError, match="ranks: must be a whole number, at least 1"):
        load_case(file)


def test_the_ranks_end_with_the_supervisor(measure):
    process = measure.start(f"{WORKLOADS}:total", params={"fails": "hangs", "call": 1}, **QUICK)
    for line in process.stderr:
        if "rank 1: first call" in line:
            break
    started = descendants(process.pid)
    process.terminate()
    process.communicate(timeout=LONG)
    assert process.returncode == 128 + 15
    assert len(started) >= 6  # the guard, the launcher, and of each rank what watches its child and the child
    deadline = time.monotonic() + LONG
    while not all(map(ended, started)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert all(map(ended, started))
