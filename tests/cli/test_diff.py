"""`kernelbook diff`: planted traces counted by hand, and recorded cases against what the example report states."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kernelbook as package
from kernelbook.diffs import SideError, diff
from kernelbook.diffs.as_files import html, markdown
from tests.helpers.schemas import validate
from tests.trace.made_trace import annotation, kernel, launch, memcpy, op, write

SCHEMA = "diffs/diff.schema.json"
GEMM = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"
GEMM_2 = "nvjet_sm90_tst_128x8_64x16_1x2_h_bz_bias_TNT"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>(int)"


def step(at, *work, name="step"):
    """An annotated range with one op for each (op, kernel, µs); the kernel None is a memcpy."""
    events = [annotation(name, at, 100 * len(work) + 50)]
    for place, (caller, ran, length) in enumerate(work):
        start, correlation = at + 10 + 100 * place, int(at) + place
        events += [op(caller, start, 40), launch(correlation, start + 5)]
        events.append(
            memcpy(start + 20, length, correlation) if ran is None else kernel(ran, start + 20, length, correlation)
        )
    return events


def trace(path, *work, name="step", **head):
    return write(path, [event for at in (1000.0, 3000.0, 5000.0) for event in step(at, *work, name=name)], **head)


@pytest.fixture
def two(tmp_path):
    """A: GEMM, copy, relu. B: another GEMM in the same op, relu, relu: the copy is gone, a relu more."""
    a = trace(tmp_path / "a.json", ("aten::mm", GEMM, 20), ("aten::copy_", None, 7), ("aten::relu", RELU, 4))
    b = trace(tmp_path / "b.json", ("aten::mm", GEMM_2, 30), ("aten::relu", RELU, 4), ("aten::relu", RELU, 4))
    return a, b


def test_more_less_and_other_are_those_planted(two, kernelbook):
    status, out, _ = kernelbook("diff", *two, "--json")
    assert status == 0
    found = json.loads(out)
    validate(found, SCHEMA)
    (only,) = found["comparisons"]
    assert only["activities"] == {"same": 1, "more": 1, "less": 1, "other": 1}
    assert not found["equal"]
    steps = [(each["kind"], [x["name"] for x in each["a"]], [x["name"] for x in each["b"]]) for each in only["steps"]]
    assert sorted(steps) == [
        ("added", [], [RELU]),
        ("removed", ["Memcpy DtoD (Device -> Device)"], []),
        ("replaced", [GEMM], [GEMM_2]),
    ]
    figures = {each["name"]: (each["a"], each["b"]) for each in only["figures"]}
    assert figures["kernels"] == (2, 3)
    assert figures["memcpys"] == (1, 0)
    assert figures["device_time_us"] == (31.0, 38.0)
    assert {op["kind"]: op["names"] for op in only["ops"]} == {"removed": ["aten::copy_"], "added": ["aten::relu"]}
    assert sum(cause["delta_us"] for cause in only["causes"] if not cause["idle"]) == pytest.approx(7.0)


def test_an_equal_trace_has_no_difference(two, kernelbook):
    a, b = two
    assert diff(a, a).equal
    assert kernelbook("diff", a, a, "--exit-status")[0] == 0
    assert kernelbook("diff", a, b, "--exit-status")[0] == 3
    assert kernelbook("diff", a, b)[0] == 0


def test_a_longer_kernel_alone_is_no_difference_of_work(tmp_path):
    a = trace(tmp_path / "a.json", ("aten::mm", GEMM, 20))
    b = trace(tmp_path / "b.json", ("aten::mm", GEMM, 40))
    found = diff(a, b)
    assert [step.kind for step in found.comparisons[0].steps] == ["changed"]
    assert found.equal  # one trace on a side is no test of a time


def test_other_gpus_are_compared_in_kernels_and_not_in_times(two, kernelbook):
    a, b = two
    text = json.loads(b.read_text())
    text["deviceProperties"][0]["name"] = "Other GPU"
    b.write_text(json.dumps(text))
    (only,) = json.loads(kernelbook("diff", a, b, "--json")[1])["comparisons"]
    assert only["refused"] == "the GPU differs: Made GPU and Other GPU"
    assert only["causes"] == []
    assert only["activities"]["more"] == 1
    assert "the GPU differs" in kernelbook("diff", a, b)[1]


def test_ranges_of_one_name_are_pairs_and_the_others_are_listed(tmp_path):
    a, b = (tmp_path / name for name in ("a.json", "b.json"))
    both = step(1000.0, ("aten::mm", GEMM, 20), name="encode")
    write(a, both + step(2000.0, ("aten::mm", GEMM, 5), name="decode"))
    write(b, both + step(2000.0, ("aten::mm", GEMM, 5), name="sample"))
    found = diff(a, b)
    assert [each.a.case for each in found.comparisons] == ["encode"]
    assert [case.case for case in found.only_a] == ["decode"]
    assert [case.case for case in found.only_b] == ["sample"]
    assert not found.equal
    chosen = diff(a, b, annotation="encode")
    assert chosen.equal


def test_a_name_with_signs_of_a_glob_is_that_range(tmp_path):
    a = write(tmp_path / "a.json", step(1000.0, ("aten::mm", GEMM, 20), name="part[0]") + step(2000.0, name="part0"))
    assert [each.a.case for each in diff(a, a).comparisons if each.a.kernels] == ["part[0]"]


def test_single_ranges_are_a_pair_whatever_they_are_called(tmp_path):
    a = trace(tmp_path / "a.json", ("aten::mm", GEMM, 20), name="mine")
    b = trace(tmp_path / "b.json", ("aten::mm", GEMM, 20), name="theirs")
    assert diff(a, b).equal


def test_without_ranges_the_whole_file_is_compared(tmp_path):
    def without_range(path, *work):
        return write(path, [e for e in step(1000.0, *work) if e["cat"] != "user_annotation"])

    a = without_range(tmp_path / "a.json", ("aten::mm", GEMM, 20))
    b = without_range(tmp_path / "b.json", ("aten::mm", GEMM, 20), ("aten::relu", RELU, 4))
    (only,) = diff(a, b).comparisons
    assert (only.a.case, only.counts.same, only.counts.more) == ("whole file", 1, 1)


def test_ranks_of_a_folder_are_processes_of_one_job(tmp_path):
    for side, length in (("old", 20), ("new", 30)):
        (tmp_path / side).mkdir()
        for rank in (0, 1):
            head = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}
            trace(tmp_path / side / f"job_rank{rank}.json", ("aten::mm", GEMM, length + rank), **head)
    (only,) = diff(tmp_path / "old", tmp_path / "new").comparisons
    assert len(only.a.processes) == len(only.b.processes) == 2
    assert (only.a.device_time_us, only.b.device_time_us) == (20.5, 30.5)


def test_a_cpu_trace_is_compared_by_its_ops(tmp_path):
    def on_cpu(path, *ops):
        return write(path, [annotation("step", 0, 100), *(op(name, 5 + 10 * n, 5) for n, name in enumerate(ops))])

    a, b = on_cpu(tmp_path / "a.json", "aten::mm"), on_cpu(tmp_path / "b.json", "aten::mm", "aten::relu")
    found = diff(a, b)
    assert found.comparisons[0].same_work is None
    assert [step.names for step in found.comparisons[0].op_steps] == [("aten::relu",)]
    assert not found.equal
    assert diff(a, a).equal


@pytest.mark.parametrize("name", ["absent.json", "empty"])
def test_nothing_to_compare_is_status_2_with_the_remedy(name, two, tmp_path, kernelbook):
    (tmp_path / "empty").mkdir()
    status, out, err = kernelbook("diff", two[0], tmp_path / name)
    assert (status, out) == (2, "")
    assert name in err
    assert "name" in err


def test_nothing_in_common_names_what_there_is(tmp_path):
    a = write(tmp_path / "a.json", step(1000.0, ("m", GEMM, 2), name="x") + step(2000.0, ("m", GEMM, 2), name="y"))
    b = write(tmp_path / "b.json", step(1000.0, ("m", GEMM, 2), name="p") + step(2000.0, ("m", GEMM, 2), name="q"))
    with pytest.raises(SideError, match=r"\(x, y\).*\(p, q\)"):
        diff(a, b)


def test_a_bad_file_of_a_folder_is_skipped_with_a_note(two, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "good.json").write_text(two[0].read_text())
    (folder / "bad.json").write_text("{")
    found = diff(folder, folder)
    assert len(found.comparisons) == 1
    assert any("bad.json" in line for line in found.skipped)


def test_names_from_a_trace_are_inert_in_all_outputs(tmp_path, kernelbook):
    bad = "<script>alert(1)</script>|`x`\x1b[31m"
    a = trace(tmp_path / "a.json", ("aten::mm", GEMM, 20), name=bad)
    b = trace(tmp_path / "b.json", ("aten::mm", GEMM, 20), ("aten::relu", bad, 4), name=bad)
    found = diff(a, b)
    assert "<script>" not in html(found)
    assert "<script>" not in markdown(found)
    assert "\x1b" not in kernelbook("diff", a, b)[1]


def test_output_writes_page_markdown_json_and_tables(two, tmp_path, kernelbook):
    folder = tmp_path / "out"
    status, out, _ = kernelbook("diff", *two, "--output", folder)
    assert status == 0
    assert "1 the same, 1 more, 1 less, 1 other" in out
    validate(json.loads((folder / "diff.json").read_text()), SCHEMA)
    assert "1 the same, 1 more, 1 less, 1 other" in (folder / "diff.md").read_text()
    assert "1 the same, 1 more, 1 less, 1 other" in (folder / "index.html").read_text()
    rows = pq.read_table(folder / "tables/comparisons.parquet").to_pylist()
    assert sorted(row["kind"] for row in rows if row["scope"] == "activity") == ["added", "removed", "replaced"]


def test_the_package_has_the_function(two):
    assert not package.diff(*two).equal


PAIRS = [
    ("mlp-eager", "mlp-compile"),
    ("attention-naive-eager", "attention-naive-compile"),
    ("attention-naive-eager", "attention-inplace-eager"),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_recorded_cases_are_compared_as_in_the_example_report(a: str, b: str, root: Path) -> None:
    recorded = root / "resources/recorded/h200-torch2.11"
    (only,) = diff(recorded / a, recorded / b).comparisons
    rows = pq.read_table(root / "reports/example/tables/comparisons.parquet").to_pylist()
    (text,) = {
        row["text"]
        for row in rows
        if row["scope"] == "summary" and (row["case_a"], row["case_b"]) == (a, b) and row["run_a"] == row["run_b"]
    }
    assert text == f"{b} against {a}: {' '.join(only.sentences)}"


def test_a_long_name_of_a_range_is_shortened_in_headings(tmp_path):
    """10,000 letters: 200 of them are shown, in the heading of the Markdown and of the page; JSON has all."""
    name = "s" * 10_000
    file = trace(tmp_path / "a.json", ("aten::mm", GEMM, 20), name=name)
    found = diff(file, file)
    (heading,) = (line for line in markdown(found).splitlines() if line.startswith("## "))
    assert len(heading) == len("## ") + 200
    assert "s" * 201 not in html(found)
    assert found.comparisons[0].a.case == name
