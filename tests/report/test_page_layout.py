"""The layout of the page: lines that meet, bars that cover, words that stay on one line."""

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


def test_nothing_shines_through_the_bar(open_page, report):
    page = open_page(report)
    colour = page.locator("header.masthead").evaluate("bar => getComputedStyle(bar).backgroundColor")
    assert colour.startswith("rgb(")  # a colour with transparency is given as rgba() or color()


@pytest.mark.parametrize("width", [390, 1000, 1280, 1600])
def test_the_table_of_cases_keeps_inside_the_page(open_page, uneven, width):
    page = open_page(uneven, width=width)
    main = page.locator("main").evaluate("main => main.getBoundingClientRect().right")
    rights = page.locator("[data-table=cases] td:visible").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert max(rights) <= main


def test_the_head_of_the_table_of_cases_stays_in_sight(open_page, uneven):
    page = open_page(uneven, height=300)
    page.locator("[data-table=cases] tr[data-cell]").last.scroll_into_view_if_needed()
    head = page.locator("[data-table=cases] thead th").first.bounding_box()
    masthead = page.locator(".masthead").bounding_box()
    assert head["y"] == pytest.approx(masthead["y"] + masthead["height"], abs=1)


@pytest.mark.parametrize("how", ["load", "click"])
def test_a_link_to_what_stands_below_the_comparison_meets_it(open_page, uneven, how):
    page = open_page(uneven, "#runs" if how == "load" else "", height=400)  # which scrolls smoothly
    if how == "click":
        page.locator(".masthead nav a[href='#runs']").click()
    page.wait_for_selector("#compare-body .compare-title", state="attached")
    page.wait_for_function(
        """() => {
            const top = document.querySelector("#runs").getBoundingClientRect().top;
            const room = document.querySelector(".masthead").offsetHeight;
            const still = window.lastTop === top;
            window.lastTop = top;
            return still && room <= top && top <= room + 40;
        }""",
        polling=100,
    )
