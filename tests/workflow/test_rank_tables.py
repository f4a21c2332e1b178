"""The tables of a job: one row per rank, and a case whose figures are those of the slowest rank."""

from __future__ import annotations

import gzip
import json
import os
import signal

import pytest

from kernelbook.cases import case_facts
from kernelbook.extraction import run_tables
from kernelbook.extraction.arrow_files import read_table
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.extraction.run_tables import read_run, readings_of
from kernelbook.plan.earlier import table_file

SPEC = {"case": "step", "workload": "mine", "annotation": "step", "params": {}, "ranks": 2}
STATUS = {"run": "host", "status": "ok", "kind": "host"}


def trace(kernels: int, length: float) -> dict:
    """One step of 100 µs with so many kernels of this length, each launched by an op of its own."""
    events = [complete("user_annotation", "step", 1000, 100, tid=1)]
    for number in range(kernels):
        start, link = 1010 + 10 * number, {"correlation": number + 1}
        events.append(complete("cpu_op", "aten::mm", start, 6, tid=1))
        events.append(complete("cuda_runtime", "cudaLaunchKernel", start + 1, 2, tid=1, args=link))
        placed = {**link, "stream": 7, "device": 0}
        events.append(complete("kernel", f"gemm_{number}", start + 4, length, pid=0, tid=7, args=placed))
    return {"schemaVersion": 1, "traceEvents": events}


def complete(category, name, start, length, pid=5, tid=1, args=None):
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "pid": pid, "tid": tid,
            "args": args or {}}  # fmt: skip


def write(folder, rank=None, **keys):
    measured = {"schema": 1, "case": SPEC, "status": "ok", "reason": None, "ranks": 2, **keys}
    if rank is not None:
        folder = folder / f"rank-{rank}"
        measured |= {"rank": rank, "world_size": 2, "local_rank": rank}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "measurement.json").write_text(json.dumps(measured))
    return folder


@pytest.fixture
def job(tmp_path):
    """Rank 0 runs 2 kernels of 3 µs and takes 40 µs; rank 1 runs 3 kernels of 5 µs and takes 60 µs."""
    folder = tmp_path / "host" / "step" / "1"
    write(folder)
    for rank, (kernels, length, time) in enumerate([(2, 3.0, 40.0), (3, 5.0, 60.0)]):
        device = {"type": "cuda", "name": "NVIDIA H200"}
        own = write(folder, rank, trace="trace.json.gz", forward_times_us=[time] * 30, device=device)
        (own / "trace.json.gz").write_bytes(gzip.compress(json.dumps(trace(kernels, length)).encode()))
    return folder


def tables(folder):
    return tables_of(Origin("host", "step", 1, STATUS), SPEC, folder / "measurement.json")


def test_every_table_has_the_rows_of_each_rank(job):
    made = tables(job)
    assert made["case"].select(["process", "rank", "world_size", "kernels", "device_time_us"]).to_pylist() == [
        {"process": 1, "rank": 0, "world_size": 2, "kernels": 2, "device_time_us": 6.0},
        {"process": 1, "rank": 1, "world_size": 2, "kernels": 3, "device_time_us": 15.0},
    ]
    assert made["activities"]["rank"].to_pylist() == [0, 0, 1, 1, 1]
    assert made["ranges"].select(["rank", "kernels"]).to_pylist() == [
        {"rank": 0, "kernels": 2},
        {"rank": 1, "kernels": 3},
    ]
    assert set(made["calls"]["rank"].to_pylist()) == {0, 1}


def test_the_figures_of_the_case_are_those_of_the_slowest_rank_and_never_a_median_of_ranks(job):
    made = tables(job)
    case = case_facts({"cases": made["case"], **made})["host", "step"]
    assert (case.kernels, case.device_time_us, case.forward_time_us) == (3, 15.0, 60.0)
    assert (case.forward_p05_us, case.forward_p95_us) == (60.0, 60.0)
    assert [len(forward.activities) for forward in case.forwards] == [3]
    assert [call.name for call in case.calls] == ["aten::mm", "cudaLaunchKernel"] * 3  # of rank 1 alone
    assert [(each.process, each.rank, each.merged) for each in case.processes] == [(1, 1, True)]
    assert [(each.rank, each.merged) for each in case.ranks] == [(0, False), (1, True)]
    text = "figures are those of rank 1, the slowest of 2 ranks: a forward takes 40.0 µs to 60.0 µs"
    text += "; device time 6.00 µs to 15.0 µs over the ranks"
    assert [note.message for note in case.notes if note.code == "ranks"] == [text]


def test_a_rank_without_a_measurement_fails_the_case(job):
    (job / "rank-0" / "measurement.json").unlink()
    made = tables(job)
    assert made["case"]["status"].to_pylist() == ["failed", "ok"]
    case = case_facts({"cases": made["case"], **made})["host", "step"]
    assert case.status == "failed"
    assert "rank-0/measurement.json: cannot be read" in case.reason
    assert case.forwards == ()


def test_a_job_that_failed_has_its_reason_once(tmp_path):
    folder = tmp_path / "host" / "step" / "1"
    for rank in (None, 0, 1):
        write(folder, rank, status="failed", reason="rank 1: out of memory")
    made = tables(folder)
    case = case_facts({"cases": made["case"], **made})["host", "step"]
    assert (case.status, case.reason, len(made["case"])) == ("failed", "rank 1: out of memory", 2)


def test_a_warning_of_one_rank_names_it(job):
    file = job / "rank-0" / "measurement.json"
    warning = {"code": "not_finite", "count": 1, "message": "a value is NaN"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"warnings": [warning]}))
    made = tables(job)
    case = case_facts({"cases": made["case"], **made})["host", "step"]
    assert "a value is NaN (rank 0 of process 1)" in [note.message for note in case.notes]


def test_a_case_without_ranks_has_an_empty_rank(tmp_path):
    made = tables_of(Origin("host", "step", 1, STATUS), SPEC, write(tmp_path / "a" / "step" / "1") / "none.json")
    assert made["case"]["rank"].to_pylist() == [None]


@pytest.mark.parametrize("ranks", [0, -1, 10**9, "2"])
def test_an_impossible_number_of_ranks_is_no_measurement(tmp_path, ranks):
    folder = write(tmp_path / "host" / "step" / "1", ranks=ranks)
    made = tables(folder)
    assert made["case"]["status"].to_pylist() == ["failed"]
    assert "is no measurement" in made["case"]["reason"][0].as_py()


def test_a_new_trace_of_one_rank_makes_the_tables_anew(job, tmp_path):
    inputs = [{"process": 1, "case": SPEC, "files": [str(job / "measurement.json")]}]
    output = tmp_path / "tables"

    def read():
        return read_run(list(readings_of(inputs, STATUS, output, tmp_path / "logs")), "code")

    assert (read(), read()) == (1, 0)
    (job / "rank-1" / "trace.json.gz").write_bytes(gzip.compress(json.dumps(trace(4, 5.0)).encode()))
    assert read() == 1
    assert read_table(table_file(output / "step" / "1", "case"))["kernels"].to_pylist() == [2, 4]


@pytest.mark.parametrize("workers", [1, 3])
def test_ranks_that_are_read_at_the_same_time_give_the_tables_of_one_after_the_other(job, tmp_path, workers):
    output = tmp_path / "tables"
    inputs = [{"process": 1, "case": SPEC, "files": [str(job / "measurement.json")]}]
    assert read_run(list(readings_of(inputs, STATUS, output, tmp_path / "logs")), "code", workers) == 1
    for name, table in tables(job).items():
        assert read_table(table_file(output / "step" / "1", name)).to_pylist() == table.to_pylist(), name
    activities = table_file(output / "step" / "1", "activities")
    of_ranks = [read_table(activities, rank).to_pylist() for rank in (0, 1)]
    assert [{row["rank"] for row in rows} for rows in of_ranks] == [{0}, {1}]
    assert [*of_ranks[0], *of_ranks[1]] == read_table(activities).to_pylist()
    assert read_table(activities, -1).num_rows == 0
    assert [each.name for each in (output / "step").iterdir()] == ["1"]


def test_a_rank_whose_reading_is_killed_costs_its_own_row(job, tmp_path, monkeypatch):
    def killed(origin, *arguments):
        if origin.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return tables_of(origin, *arguments)

    monkeypatch.setattr(run_tables, "tables_of", killed)
    output = tmp_path / "tables"
    inputs = [{"process": 1, "case": SPEC, "files": [str(job / "measurement.json")]}]
    read_run(list(readings_of(inputs, STATUS, output, tmp_path / "logs")), "code", 2)
    rows = read_table(table_file(output / "step" / "1", "case")).to_pylist()
    assert [(row["rank"], row["status"]) for row in rows] == [(0, "failed"), (1, "ok")]
    assert "reading the measurement" in rows[0]["reason"]
