"""The page in a real browser: it asks for nothing from outside, and everything on it works."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.report.rendering import render_report
from tests.report import made_edition

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"


def column(page, table: str, number: int) -> list[str]:
    cells = page.locator(f'[data-table="{table}"] tbody tr:visible td:nth-child({number})')
    return [text.strip() for text in cells.all_inner_texts()]


def test_first_screen_gives_verdict_ratio_and_runs(open_page, report):
    page = open_page(report)
    assert page.locator("h1").inner_text() == "1 of 7 guesses broke."
    first = page.locator("#summary").inner_text()
    assert "3.70×" in first  # 7.239 / 1.955, published
    assert "NVIDIA A100-SXM4-80GB" in first
    assert "needs --use-singularity" in first
    card = page.locator(".card").first
    assert card.locator("dd").all_inner_texts() == ["20", "12"]


def test_tables_sort_by_number_with_missing_values_last(open_page, report):
    page = open_page(report, "#case-sdpa-math-eager")
    table = "kernels-h200-sdpa-math-eager"
    heading = page.locator(f'[data-table="{table}"] th button', has_text="time")
    heading.click()
    times = column(page, table, 3)
    assert times[0] == "4.16 µs"
    assert times[-1] == "541 µs"
    heading.click()
    assert column(page, table, 3) == times[::-1]
    assert page.locator(f'[data-table="{table}"] th[aria-sort="descending"]').count() == 1


def test_tables_filter(open_page, report):
    page = open_page(report, "#case-sdpa-math-eager")
    page.get_by_label("Filter rows of kernels-h200-sdpa-math-eager").fill("softmax")
    assert column(page, "kernels-h200-sdpa-math-eager", 1) == ["8"]


def test_tables_copy_as_csv_and_markdown(open_page, report):
    from playwright.sync_api import expect

    page = open_page(report, permissions=["clipboard-read", "clipboard-write"])
    said = page.locator("#live")
    page.get_by_label("Copy cases as CSV").click()
    expect(said).to_have_text("Table as CSV copied")
    rows = list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    assert [row[0].split()[0] for row in rows[1:]] == [made.case for made in made_edition.CASES]
    page.get_by_label("Copy cases as Markdown").click()
    expect(said).to_have_text("Table as Markdown copied")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(lines) == 2 + len(made_edition.CASES)  # a heading and the line below it
    (bars,) = {line.count("|") for line in lines}
    assert bars == len(rows[0]) + 1


def test_permalink_of_a_kernel_opens_its_case_and_marks_its_row(open_page, report):
    page = open_page(report, "#case-attention-inplace-eager~h200~k3")
    assert page.locator("#case-attention-inplace-eager").get_attribute("open") is not None
    row = page.locator("tr.target")
    assert "fills where the mask is set" in row.inner_text()
    assert row.evaluate("row => { const b = row.getBoundingClientRect(); return b.top > 0 && b.bottom < innerHeight }")


def test_strip_tells_of_each_kernel_by_pointer_and_by_keys(open_page, report):
    page = open_page(report)
    bar = page.locator(".c-strip .strip-bar[data-case=attention-inplace-eager]")
    bar.scroll_into_view_if_needed()
    bar.locator("rect[data-i='3']").hover()
    tip = page.locator("#tip").inner_text()
    assert "366 µs" in tip
    assert "aten::masked_fill_" in tip
    bar.focus()
    page.keyboard.press("End")
    assert "82.1 µs" in page.locator("#tip").inner_text()
    assert page.locator("#live").inner_text().startswith("6 of 6: nvjet_sm90")
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_segments_are_to_scale(open_page, report):
    page = open_page(report)
    widths = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.c-strip .strip-bar')].map(
            bar => [bar.dataset.case, bar.getBoundingClientRect().width]))"""
    )
    total = {m.case: sum(a[3] for s in m.steps for a in s.device) for m in made_edition.CASES}
    drawn = widths["attention-inplace-eager"] / widths["sdpa-math-eager"]
    assert drawn == pytest.approx(total["attention-inplace-eager"] / total["sdpa-math-eager"], rel=0.01)


def test_comparison_has_a_link_that_others_can_open(open_page, two_runs):
    page = open_page(two_runs, "#compare")
    page.select_option("#compare-a", label="attention-naive-eager  (torch-a)")
    page.select_option("#compare-b", label="attention-naive-eager  (torch-b)")
    assert page.evaluate("location.hash") == "#compare:torch-a/attention-naive-eager:torch-b/attention-naive-eager"
    assert "The same 7 activities, in the same order." in page.locator("#compare-body").inner_text()
    assert set(column(page, "aligned-kernels", 6)) == {"1.25×"}
    seen = page.locator("#compare-body").inner_text()
    page.evaluate("localStorage.clear()")
    again = open_page(two_runs, page.evaluate("location.hash"), page=page)
    assert again.locator("#compare-body").inner_text() == seen


def test_comparison_aligns_what_is_common_and_names_what_is_not(open_page, two_runs):
    page = open_page(two_runs, "#compare:torch-a/attention-naive-eager:torch-a/attention-inplace-eager")
    # by hand: naive = memset, GEMM, mul, memcpy, fill, softmax, GEMM; in-place has all of these but the memcpy
    assert column(page, "aligned-kernels", 1) == ["same", "same", "same", "only A", "same", "same", "same"]


def test_bars_side_by_side_start_at_one_place(open_page, two_runs):
    page = open_page(two_runs, "#compare:torch-a/linear-eager:torch-b/attention-inplace-eager")
    bars = page.locator("#compare-body .strip-bar")
    lefts = bars.evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().left)")
    assert lefts[0] == lefts[1]


def test_no_ratio_across_gpus_and_the_page_says_why(open_page, two_runs):
    page = open_page(two_runs, "#compare:torch-a/linear-eager:a100/linear-eager")
    assert "the GPU differs: NVIDIA H200 and NVIDIA A100" in page.locator(".refusal").inner_text()
    assert set(column(page, "aligned-kernels", 6)) == {""}


def test_lanes_zoom_pan_and_pick(open_page, report):
    page = open_page(report, "#case-attention-inplace-eager")
    lanes = page.locator("#case-attention-inplace-eager svg.lanes")
    box = lanes.locator("[data-item] rect.f-fill")
    before = float(box.get_attribute("width"))
    page.get_by_role("button", name="Zoom in").click()
    assert float(box.get_attribute("width")) == pytest.approx(before * 1.6, rel=0.02)
    left = float(box.get_attribute("x"))
    lanes.focus()
    page.keyboard.press("Shift+ArrowRight")
    assert float(box.get_attribute("x")) < left
    page.keyboard.press("0")
    assert float(box.get_attribute("width")) == pytest.approx(before, rel=0.001)
    box.click()
    panel = page.locator("#case-attention-inplace-eager .lanes-panel").inner_text()
    assert made_edition.FILL in panel
    assert lanes.locator(".l-arrow.on").count() == 1
    page.keyboard.press("ArrowUp")
    assert "cudaLaunchKernel" in page.locator("#case-attention-inplace-eager .lanes-panel h4").inner_text()


def test_lanes_mark_ops_that_launch_nothing(open_page, report):
    page = open_page(report, "#case-attention-inplace-eager")
    meta = page.locator("#case-attention-inplace-eager .l-meta")
    assert meta.count() == 1  # aten::transpose alone launches nothing
    assert "1 op launch nothing" in page.locator("#case-attention-inplace-eager .lanes-figure").inner_text()


def test_figures_download_as_svg_with_their_data(open_page, report):
    page = open_page(report, "#case-sdpa-math-eager")
    for name in ("Download the strips of attention as SVG", "Download the lanes as SVG"):
        with page.expect_download() as download:
            page.get_by_label(name).and_(page.locator(":visible")).first.click()
        root = ET.parse(download.value.path()).getroot()
        assert root.tag == f"{SVG}svg"
        assert "start_us" in root.find(f"{SVG}metadata").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_follows_the_system_and_the_switch(open_page, report, scheme):
    page = open_page(report, color_scheme=scheme)
    brightness = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (page.evaluate(brightness) > 128) == (scheme == "light")
    page.locator("#theme").click()
    assert (page.evaluate(brightness) > 128) == (scheme == "dark")


def test_nothing_is_wider_than_a4(open_page, report):
    """A4 with margins of 12 mm is 186 mm wide, 703 px."""
    page = open_page(report, width=703)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 703


def test_page_prints_on_white_without_its_controls(open_page, report):
    page = open_page(report, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".masthead").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).color").startswith("rgb(28")
    for meaning in (".swatch",):  # what colour alone fills would else be blank on paper
        assert page.locator(meaning).first.evaluate("one => getComputedStyle(one).printColorAdjust") == "exact"


def test_paper_has_what_is_folded_on_the_screen(open_page, report):
    page = open_page(report)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("#case-linear-eager .lanes").is_visible()
    page.emulate_media(media="print")
    right = "Math.max(...[...document.querySelectorAll('#case-linear-eager .l-box')].map(box => box.getBBox().x))"
    assert 0 < page.evaluate(right) < 703  # drawn before the page has the size of the paper, and within it
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.case[open]").count() == 0


def test_a_hostile_trace_is_only_text(open_page, tmp_path):
    folder = made_edition.build(tmp_path / "edition", made_edition.HOSTILE, made_edition.HOSTILE_RUNS)
    render_report(folder, tmp_path / "report")
    page = open_page(tmp_path / "report")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate("document.querySelector('#compare').scrollIntoView()")
    page.wait_for_selector(".compare-title", state="attached")
    assert page.evaluate("window.hurt") is None
    assert page.locator("img").count() == 0
    blocks = len(made_edition.HOSTILE) * len(made_edition.HOSTILE_RUNS)
    assert page.locator("script").count() == blocks + 2  # the index, the cells, and the page's own script
    text = page.locator("body").inner_text()
    assert "\u202e" not in text
    assert "[U+202E]" in text
    assert "<script>window.hurt = 1</script>" in text
    assert "{{ 7 * 7 }}" in text
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_the_browsers_search_finds_what_is_folded(open_page, two_runs):
    """Kernels and ops are text of folded <details>, which a browser opens where its search finds something."""
    page = open_page(two_runs)
    page.wait_for_function("!document.querySelector('details.case:not([data-built])')")
    assert page.locator("details.case[open]").count() == 0
    for case, name in (("attention-inplace-eager", "fills where the mask is set"), ("linear-eager", "aten::addmm")):
        folded = page.locator(f"#case-{case} .case-look, #case-{case} .case-rest")
        assert name in " ".join(folded.all_text_contents())


def test_the_browsers_search_finds_kernels_of_the_other_run(open_page, tmp_path):
    """On the second run linear-eager launches another kernel; where the search finds it, that run is shown."""
    runs = [{**made_edition.RUNS[0], "run": name} for name in ("first", "second")]
    folder = made_edition.build(tmp_path / "edition", made_edition.CASES[3:], runs)
    rows = pq.read_table(folder / "activities.parquet").to_pylist()
    changed = [row | ({"name": "another_kernel"} if row["run"] == "second" else {}) for row in rows]
    pq.write_table(pa.Table.from_pylist(changed), folder / "activities.parquet")
    render_report(folder, tmp_path / "report")
    page = open_page(tmp_path / "report")
    hidden = page.locator("#case-linear-eager [hidden=until-found]")
    hidden.wait_for(state="attached")
    assert hidden.text_content() == "another_kernel"
    page.evaluate("document.querySelector('#case-linear-eager').open = true")
    hidden.dispatch_event("beforematch")
    assert page.locator("#case-linear-eager [role=tab][aria-selected=true]").inner_text() == "second"


def test_links_that_name_nothing_are_harmless(open_page, report):
    page = None
    for hash_ in ("#case-nothing~h200~k1", "#compare:a/b:c/d", "#compare:%", "#%E0%A4%A", "#case-linear-eager~x~k99"):
        page = open_page(report, hash_, page=page)
        assert page.locator("h1").is_visible()


@pytest.fixture
def page_without_scripts(kept_page):
    """The kept page, in which no script runs until the end of the test."""
    session = kept_page.context.new_cdp_session(kept_page)
    session.send("Emulation.setScriptExecutionDisabled", {"value": True})
    yield kept_page
    session.send("Emulation.setScriptExecutionDisabled", {"value": False})
    session.detach()


def test_without_scripts_the_page_still_tells_the_essentials(page_without_scripts, report):
    page = page_without_scripts
    page.emulate_media(media="null", color_scheme="light", reduced_motion="null")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((report / "index.html").as_uri())
    assert page.locator("html[data-ready]").count() == 0
    assert page.locator("h1").inner_text() == "1 of 7 guesses broke."
    assert page.locator(".c-strip rect[data-i]").count() == 7 + 6 + 12 + 1  # activities of made_edition's cases
    page.locator("#case-sdpa-math-eager > summary").click()
    assert page.locator('[data-table="guesses-sdpa-math-eager"] tr.broken').is_visible()
