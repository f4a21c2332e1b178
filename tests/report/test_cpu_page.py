"""The page of a run on a CPU under load: what is not known of its ops, and forward times that lie far apart."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS
from kernelbook.report.rendering import render_report
from tests.report import made_edition

pytestmark = pytest.mark.browser

CREATED = "2026-11-29T15:00:00Z"
LINEAR = made_edition.CASES[3]
ON_CPU = replace(LINEAR, steps=tuple(replace(step, device=()) for step in LINEAR.steps))
WIDE = (1.0, 40.0, 100.0, 190.0, 900.0)


@pytest.fixture(scope="module")
def cpu(tmp_path_factory):
    """One case without any device activity, on two runs, of forwards that take 1 to 900 µs."""
    folder = tmp_path_factory.mktemp("cpu")
    host = {"run": "host", "kind": "host", "device": "AMD EPYC", "torch": "2.13"}
    runs = (host, host | {"run": "other"})
    edition = made_edition.build(folder / "edition", cases=(ON_CPU,), runs=runs)
    rows = pq.read_table(edition / "cases.parquet").to_pylist()
    missing = dict.fromkeys(("kernels", "memcpys", "memsets", "device_time_us", "device_busy_us"))
    missing |= {"forward_times_us": list(WIDE), "forward_time_us": 100.0}
    pq.write_table(
        pa.Table.from_pylist([row | missing for row in rows], schema=CASE_COLUMNS), edition / "cases.parquet"
    )
    keys = [{"run": run["run"], "case": "linear-eager", "process": 1} for run in runs]
    samples = [key | {"index": i, "forward_time_us": time} for key in keys for i, time in enumerate(WIDE)]
    pq.write_table(pa.Table.from_pylist(samples), edition / "samples.parquet")
    render_report(edition, folder / "report", CREATED)
    return folder / "report"


def opened(open_page, report, width: int):
    page = open_page(report, width=width)
    page.locator("details.spread > summary").click()
    page.wait_for_selector("details.spread .plot .sample")
    return page


def test_what_ops_launched_is_not_known_where_no_device_activity_was_recorded(open_page, cpu):
    page = open_page(cpu, "#case-linear-eager")
    rows = page.locator('[data-table^="ops-"] tbody tr')
    assert rows.count() == 2
    for i in range(2):
        cells = rows.nth(i).locator("td").all_inner_texts()
        assert cells[1] == "1"  # counted by hand: aten::linear calls aten::addmm once
        assert cells[4:] == ["n/a", "n/a"]
    assert page.locator('[data-table^="ops-"] tr.metadata').count() == 0


def test_ops_compared_have_no_kernels_where_none_were_recorded(open_page, cpu):
    page = open_page(cpu, "#compare:host/linear-eager:other/linear-eager")
    cells = page.locator('#compare-body [data-table="ops"] tbody tr').first.locator("td").all_inner_texts()
    assert cells[-2:] == ["n/a", "n/a"]


def test_where_there_are_device_activities_what_launches_nothing_has_none(open_page, report):
    page = open_page(report, "#case-attention-inplace-eager")
    row = page.locator('[data-table^="ops-"] tbody tr:visible').filter(has_text="aten::transpose").first
    assert row.locator("td").all_inner_texts()[4:] == ["0", "0"]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_of_the_axis_is_cut_whatever_the_font(open_page, cpu, width):
    page = opened(open_page, cpu, width)
    labels = page.locator("details.spread .axis-line span")
    assert "-100 %" in labels.all_text_contents()
    for letter_spacing in ("-1px", "0px", "3px"):  # as narrower and wider fonts are
        page.add_style_tag(content=f".axis-line {{ letter-spacing: {letter_spacing}; }}")
        plot = page.locator("details.spread .axis-line").bounding_box()
        for box in labels.evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())"):
            assert box["x"] >= plot["x"] - 0.5, letter_spacing
            assert box["x"] + box["width"] <= plot["x"] + plot["width"] + 0.5, letter_spacing


@pytest.mark.parametrize("width", [1280, 390])
def test_a_case_whose_forwards_lie_far_apart_is_marked(open_page, cpu, report, width):
    page = open_page(cpu, "#case-linear-eager", width=width)
    rows = page.locator("[data-table=cases] tr[data-cell] .c-forward")
    assert [" ".join(text.split()) for text in rows.all_inner_texts()] == ["100 µs noisy (8.80 µs – 758 µs)"] * 2
    twin = (cpu / "report.md").read_text(encoding="utf-8").replace("\u00a0", " ")  # no break inside a time
    # by hand: 1 + 0.2 x 39, and 190 + 0.8 x 710
    assert "| 100 µs, noisy (8.80 µs – 758 µs) |" in twin
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    assert open_page(report, page=page).locator("[data-table=cases]").get_by_text("noisy").count() == 0


def test_a_phone_has_each_label_above_its_row(open_page, cpu):
    page = opened(open_page, cpu, 390)
    boxes = [name_and_drawing(page, i) for i in range(2)]
    tops = [drawing["y"] for _, drawing in boxes]
    ends = [name["y"] + name["height"] for name, _ in boxes]
    assert ends[0] <= tops[0] < ends[1] <= tops[1]


def test_a_wide_page_has_the_labels_beside_the_rows(open_page, cpu):
    page = opened(open_page, cpu, 1280)
    names = page.locator("details.spread .strip:not(.axis) .strip-name").all_inner_texts()
    assert [" ".join(name.split()) for name in names] == ["linear-eager host", "linear-eager other"]
    for name, drawing in (name_and_drawing(page, i) for i in range(2)):
        assert name["x"] + name["width"] <= drawing["x"]
        assert drawing["y"] <= name["y"] + name["height"] / 2 <= drawing["y"] + drawing["height"]


def name_and_drawing(page, number: int) -> tuple[dict, dict]:
    row = page.locator("details.spread .strip:not(.axis)").nth(number)
    return row.locator(".strip-name").bounding_box(), row.locator("svg").bounding_box()


def test_the_pointer_reads_the_nearest_sample(open_page, cpu):
    page = opened(open_page, cpu, 1280)
    plot = page.locator("details.spread .plot").first
    box = plot.bounding_box()
    # by hand: the scale goes from 0 to twice the median of 100 us, so 190 us is at 95 % of the width
    plot.hover(position={"x": box["width"] * 0.94, "y": 10})
    assert page.locator("#tip").inner_text().split("\n\n") == ["190 µs", "process 1, sample 4"]
