"""Guesses as a grid, a broken one with the guessed kernels above those that ran, and guessing before looking."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from kernelbook.cases import Activity
from kernelbook.edition.model import read_edition
from kernelbook.report import case_views, guess_strips
from kernelbook.report.families import family_of
from kernelbook.report.guess_strips import BrokenCase, Slot
from kernelbook.report.rendering import render_report
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
NAIVE, INPLACE, MATH, LINEAR = made_edition.CASES


def planted(made: made_edition.Made) -> made_edition.Made:
    """The case with a guess of one kernel too many."""
    kernels = sum(act[0] == "kernel" for step in made.steps for act in step.device)
    wrong = ("kernels", str(kernels + 1), str(kernels), "broken", f"{kernels} kernels in each of 10 forwards")
    return dataclasses.replace(made, guesses=(wrong,))


def broken_cases(edition):
    return guess_strips.broken_cases(edition, case_views.guess_lines(row for row in edition.judged if row.broken))


ACTIVITIES = tuple(
    Activity(place, category, name, 0.0, 1.0)
    for place, (category, name) in enumerate(
        [
            ("kernel", made_edition.GEMM),
            ("kernel", made_edition.MUL),
            ("memcpy", made_edition.MEMCPY),
            ("kernel", made_edition.SOFTMAX),
        ]
    )
)


@pytest.mark.parametrize(
    ("guesses", "expected"),
    [
        ({}, []),
        ({"kernels": "at least 2"}, []),
        ({"kernels": "3"}, ["same kernel", "same kernel", "free", "same kernel"]),
        ({"kernels": "2"}, ["same kernel", "same kernel", "free", "more"]),
        ({"kernels": "4"}, ["same kernel", "same kernel", "free", "same kernel", "less kernel"]),
        ({"kernels": "3", "memcpys": "0"}, ["same kernel", "same kernel", "more", "same kernel"]),
        ({"memcpys": "2"}, ["free", "free", "same memcpy", "free", "less memcpy"]),
        ({"kernel_families": "GEMM: 2, softmax: 1"}, ["same GEMM", "free", "free", "same softmax", "less GEMM"]),
        # a guessed GEMM that did not run stands where an elementwise kernel ran that was not guessed
        (
            {"kernels": "3", "kernel_families": "GEMM: 2, softmax: 1"},
            ["same GEMM", "other GEMM", "free", "same softmax"],
        ),
    ],
)
def test_each_activity_takes_a_guess_of_its_family_else_one_of_any_kernel(guesses, expected):
    slots = guess_strips.slots_of(guesses, ACTIVITIES)
    assert [" ".join(filter(None, (slot.kind, slot.guessed and slot.guessed.label))) for slot in slots] == expected


@pytest.fixture(scope="module")
def one_broke(tmp_path_factory):
    """A report of which one guess broke: in-place attention runs 5 kernels, and 6 were guessed."""
    folder = tmp_path_factory.mktemp("broke")
    held = dataclasses.replace(MATH, guesses=MATH.guesses[1:])
    render_report(made_edition.build(folder / "edition", (NAIVE, planted(INPLACE), held)), folder / "report", CREATED)
    return folder / "report"


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_a_broken_guess_is_red_above_and_shows_the_kernels_that_ran(open_page, one_broke, scheme, width):
    page = open_page(one_broke, width=width, color_scheme=scheme)
    heading = page.locator("h1")
    assert heading.inner_text() == "1 of 4 guesses broke."
    assert "kernels guessed 6, seen 5" in page.locator(".concerns .bad").inner_text()
    red = page.evaluate("getComputedStyle(document.querySelector('.versus .seen dd')).color")
    assert heading.locator(".broke").evaluate("part => getComputedStyle(part).color") == red
    card = page.locator(".card")
    assert card.locator("dd").all_inner_texts() == ["6", "5"]
    # by hand: memset, product, mul, masked_fill, softmax, product, and a kernel that did not run
    seen = card.locator(".pairs .box:nth-child(2)").all_inner_texts()
    assert seen == ["memset", "GEMM", "elementwise", "fill / mask", "softmax", "GEMM", ""]
    assert card.locator(".pairs .box:nth-child(1)").all_inner_texts() == ["", *["kernel"] * 6]
    assert card.locator(".slot-less").count() == 1
    assert "366 µs" in card.locator(".pairs .box:nth-child(2)").nth(3).get_attribute("title")
    assert card.locator(".strip-bar rect[data-i]").count() == 6
    assert "What ran on h200: 945 µs, 5 kernels + 1 memset" in card.inner_text()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


@pytest.mark.browser
def test_the_grid_has_a_place_for_each_guess_and_leads_to_a_broken_one(open_page, one_broke):
    page = open_page(one_broke)
    grid = page.locator('[data-table="guess-grid"]')
    heads = [text.strip() for text in grid.locator("thead th").all_text_contents()]
    rows = {
        row.locator("td").first.inner_text(): [cell.strip() for cell in row.locator("td").all_text_contents()[1:]]
        for row in grid.locator("tbody tr").all()
    }
    assert heads == ["case", "kernels", "memcpys", "slower than"]  # the word that is guessed most often first
    assert rows == {
        NAIVE.case: ["held", "held", ""],
        INPLACE.case: ["broke", "", ""],
        MATH.case: ["", "", "held"],
    }
    grid.locator(".no a").click()
    assert page.evaluate("document.querySelector(location.hash).className") == "card"


@pytest.mark.browser
def test_guessing_hides_what_was_seen_until_both_are_written(open_page, one_broke):
    page = open_page(one_broke, "#guess")
    assert not page.locator("#cases").is_visible()
    assert not page.locator("h1").is_visible()
    form = page.locator(".guess-form").first
    assert NAIVE.case in form.inner_text()
    assert "kernels +" not in page.locator("#guess").inner_text()
    form.locator("button").click()
    assert form.locator(".answer").count() == 0  # nothing was written
    form.locator("input").fill("4")
    form.locator("button").click()
    assert "Guessed 4 kernels, seen 5 kernels + 1 memcpy + 1 memset: not as guessed" in " ".join(
        form.locator(".answer").inner_text().replace("✗ ", "").split()
    )
    form.get_by_role("link", name="All of this case").click()
    assert page.locator(f"#case-{NAIVE.case}").get_attribute("open") is not None
    assert page.locator("#cases").is_visible()


@pytest.mark.browser
def test_the_strip_of_a_broken_guess_tells_of_each_kernel(open_page, one_broke):
    page = open_page(one_broke)
    page.locator(".card .strip-bar rect[data-i='3']").hover()
    assert "366 µs" in page.locator("#tip").inner_text()


@pytest.mark.browser
def test_no_guess_that_broke_leaves_nothing_red_above(open_page, tmp_path):
    held = dataclasses.replace(MATH, guesses=MATH.guesses[1:])
    render_report(made_edition.build(tmp_path / "edition", (NAIVE, INPLACE, held)), tmp_path / "report", CREATED)
    page = open_page(tmp_path / "report")
    assert page.locator("h1").inner_text() == "All 4 guesses held."
    assert page.locator("h1 .broke, .card").count() == 0


def test_the_twin_names_what_was_more_less_or_other(one_broke):
    written = (one_broke / "report.md").read_text(encoding="utf-8")
    line = next(line for line in written.splitlines() if line.startswith("- `attention-inplace-eager`:"))
    assert line == "- `attention-inplace-eager`: guessed, but not run: 1 kernel."


def test_cases_that_differ_alike_from_their_guesses_share_a_line():
    """A memcpy that was not guessed, a softmax instead of a second product, and twice a product that did not run."""
    gemm, copy, softmax = ACTIVITIES[0], ACTIVITIES[2], ACTIVITIES[3]
    family = family_of("kernel", "GEMM")
    less = Slot("less", family)
    cases = (
        BrokenCase("a", (), slots=(less, less)),
        BrokenCase(
            "b", (), slots=(Slot("same", family, gemm), Slot("more", None, copy), Slot("other", family, softmax))
        ),
        BrokenCase("c", (), slots=(less, less)),
        BrokenCase("d", ()),
    )
    (alike, text), (other, words) = guess_strips.differences(cases)
    assert (alike, text) == (("a", "c"), "guessed, but not run: 2 GEMM")
    assert other == ("b",)
    assert re.fullmatch(r"run, but not guessed: .+ \(.+ µs\); run: .+ \(.+ µs\) instead of GEMM", words)


def test_a_case_has_one_card_however_many_of_its_guesses_broke(tmp_path):
    twice = dataclasses.replace(planted(MATH), guesses=(*planted(MATH).guesses, MATH.guesses[0]))
    (broken,) = broken_cases(read_edition(made_edition.build(tmp_path / "edition", (twice,))))
    assert len(broken.lines) == 2
    assert len(broken.slots) == 20  # 12 kernels ran; of the two guesses of their number the last counts


def test_a_long_strip_is_cut(tmp_path):
    slots = guess_strips.slots_of({"kernels": "40"}, ACTIVITIES)
    case = guess_strips.BrokenCase("c", (), slots=slots)
    assert (len(case.slots), len(case.drawn)) == (41, 24)  # 40 kernels and a memcpy


def test_what_was_guessed_absent_reads_so_beside_what_was_seen(tmp_path):
    wrong = ("ops_absent", "aten::linear", "aten::linear", "broken", "1 × aten::linear")
    folder = made_edition.build(tmp_path / "edition", (dataclasses.replace(LINEAR, guesses=(wrong,)),))
    render_report(folder, tmp_path / "report", CREATED)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "<dd>no aten::linear</dd>" in page
    assert "<dd>aten::linear</dd>" in page


def test_a_guess_that_broke_where_nothing_ran_on_a_device_shows_its_evidence_alone(tmp_path):
    folder = made_edition.build(tmp_path / "edition", (planted(LINEAR),))
    (folder / "activities.parquet").unlink()
    (broken,) = broken_cases(read_edition(folder))
    assert (broken.strip, broken.slots) == (None, ())
    render_report(folder, tmp_path / "report", CREATED)
    verdict = json.loads((tmp_path / "report" / "summary.json").read_text())["verdict"]
    assert (verdict["held"], verdict["judged"]) == (0, 1)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "The one guess broke." in page
    assert 'class="pairs"' not in page
