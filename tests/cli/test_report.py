"""`kernelbook report`: a report of folders of traces without Snakemake."""

import gzip
import json
import random
import re

import pyarrow.parquet as pq
import pytest

from kernelbook.cli.report import case_files
from tests.helpers.schemas import validate
from tests.trace.made_trace import document, forward, kernel, launch, op, write


def test_a_folder_becomes_a_report(kernelbook, folder, tmp_path):
    output = tmp_path / "out"
    (folder / "broken.json").write_text('{"traceEvents": 3}')
    status, out, err = kernelbook("report", folder, "-o", output, "--json")
    assert status == 0
    assert err == f"skipped: {folder / 'rows.json'}: not a torch trace: found a JSON object with the keys 'rows'\n"
    about = json.loads(out)
    validate(about, "cli/report.schema.json")
    assert (output / "index.html").is_file()
    assert [(each["run"], each["case"]) for each in about["failed"]] == [("traces", "broken")]
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    kernels = {case["case"]: case["kernels"] for case in summary["cases"]}
    assert kernels == {"broken": None, "one": 2, "two": None}  # two.json has no range, so no forward


def test_reports_and_diffs_inside_the_folder_are_not_read(kernelbook, folder):
    """A report holds copies of large traces: each next report of the folder would count them once more."""
    for _ in range(2):
        case_files.cache_clear()  # each command is a process of its own
        status, out, err = kernelbook("report", folder, "-o", folder / "out")
        assert (status, err.count("skipped: ")) == (0, 1)  # rows.json
        assert out.startswith("2 traces: ")
        (folder / "out/traces/run").mkdir(parents=True, exist_ok=True)
        write(folder / "out/traces/run/one.json", forward())
    assert kernelbook("diff", folder / "one.json", folder / "two.json", "--output", folder / "difference")[0] in (0, 2)
    assert kernelbook("top", folder)[1].startswith("2 traces, ")
    # where it is named: the copies of both, and the one that was put beside them
    assert kernelbook("top", folder / "out/traces")[1].startswith("3 traces, ")


def test_two_folders_of_one_name_are_two_runs(kernelbook, tmp_path):
    for place in ("a", "b"):
        (tmp_path / place / "2 Traces!").mkdir(parents=True)
        write(tmp_path / place / "2 Traces!" / "step.json", forward())
    output = tmp_path / "out"
    assert kernelbook("report", tmp_path / "a/2 Traces!", tmp_path / "b/2 Traces!", "-o", output)[0] == 0
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    assert [run["run"] for run in summary["runs"]] == ["traces-2-traces", "traces-2-traces-2"]


def test_a_report_is_replaced_and_nothing_else_is(kernelbook, folder, tmp_path):
    output = tmp_path / "out"
    for _ in range(2):
        assert kernelbook("report", folder, "-o", output)[0] == 0
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    status, _, err = kernelbook("report", folder, "-o", precious)
    assert status == 2
    assert "is not a report" in err
    assert (precious / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("name", "fact"), [("absent", "no such folder"), ("empty", "holds no trace"), ("other", "holds no trace")]
)
def test_folders_without_traces(kernelbook, tmp_path, name, fact):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "settings.json").write_text("{}")
    status, out, err = kernelbook("report", tmp_path / name, "-o", tmp_path / "out")
    assert (status, out) == (2, "")
    assert fact in err
    assert not (tmp_path / "out").exists()


def test_a_file_instead_of_a_folder_names_the_other_command(kernelbook, folder, tmp_path):
    status, _, err = kernelbook("report", folder / "one.json", "-o", tmp_path / "out")
    assert status == 2
    assert f"kernelbook summarize {folder / 'one.json'}" in err


def test_without_findings_the_longest_kernels_are_called_that(kernelbook, tmp_path):
    """The longest of one.json is gemm, 20 of 31 µs; no rule has anything to say of it."""
    (tmp_path / "traces").mkdir()
    write(tmp_path / "traces" / "one.json", forward())
    assert kernelbook("report", tmp_path / "traces", "-o", tmp_path / "out")[0] == 0
    for name in ("summary.md", "report.md"):
        lines = (tmp_path / "out" / name).read_text(encoding="utf-8").splitlines()
        title = next(place for place, line in enumerate(lines) if "No findings: the longest kernels" in line)
        assert "`one` 20.0 µs. Its longest is gemm" in "".join(lines[title + 1 : title + 3])


def test_two_folders_of_traces_name_the_command_that_compares_their_times(kernelbook, tmp_path):
    """No trace states its driver, so two runs are not compared; of two traces, kernelbook diff takes it to be one."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "step.json", forward())
    assert kernelbook("report", tmp_path / "v1", tmp_path / "v2", "-o", tmp_path / "out")[0] == 0
    rows = pq.read_table(tmp_path / "out/tables/comparisons.parquet").to_pylist()
    (refused,) = (row["text"] for row in rows if row["kind"] == "refused")
    remedy = "no trace states it; kernelbook diff takes two traces as of one machine"
    assert refused.endswith(f"Times are not compared: the driver is not known ({remedy}).")
    (only,) = json.loads(kernelbook("diff", tmp_path / "v1", tmp_path / "v2", "--json")[1])["comparisons"]
    assert only["refused"] is None


def test_an_annotation_that_no_range_has_is_reported(kernelbook, folder, tmp_path):
    status, _, err = kernelbook("report", folder, "-o", tmp_path / "out", "--annotation", "stpe")
    assert status == 0
    assert f"no range matches --annotation 'stpe': kernelbook summarize {folder} lists the names" in err
    assert "no range matches" not in kernelbook("report", folder, "-o", tmp_path / "out", "--annotation", "step")[2]


def test_the_annotation_chooses_the_forwards(kernelbook, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    other = [dict(event, name="other") if event["name"] == "step" else event for event in forward(5000, 10)]
    write(folder / "made.json", [*forward(), *forward(3000, 20), *other])
    output = tmp_path / "out"
    assert kernelbook("report", folder, "-o", output, "--annotation", "oth*")[0] == 0
    (case,) = json.loads((output / "summary.json").read_text(encoding="utf-8"))["cases"]
    assert case["kernels"] == 2
    assert "other" in (output / "report.md").read_text(encoding="utf-8")


@pytest.fixture
def rendered(kernelbook, tmp_path):
    """Render a folder of traces given as name -> events; returns summary.json and report.md."""

    def of(traces, *options):
        folder = tmp_path / "traces"
        folder.mkdir()
        for name, events in traces.items():
            write(folder / f"{name}.json", events)
        assert kernelbook("report", folder, "-o", tmp_path / "out", *options)[0] == 0
        summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
        return summary, (tmp_path / "out" / "report.md").read_text(encoding="utf-8")

    return of


def test_the_report_of_a_folder_leads_with_what_the_folder_is(rendered):
    two = [launch(1, 0), launch(2, 5), kernel("gemm", 10, 50, 1), kernel("gemm", 70, 5, 2)]
    summary, text = rendered({"one": forward(), "two": two, "cpu": [op("aten::mm", 0, 5)]})
    # 75 of 86 us, 10 and 1, counted by hand
    sentence = "3 traces: 86.0 µs of device time (87 % GEMM, 12 % elementwise, 1.2 % memset)"
    sentence += "; 1 without device activities."
    assert summary["verdict"]["sentence"] == sentence
    assert text.startswith(f"# {sentence}\n")
    assert "No guess was judged" not in text
    section = text.partition("## All traces together")[2].partition("Totals are of whole files")[0]
    rows = {line.split(" | ")[0].strip("| `"): line.strip("| ").split(" | ")[1:] for line in section.splitlines()}
    assert rows["gemm"] == ["GEMM", "3", "75.0 µs", "87 %", "50.0 µs", "2"]
    assert rows["one"][-4:] == ["2", "31.0 µs", "36 %", "gemm"]
    assert rows["cpu"][-4:-1] == ["n/a", "n/a", "n/a"]


def test_unrelated_traces_are_not_ranked_against_each_other(rendered):
    traces = {name: forward() for name in ("attention", "resnet", "server")}
    _, text = rendered(traces)
    assert "least device time" not in text
    assert "In short" not in text


def test_the_ranks_of_a_job_are_one_row_of_cases_and_a_row_a_trace(rendered):
    summary, text = rendered({"job_rank0": forward(), "job_rank1": forward()})
    assert summary["verdict"]["sentence"].startswith("2 traces: 62.0 µs")
    assert [case["case"] for case in summary["cases"]] == ["job"]
    assert [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| `job` | ")][:2] == [
        ["| `job`", "0"],
        ["| `job`", "1"],
    ]


@pytest.mark.parametrize("damage", ["crc", "cut"])
def test_a_damaged_gzip_file_is_a_row_and_what_is_left_of_it_lies_beside_the_page(kernelbook, tmp_path, damage):
    """The trace is that of `forward`, 31 µs; 300 KB that cannot be compressed keep it out of the page."""
    folder = tmp_path / "traces"
    folder.mkdir()
    events = [*forward(), op(random.Random(1).randbytes(150_000).hex(), 5000, 1)]
    packed = gzip.compress(json.dumps(document(events)).encode())
    left = {"crc": packed[:-8] + bytes(4) + packed[-4:], "cut": packed[:-2000]}[damage]
    (folder / "damaged.json.gz").write_bytes(left)
    (folder / "whole.json").write_text(json.dumps(document(forward())))
    status, out, _ = kernelbook("report", folder, "-o", tmp_path / "out")
    assert status == 0
    assert out.startswith("2 traces: 62.0 µs of device time")
    copy = tmp_path / "out/traces/traces/damaged.json.gz"
    assert gzip.decompress(copy.read_bytes()).decode().startswith('{"schemaVersion": 1')


def test_what_only_a_measurement_tells_is_no_column_of_traces(rendered, tmp_path):
    """No trace has a time without the profiler, and none here the shapes that tell what limits it."""
    _, text = rendered({"one": forward(), "two": forward()})
    text += (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")
    (head,) = {line for line in text.splitlines() if line.startswith("| case |")}
    assert head == "| case | kernels | device |"
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for title in ("forward", "to baseline", "error", "peak memory", "limited by", "guesses"):
        assert re.search(rf"<th[^>]* hidden[^>]*>(<[^>]+>)*{title}", page), title


def test_what_traces_cannot_tell_of_trust_is_one_sentence(rendered):
    _, text = rendered({"one": forward()})
    section = text.partition("## How far to trust these figures\n")[2].partition("\n## ")[0]
    assert section.strip().startswith("- Noise, clocks and other programs on the GPU are not known")
    assert len(section.strip().splitlines()) == 1


def test_two_folders_of_one_workload_begin_with_what_differs(kernelbook, tmp_path):
    """B has gemm and relu as A, and one kernel more; a memset of 1 µs is on both sides."""
    for name, more in (("a", []), ("b", [launch(77, 1082), kernel("extra_kernel", 1085, 7, 77)])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "step.json", [*forward(), *more])
    assert kernelbook("report", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "out")[0] == 0
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    (line,) = text.partition("## In short\n")[2].partition("\n## ")[0].strip().splitlines()
    assert line.startswith("- step: b against a: 3 kernels against 2.")
    assert "extra" in line


def test_a_time_that_cannot_be_is_said_in_the_first_sentence(kernelbook, tmp_path):
    """The first kernel of a stream ends after the next one does: 3 s that cannot be, of 3 s and 10 µs."""
    folder = tmp_path / "traces"
    folder.mkdir()
    events = [launch(1, 0), launch(2, 5), kernel("kern", 10, 3_000_000, 1), kernel("kern", 20, 10, 2)]
    write(folder / "made.json", events)
    out = kernelbook("report", folder, "-o", tmp_path / "out")[1]
    assert out.startswith("1 trace: 3.00 s of device time (100 % unknown); 3.00 s of it is impossible.\n")
