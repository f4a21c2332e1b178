"""A guess that broke is what the first screen shows first, with what ran instead."""

from __future__ import annotations

import dataclasses
import json

import pytest

from kernelbook.edition.read import read_edition
from kernelbook.report import case_views
from kernelbook.report.rendering import render_report
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
NAIVE, INPLACE, MATH, LINEAR = made_edition.CASES


def planted(made: made_edition.Made) -> made_edition.Made:
    """The case with a guess of one kernel too many."""
    kernels = sum(act[0] == "kernel" for step in made.steps for act in step.device)
    wrong = ("kernels", str(kernels + 1), str(kernels), "broken", f"{kernels} kernels in each of 10 forwards")
    return dataclasses.replace(made, guesses=(wrong,))


@pytest.fixture(scope="module")
def one_broke(tmp_path_factory):
    """A report of which one guess broke: in-place attention runs 5 kernels, and 6 were guessed."""
    folder = tmp_path_factory.mktemp("broke")
    held = dataclasses.replace(MATH, guesses=MATH.guesses[1:])
    render_report(made_edition.build(folder / "edition", (NAIVE, planted(INPLACE), held)), folder / "report", CREATED)
    return folder / "report"


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_a_broken_guess_comes_first_and_shows_the_kernels_that_ran(open_page, one_broke, scheme, width):
    page = open_page(one_broke, width=width, color_scheme=scheme)
    heading = page.locator("h1")
    assert heading.inner_text() == "1 of 4 guesses broke."
    card = page.locator(".card")
    assert card.locator("dd").all_inner_texts() == ["6", "5"]
    assert "kernels guessed 6, seen 5" in page.locator(".concerns .bad").inner_text()
    red = page.evaluate("getComputedStyle(document.querySelector('.versus .seen dd')).color")
    assert heading.evaluate("h1 => getComputedStyle(h1).color") == red
    # by hand: memset, product, mul, masked_fill, softmax, product
    assert card.locator(".strip-bar rect[data-i]").count() == 6
    times = card.locator(".ran-time").all_inner_texts()
    assert times == ["1.12 µs", "83.4 µs", "129 µs", "366 µs", "284 µs", "82.1 µs"]
    assert "What ran on h200: 945 µs, 5 kernels + 1 memset" in card.inner_text()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


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
    assert page.locator("h1.broke, #broken").count() == 0


def test_the_twin_names_the_kernels_too(one_broke):
    written = (one_broke / "report.md").read_text(encoding="utf-8")
    line = next(line for line in written.splitlines() if line.startswith("- What "))
    assert line.startswith("- What `attention-inplace-eager` ran on h200, 945 µs, 5 kernels + 1 memset: ")
    assert "`nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT` 83.4 µs" in line


def test_many_kernels_are_cut_and_counted_and_a_case_shows_its_own_once(tmp_path):
    twice = dataclasses.replace(planted(MATH), guesses=(*planted(MATH).guesses, MATH.guesses[0]))
    edition = read_edition(made_edition.build(tmp_path / "edition", (twice,)))
    first, second = case_views.broken_guesses(
        edition, case_views.guess_lines(row for row in edition.judged if row.broken)
    )
    assert (len(first.kernels), first.more) == (8, 4)  # 12 kernels
    assert second.strip is None


def test_what_was_guessed_absent_reads_so_beside_what_was_seen(tmp_path):
    wrong = ("ops_absent", "aten::linear", "aten::linear", "broken", "1 x aten::linear")
    folder = made_edition.build(tmp_path / "edition", (dataclasses.replace(LINEAR, guesses=(wrong,)),))
    render_report(folder, tmp_path / "report", CREATED)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "<dt>guessed</dt><dd>no aten::linear</dd>" in page
    assert "<dt>seen</dt><dd>aten::linear</dd>" in page


def test_a_guess_that_broke_where_nothing_ran_on_a_device_shows_its_evidence_alone(tmp_path):
    folder = made_edition.build(tmp_path / "edition", (planted(LINEAR),))
    (folder / "activities.parquet").unlink()
    edition = read_edition(folder)
    (seen,) = case_views.broken_guesses(edition, case_views.guess_lines(edition.judged))
    assert (seen.strip, seen.kernels) == (None, ())
    render_report(folder, tmp_path / "report", CREATED)
    verdict = json.loads((tmp_path / "report" / "summary.json").read_text())["verdict"]
    assert (verdict["held"], verdict["judged"]) == (0, 1)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "The one guess broke." in page
    assert 'class="card-ran"' not in page
