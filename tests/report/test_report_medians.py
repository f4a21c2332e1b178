"""What is quoted of a kernel is its median over all forwards; what is drawn on the clock is one forward."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.edition.model import read_edition
from kernelbook.report import strips
from kernelbook.report.rendering import render_report
from tests.report import made_edition

CASE = "attention-inplace-eager"
FILL = 3  # place of masked_fill in it, 366 µs long in the forward that is drawn
USUAL = 300.0
CREATED = "2026-11-29T15:00:00Z"


@pytest.fixture(scope="module")
def edition_dir(tmp_path_factory):
    """made_edition, in which masked_fill is shorter in the two forwards that are not drawn."""
    folder = made_edition.build(tmp_path_factory.mktemp("medians") / "edition")
    rows = pq.read_table(folder / "activities.parquet").to_pylist()
    for row in rows:
        if row["case"] == CASE and row["position"] == FILL and row["index"] != 1:
            row["duration_us"] = USUAL
    pq.write_table(pa.Table.from_pylist(rows), folder / "activities.parquet")
    return folder


def test_strips_are_drawn_from_medians_and_labelled_with_the_device_time(edition_dir):
    strip = next(each for each in strips.strips(read_edition(edition_dir), "attention") if each.row.case == CASE)
    # by hand: memset 1.12, products 83.4 and 82.1, mul 129.1, softmax 283.6, and masked_fill at its median
    drawn = 1.12 + 83.4 + 82.1 + 129.1 + 283.6 + USUAL
    assert sum(segment.width for segment in strip.segments) * strip.total_us == pytest.approx(drawn)
    assert strip.rest_us == pytest.approx(366 - USUAL)  # the device time of the case counts masked_fill as 366 µs
    assert strip.total_us == pytest.approx(drawn + strip.rest_us)
    assert strip.segments[FILL].width * strip.total_us == pytest.approx(USUAL)
    assert strip.caption == "945 µs, 5 kernels + 1 memset"  # the case's device time, 366 µs of it masked_fill


@pytest.mark.browser
def test_tables_give_the_median_and_lanes_the_forward_that_they_draw(edition_dir, tmp_path, open_page):
    render_report(edition_dir, tmp_path / "report", CREATED)
    page = open_page(tmp_path / "report", f"#case-{CASE}")
    times = page.locator(f'[data-table="kernels-h200-{CASE}"] tbody td:nth-child(3)').all_inner_texts()
    assert times[FILL].strip() == "300 µs"
    page.locator(f"#case-{CASE} svg.lanes [data-item] rect.f-fill").click()
    panel = page.locator(f"#case-{CASE} .lanes-panel").inner_text()
    assert "300 µs" in panel
    assert "in this forward" in panel
    assert "366 µs" in panel
    twin = (tmp_path / "report" / "details.md").read_text(encoding="utf-8")
    assert "| fill / mask | 300 µs |" in twin
