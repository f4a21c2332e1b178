"""The first screen of a report of one's own: what costs, the headline's pair where it ran, and what did not run."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.edition.model import Edition
from kernelbook.edition.read import read_edition
from kernelbook.judge.findings import Finding
from kernelbook.report import findings_section, first_screen, markdown_page, page
from kernelbook.report.first_screen import RunTally
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
LINEAR = made_edition.CASES[3:]
LEFT = [{"run": f"ngc-26.0{i}", "reason": "needs its container: add --use-singularity"} for i in range(1, 4)]
HEADLINES = ("No run has", "both headline figures", "as fast as")


def made(folder: Path, cases=LINEAR, **about) -> Edition:
    edition = made_edition.build(folder / "edition", cases, runs=made_edition.RUNS[:1])
    told = json.loads((edition / "edition.json").read_text())
    (edition / "edition.json").write_text(json.dumps(told | about))
    return read_edition(edition)


def both(edition: Edition, folder: Path) -> tuple[str, str]:
    """The page's first screen, and the twin."""
    first = page.render(edition, CREATED, {}).partition('id="cases"')[0].partition("<main")[2]
    return first, html.unescape(markdown_page.render(edition, CREATED, folder))


def finding(case: str, severity: str, share: float | None, kind: str = "recoverable") -> Finding:
    time = None if share is None else 1.96
    return Finding(
        f"rule-{severity}", severity, time, share, "", "", f"It is {severity}.", run="h200", case=case, kind=kind
    )


def test_what_costs_less_than_a_twentieth_and_what_is_for_information_is_no_cost():
    high, medium = finding("a", "high", 0.5), finding("b", "medium", 0.05)
    low, note, told = (
        finding("c", "low", 0.0002),
        finding("d", "info", None, "note"),
        finding("e", "info", 0.25, "spent"),
    )
    assert findings_section.costliest([told, note, low, medium, high]) == (high, medium)
    assert findings_section.costliest([told, note, low]) == ()


def test_where_nothing_costs_much_the_longest_kernels_are_told(tmp_path):
    edition = replace(made(tmp_path), findings=(finding("linear-eager", "low", 0.0002),))
    for said in both(edition, tmp_path):
        assert "The longest kernels" in said
        assert "What costs most" not in said
        assert "It is low." not in said.partition('id="cases"')[0].partition("\n## linear")[0]
        assert "2.72 µs" in said  # the one kernel of made_edition's linear-eager
        assert "matrix product (nvjet), launched by aten::addmm" in said
    assert "All findings" in both(edition, tmp_path)[0]


def test_where_something_costs_the_longest_kernels_are_not_told(tmp_path):
    edition = replace(made(tmp_path), findings=(finding("linear-eager", "medium", 0.06),))
    for said in both(edition, tmp_path):
        assert "What costs most" in said
        assert "The longest kernels" not in said


def test_of_the_headline_nothing_is_said_where_no_run_has_a_case_of_it(tmp_path):
    for said in both(made(tmp_path), tmp_path):
        assert not [words for words in HEADLINES if words in said]


def test_where_one_case_of_the_headline_ran_it_is_said_what_is_missing(tmp_path):
    for said in both(made(tmp_path, cases=made_edition.CASES[1:2]), tmp_path):
        assert "No run has" in said


@pytest.mark.parametrize(
    ("ok", "unsupported", "failed", "words"),
    [
        (4, 0, 0, "4 cases"),
        (1, 0, 0, "1 case"),
        (2, 0, 2, "2 of 4 cases failed"),
        (4, 1, 0, "1 of 5 cases unsupported"),
        (2, 1, 2, "2 of 5 cases failed, 1 unsupported"),
        (0, 0, 1, "1 of 1 case failed"),
    ],
)
def test_how_many_of_a_runs_cases_failed_is_told_of_all(tmp_path, ok, unsupported, failed, words):
    assert RunTally(made(tmp_path).runs[0], ok, unsupported, failed).text == words


def test_a_gpu_that_several_runs_share_is_named_once(tmp_path):
    edition = made(tmp_path)
    several = replace(edition.runs[0], device="GPU A, GPU B, NVIDIA H200, GPU C")
    told = first_screen.subject(replace(edition, runs=(edition.runs[0], several)), CREATED)
    assert told.partition(" · ")[0] == "NVIDIA H200, GPU A, GPU B and 1 more"


def test_a_list_of_devices_is_not_cut_through_a_name(tmp_path):
    names = [f"NVIDIA A100-SXM4-{i}0GB of a very long kind" for i in range(1, 9)]
    edition = made(tmp_path)
    told = replace(edition, runs=(replace(edition.runs[0], device=", ".join(names)),))
    ran = page.render(told, CREATED, {}).partition('id="runs"')[2].partition("<footer")[0]
    assert f"<td>{', '.join(names[:4])} and 4 more</td>" in ran
    twin = markdown_page.render(told, CREATED, tmp_path).partition("## Runs")[2]
    assert f"| {', '.join(names[:4])} and 4 more |" in twin


@pytest.mark.browser
def test_runs_left_out_for_one_reason_share_a_line(open_page, tmp_path):
    other = {"run": "torch-nightly", "reason": "is not enabled"}
    edition = made(tmp_path, left_out=[*LEFT, other])
    (tmp_path / "index.html").write_text(page.render(edition, CREATED, {}), encoding="utf-8")
    left = open_page(tmp_path).locator(".runs .left")
    assert left.count() == 2
    several = left.filter(has_text="3 runs")
    assert several.locator("summary").inner_text() == "3 runs left out needs its container: add --use-singularity"
    assert not several.get_by_text("ngc-26.01, ngc-26.02, ngc-26.03").is_visible()
    several.locator("summary").click()
    assert several.get_by_text("ngc-26.01, ngc-26.02, ngc-26.03").is_visible()
    alone = left.filter(has_text="torch-nightly").inner_text()
    assert " ".join(alone.split()) == "torch-nightly left out is not enabled"
