"""The page on a narrow screen, with a finger."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("style", ["* {}", "* { font-family: monospace !important; }"])  # wider than other fonts
def test_a_phone_never_scrolls_sideways(open_page, two_runs, style):
    page = open_page(two_runs, "#compare:torch-a/sdpa-math-eager:torch-b/sdpa-math-eager", width=390, height=844)
    page.add_style_tag(content=style)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_selector(".spread .sample")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_a_long_title_leaves_room_for_the_contents(open_page, report):
    page = open_page(report, width=390, height=844)
    mark = page.locator(".masthead .mark")
    assert mark.evaluate("mark => mark.scrollWidth <= mark.clientWidth")  # a short one is whole
    page.evaluate("document.querySelector('.masthead .mark').textContent = 'runs of the last week '.repeat(6)")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert page.locator(".masthead nav").bounding_box()["width"] > 60
    assert page.locator("#theme").bounding_box()["x"] < 390 - 30


def test_a_phone_shows_evidence_below_its_guess(open_page, report):
    page = open_page(report, "#case-sdpa-math-eager", width=390, height=844)
    row = page.locator('[data-table="guesses-sdpa-math-eager"] tbody tr').first
    first, evidence = (row.locator(cell).bounding_box() for cell in ("td:first-child", "td.wide"))
    assert evidence["y"] >= first["y"] + first["height"]
    assert evidence["x"] + evidence["width"] <= 390
    assert page.locator(".masthead nav").evaluate("nav => nav.scrollWidth > nav.clientWidth && nav.matches('.more')")


def test_a_finger_reads_a_kernel_first_and_goes_to_it_next(browser, settle, report):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto((report / "index.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    segment = page.locator(".c-strip .strip-bar[data-case=attention-inplace-eager] rect[data-i='3']")
    segment.scroll_into_view_if_needed()
    settle(page)  # scrolling hides what a tap shows
    segment.tap()
    assert "366 µs" in page.locator("#tip").inner_text()
    assert page.evaluate("location.hash") == ""
    segment.tap()
    assert page.evaluate("location.hash") == "#case-attention-inplace-eager~h200~k3"
    context.close()


def test_no_line_breaks_inside_a_date(open_page, report):
    page = open_page(report, width=390, height=844)
    date = page.locator(".subject .date")
    assert date.inner_text() == "2026-10-01"
    for room in range(40, 300, 7):
        page.evaluate("room => { document.querySelector('.subject').style.width = `${room}px` }", room)
        assert date.evaluate("one => one.getClientRects().length") == 1
