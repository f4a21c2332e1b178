"""`summarize_trace.py` on the ranks of a job: JSON with further keys, a sentence first in the terminal, tables."""

import gzip
import json
import re

import pyarrow.parquet as pq
import pytest

from kernelbook.cli import main
from kernelbook.collectives.rank import decode, encode, rank_trace
from kernelbook.trace import read_trace
from tests.collectives.made_job import folder_of_pair, late_pair, read, write_rank
from tests.helpers.schemas import validate
from tests.trace.made_trace import forward, write


@pytest.fixture
def folder(tmp_path):
    return folder_of_pair(tmp_path / "traces")


def test_each_rank_has_the_job_on_its_line(folder, capsys):
    assert main(["summarize", str(folder), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in lines:
        validate(line, "trace/trace.schema.json")
    first, second = lines
    assert first["job"] == second["job"]
    assert first["job"]["sentence"].startswith("rank 1 comes last to 3 of 3 all-reduces, by 200 µs in the median")
    assert [row["wait_us"] for row in first["collectives"]] == [200, 200, 200]
    assert [row["index"] for row in second["ranks"]] == [None, 0, 1, 2]
    assert first["ranks"][0]["waiting_us"] == 600


def test_a_trace_of_no_job_has_the_keys_of_before(tmp_path, capsys):
    trace = write(tmp_path / "made.json", forward())
    assert main(["summarize", str(trace), "--json"]) == 0
    assert not {"job", "ranks", "collectives"} & json.loads(capsys.readouterr().out).keys()


def test_the_terminal_begins_with_the_sentence(folder, capsys):
    assert main(["summarize", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rank 1 comes last to 3 of 3 all-reduces")
    assert lines[1] == "a job of 2 ranks, clocks agree within 0"
    # rank 0: a span of 580 in each step, 100 of compute, 300 of communication, none hidden, 180 idle
    row = next(line for line in lines if line.startswith("0 "))
    assert re.split(r"\s{2,}", row.strip())[:6] == ["0", "580 µs", "100 µs", "300 µs", "300 µs", "0"]
    assert any("1,048,576" in line for line in lines)


def test_the_tables_of_the_job_are_written(folder, tmp_path, capsys):
    assert main(["summarize", str(folder), "--output", str(tmp_path / "out")]) == 0
    assert pq.read_table(tmp_path / "out" / "job" / "collectives.parquet").num_rows == 6
    assert pq.read_table(tmp_path / "out" / "job" / "ranks.parquet").num_rows == 8


def test_a_rank_that_is_there_twice_makes_no_job(folder, capsys):
    write_rank(folder, 1, late_pair(shift=1.0)[1], 2, file="job_rank01.json")
    assert main(["summarize", str(folder), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not any("job" in line for line in lines)
    assert "duplicate_rank" in {warning["code"] for line in lines for warning in line["warnings"]}


@pytest.mark.parametrize("name", ["job_rank1 (1).json", "a copy.json", "copy.json.gz"])
def test_a_copy_of_a_trace_is_left_out_and_reported(folder, capsys, name):
    content = (folder / "job_rank1.json").read_bytes()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert main(["summarize", str(folder), "--json"]) == 0
    lines = {line["source"].rpartition("/")[2]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {source for source, line in lines.items() if "job" in line} == {"job_rank0.json", "job_rank1.json"}
    assert lines["job_rank1.json"]["job"]["sentence"].startswith("rank 1 comes last to 3 of 3 all-reduces")
    warnings = {source: [each["message"] for each in line["warnings"]] for source, line in lines.items()}
    assert warnings[name] == ["a copy of job_rank1.json: left out of the job"]
    assert warnings["job_rank1.json"] == [f"copies of this trace lie beside it and are left out: {name}"]
    assert lines[name]["rank"] == 1


@pytest.mark.parametrize(
    "names",
    [
        ("a.json", "b.json"),
        ("job_rank0.json", "b.json"),
        ("job_rank0.json", "job_rank1.json.gz"),
        ("node1/trace.json", "node2/trace.json"),
    ],
)
def test_ranks_are_found_by_what_the_files_state_where_names_do_not_tell(tmp_path, capsys, names):
    for rank, (name, events) in enumerate(zip(names, late_pair(), strict=True)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        file = write_rank(tmp_path, rank, events, 2, file=name.removesuffix(".gz"))
        if name.endswith(".gz"):
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    assert main(["summarize", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("rank 1 comes last to 3 of 3 all-reduces")


def test_files_with_swapped_names_are_read_by_the_rank_inside(folder, capsys):
    zero, one = folder / "job_rank0.json", folder / "job_rank1.json"
    zero.rename(folder / "other")
    one.rename(zero)
    (folder / "other").rename(one)
    assert main(["summarize", str(folder), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["rank"] for line in lines] == [1, 0]
    assert [row["wait_us"] for row in lines[1]["collectives"]] == [200, 200, 200]
    assert all(line["job"]["sentence"].startswith("rank 1 comes last") for line in lines)
    assert "rank_mismatch" in {warning["code"] for warning in lines[0]["warnings"]}


ARGUMENTS = {
    "no character": {"Process Group Name": "\ud800", "dtype": "\udfff"},
    "numbers of many digits": {"Process Group Ranks": f"[0, {'9' * 5000}]"},
    "ranks beyond 64 bits": {"Process Group Ranks": "[0, 99999999999999999999999]"},
    "a message beyond 64 bits": {"In msg nelems": 2**62, "Out msg nelems": 2**62},
    "markup": {"Process Group Name": "[/b]"},
    "no closed markup": {"Process Group Name": "[/]"},
}


@pytest.mark.parametrize("damage", ARGUMENTS)
def test_hostile_arguments_of_a_collective(tmp_path, capsys, damage):
    """Both ranks are read, printed and written whatever torch's arguments have become."""
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank, events in enumerate(late_pair()):
        damaged = [
            each | {"args": each["args"] | ARGUMENTS[damage]} if _is_collective(each) else each for each in events
        ]
        write_rank(traces, rank, damaged, 2)
    assert main(["summarize", str(traces), "--output", str(tmp_path / "tables")]) == 0
    out, err = capsys.readouterr()
    assert "a job of 2 ranks" in out
    assert not err
    rows = pq.read_table(tmp_path / "tables" / "job" / "collectives.parquet").to_pylist()
    assert len(rows) == 6  # three all-reduces of each rank
    if "markup" in damage:
        assert ARGUMENTS[damage]["Process Group Name"] in out
    for rank in (0, 1):
        decode(encode(rank_trace(read_trace(traces / f"job_rank{rank}.json"), rank)))


def _is_collective(event):
    return "Collective name" in event.get("args", {})


def test_a_long_name_of_a_group_leaves_room_for_the_figures(tmp_path, capsys):
    """200 µs is the longest wait of the three; the group's name has 10,000 letters."""
    for rank, events in enumerate(late_pair()):
        for event in filter(_is_collective, events):
            event["args"]["Process Group Name"] = "g" * 10_000
        write_rank(tmp_path, rank, events, 2)
    assert main(["summarize", str(tmp_path)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("all_reduce "))
    assert "200 µs" in line


def test_a_job_may_state_any_size(tmp_path):
    """A file may state 2**40 ranks: all but two are missing, and the first eight of them are listed."""
    files = {}
    for rank, events in enumerate(late_pair()):
        files[rank] = write_rank(tmp_path, rank, events, 2)
        trace = json.loads(files[rank].read_text())
        trace["distributedInfo"]["world_size"] = 2**40
        files[rank].write_text(json.dumps(trace))
    job = read(files).job
    assert job.incomplete
    (warning,) = (each for each in job.warnings if each.code == "missing_rank")
    assert warning.count == 2**40 - 2
    assert warning.message.startswith(f"{2**40 - 2} of {2**40} ranks have no trace here: 2, 3, 4, 5, 6, 7, 8, 9 and ")
