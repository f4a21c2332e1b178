"""An edition folder read: representative forwards, medians over processes, and what is missing stays missing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS
from kernelbook.charts.drawing import nice_ticks
from kernelbook.charts.svg_file import svg_file
from kernelbook.edition.model import read_edition
from kernelbook.edition.paths import SCHEMA
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.report import (
    attached_traces,
    findings_section,
    first_screen,
    forward_times,
    page,
    page_data,
    strips,
)
from kernelbook.report.case_views import case_views, guess_lines
from kernelbook.report.families import FAMILIES, contrast, family_of
from kernelbook.report.styles import file_style
from kernelbook.trace import TraceWarning
from tests.report import made_edition


@pytest.fixture(scope="module")
def edition(edition_dir):
    return read_edition(edition_dir)


def test_one_forward_is_drawn_on_a_clock_of_its_own(edition):
    index, blocks = page_data.build(edition, {}, {}, {})
    index = json.loads(index)
    cell = next(i for i, c in enumerate(index["cells"]) if (c["run"], c["case"]) == ("h200", "attention-inplace-eager"))
    block = json.loads(blocks[cell])
    drawn = [dict(zip(index["columns"]["activity"], row, strict=True)) for row in block["activities"]]
    calls = [dict(zip(index["columns"]["call"], row, strict=True)) for row in block["calls"]]
    assert [act["category"] for act in drawn] == ["memset", "kernel", "kernel", "kernel", "kernel", "kernel"]
    # made_edition starts the first launch 5 + 5.5 + 4 + ... µs into the forward and the device 30 µs into it
    assert drawn[0]["start"] == pytest.approx(30.0)
    assert index["names"][calls[0]["name"]] == "aten::transpose"
    assert calls[0]["start"] == pytest.approx(5.0)


def test_the_device_works_for_earlier_forwards_until_it_begins_this_one(tmp_path):
    """The forward before ends 40 µs into this one, which begins on the device 60 µs after its own start."""
    edition = read_edition(made_edition.build(tmp_path / "edition", made_edition.CASES[3:], made_edition.RUNS[:1]))
    (row,) = edition.case_runs
    before, this, after = row.forwards
    (act,) = this.activities
    start = this.start_us
    moved = (
        dataclasses.replace(before, activities=(dataclasses.replace(act, start_us=start - 10, duration_us=50.0),)),
        dataclasses.replace(this, activities=(dataclasses.replace(act, start_us=start + 60),)),
        after,
    )
    edition = dataclasses.replace(edition, case_runs=(dataclasses.replace(row, forwards=moved),))
    _, (block,) = page_data.build(edition, {}, {}, {})
    assert json.loads(block)["earlier"] == [[0.0, 40.0]]


def test_times_are_medians_over_processes_and_missing_ones_stay_missing(tmp_path):
    folder = made_edition.build(tmp_path / "edition")
    rows = pq.read_table(folder / "cases.parquet").to_pylist()
    first = next(row for row in rows if row["run"] == "h200")
    times = (10.0, 40.0, float("nan"), None, 30.0)
    more = [
        first | {"process": 2 + i, "forward_time_us": time, "peak_memory_bytes": None} for i, time in enumerate(times)
    ]
    others = [row for row in rows if row is not first]
    pq.write_table(
        pa.Table.from_pylist([first | {"forward_time_us": 20.0}, *more, *others], schema=CASE_COLUMNS),
        folder / "cases.parquet",
    )
    row = read_edition(folder).by_key()[first["run"], first["case"]]
    assert row.forward_time_us == 25.0
    assert len(row.processes) == 6
    published = read_edition(folder).by_key()["a100-published", "linear-eager"]
    assert published.device_time_us is None


def test_a_failed_process_leaves_the_others_to_speak(tmp_path):
    folder = made_edition.build(tmp_path / "edition")
    rows = pq.read_table(folder / "cases.parquet").to_pylist()
    bad = rows[0] | {"process": 0, "status": "failed", "reason": "killed", "kernels": None}
    pq.write_table(pa.Table.from_pylist([bad, *rows], schema=CASE_COLUMNS), folder / "cases.parquet")
    row = read_edition(folder).case_runs[0]
    assert row.status == "ok"
    assert row.kernels == 5


def test_empty_tables_and_no_tables_make_a_report(tmp_path):
    folder = tmp_path / "edition"
    folder.mkdir()
    about = {
        "schema": SCHEMA,
        "edition": "none",
        "created_utc": "2026-01-01T00:00:00Z",
        "runs": [],
        "left_out": [],
        "cases": [],
    }
    (folder / "edition.json").write_text(json.dumps(about))
    edition = read_edition(folder)
    assert "Nothing was measured." in page.render(edition, "now", {})


def test_summary_follows_its_schema(report):
    schema = json.loads(Path(page.__file__).with_name("summary.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((report / "summary.json").read_text()), schema)


def test_verdict_counts_only_what_was_judged(edition):
    verdict = first_screen.verdict(edition)
    assert (verdict.held, verdict.judged) == (6, 7)
    assert [row.word for row in verdict.broken] == ["kernels"]


def test_costliest_findings_come_by_weight_one_a_case(edition):
    found = findings_section.costliest(edition.findings, limit=9)
    assert [f.rule for f in found] == ["fp32-gemm", "out-of-place"]


def test_what_costs_most_is_told_of_one_rule_once(edition):
    first, other = findings_section.costliest(edition.findings, limit=9)
    again = dataclasses.replace(first, case="of-another-case")
    assert findings_section.costliest([first, again, other], 5) == (first, other)


def test_runs_that_saw_the_same_share_a_line():
    rows = [Judgement(run, "c", "kernels", "5", seen, "broken") for run, seen in (("a", "6"), ("b", "7"), ("c", "6"))]
    assert [(line.observed, line.runs) for line in guess_lines(rows)] == [("6", ("a", "c")), ("7", ("b",))]


def test_same_kernels_share_a_number(edition):
    same = {view.spec.case: [cell.same_as for cell in view.present] for view in case_views(edition)}
    naive, inplace = same["attention-naive-eager"][0], same["attention-inplace-eager"][0]
    assert naive == inplace  # by hand: the memcpy is no kernel, the five kernels have the same names
    assert same["sdpa-math-eager"][0] != inplace


def test_strips_are_to_scale(edition):
    drawn = strips.strips(edition, "attention")
    math = next(strip for strip in drawn if strip.row.case == "sdpa-math-eager")
    assert math.part == 1.0
    assert sum(segment.width for segment in math.segments) == pytest.approx(1.0)
    # by hand: 540.7 of 26.0+26.1+26.2 + 2*17.4 + 4.16 + 540.7 + 402.2 + 282.1 + 415.3 + 186.2 + 417.1
    assert math.segments[6].width == pytest.approx(540.7 / 2360.86, rel=1e-4)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (2360, (0, 500, 1000, 1500, 2000)),
        (2.72, (0, 1, 2)),
        (100, (0, 20, 40, 60, 80, 100)),
        (0.5, (0, 0.1, 0.2, 0.3, 0.4, 0.5)),
    ],
)
def test_ticks_are_round(limit, expected):
    assert nice_ticks(0, limit) == pytest.approx(expected)


def test_text_on_every_family_reads_well_on_both_themes():
    for family in FAMILIES:
        light, dark = family.inks
        assert contrast(family.light, light) >= 4.5, family
        assert contrast(family.dark, dark) >= 4.5, family


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the well-known grey that just fails


@pytest.mark.parametrize(
    ("category", "family", "key"),
    [
        ("kernel", "GEMM", "gemm"),
        ("kernel", "copy/cast", "copy"),
        ("memcpy", "copy/cast", "memcpy"),
        ("kernel", "?", "unknown"),
    ],
)
def test_families(category, family, key):
    assert family_of(category, family).key == key


def test_charts_are_the_same_bytes_each_time(edition):
    for part, rows in ((strips, strips.strips), (forward_times, forward_times.spreads)):
        first, again = (svg_file(part.chart(rows(edition, "attention"), "attention", {}), file_style()) for _ in "ab")
        assert first == again


def test_a_chart_in_a_file_holds_the_drawings_of_the_page_and_no_custom_property(edition):
    chart = strips.chart(strips.strips(edition, "attention"), "attention", {})
    written = svg_file(chart, file_style())
    root = ElementTree.fromstring(written)
    svg = "{http://www.w3.org/2000/svg}"
    inner = root.findall(f"{svg}svg")
    # made_edition: naive, in-place and math have 7, 6 and 12 activities
    assert [len([r for r in each.iter(f"{svg}rect") if r.get("data-i")]) for each in inner] == [7, 6, 12]
    widths = [float(each.get("width")) for each in inner]
    assert widths[1] / widths[2] == pytest.approx(945.32 / 2360.86, rel=1e-3)  # device times, summed by hand
    assert "var(" not in root.find(f"{svg}style").text


def trace_sizes(edition) -> list[int]:
    return sorted(Path(row.trace_path).stat().st_size for row in edition.case_runs if row.trace_path)


def test_large_traces_lie_beside_the_page_and_small_ones_inside(edition, tmp_path):
    sizes = trace_sizes(edition)
    links = attached_traces.place(edition, tmp_path, tmp_path, each=sizes[-1] - 1)
    outside = [link["href"] for link in links.values() if "href" in link]
    assert len(outside) == 1
    assert (tmp_path / outside[0]).stat().st_size == sizes[-1]
    assert sum("gz" in link for link in links.values()) == len(sizes) - 1


def test_the_page_has_a_limit_for_all_traces_together(edition, tmp_path):
    sizes = trace_sizes(edition)
    links = attached_traces.place(edition, tmp_path, tmp_path, page=sizes[0] + sizes[1])
    assert sum("gz" in link for link in links.values()) == 2


def test_a_warning_that_a_finding_tells_for_many_cases_is_not_repeated_beside_each(edition):
    row = next(row for row in edition.case_runs if row.status == "ok")
    noted = dataclasses.replace(row, notes=(TraceWarning("slow_first", 1, "slow"), TraceWarning("damaged", 1, "cut")))
    cases = ("another", row.case)
    found = Finding("slow-first", "info", None, None, "", "", "told once", run=row.run, case="another", cases=cases)

    def codes(findings):
        with_findings = dataclasses.replace(edition, findings=findings)
        return [note.code for note in findings_section.warnings(with_findings, noted)]

    assert codes((found,)) == ["damaged"]
    early = dataclasses.replace(row, notes=(TraceWarning("before_window", 9, "9 of them"),))
    once = dataclasses.replace(edition, findings=(dataclasses.replace(found, rule="before-window"),))
    assert findings_section.warnings(once, early) == early.notes  # how many they are, the finding does not tell
    assert codes((dataclasses.replace(found, run="elsewhere"),)) == ["slow_first", "damaged"]
    assert codes((dataclasses.replace(found, cases=()),)) == ["slow_first", "damaged"]
