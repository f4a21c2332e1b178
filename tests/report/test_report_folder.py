"""What a report's folder holds, and that it is put in place whole."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import render_report as command
from kernelbook.cases import CASE_COLUMNS
from kernelbook.edition.paths import EditionError
from kernelbook.report.rendering import render_report
from tests.report import made_edition


def test_folder_holds_the_page_its_twin_the_summary_and_the_tables(report):
    assert {p.name for p in report.iterdir()} == {
        *("index.html", "summary.md", "report.md", "details.md", "summary.json", "figures", "tables")
    }
    assert {p.name for p in (report / "figures").iterdir()} >= {"strips-attention.svg", "strips-linear.svg"}
    assert (report / "tables" / "cases.csv").is_file()
    assert (report / "tables" / "cases.parquet").is_file()


def test_summary_counts_guesses_and_gives_both_headline_ratios(report):
    summary = json.loads((report / "summary.json").read_text())
    # made_edition.CASES holds 7 guesses by hand, one of which broke
    assert summary["verdict"] == {
        "sentence": "1 of 7 guesses broke.",
        "held": 6,
        "judged": 7,
        "not_applicable": 0,
        "reasons": {},
        "failed_cases": 0,
        "lost_runs": 0,
        "cases_failed_in_part": 0,
    }
    ratios = {head["run"]: head["ratio"] for head in summary["headline"]}
    assert ratios["a100-published"] == pytest.approx(7.239 / 1.955, abs=1e-3)
    assert summary["left_out"] == [{"run": "torch-2.13", "reason": "needs --use-singularity"}]
    by_key = {(row["run"], row["case"]): row for row in summary["cases"]}
    published = by_key["a100-published", "linear-eager"]
    assert published["device_time_us"] is None
    assert published["kernels"] == 1


def test_csv_and_parquet_hold_the_same_rows(report):
    with (report / "tables" / "samples.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    table = pq.read_table(report / "tables" / "samples.parquet")
    assert len(rows) == table.num_rows == 4 * 30
    assert [float(row["forward_time_us"]) for row in rows] == table["forward_time_us"].to_pylist()


def test_same_input_gives_the_same_bytes(edition_dir, report, tmp_path):
    again = tmp_path / "again"
    render_report(edition_dir, again, "2026-11-29T15:00:00Z")
    for name in ("index.html", "summary.md", "report.md", "details.md", "summary.json", "figures/strips-attention.svg"):
        assert (again / name).read_bytes() == (report / name).read_bytes()


def test_a_report_is_replaced_whole(edition_dir, tmp_path):
    output = tmp_path / "report"
    output.mkdir()
    (output / "stale.txt").write_text("old")
    render_report(edition_dir, output)
    assert not (output / "stale.txt").exists()
    assert (output / "index.html").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_a_failed_rendering_leaves_the_old_report(tmp_path):
    output = tmp_path / "report"
    output.mkdir()
    (output / "index.html").write_text("old")
    with pytest.raises(EditionError, match=r"edition\.json: not found"):
        render_report(tmp_path / "nowhere", output)
    assert (output / "index.html").read_text() == "old"


def test_command_says_in_one_line_what_is_wrong(tmp_path, capsys):
    (tmp_path / "edition.json").write_text(json.dumps({"schema": 2, "edition": "x"}))
    code = command.main(["--edition-dir", str(tmp_path), "--output", str(tmp_path / "out")])
    assert code == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not Path(tmp_path / "out").exists()


def test_failures_and_lost_runs_are_told_with_their_reasons(tmp_path):
    folder = made_edition.build(tmp_path / "edition")
    rows = pq.read_table(folder / "cases.parquet").to_pylist()
    told = {"attention-naive-eager": ("failed", "exceeded 300 s"), "linear-eager": ("unsupported", "needs sm90")}
    for row in rows:
        if row["run"] == "h200" and row["case"] in told:
            row["status"], row["reason"] = told[row["case"]]
            row["kernels"] = row["device_time_us"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), folder / "cases.parquet")
    about = json.loads((folder / "edition.json").read_text())
    about["runs"][0] |= {"status": "lost", "reason": "the image did not start"}
    (folder / "edition.json").write_text(json.dumps(about))
    render_report(folder, tmp_path / "report")
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    states = {row["case"]: (row["status"], row["reason"]) for row in summary["cases"] if row["run"] == "h200"}
    assert {case: states[case] for case in told} == told
    assert summary["runs"][0]["status"] == "lost"
    for name in ("index.html", "report.md"):
        written = (tmp_path / "report" / name).read_text(encoding="utf-8")
        for words in ("exceeded 300 s", "needs sm90", "the image did not start", "needs --use-singularity"):
            assert words in written, f"{name}: {words}"


def test_page_twin_and_summary_state_what_a_case_was_measured_with(tmp_path):
    """made_edition's cases: bfloat16, batch 8, seq 1024, eager; the table says so, here for a case without warm-up."""
    folder = made_edition.build(tmp_path / "edition")
    rows = [row | {"warmup": 0} for row in pq.read_table(folder / "cases.parquet").to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), folder / "cases.parquet")
    render_report(folder, tmp_path / "report")
    for name in ("index.html", "details.md"):
        text = (tmp_path / "report" / name).read_text(encoding="utf-8")
        assert text.count("bfloat16, batch 8, seq 1024, eager, no warm-up.") == len(made_edition.CASES)
    case = json.loads((tmp_path / "report" / "summary.json").read_text(encoding="utf-8"))["cases"][0]
    stated = {name: case[name] for name in ("workload", "variant", "mode", "dtype", "params", "warmup")}
    assert stated == {
        "workload": "attention",
        "variant": "naive",
        "mode": "eager",
        "dtype": "bfloat16",
        "params": {"batch": 8, "seq": 1024},
        "warmup": 0,
    }


def test_output_code_lies_beside_the_page_without_credentials_and_is_linked(tmp_path, monkeypatch):
    """Of the two runs of a case only one kept its code. The link is relative, for folders that are published."""
    monkeypatch.setenv("HUB_TOKEN", "hunter2-hunter2")
    folder = made_edition.build(tmp_path / "edition")
    (folder / "code.py.gz").write_bytes(gzip.compress(b"triton_poi_fused_0 = 'hunter2-hunter2 <b>'\n"))
    rows = pq.read_table(folder / "cases.parquet").to_pylist()
    (row,) = [row for row in rows if (row["run"], row["case"]) == ("h200", "linear-eager")]
    row["output_code"] = "code.py.gz"
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), folder / "cases.parquet")
    render_report(folder, tmp_path / "report")
    (code,) = (tmp_path / "report" / "code").rglob("*.*")
    assert code.relative_to(tmp_path / "report").as_posix() == "code/h200/linear-eager.py.txt"
    assert "hunter2" not in code.read_text(encoding="utf-8")
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count('"code":"code/h200/linear-eager.py.txt"') == 1
    assert page.count('"code":null') == len(rows) - 1
