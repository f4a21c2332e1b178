"""The command summarize_trace: JSON, tables for people, folders, ranks, exit statuses, written tables."""

import csv
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import summarize_trace
from kernelbook.cli import summarize as cli_summarize
from tests.helpers.patience import LONG
from tests.helpers.schemas import validate, validator
from tests.trace.made_trace import annotation, forward, kernel, kineto, launch, op, write

COMMAND = Path(summarize_trace.__file__)
SCHEMA = "trace/trace.schema.json"


def refuse(word):
    raise AssertionError(f"{word} is not strict JSON")


@pytest.fixture
def run(capsys):
    """Run the command: (exit status, lines on stdout, lines on stderr)."""

    def of(*args):
        status = summarize_trace.main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.splitlines()

    return of


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "made.json", forward())


def load(line):
    found = json.loads(line, parse_constant=refuse)
    validate(found, SCHEMA)
    return found


def test_json(run, trace):
    status, (line,), err = run(trace, "--json")
    found = load(line)
    assert (status, err) == (0, [])
    assert found["source"] == str(trace)
    assert found["totals"]["kernels"] == 2
    assert found["kernels"][0] == {
        "name": "gemm", "category": "kernel", "count": 1, "total_us": 20.0, "median_us": 20.0, "min_us": 20.0,
        "max_us": 20.0,
    }  # fmt: skip


@pytest.mark.parametrize("folder", ["traces/public", "round2/traces", "round2/ranks"])
def test_json_of_traces_from_elsewhere_fits_the_schema(run, shared_dir, folder):
    if not (shared_dir / folder).is_dir():
        pytest.skip(f"no folder {folder} beside the checkout")
    files = sorted(path for path in (shared_dir / folder).rglob("*") if path.name.endswith((".json", ".json.gz")))
    assert files
    for file in files:
        _, (line,), _ = run(file, "--json")
        assert load(line)["source"] == str(file)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [op("aten::add", 0, 1)],
        [op("\ud800\x00<b>", 0, 1)],
        [kernel("k", 0, 1, 1, **{"est. achieved occupancy %": "nan"})],
    ],
)
def test_json_is_strict_after_the_schema_whatever_the_trace(run, tmp_path, events):
    _, (line,), _ = run(write(tmp_path / "made.json", events), "--json")
    load(line)


def test_annotations_are_chosen_by_glob(run, tmp_path):
    path = write(tmp_path / "made.json", [annotation(name, 0, 5) for name in ("mlp_fwd", "mlp_bwd", "attn_fwd")])
    for glob, names in (("mlp_*", ["mlp_bwd", "mlp_fwd"]), ("attn_fwd", ["attn_fwd"]), ("none", []), ("*", 3)):
        _, (line,), _ = run(path, "--json", "--annotation", glob)
        found = [row["annotation"] for row in load(line)["ranges"]]
        assert found == names or len(found) == names


def two_steps():
    """Two steps with an op and a kernel each, one with an inner range; an op outside; a range of another name."""
    return [
        annotation("step_a", 0, 100), op("aten::mm", 10, 20), launch(1, 15), kernel("gemm", 300, 5, 1),
        annotation("inner", 40, 20), op("aten::add", 42, 10), launch(2, 45), kernel("add", 310, 2, 2),
        annotation("step_a", 200, 100), op("aten::mm", 210, 20), launch(3, 215), kernel("gemm", 320, 7, 3),
        op("aten::mm", 410, 20), launch(4, 415), kernel("gemm", 500, 3, 4),
        annotation("other", 600, 100), op("aten::add", 610, 20), launch(5, 615), kernel("add", 720, 4, 5),
    ]  # fmt: skip


def test_figures_of_the_chosen_ranges_beside_those_of_the_whole_file(run, tmp_path):
    path = write(tmp_path / "made.json", two_steps())
    _, (line,), _ = run(path, "--json", "--annotation", "step*")
    found = load(line)
    assert list(found)[-2:] == ["range_kernels", "range_ops"]
    assert [(row["annotation"], row["kernels"]) for row in found["ranges"]] == [("step_a", 2), ("step_a", 1)]
    kernels = {
        name: [(r["name"], r["count"], r["total_us"]) for r in found[name]] for name in ("kernels", "range_kernels")
    }
    assert kernels == {"kernels": [("gemm", 3, 15), ("add", 2, 6)], "range_kernels": [("gemm", 2, 12), ("add", 1, 2)]}
    ops = {
        name: {row["name"]: (row["count"], row["cpu_time_us"], row["kernels"]) for row in found[name]}
        for name in ("ops", "range_ops")
    }
    assert ops == {
        "ops": {"aten::mm": (3, 60, 3), "aten::add": (2, 30, 2)},
        "range_ops": {"aten::mm": (2, 40, 2), "aten::add": (1, 10, 1)},
    }
    assert found["totals"]["kernels"] == 5
    plain = load(run(path, "--json")[1][0])
    assert list(plain) == list(found)[:-2]
    assert all(plain[name] == found[name] for name in ("totals", "kernels", "ops"))
    none = load(run(path, "--json", "--annotation", "none")[1][0])
    assert (none["ranges"], none["range_kernels"], none["range_ops"]) == ([], [], [])


def test_written_tables_of_chosen_ranges(run, tmp_path):
    run(write(tmp_path / "made.json", two_steps()), "--annotation", "[!s]*", "--output", tmp_path / "tables")
    folder = tmp_path / "tables" / "made"
    tables = {path.stem: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}
    assert sorted(tables) == ["activities", "kernels", "ops", "range_kernels", "range_ops", "ranges"]
    assert [(row["annotation"], row["parent"]) for row in tables["ranges"]] == [("inner", None), ("other", None)]
    assert [row["range"] for row in tables["activities"]] == [None, 0, None, None, 1]
    assert [(row["name"], row["total_us"]) for row in tables["range_kernels"]] == [("add", 6)]
    assert sum(row["count"] for row in tables["kernels"]) == 5
    with (folder / "ranges.csv").open(encoding="utf-8") as stream:
        assert [row["annotation"] for row in csv.DictReader(stream)] == ["inner", "other"]


def test_every_heading_says_what_it_is_of(run, tmp_path):
    path = write(tmp_path / "made.json", two_steps())
    _, lines, _ = run(path, "--annotation", "[b]step*,[!i]*")
    assert [line.rstrip() for line in lines if line.startswith(("Made", "Annotations", "Top"))] == [
        "Made GPU, whole file: 5 kernels, 0 memcpys, 0 memsets, 5 launches; device time 21.0 µs, busy 21.0 µs",
        "Top 2 of 2 kernels, memcpys, memsets of the whole file",
        "Top 2 of 2 ops of the whole file",
    ]
    _, lines, _ = run(path, "--annotation", "st[e]p*")
    assert [line.rstrip() for line in lines if line.startswith(("Annotations", "Top"))] == [
        "Annotations of the name st[e]p* (per outermost range: counts, and medians of times)",
        "Top 2 of 2 kernels, memcpys, memsets of the ranges st[e]p*",
        "Top 2 of 2 ops of the ranges st[e]p*",
        "Top 2 of 2 kernels, memcpys, memsets of the whole file",
        "Top 2 of 2 ops of the whole file",
    ]
    _, lines, _ = run(path)
    assert [line.rstrip() for line in lines if line.startswith(("Made", "Annotations", "Top"))] == [
        "Made GPU: 5 kernels, 0 memcpys, 0 memsets, 5 launches; device time 21.0 µs, busy 21.0 µs",
        "Annotations of the whole file (per outermost range: counts, and medians of times)",
        "Top 2 of 2 kernels, memcpys, memsets of the whole file",
        "Top 2 of 2 ops of the whole file",
    ]


def test_names_taken_together_are_a_line_per_work_and_a_note(run, tmp_path):
    events = []
    for number, time in enumerate((5, 5, 90)):
        start = 100 * number
        events += [annotation(f"decode_{number}", start, 50), op("aten::mm", start + 1, 9), launch(number, start + 2)]
        events.append(kernel(f"gemm{time}", 1000 + start, time, number))
    path = write(tmp_path / "made.json", events)
    _, lines, _ = run(path)
    text = "\n".join(line.rstrip() for line in lines)
    assert (
        "note numbered_names: 3 names of ranges differ in numbers alone and are taken together: decode_* (3 names)"
        in text
    )
    first, second = (place for place, line in enumerate(lines) if line.startswith("decode_*"))
    assert lines[first].split()[:5] == ["decode_*", "[kind", "1", "of", "2]"]
    assert [lines[first + 1].strip(), lines[second + 1].strip()] == ["0; 1", "2"]
    assert "5.00 µs" in lines[first]
    assert "90.0 µs" in lines[second]


def test_the_table_for_people(run, trace):
    status, lines, _ = run(trace)
    text = "\n".join(lines)
    assert status == 0
    assert "Made GPU: 2 kernels, 0 memcpys, 1 memset, 3 launches; device time 31.0 µs, busy 31.0 µs" in text
    step = next(line for line in lines if line.startswith("step"))
    # ranges, kernels, memcpys, memsets, launches, CPU time, device time, busy share (31 of 100 µs), median delay
    assert step.split() == ["step", "1", "2", "0", "1", "3", "100", "µs", "31.0", "µs", "31", "%", "12.0", "µs"]
    assert "\x1b" not in text


def test_no_device_activity_is_not_available(run, tmp_path):
    _, lines, _ = run(write(tmp_path / "made.json", [annotation("step", 0, 10), op("aten::add", 1, 2)]))
    step = next(line for line in lines if line.startswith("step"))
    assert step.split() == ["step", "1", *["n/a"] * 4, "10.0", "µs", *["n/a"] * 3]
    assert any(line.startswith("warning no_launches") for line in lines)


def test_names_cannot_command_the_terminal(run, tmp_path):
    events = [op("\x1b[31mred [bold]markup[/bold]\r\n", 0, 5), kernel("\x9b2J", 1, 1, 1)]
    _, lines, _ = run(write(tmp_path / "made.json", events))
    text = "\n".join(lines)
    assert not set(text) & {"\x1b", "\x9b", "\r"}
    assert "[bold]markup[/bold]" in text


def test_a_bad_file_among_several(run, tmp_path, trace):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    status, out, err = run(bad, trace, tmp_path / "absent.json", "--json")
    assert status == 2
    assert [load(line)["source"] for line in out] == [str(trace)]
    assert len(err) == 2
    assert "bad.json: not a torch trace: found an empty JSON object" in err[0]
    assert "absent.json: cannot be read" in err[1]


def test_in_a_folder_what_is_no_trace_is_skipped_with_a_note(run, tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep" / "a.json", forward())
    write(tmp_path / "b.pt.trace.json", forward())
    write(tmp_path / "C.JSON", forward())
    (tmp_path / "measurement.json").write_text('{"schema": 1}')
    (tmp_path / "notes.txt").write_text("no trace")
    status, out, err = run(tmp_path, "--json")
    assert status == 0
    assert [Path(load(line)["source"]).name for line in out] == ["C.JSON", "b.pt.trace.json", "a.json"]
    assert len(err) == 1
    assert err[0].startswith("skipped: ")
    assert "measurement.json" in err[0]


def test_a_folder_without_traces(run, tmp_path):
    status, out, err = run(tmp_path)
    assert (status, out) == (2, [])
    assert "no trace found" in err[0]


def test_written_tables(run, tmp_path):
    events = [*forward(), op("=HYPERLINK(1)", 2000, 5), op("+1", 2010, 5), op("-1", 2020, 5), op("@x", 2030, 5)]
    run(write(tmp_path / "made.json", events), "--output", tmp_path / "tables")
    folder = tmp_path / "tables" / "made"
    names = ("activities", "kernels", "ops", "ranges")
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{n}.{ending}" for n in names for ending in ("csv", "parquet")
    ]
    with (folder / "ops.csv").open(encoding="utf-8") as stream:
        cells = [row["name"] for row in csv.DictReader(stream)]
    assert {"'=HYPERLINK(1)", "'+1", "'-1", "'@x"} <= set(cells)
    assert "=HYPERLINK(1)" in pq.read_table(folder / "ops.parquet")["name"].to_pylist()
    assert pq.read_table(folder / "activities.parquet").num_rows == 3


def test_files_of_one_name_overwrite_nothing(run, tmp_path):
    for number in (1, 2, 3):
        (tmp_path / str(number)).mkdir()
        write(tmp_path / str(number) / "trace.json", [op(f"aten::op{number}", 0, 5)])
    run(tmp_path / "1", tmp_path / "2", tmp_path / "3", "--output", tmp_path / "tables")
    found = {
        path.name: pq.read_table(path / "ops.parquet")["name"].to_pylist() for path in (tmp_path / "tables").iterdir()
    }
    assert found == {"trace": ["aten::op1"], "trace-2": ["aten::op2"], "trace-3": ["aten::op3"]}


def test_the_json_has_the_rank_of_the_text(run, tmp_path):
    path = write(tmp_path / "a.json", forward(), distributedInfo={"rank": 3, "world_size": 4})
    named = write(tmp_path / "b_rank7.json", forward())
    _, out, _ = run(path, named, write(tmp_path / "c.json", forward()), "--json")
    assert [load(line)["rank"] for line in out] == [3, 7, None]
    _, lines, _ = run(path, named)
    assert [line.split(":")[0] for line in lines if line.startswith("Made GPU")] == [
        "Made GPU, rank 3",
        "Made GPU, rank 7",
    ]


def test_duplicate_ranks_are_in_the_json(run, tmp_path):
    rank = {"rank": 0, "world_size": 2}
    paths = [write(tmp_path / f"{n}.json", [*forward(), op(n, 900, 1)], distributedInfo=rank) for n in "ab"]
    _, out, _ = run(*paths, "--json", "--output", tmp_path / "tables")
    codes = [{warning["code"]: warning["count"] for warning in load(line)["warnings"]} for line in out]
    assert codes == [{"missing_rank": 1, "duplicate_rank": 2}] * 2
    assert len(list((tmp_path / "tables").iterdir())) == 2


def test_a_copy_of_a_trace_is_no_rank_of_its_own(run, tmp_path):
    paths = [write(tmp_path / f"{n}.json", forward(), distributedInfo={"rank": 0, "world_size": 2}) for n in "ab"]
    _, out, _ = run(*paths, "--json")
    notes = [{warning["code"]: warning["message"] for warning in load(line)["warnings"]} for line in out]
    assert any("duplicate_rank" in each and "copy" in each["duplicate_rank"] for each in notes)


def test_what_is_odd_about_a_file_is_said(run, tmp_path):
    graph = [launch(1, 5, name="cudaGraphLaunch"), kernel("a", 10, 5, 1), kernel("b", 12, 5, 1, stream=8)]
    path = write(tmp_path / "made.json", [op("ProfilerStep#3", 0, 100), *graph])
    _, (line,), _ = run(path, "--json")
    notes = {note["code"]: note["message"] for note in load(line)["notes"]}
    assert {"graph_launches", "several_streams", "steps_alone"} <= set(notes)
    assert notes["steps_alone"].startswith("the trace has 1 ProfilerStep# span and no range")
    _, lines, _ = run(path)
    assert {f"note {code}: {message}" for code, message in notes.items()} <= set(lines)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_glob_that_matches_nothing_says_so(run, tmp_path, more):
    path = write(tmp_path / "made.json", [annotation("ProfilerStep#1", 0, 50), *forward()])
    status, _, err = run(path, "--annotation", "profilerstep*", *more)
    assert status == 0
    fact = "no range matches --annotation 'profilerstep*' (the whole name is matched, case included)"
    assert err == [f"{fact}: did you mean 'ProfilerStep#*'?"]
    assert run(path, "--annotation", "step", *more)[2] == []


def test_the_labels_are_those_of_the_table(run, tmp_path):
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, std::array<char*, 2ul> >(int)"
    )
    _, lines, _ = run(write(tmp_path / "made.json", [kernel(name, 10, 5, None)]))
    assert any(line.startswith("vectorized_elementwise_kernel · Mul ") for line in lines)


def shell(*args, **more):
    return subprocess.run([sys.executable, COMMAND, *args], capture_output=True, text=True, timeout=LONG, **more)


def test_no_traceback_for_bad_arguments_and_bad_files(tmp_path):
    for args in ([], ["--unknown"], [tmp_path / "absent.json"]):
        found = shell(*args)
        assert found.returncode == 2
        assert "Traceback" not in found.stderr


def test_help_has_an_example():
    found = shell("--help")
    assert found.returncode == 0
    assert "python scripts/summarize_trace.py trace.json.gz" in found.stdout


def keys_of(schema):
    """Every key that an object of the schema may have, at any depth."""
    if "$ref" in schema:
        schema = validator(SCHEMA).schema["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    for key, part in schema.get("properties", {}).items():
        yield key
        yield from keys_of(part)
    if "items" in schema:
        yield from keys_of(schema["items"])


def test_the_help_and_the_reference_name_every_key_of_the_json(root):
    wanted = set(keys_of(validator(SCHEMA).schema))
    assert {"rank", "notes", "self_device_time_us"} <= wanted
    for text in (cli_summarize.__doc__, (root / "docs" / "reference" / "commands.md").read_text()):
        assert wanted - set(re.findall(r"\w+", text)) == set()


def test_an_output_folder_that_cannot_be_written(tmp_path, trace):
    (tmp_path / "file").write_text("")
    found = shell(trace, "--output", tmp_path / "file")
    assert found.returncode == 2
    assert "Traceback" not in found.stderr
    assert "file" in found.stderr


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_closed_pipe_is_no_error(trace, options):
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, COMMAND, trace, *options]
    found = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=LONG)
    os.close(write_end)
    assert (found.returncode, found.stderr) == (0, "")


def test_needs_no_torch(trace):
    code = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, sys.argv[1]); import summarize_trace;"
        "sys.exit(summarize_trace.main(sys.argv[2:]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, COMMAND.parent, trace], capture_output=True, text=True, timeout=LONG
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_in_a_terminal_there_are_colours_and_a_progress_bar(tmp_path):
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    for path in paths:
        path.write_text(kineto(forward()))
    main, child = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CI")} | {"TERM": "xterm"}
    process = subprocess.Popen([sys.executable, COMMAND, *paths], stdout=child, stderr=child, env=environment)
    os.close(child)
    seen = b""
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not data:
            break
        seen += data
    os.close(main)
    assert process.wait(timeout=LONG) == 0
    assert b"reading traces" in seen
    assert b"\x1b[1m" in seen


def test_many_annotations_are_cut_and_say_so(run, tmp_path):
    _, lines, _ = run(write(tmp_path / "made.json", [annotation("step" + "x" * i, 10 * i, 5) for i in range(100)]))
    assert len([line for line in lines if line.startswith("step")]) == 40
    assert any("60 more are in --json" in line for line in lines)


def test_tables_of_a_second_file_of_one_name_are_named_with_their_folder(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "x.json", forward())
    found = shell(tmp_path / "a", tmp_path / "b", "--output", tmp_path / "out")
    fact = f"{tmp_path}/b/x.json: another file has this name: its tables are in {tmp_path}/out/x-2"
    assert found.stderr.splitlines() == [fact]
