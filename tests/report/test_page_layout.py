"""Where things stand on the page: lines that meet, bars that cover, words that keep to one line."""

from __future__ import annotations

import dataclasses

import pytest

from kernelbook.report.rendering import render_report
from tests.report import made_edition

pytestmark = pytest.mark.browser

CREATED = "2026-11-29T15:00:00Z"


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """A report whose published run lacks cases, and whose longest strip has kernels, a memcpy and a memset."""
    folder = tmp_path_factory.mktemp("uneven")
    naive = made_edition.CASES[0]
    alone = dataclasses.replace(
        naive, case="attention-of-a-workload-of-its-own", workload="alone"
    )  # its strip is whole
    cases = (*made_edition.CASES, alone)
    render_report(made_edition.build(folder / "edition", cases), folder / "report", CREATED)
    return folder / "report"


def test_cells_of_cases_that_did_not_run_stand_in_line_with_the_others(open_page, uneven):
    page = open_page(uneven)
    lefts = page.locator("#matrix-table tbody td:last-child").evaluate_all(
        "cells => cells.map(cell => [cell.className, cell.getBoundingClientRect().left])"
    )
    assert {name for name, _ in lefts} >= {"none"}
    assert len({left for _, left in lefts}) == 1


def test_the_tools_of_a_table_without_a_title_stand_at_its_end_together(open_page, report):
    page = open_page(report)
    tools = page.locator(".table-tools:has(+ [data-table=matrix]) button")
    boxes = [tools.nth(i).bounding_box() for i in range(tools.count())]
    assert len(boxes) == 2
    assert boxes[1]["x"] - boxes[0]["x"] - boxes[0]["width"] < 20
    main = page.locator("#matrix").bounding_box()
    assert boxes[1]["x"] + boxes[1]["width"] == pytest.approx(main["x"] + main["width"], abs=2)


def test_nothing_shines_through_the_bar(open_page, report):
    page = open_page(report)
    colour = page.locator("header.bar").evaluate("bar => getComputedStyle(bar).backgroundColor")
    assert colour.startswith("rgb(")  # a colour with transparency is given as rgba() or color()


@pytest.mark.parametrize("width", [1000, 1280, 1600])
def test_the_words_behind_a_strip_keep_to_one_line_inside_the_page(open_page, uneven, width):
    page = open_page(uneven, width=width)
    boxes = page.locator("figure .strip-total").evaluate_all(
        """all => all.map(one => {
            const box = one.getBoundingClientRect();
            return [box.height / parseFloat(getComputedStyle(one).lineHeight), box.right, one.textContent];
        })"""
    )
    assert any("5 kernels + 1 memcpy + 1 memset" in text for *_, text in boxes)
    main = page.locator("main").evaluate("main => main.getBoundingClientRect().right")
    for lines, right, text in boxes:
        assert lines < 1.5, text
        assert right <= main, text


@pytest.mark.parametrize("how", ["load", "click"])
def test_a_link_to_what_stands_below_the_comparison_meets_it(open_page, uneven, how):
    page = open_page(uneven, "#runs" if how == "load" else "", height=400)  # which scrolls smoothly
    if how == "click":
        page.locator(".bar nav a[href='#runs']").click()
    page.wait_for_selector("#compare-body .compare-title", state="attached")
    page.wait_for_function(
        """() => {
            const top = document.querySelector("#runs").getBoundingClientRect().top;
            const room = document.querySelector(".bar").offsetHeight;
            const still = window.lastTop === top;
            window.lastTop = top;
            return still && room <= top && top <= room + 40;
        }""",
        polling=100,
    )
