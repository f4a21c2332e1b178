"""Traces that mark no forward, and workloads of one's own, in the table of cases and in the headings."""

from __future__ import annotations

import html
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS
from kernelbook.report.rendering import render_report
from kernelbook.text import formatting
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
OWN = "../my <models>/toy.py:tiny"
BARE = replace(
    made_edition.CASES[3], case="bare", workload="trace", steps=(made_edition.Step("aten::add"),), guesses=()
)
CASES = (made_edition.CASES[1], BARE, replace(BARE, case="bare-cpu"), replace(made_edition.CASES[3], workload=OWN))
FORWARD = ("kernels", "memcpys", "memsets", "device_time_us", "device_busy_us")
WHOLE = {"kernels": 8772, "memcpys": 12, "memsets": 1, "launches": 9096, "unattributed": 0}
NONE = dict.fromkeys([*WHOLE, "device_time_us", "device_busy_us"])


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A run with a forward, a bare trace with device activities, one without, and a case of a workload in a file."""
    folder = tmp_path_factory.mktemp("own")
    devices = ", ".join(f"NVIDIA A100-SXM4-{i}0GB" for i in range(1, 9))
    run = made_edition.RUNS[0] | {"device": devices}
    other = run | {"run": "other", "device": "NVIDIA H200"}
    edition = made_edition.build(folder / "edition", cases=CASES, runs=(run, other))
    rows = pq.read_table(edition / "cases.parquet").to_pylist()
    for row in rows:
        row["totals"] = None
        if row["case"].startswith("bare"):
            known = WHOLE | {"device_time_us": 603558.0, "device_busy_us": 603558.0}
            row |= dict.fromkeys(FORWARD) | {"totals": NONE if row["case"] == "bare-cpu" else known}
            row |= {"forward_time_us": None, "bare": True}
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), edition / "cases.parquet")
    render_report(edition, folder / "report", CREATED)
    return folder / "report"


def test_the_twin_has_the_whole_file_of_a_trace_without_forwards(own):
    twin = html.unescape((own / "report.md").read_text(encoding="utf-8"))
    assert "| h200 | 8,772 (+ 12 memcpys + 1 memset) | 604 ms whole file |\n" in twin
    assert "| `bare-cpu` bf16, 8 × 1024 | h200 | n/a | n/a |\n" in twin


@pytest.mark.browser
def test_the_table_of_cases_has_the_whole_file_of_a_trace_without_forwards(open_page, own):
    page = open_page(own)
    row = page.locator("#case-bare\\~h200")
    figures = [" ".join(row.locator(css).inner_text().split()) for css in (".c-kernels", ".c-device", ".c-forward")]
    assert figures == ["8,772 (+ 12 memcpys + 1 memset)", "604 ms whole file", "n/a"]
    assert page.locator("#case-bare-cpu\\~h200 .c-kernels").inner_text() == "n/a"
    assert "whole file" not in page.locator("#case-attention-inplace-eager\\~h200").inner_text()


@pytest.mark.browser
def test_a_workload_of_ones_own_is_named_without_its_folders(open_page, own):
    page = open_page(own)
    heading = page.locator("#workloads summary").filter(has_text="toy.py:tiny")
    assert heading.get_attribute("title") == OWN
    assert page.locator("tr.group").last.inner_text() == "toy.py:tiny"
    page.locator("details.spread").last.locator("summary").click()
    page.wait_for_selector("details.spread[open] .plot .sample")


def test_the_twin_says_where_a_workload_of_ones_own_lies(own):
    twin = (own / "report.md").read_text(encoding="utf-8")
    assert "## toy.py:tiny\n\nWorkload <code>../my &lt;models&gt;/toy.py:tiny</code>.\n" in twin


def test_workloads_that_would_be_called_the_same_keep_their_folders():
    names = ["attention", "a/toy.py:tiny", "b/toy.py:tiny", "/srv/my models/toy.py:large", "odd/"]
    assert formatting.titles(names) == {
        "attention": "attention",
        "a/toy.py:tiny": "a/toy.py:tiny",
        "b/toy.py:tiny": "b/toy.py:tiny",
        "/srv/my models/toy.py:large": "toy.py:large",
        "odd/": "odd/",
    }
