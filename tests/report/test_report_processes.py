"""How the report shows several processes, other machines and other headline cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS, Process
from kernelbook.cases.comparability import Conditions, refusal
from kernelbook.edition.model import read_edition
from kernelbook.report import first_screen, page_data
from kernelbook.report.rendering import render_report
from tests.report import made_edition

CASE = "attention-naive-eager"


def rewritten(folder: Path, change) -> Path:
    """The edition with its table of cases changed; change: rows -> rows."""
    path = folder / "cases.parquet"
    pq.write_table(pa.Table.from_pylist(change(pq.read_table(path).to_pylist()), schema=CASE_COLUMNS), path)
    return folder


def with_failed_processes(rows: list[dict]) -> list[dict]:
    first = next(row for row in rows if row["case"] == CASE)
    gone = {"status": "failed", "kernels": None, "device_time_us": None, "forward_times_us": None}
    second = first | gone | {"process": 2, "reason": "exceeded 300 s"}
    third = first | gone | {"process": 3, "reason": "killed by signal 9"}
    return [*rows, second, third]


@pytest.fixture(scope="module")
def partly(tmp_path_factory) -> Path:
    folder = rewritten(made_edition.build(tmp_path_factory.mktemp("partly") / "edition"), with_failed_processes)
    render_report(folder, folder.parent / "report")
    return folder.parent / "report"


def test_processes_that_failed_are_told_everywhere_with_their_reasons(partly):
    said = "2 of 3 processes failed", "process 2: exceeded 300 s; process 3: killed by signal 9"
    for name in ("index.html", "report.md"):
        written = (partly / name).read_text(encoding="utf-8")
        at_the_case = written if name == "index.html" else (partly / "details.md").read_text(encoding="utf-8")
        assert ": ".join(said) in at_the_case, name
        listed = written[written.index("## Runs" if name == "report.md" else 'id="runs-h"') :]
        assert all(words in listed for words in said), name  # among what did not run
    summary = json.loads((partly / "summary.json").read_text())
    row = next(row for row in summary["cases"] if row["case"] == CASE and row["run"] == "h200")
    assert (row["status"], row["processes"]) == ("ok", 3)
    assert row["failed_processes"] == [
        {"process": 2, "status": "failed", "reason": "exceeded 300 s"},
        {"process": 3, "status": "failed", "reason": "killed by signal 9"},
    ]
    assert ": ".join(said) in [warning["message"] for warning in row["warnings"]]


def test_a_verdict_does_not_stand_alone_where_cases_failed(tmp_path, partly):
    assert "<h1" in (partly / "index.html").read_text(encoding="utf-8")
    assert "1 case failed in part; 1 of 7 guesses broke." in (partly / "report.md").read_text(encoding="utf-8")
    failed = rewritten(
        made_edition.build(tmp_path / "edition"),
        lambda rows: [row | ({"status": "failed", "reason": "x"} if row["case"] == CASE else {}) for row in rows],
    )
    held = pq.read_table(failed / "expectations.parquet").to_pylist()
    unjudged = held[0] | {"verdict": "not applicable", "observed": "the case failed"}
    rows = [row for row in held if row["verdict"] == "confirmed"] + [unjudged] * 2
    pq.write_table(pa.Table.from_pylist(rows), failed / "expectations.parquet")
    verdict = first_screen.verdict(read_edition(failed))
    assert verdict.sentence == "1 case failed; all 6 guesses held."
    assert verdict.why_not == "the case failed (2)"
    render_report(failed, tmp_path / "report")
    for name in ("index.html", "report.md"):
        assert "could not be judged: the case failed (2)" in (tmp_path / "report" / name).read_text(encoding="utf-8")
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert summary["verdict"]["reasons"] == {"the case failed": 2}
    assert summary["verdict"]["failed_cases"] == 1


def test_a_process_of_another_gpu_is_in_no_figure_of_the_report(tmp_path):
    def elsewhere(rows: list[dict]) -> list[dict]:
        first = rows[0]
        other = {"process": 2, "device": "NVIDIA A100", "device_time_us": 9e9, "forward_times_us": [9e9] * 30}
        return [*rows, first | other]

    edition = read_edition(rewritten(made_edition.build(tmp_path / "edition"), elsewhere))
    row = edition.case_runs[0]
    alone = read_edition(made_edition.build(tmp_path / "alone")).case_runs[0]
    same = ("device_time_us", "forward_time_us", "forward_p05_us", "forward_p95_us", "samples")
    assert all(getattr(row, name) == getattr(alone, name) for name in same)
    assert [warned.code for warned in row.notes] == ["other_machine"]
    assert "NVIDIA A100" in row.notes[0].message


def test_the_interval_shown_is_that_of_the_samples_drawn(edition_dir):
    from kernelbook.report.forward_times import spreads

    edition = read_edition(edition_dir)
    for spread in spreads(edition, "attention"):
        # made_edition: 30 samples at 20 to 32 µs above the device time, each place i * 7919 % 13
        assert (spread.low, spread.high) == (spread.row.forward_p05_us, spread.row.forward_p95_us)


def test_a_median_is_that_of_the_processes_medians(edition_dir):
    from kernelbook.report.forward_times import spreads

    edition = read_edition(edition_dir)
    first = edition.case_runs[0]
    # by hand: the processes' medians are 10, 20 and 90, of which 20 is the middle; of all 15 samples 90 is
    samples = {1: (10.0,) * 3, 2: (20.0,) * 3, 3: (90.0,) * 9}
    processes = tuple(Process("r", "c", process=number, forward_times_us=times) for number, times in samples.items())
    edition = replace(edition, case_runs=(replace(first, processes=processes), *edition.case_runs[1:]))
    workload = next(spec.workload for spec in edition.cases if spec.case == first.case)
    spread = next(spread for spread in spreads(edition, workload) if spread.row.key == first.key)
    assert (spread.median, spread.low, spread.high) == (20.0, 10.0, 90.0)


def test_a_package_told_of_twice_is_listed_once(edition_dir):
    from kernelbook.report.case_views import environment_rows

    run = replace(read_edition(edition_dir).runs[0], environment={"triton": "3.6.0", "packages": {"triton": "3.6.0"}})
    assert [values for label, values, _ in environment_rows([run]) if label == "triton"] == [("3.6.0",)]


def test_the_headline_bears_the_names_of_its_cases(tmp_path):
    folder = made_edition.build(tmp_path / "edition")
    usual = tmp_path / "usual"
    render_report(folder, usual)
    assert "In-place attention takes 945 µs" in (usual / "report.md").read_text(encoding="utf-8")
    about = json.loads((folder / "edition.json").read_text())
    about["report"] = {"title": "T", "headline": ["attention-naive-eager", "linear-eager"], "baseline_run": ""}
    (folder / "edition.json").write_text(json.dumps(about))
    render_report(folder, tmp_path / "other")
    written = (tmp_path / "other" / "report.md").read_text(encoding="utf-8")
    line = next(line for line in written.splitlines() if line.startswith("- **NVIDIA H200**"))
    assert "linear-eager takes 2.72 µs of device time a forward with 1 kernel, attention-naive-eager 1.07 ms" in line
    page = (tmp_path / "other" / "index.html").read_text(encoding="utf-8")
    assert '"headline":["attention-naive-eager","linear-eager"]' in page


def test_a_headline_that_may_not_be_compared_gives_its_reason_in_place_of_a_ratio(tmp_path):
    def moved(rows: list[dict]) -> list[dict]:
        math = "h200", "sdpa-math-eager"
        return [row | ({"dtype": "float32"} if (row["run"], row["case"]) == math else {}) for row in rows]

    folder = rewritten(made_edition.build(tmp_path / "edition"), moved)
    render_report(folder, tmp_path / "report")
    edition = read_edition(folder)
    assert [head.run.run for head in first_screen.headlines(edition)] == ["a100-published"]
    for name in ("index.html", "report.md"):
        written = (tmp_path / "report" / name).read_text(encoding="utf-8")
        assert "No ratio on h200: the element type differs: bfloat16 and float32." in written


def test_without_a_device_time_the_forward_time_stands_alone(tmp_path):
    def on_cpu(rows: list[dict]) -> list[dict]:
        gone = {"kernels": None, "device_time_us": None}
        return [row | (gone if row["case"] == "linear-eager" and row["run"] == "h200" else {}) for row in rows]

    folder = rewritten(made_edition.build(tmp_path / "edition"), on_cpu)
    render_report(folder, tmp_path / "report")
    twin = (tmp_path / "report" / "report.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    # 2.72 µs and 20 more, as made_edition makes a forward time; published without any time
    assert "| `linear-eager` bf16, 8 × 1024 | n/a | n/a | 22.7 µs (22.7 µs – " in twin


H200 = Conditions("a", "mlp", "NVIDIA H200", "cuda", 16, "580", "bfloat16", "{}", "cuda_events")


def test_the_page_carries_the_refusals_that_python_decided():
    others = [Conditions("b", "mlp", "NVIDIA A100", "cuda", 16, "580", "bfloat16", "{}", "cuda_events"), H200]
    others += [Conditions("a", "mlp", "EPYC", "cpu", n, None, "bfloat16", "{}", "wall") for n in (8, 4)]
    settings = [H200, *others]
    numbers, reasons, table = page_data.refusals(settings)
    for i, one in zip(numbers, settings, strict=True):
        for j, other in zip(numbers, settings, strict=True):
            said = table[i][j]
            assert (None if said is None else reasons[said]) == refusal(one, other)
