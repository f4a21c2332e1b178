"""Findings by weight, with what their time means; those for information folded away."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.edition.model import read_edition
from kernelbook.judge.findings import Finding
from kernelbook.report import findings_section
from kernelbook.report.case_views import case_views
from kernelbook.report.rendering import render_report
from kernelbook.text import formatting
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
MATH, INPLACE, NAIVE = "sdpa-math-eager", "attention-inplace-eager", "attention-naive-eager"
LATE = {"rule": "overhead-bound", "of": "forward", "kind": "recoverable", "time_low_us": 33.1, "time_high_us": 54.8}
SHARED = {"rule": "occupancy-gap", "kind": "note", "cases": [NAIVE, INPLACE, MATH]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """made_edition with two findings more: one with a range of time, one for information that three cases share."""
    folder = made_edition.build(tmp_path_factory.mktemp("findings") / "edition")
    rows = [
        row | {"kind": "recoverable", "of": "device"} for row in pq.read_table(folder / "findings.parquet").to_pylist()
    ]
    own = {"run": "h200", "evidence": "", "remedy": "", "share": 0.9}
    rows.append(own | LATE | {"case": INPLACE, "severity": "high", "time_us": 48.8, "text": "The CPU is late."})
    rows.append(own | SHARED | {"case": NAIVE, "severity": "info", "time_us": None, "text": "A gap in three cases."})
    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows])
    pq.write_table(table, folder / "findings.parquet")
    return folder


@pytest.fixture(scope="module")
def found(folder):
    render_report(folder, folder.parent / "report", CREATED)
    return folder.parent / "report"


@pytest.mark.browser
def test_findings_stand_by_weight_and_those_for_information_are_folded(open_page, found):
    page = open_page(found)
    tables = page.locator("#findings .table").evaluate_all("all => all.map(one => one.dataset.table)")
    assert tables == ["findings-high", "findings-medium", "findings-info"]
    rows = page.locator('[data-table="findings-high"] tbody tr')
    assert rows.locator("td:nth-child(4)").all_inner_texts() == [MATH, MATH, INPLACE]  # the dearest first
    info = page.locator('[data-table="findings-info"]')
    assert not info.is_visible()
    page.get_by_text("2 findings for information").click()
    assert info.is_visible()
    assert "and 2 more" in info.inner_text()


@pytest.mark.browser
def test_the_panel_of_a_case_leads_to_its_findings(open_page, found):
    page = open_page(found, f"#case-{INPLACE}")
    page.locator(f"#case-{INPLACE} .found a", has_text="The CPU is late.").click()
    row = page.locator(f"tr[id='{page.evaluate('location.hash.slice(1)')}']")
    assert "The CPU is late." in row.inner_text()


@pytest.mark.browser
def test_a_finding_says_its_kind_and_the_range_of_the_processes(open_page, found):
    page = open_page(found)
    late = page.locator('[data-table="findings-high"] tbody tr', has_text="The CPU is late.")
    assert late.locator("td").all_inner_texts()[:3] == ["33.1 µs – 54.8 µs\nforward", "90 %", "recoverable"]
    page.set_viewport_size({"width": 390, "height": 844})
    page = open_page(found, page=page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_a_finding_of_several_cases_is_told_once_unless_it_costs(folder):
    views = {view.spec.case: view for view in case_views(read_edition(folder))}
    assert "occupancy-gap" in {finding.rule for finding in views[NAIVE].findings}
    assert "occupancy-gap" not in {finding.rule for finding in views[MATH].findings}
    edition = read_edition(folder)
    dear = [replace(f, severity="high") if f.rule == "occupancy-gap" else f for f in edition.findings]
    views = {view.spec.case: view for view in case_views(replace(edition, findings=tuple(dear)))}
    assert "occupancy-gap" in {finding.rule for finding in views[MATH].findings}


def test_beside_another_case_a_shared_finding_has_no_time_of_the_case_that_it_stands_under(folder):
    edition = read_edition(folder)
    (shared,) = (finding for finding in edition.findings if finding.rule == "occupancy-gap")
    dear = replace(shared, severity="high", time_us=2574.0, share=0.98, of="device")
    views = {view.spec.case: view for view in case_views(replace(edition, findings=(dear,)))}
    assert [views[case].findings[0].time_us for case in (NAIVE, INPLACE, MATH)] == [2574.0, None, None]
    assert [views[case].findings[0].share for case in (NAIVE, INPLACE, MATH)] == [0.98, None, None]


def test_twin_and_summary_tell_kind_and_range(found):
    written = (found / "details.md").read_text(encoding="utf-8")
    assert "| h200 | high | recoverable | 33.1 µs – 54.8 µs forward | 90 % | The CPU is late. |" in written
    summary = json.loads((found / "summary.json").read_text())
    (late,) = [row for row in summary["findings"] if row["rule"] == "overhead-bound"]
    assert (late["kind"], late["time_low_us"], late["time_high_us"], late["cases"]) == ("recoverable", 33.1, 54.8, [])


def test_of_a_range_the_least_ranks_which_every_process_confirms():
    sure = Finding("one", "high", 40.0, None, "", "", "", case="a")
    unsure = Finding("two", "high", 90.0, None, "", "", "", case="b", time_low_us=10.0, time_high_us=150.0)
    assert [finding.rule for finding in findings_section.ranked([unsure, sure])] == ["one", "two"]


def test_a_weight_with_many_findings_is_cut_and_counted():
    many = [Finding("rule", "low", float(i), None, "", "", "", case=f"c{i}") for i in range(5)]
    (low,) = findings_section.by_weight(many, 3)
    assert [line.finding.case for line in low.lines] == ["c4", "c3", "c2"]
    assert (low.more, low.title) == (2, "Low: less than a twentieth of the forward")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Short.", "Short."),
        ("One takes 2.5 ms. Two is here. " + "x" * 30, "One takes 2.5 ms. Two is here."),
        ("The first alone is too long for the place that it has.", "The first alone is too long for…"),
        ("This clause is whole (a; b); and that one is cut.", "This clause is whole (a; b)."),
    ],
)
def test_what_is_cut_short_ends_with_a_sentence(said, expected):
    assert formatting.lead(said, 32) == expected


def test_a_description_of_a_run_is_shown_whole(tmp_path):
    long = "Recorded with this project; " + "the third process of most cases ran on another machine; " * 8 + "the end."
    runs = ({**made_edition.RUNS[0], "description": long}, made_edition.RUNS[1])
    render_report(made_edition.build(tmp_path / "edition", runs=runs), tmp_path / "report", CREATED)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count(long) == 2  # on the first screen, and in the environment's table
    assert long in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")


def test_findings_of_several_runs_that_differ_in_figures_alone_are_one_line():
    """Three runs: two with a finding alike but for its times, once twice; the third says something else."""
    first = Finding("rule", "low", 9.0, None, "", "", "idle for 16.3 ms of 23.2 ms", case="case", run="a")
    alike = replace(first, run="b", text="idle for 9 ms of 1,023 ms")
    again = replace(alike, text="idle for 8 ms of 20 ms")
    other = replace(first, run="c", text="busy for 16.3 ms of 23.2 ms")
    lines = findings_section.over_runs([first, alike, again, other])
    assert [(line.finding, line.runs) for line in lines] == [(first, ("a", "b")), (again, ("b",)), (other, ("c",))]
    assert lines[0].keys == (first.key, alike.key)
