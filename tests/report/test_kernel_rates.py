"""What each kernel moves a second, how near it is to its roof, and for which architecture it was built."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.judge.insight_tables import COSTS
from kernelbook.report.rendering import render_report
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
MATH = "sdpa-math-eager"
TABLE = f"kernels-h200-{MATH}"
CAST, PRODUCT = 0, 6  # places in MATH of its first cast and of its first product
RATES = (
    {"position": CAST, "gb_per_s": 1935.2, "share_of_roof": 0.4546, "roof": "memory"},
    {"position": PRODUCT, "gb_per_s": 1120.0, "share_of_roof": None, "roof": None},
)


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """made_edition's report, with rates of two kernels of sdpa-math."""
    folder = made_edition.build(tmp_path_factory.mktemp("rates") / "edition")
    kernel = {"run": "h200", "case": MATH, "scope": "kernel", "label": "k", "time_us": 1.0, "bytes": 1}
    rows = [kernel | row for row in RATES]
    rows += [{"run": "h200", "case": MATH, "scope": "forward", "position": None, "limiter": "excess traffic"}]
    pq.write_table(pa.Table.from_pylist(rows, schema=COSTS), folder / "costs.parquet")
    render_report(folder, folder.parent / "report", CREATED)
    return folder.parent / "report"


@pytest.mark.browser
def test_the_kernel_table_gives_rates_and_shares_where_they_are_known(open_page, rated):
    page = open_page(rated, f"#case-{MATH}")
    heads = [text.strip() for text in page.locator(f'[data-table="{TABLE}"] thead th').all_inner_texts()]
    rate, roof = heads.index("GB/s") + 1, heads.index("of roof") + 1
    rows = page.locator(f'[data-table="{TABLE}"] tbody tr')
    told = [[rows.nth(i).locator(f"td:nth-child({n})").inner_text().strip() for n in (rate, roof)] for i in (0, 1, 6)]
    assert told == [["1,935", "45 % memory"], ["", ""], ["1,120", ""]]


@pytest.mark.browser
def test_the_kernel_table_says_precision_once_and_no_needless_sides_of_a_grid(open_page, rated):
    page = open_page(rated, f"#case-{MATH}")
    row = page.locator(f'[data-table="{TABLE}"] tbody tr').nth(PRODUCT)
    assert row.inner_text().count("CUDA cores") == 1
    assert row.locator("td").last.inner_text() == "2×66, 384"  # grid (2, 66, 1), block (384, 1, 1)


@pytest.mark.browser
def test_a_kernel_built_for_an_older_architecture_bears_its_mark(open_page, rated):
    page = open_page(rated, f"#case-{MATH}")  # an H200 is sm90; its fp32 products are sm80 kernels
    marks = page.locator(f'[data-table="{TABLE}"] .flag')
    assert marks.all_inner_texts() == ["sm80", "sm80"]
    assert marks.first.get_attribute("title") == "built for sm80 (Ampere), runs on sm90 (Hopper)"
    naive = open_page(rated, "#case-attention-naive-eager", page=page)
    assert naive.locator('[data-table="kernels-h200-attention-naive-eager"] .flag').count() == 0


def test_the_twin_gives_rates_and_marks_as_well(rated):
    written = (rated / "details.md").read_text(encoding="utf-8").partition(f"### `{MATH}`")[2]
    rows = [line for line in written.splitlines() if line.startswith(("| 0 |", "| 6 |"))][:2]
    assert "| 26.0 µs | 1.1 % | 1,935 | 45 % memory | `aten::to > aten::copy_` |" in rows[0]
    assert "CUDA cores, built for sm80 (Ampere), runs on sm90 (Hopper) | GEMM |" in rows[1]
    assert "| 1,120 | n/a |" in rows[1]


def test_an_unknown_device_marks_nothing(tmp_path):
    runs = ({**made_edition.RUNS[0], "capability": None},)
    render_report(made_edition.build(tmp_path / "edition", runs=runs), tmp_path / "report", CREATED)
    assert "built for sm80" not in (tmp_path / "report" / "details.md").read_text(encoding="utf-8")
