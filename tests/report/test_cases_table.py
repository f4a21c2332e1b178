"""The table of cases in a browser: search, order, groups, columns, ratios, and the address that holds them all."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS
from kernelbook.report.rendering import render_report
from tests.report import made_edition

pytestmark = pytest.mark.browser

CREATED = "2026-11-29T15:00:00Z"
NAIVE, INPLACE, MATH, LINEAR = (made.case for made in made_edition.CASES)
ROWS = "[data-table=cases] tr[data-cell]:visible"


def cases_of(page) -> list[str]:
    return page.locator(f"{ROWS} .c-case > a").all_inner_texts()


def ratios_of(page, case: str) -> list[str]:
    rows = page.locator(f'{ROWS}:has(a:text-is("{case}")) .c-ratio')
    return rows.all_inner_texts()


def sort(page, column: str) -> None:
    page.locator(f'[data-table=cases] > table > thead button:text-is("{column}")').click()


def test_a_click_sorts_a_second_turns_and_a_third_restores(open_page, report):
    page = open_page(report, "#cases?group=none")
    sort(page, "device")
    assert cases_of(page) == [LINEAR, INPLACE, NAIVE, MATH]  # 2.72, 945, 1,073 and 2,361 µs, summed by hand
    sort(page, "device")
    assert cases_of(page) == [MATH, NAIVE, INPLACE, LINEAR]
    sort(page, "device")
    assert cases_of(page) == [NAIVE, INPLACE, MATH, LINEAR]
    assert page.locator("[data-table=cases] th[aria-sort]").count() == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sdpa-MATH", [MATH]),
        ("fp32 cuda CORES", [MATH]),  # a finding of made_edition
        ("aten::tril", [MATH]),  # an op
        ("masked_fill_kernel", [NAIVE, INPLACE]),  # a kernel
        ("nothing has this", []),
    ],
)
def test_search_looks_at_cases_findings_ops_and_kernels(open_page, report, words, expected):
    page = open_page(report)
    page.get_by_label("Search", exact=True).fill(words)
    assert cases_of(page) == expected
    assert page.locator("#cases-count").inner_text() == f"{len(expected)} of 4"


def test_what_is_chosen_stands_in_the_address_and_comes_back(open_page, two_runs):
    page = open_page(two_runs)
    page.get_by_label("Search", exact=True).fill("attention")
    page.locator("#cases-group").select_option("run")
    page.locator("#cases-base").select_option(f"case:{NAIVE}")
    page.locator(".menu summary").click()
    page.locator(".menu label", has_text="CPU time").click()
    page.locator(".menu label", has_text="error").click()
    sort(page, "forward")
    hash_ = page.evaluate("location.hash")
    seen = cases_of(page)
    page.evaluate("localStorage.clear()")
    again = open_page(two_runs, hash_, page=page)
    assert again.evaluate("location.hash") == hash_
    assert again.locator("[data-table=cases] tr.group").all_inner_texts() == ["torch-a", "torch-b", "a100"]
    assert cases_of(again) == seen == [INPLACE, NAIVE, MATH] * 3
    heads = again.locator("[data-table=cases] thead th:visible").all_inner_texts()
    assert "CPU time" in heads
    assert "error" not in heads
    # device times of made_edition, by hand: 1,073.42 µs of naive, 945.32 µs of in-place
    assert set(ratios_of(again, INPLACE)) == {f"{945.32 / 1073.42:.2f}×"}


def test_ratios_to_a_run_and_the_reason_where_there_is_none(open_page, two_runs):
    page = open_page(two_runs)
    assert ratios_of(page, NAIVE) == ["base", "1.25×", "no ratio: GPU differs"]
    page.locator("#cases-base").select_option("run:torch-b")
    assert ratios_of(page, NAIVE) == ["0.80×", "base", "no ratio: GPU differs"]


def test_of_one_run_the_baseline_is_the_first_case_of_each_workload(open_page, report):
    page = open_page(report)
    assert ratios_of(page, NAIVE) == ratios_of(page, LINEAR) == ["base"]
    assert ratios_of(page, MATH) == [f"{2360.86 / 1073.42:.2f}×"]


def test_a_panel_opens_below_the_row_that_was_clicked_and_stays_there(open_page, two_runs):
    page = open_page(two_runs, "#cases?group=run")
    page.locator(f"#case-{MATH}\\~torch-b .c-case > a").click()
    row, panel = f"document.getElementById('case-{MATH}~torch-b')", f"document.getElementById('case-{MATH}')"
    following = f"{row}.nextElementSibling.contains({panel})"
    assert page.evaluate(following)
    assert page.locator(f"#case-{MATH} [role=tab][aria-selected=true]").inner_text() == "torch-b"
    sort(page, "device")
    assert page.evaluate(following)
    assert page.locator(f"#case-{MATH} .lanes").is_visible()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A CPU run at other parameters before a GPU run; a case failed on the GPU, with a reason."""
    folder = tmp_path_factory.mktemp("mixed")
    host = {"run": "host", "kind": "host", "device": "AMD EPYC", "device_type": "cpu", "torch": "2.11"}
    edition = made_edition.build(folder / "edition", runs=(host, made_edition.RUNS[0]))
    rows = pq.read_table(edition / "cases.parquet").to_pylist()
    for row in rows:
        if row["run"] == "host":
            row |= {"kernels": None, "device_time_us": None, "device_type": "cpu", "driver": None}
            row |= {"params": [("batch", "1"), ("seq", "1024")]}
        elif row["case"] == LINEAR:
            row |= {"status": "failed", "reason": "exceeded 300 s", "kernels": None, "device_time_us": None}
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), edition / "cases.parquet")
    for name in ("activities", "samples"):
        kept = [row for row in pq.read_table(edition / f"{name}.parquet").to_pylist() if row["run"] != "host"]
        pq.write_table(pa.Table.from_pylist(kept), edition / f"{name}.parquet")
    render_report(edition, folder / "report", CREATED)
    return folder / "report"


def test_figures_of_another_size_bear_it_and_the_gpu_comes_first(open_page, mixed):
    page = open_page(mixed)
    rows = page.locator(f'{ROWS}:has(a:text-is("{MATH}"))')
    assert rows.locator("td:nth-child(2)").all_inner_texts() == ["h200", "host"]
    assert "batch 1" not in rows.nth(0).inner_text()
    assert rows.nth(1).locator(".c-forward .flag").inner_text() == "batch 1"
    assert rows.nth(1).locator(".c-ratio").inner_text() == "no ratio: parameters differ"
    title = rows.nth(1).locator(".c-ratio").get_attribute("title")
    assert '"' not in title
    assert "batch 1" in title


def test_the_reason_of_a_failure_is_in_sight(open_page, mixed):
    row = open_page(mixed).locator(f"#case-{LINEAR}\\~h200")
    assert "exceeded 300 s" in row.inner_text()
    assert row.get_by_text("exceeded 300 s").is_visible()


def test_published_figures_keep_their_digits(open_page, report):
    page = open_page(report)
    cells = [" ".join(text.split()) for text in page.locator(f"{ROWS} .c-published").all_inner_texts()]
    assert cells == ["", "5 · 1.955 ms", "20 ≠ · 7.239 ms", "1"]  # 12 kernels ran where 20 were published


def test_a_hostile_address_does_nothing(open_page, report):
    page = None
    for hash_ in ("#cases?sort=<img>&group=x&base=run:none&columns=,,", "#cases?q=%E0%A4%A", "#case-x?base=case:"):
        page = open_page(report, hash_, page=page)
        assert page.locator("h1").is_visible()
        assert json.loads(page.evaluate("JSON.stringify(document.images.length)")) == 0
