"""The first screen of a report of one's own: what costs, the headline's pair where it ran, and what did not run."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelbook.edition.model import Edition, read_edition
from kernelbook.judge.expectations.vocabulary import BROKEN
from kernelbook.judge.findings import Finding
from kernelbook.report import findings_section, first_screen, markdown_page, openings, page, strips
from kernelbook.report.first_screen import RunTally
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
LINEAR = made_edition.CASES[3:]
LINEAR_CASE = LINEAR[0].case
LEFT = [{"run": f"ngc-26.0{i}", "reason": "needs its container: add --use-singularity"} for i in range(1, 4)]
HEADLINES = ("No run has", "both headline figures", *made_edition.LABELS.values())


def made(folder: Path, cases=LINEAR, **about) -> Edition:
    edition = made_edition.build(folder / "edition", cases, runs=made_edition.RUNS[:1])
    told = json.loads((edition / "edition.json").read_text())
    (edition / "edition.json").write_text(json.dumps(told | about))
    return read_edition(edition)


def both(edition: Edition, folder: Path) -> tuple[str, str]:
    """The page's first screen, and the twin."""
    first = page.render(edition, CREATED, {}).partition('id="cases"')[0].partition("<main")[2]
    return first, html.unescape(markdown_page.render(edition, CREATED, folder)["report.md"])


def finding(case: str, severity: str, share: float | None, kind: str = "recoverable") -> Finding:
    time = None if share is None else 1.96
    return Finding(
        f"rule-{severity}", severity, time, share, "", "", f"It is {severity}.", run="h200", case=case, kind=kind
    )


def test_what_costs_less_than_a_twentieth_and_what_is_for_information_is_no_cost():
    high, medium = finding("a", "high", 0.5), finding("b", "medium", 0.05)
    low, note, spent = (
        finding("c", "low", 0.0002),
        finding("d", "info", None, "note"),
        finding("e", "info", 0.25, "spent"),
    )
    assert findings_section.costliest([spent, note, low, medium, high], 5) == (high, medium)
    assert findings_section.costliest([spent, note, low], 5) == ()


def test_where_nothing_costs_much_the_longest_kernels_are_listed(tmp_path):
    edition = replace(made(tmp_path), findings=(finding("linear-eager", "low", 0.0002),))
    (line,) = first_screen.concerns(edition)
    # the one kernel of made_edition's linear-eager
    assert (line.subject, line.time) == ("linear-eager", "2.72 µs")
    assert "matrix product (nvjet), launched by aten::addmm" in line.text
    for text in both(edition, tmp_path):
        assert "matrix product (nvjet), launched by aten::addmm" in text
    assert "All findings" in both(edition, tmp_path)[0]


def test_lost_runs_come_first_then_failures_by_reason_broken_guesses_and_costs(tmp_path):
    """Two cases failed for one reason, another run was lost with its case, one guess broke, one finding costs."""
    edition = made(tmp_path, cases=made_edition.CASES)
    naive, inplace, math, linear = edition.case_runs
    failed = [replace(row, status="failed", reason="exceeded 300 s", processes=()) for row in (naive, inplace)]
    gone = replace(edition.runs[0], run="ngc", status="lost", reason="no such image")
    cases = (*failed, math, linear, replace(failed[0], run="ngc"))
    edition = replace(
        edition, runs=(*edition.runs, gone), case_runs=cases, findings=(finding(LINEAR_CASE, "high", 0.5),)
    )
    verdict = first_screen.verdict(edition)
    assert verdict.sentence == "1 run lost, 2 cases failed; 1 of 7 guesses broke."
    assert (verdict.bad, verdict.lost_cases) == (True, 1)
    lines = first_screen.concerns(edition)
    assert [(line.subject, line.bad) for line in lines] == [
        ("ngc", True), ("attention-naive-eager", True), ("sdpa-math-eager", True), (LINEAR_CASE, False)
    ]  # fmt: skip
    assert lines[0].text == "the run was lost with its 1 case: no such image."
    assert lines[1].text == "and 1 more case: failed on h200: exceeded 300 s."
    assert lines[1].remedy.startswith("Raise timeout_s")
    assert lines[2].text == "kernels guessed 20, seen 12 on h200."
    assert len(first_screen.concerns(edition, 2)) == 2


def test_a_case_has_one_line_its_worst(tmp_path):
    """A broken guess and two findings of one case, and a finding of another."""
    edition = made(tmp_path, cases=made_edition.CASES)
    own = [finding("sdpa-math-eager", severity, 0.5) for severity in ("high", "medium")]
    edition = replace(edition, findings=(*own, finding(LINEAR_CASE, "medium", 0.1, "spent")))
    lines = first_screen.concerns(edition)
    assert [(line.subject, line.bad) for line in lines] == [("sdpa-math-eager", True), (LINEAR_CASE, False)]
    assert lines[1].time == "spends 1.96 µs"
    assert first_screen.concerns_title(edition) == "What went wrong, and what is slow"


def test_a_guess_that_broke_on_several_runs_counts_them(tmp_path):
    names = ("first", "second", "third", "fourth")
    for number, where in ((2, "first and second"), (3, "first, second and third"), (4, "first and 3 more runs")):
        runs = [{**made_edition.RUNS[0], "run": name} for name in names[:number]]
        edition = read_edition(made_edition.build(tmp_path / f"edition{number}", runs=runs))
        (line,) = (line for line in first_screen.concerns(edition) if line.bad)
        assert line.text == f"kernels guessed 20, seen 12 on {where}."
        assert line.remedy == "Correct the guess in config.yaml, or look below at which kernels ran instead."


def test_broken_cases_beyond_the_list_are_counted_below_it(tmp_path):
    """Seven cases with another broken guess each: five lines, and two more. Those with the same one share a line."""
    linear = made_edition.CASES[3]
    edition = made(tmp_path, cases=tuple(replace(linear, case=f"case-{number}") for number in range(7)))
    broken = replace(edition.judged[0], verdict=BROKEN)
    rows = tuple(replace(broken, case=f"case-{number}", expected=str(number + 5)) for number in range(7))
    edition = replace(edition, judged=rows)
    assert first_screen.more_broken(edition) == 2
    assert "2 more in Guesses" in both(edition, tmp_path)[0]
    assert first_screen.more_broken(replace(edition, judged=rows[:5])) == 0
    alike = replace(edition, judged=tuple(replace(row, expected="5") for row in rows))
    (line,) = (line for line in first_screen.concerns(alike) if line.bad)
    assert (line.subject, len(line.others)) == ("case-0", 6)
    assert line.text.startswith("and 6 more cases: kernels guessed 5, seen")
    assert first_screen.more_broken(alike) == 0


def test_a_summary_too_long_keeps_what_broke_and_each_case_once():
    """Two cases on three runs, of which the last one's guess broke on the third: four rows, in their order."""

    def row(case: str, bad: bool = False) -> SimpleNamespace:
        return SimpleNamespace(case=SimpleNamespace(anchor=case), bad=bad)

    rows = [row("a"), row("a"), row("a"), row("b"), row("b"), row("b", bad=True)]
    assert markdown_page._foremost(rows, 3) == [rows[0], rows[3], rows[5]]
    assert markdown_page._foremost(rows, 4) == [rows[0], rows[1], rows[3], rows[5]]
    assert markdown_page._foremost(rows, 9) == rows


@pytest.mark.parametrize(
    ("held", "broken", "not_judged", "sentence"),
    [
        (72, 0, 24, "All 72 guesses held."),
        (72, 0, 25, "72 of 97 guesses were judged, all held."),
        (72, 0, 121, "72 of 193 guesses were judged, all held."),
        (10, 5, 16, "15 of 31 guesses were judged, 5 broke."),
        (1, 0, 2, "1 of 3 guesses was judged, and held."),
    ],
)
def test_where_many_guesses_were_not_judged_the_sentence_counts_those_that_were(held, broken, not_judged, sentence):
    verdict = first_screen.Verdict(held, held + broken, not_judged, ("broken",) * broken)
    assert verdict.sentence == sentence
    assert verdict.parts == ((sentence[:-1], broken > 0),)


def test_the_first_screen_explains_what_a_guess_is(tmp_path):
    line = '<a href="#guesses">Guesses</a> are written down in config.yaml before a case runs'
    assert line in both(made(tmp_path), tmp_path)[0]
    assert line not in both(replace(made(tmp_path), judged=()), tmp_path)[0]


@pytest.mark.browser
def test_what_failed_is_red_even_where_all_guesses_held(open_page, tmp_path):
    edition = made(tmp_path)
    edition = replace(edition, runs=(replace(edition.runs[0], status="lost", reason="no such image"),))
    (tmp_path / "index.html").write_text(page.render(edition, CREATED, {}), encoding="utf-8")
    opened = open_page(tmp_path)
    assert opened.locator("h1").inner_text() == "1 run lost; all 2 guesses held."
    red = opened.evaluate("getComputedStyle(document.querySelector('.concerns .bad')).color")
    colour = "part => getComputedStyle(part).color"
    assert opened.locator("h1 .broke").inner_text() == "1 run lost"
    assert opened.locator("h1 .broke").evaluate(colour) == red
    assert opened.locator("h1").evaluate(colour) != red  # of the guesses, which held
    assert "no such image" in opened.locator(".concerns").inner_text()
    assert opened.locator(".chip.bad").inner_text().split()[:2] == ["h200", "lost"]


def test_the_fastest_case_of_the_workload_stands_beside_the_headline(tmp_path):
    fast = replace(made_edition.CASES[3], case="sdpa-auto-eager", workload="attention")
    edition = made(tmp_path, cases=(*made_edition.CASES, fast))
    (head,) = first_screen.headlines(edition)
    # by hand: 2.72 µs, against 2,360.86 µs of math and 945.32 µs of in-place
    assert head.fastest.case == "sdpa-auto-eager"
    assert head.fastest_ratio == pytest.approx(2360.86 / 2.72)
    first, twin = both(edition, tmp_path)
    assert '<strong class="num">868×</strong> as long as sdpa-auto-eager' in first
    assert "**868×** as long as `sdpa-auto-eager`" in twin


def published_pair(edition: Edition) -> Edition:
    """The pair of the headline failed on the measured run; another run published it: 7.239 ms against 1.955 ms."""
    slow, fast = edition.headline
    times = {slow: 7239.0, fast: 1955.0}
    paper = replace(edition.runs[0], run="a100", kind="published", device="NVIDIA A100")
    bare = {"run": "a100", "processes": (), "forwards": (), "chosen": None}
    printed = [replace(row, **bare, device_time_us=times[row.case]) for row in edition.case_runs if row.case in times]
    failed = {"status": "failed", "reason": "exceeded 300 s", "processes": (), "forwards": (), "device_time_us": None}
    rows = [replace(row, **failed) if row.case in times else row for row in edition.case_runs]
    return replace(edition, runs=(*edition.runs, paper), case_runs=(*rows, *printed))


def test_the_title_is_about_the_bars_where_the_pair_was_only_published(tmp_path):
    """Bars of two cases of 945.32 µs and 2.72 µs on the h200; the pair is in the small line alone."""
    naive, inplace, math, linear = made_edition.CASES
    others = (replace(linear, case="sdpa-auto-eager", workload="attention"), naive)
    edition = made(tmp_path, cases=(*others, inplace, math))
    slow = next(row for row in edition.case_runs if row.case == naive.case).device_time_us
    first, _ = both(published_pair(edition), tmp_path)
    title = first.partition('<div class="hero-part">')[2].partition("</h2>")[0]
    assert f"{naive.case} takes" in title
    assert "as long as sdpa-auto-eager" in title
    assert f"{slow / 2.72:.0f}×" in title
    assert "Published" not in title
    assert "Published, on <strong>NVIDIA A100</strong>" in first.partition("</figure>")[2]


def test_without_a_headline_the_figure_is_of_its_case_or_of_the_first_concern(tmp_path):
    """Of the pair, in-place ran; naive takes 1,073.42 µs and in-place 945.32 µs. The workload of linear comes first."""
    naive, inplace, _, linear = made_edition.CASES
    linear = replace(linear, workload="a-linear")
    figure = both(made(tmp_path / "a", cases=(linear, naive, inplace)), tmp_path)[0].partition("</figure>")[0]
    assert f"{naive.case} takes" in figure
    assert "1.14×" in figure
    assert linear.case not in figure.partition("hero-part")[2]
    edition = made(tmp_path / "b", cases=(linear, replace(naive, guesses=())), headline=None)
    own = replace(finding(naive.case, "high", 0.5), run="h200")
    figure = both(replace(edition, findings=(own,)), tmp_path)[0].partition("hero-part")[2].partition("</figure>")[0]
    assert naive.case in figure
    assert linear.case not in figure


def test_the_figure_states_its_run_where_several_have_bars(tmp_path):
    runs = [{**made_edition.RUNS[0], "run": name} for name in ("first", "second")]
    edition = read_edition(made_edition.build(tmp_path / "edition", runs=runs))
    note = "Device time of one forward."
    first, _ = both(edition, tmp_path)
    assert f"On first ({edition.runs[0].device}). {note}" in first
    assert f"). {note}" not in both(made(tmp_path / "one", cases=made_edition.CASES), tmp_path)[0]


def test_idle_time_stands_beside_a_bar_where_it_is_most_of_the_forward(tmp_path):
    """2.72 µs of work in a forward of 30 µs and of 5 µs: 27.3 µs and 2.28 µs idle, more and less than half."""
    edition = made(tmp_path)
    (row, *_) = edition.case_runs
    for forward_us, words in ((30.0, "idle for 27.3\u00a0µs of 30.0\u00a0µs unprofiled"), (5.0, "")):
        changed = replace(row, device_busy_us=2.72, forward_time_us=forward_us)
        first, _ = both(replace(edition, case_runs=(changed,)), tmp_path)
        assert (words in first) if words else ("idle" not in first.partition("</figure>")[0])


def test_a_bar_is_as_long_as_its_label_says(tmp_path):
    """Device times of 2.72 µs as the kernel, of 5.44 µs (half of the bar is dashed) and of 1.36 µs (it is said)."""
    edition = made(tmp_path)
    (row, *_) = edition.case_runs
    for device_us, rest, words in ((2.72, 0.0, ""), (5.44, 2.72, ""), (1.36, 0.0, "kernels add up to 2.72 µs")):
        changed = replace(edition, case_runs=(replace(row, device_time_us=device_us),))
        (strip,) = strips.strips(changed, row.workload)
        assert strip.rest_us == pytest.approx(rest)
        assert strip.total_us == pytest.approx(max(device_us, 2.72))
        assert strip.segments[0].width == pytest.approx(2.72 / strip.total_us)
        first = both(changed, tmp_path)[0].partition("</figure>")[0]
        assert ('class="rest" x="50%" width="50%"' in first) == ("Dashed: the rest" in first) == bool(rest)
        assert strip.surplus == words
        assert words in first


def test_a_run_on_a_cpu_has_its_figures_beside_those_of_the_gpu(tmp_path):
    """The headline's pair on the CPU by forward time, at another size: 400 µs against 100 µs."""
    gpu = {**made_edition.RUNS[0], "run": "gpu"}
    edition = read_edition(
        made_edition.build(tmp_path / "edition", runs=[gpu, {**gpu, "run": "cpu", "device": "Xeon"}])
    )
    slow, fast = edition.headline
    times = {slow: 400.0, fast: 100.0}
    rows = [
        replace(row, device_type="cpu", device_time_us=None, kernels=None, forwards=(), chosen=None,
                params={"batch": "1"}, forward_time_us=times.get(row.case, 7.0))
        if row.run == "cpu" else row for row in edition.case_runs
    ]  # fmt: skip
    edition = replace(edition, case_runs=tuple(rows))
    (cpu,) = openings.cpu_runs(edition)
    assert (cpu.run.run, cpu.pair) == ("cpu", (400.0, 100.0))
    first, twin = both(edition, tmp_path)
    text = " ".join(re.sub(r"<[^>]+>", "", first).split())
    names = [edition.label_of(case) for case in (fast, slow)]
    assert f"On cpu, a CPU: {names[0]} 100 µs, {names[1]} 400 µs of forward time, 4.00×" in text
    assert "4 cases with other sizes than on the GPU" in text
    assert "**Xeon** (cpu, a CPU)" in twin
    assert openings.cpu_runs(replace(edition, case_runs=tuple(row for row in rows if row.run == "cpu"))) == ()


def test_the_headline_of_many_runs_is_that_of_the_first_and_the_range_of_the_others(tmp_path):
    """Four runs, the second to fourth of them 2, 3 and 4 times as slow in both cases: the same ratio on each."""
    runs = [{**made_edition.RUNS[0], "run": f"run-{number}"} for number in range(4)]
    edition = read_edition(made_edition.build(tmp_path / "edition", runs=runs, factors=(1.0, 2.0, 3.0, 4.0)))
    for text in both(edition, tmp_path):
        plain = " ".join(re.sub(r"<[^>]+>|\*", "", text).split())
        names = [edition.label_of(case) for case in edition.headline]
        assert f"On 3 other runs {names[0]} takes 2.50× as long as {names[1]}" in plain
    assert "(run-0)" in both(edition, tmp_path)[1]
    assert "(run-1)" not in both(edition, tmp_path)[1].partition("##")[0]


def test_the_reason_of_a_lost_run_stands_once(tmp_path):
    """Four cases of a lost run, beside the same on another; two of those failed for one reason."""
    edition = read_edition(made_edition.build(tmp_path / "edition", runs=made_edition.RUNS[:1]))
    gone = replace(edition.runs[0], run="ngc", status="lost", reason="no such image: correct runs.ngc.container")
    none = {"processes": (), "forwards": (), "chosen": None, "device_time_us": None}
    lost = [replace(row, run="ngc", status="failed", reason="run ngc was lost: no such image", **none)
            for row in edition.case_runs]  # fmt: skip
    failed = [replace(row, status="failed", reason="exceeded 300 s", processes=()) for row in edition.case_runs[:2]]
    judged = tuple(replace(edition.judged[0], run="ngc", verdict="not applicable", observed="the case failed")
                   for _ in range(3))  # fmt: skip
    edition = replace(
        edition, runs=(*edition.runs, gone), case_runs=(*failed, *edition.case_runs[2:], *lost), judged=judged
    )
    line = first_screen.concerns(edition)[0]
    assert (line.text, line.remedy) == (
        "the run was lost with its 4 cases: no such image.", "Correct runs.ngc.container."
    )  # fmt: skip
    assert first_screen.verdict(edition).why_not == "the run was lost (3)"
    written = markdown_page.render(edition, CREATED, tmp_path)
    assert html.unescape(written["report.md"]).count("no such image") == 2  # first list, and what did not run
    assert html.unescape(written["summary.md"]).count("no such image") == 1
    assert html.unescape(written["summary.md"]).count("ngc") == 2  # no row of a case: the subject and the remedy
    assert "no such image" not in written["details.md"]
    (row,) = [line for line in written["report.md"].splitlines() if line.startswith("| h200 |") and "exceeded" in line]
    assert row.count("attention") == 2


def test_reasons_of_guesses_that_were_not_judged_are_plain():
    reasons = (("processes differ", 2), ("nothing ran on a GPU", 1))
    verdict = first_screen.Verdict(1, 1, 3, (), reasons)
    assert verdict.why_not == "the processes of their case disagree (2), nothing ran on a GPU (1)"


def test_a_bar_of_one_rank_states_which(tmp_path):
    edition = made(tmp_path)
    (row, *_) = edition.case_runs
    ranked = replace(row, processes=tuple(replace(each, rank=1) for each in row.processes))
    assert "rank\u00a01" in both(replace(edition, case_runs=(ranked,)), tmp_path)[0].partition("</figure>")[0]


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
    twin = markdown_page.render(told, CREATED, tmp_path)["report.md"].partition("## Runs")[2]
    assert f"| {', '.join(names[:4])} and 4 more |" in twin


@pytest.mark.browser
def test_runs_left_out_for_one_reason_share_a_line(open_page, tmp_path):
    other = {"run": "torch-nightly", "reason": "is not enabled"}
    edition = made(tmp_path, left_out=[*LEFT, other])
    (tmp_path / "index.html").write_text(page.render(edition, CREATED, {}), encoding="utf-8")
    chips = open_page(tmp_path).locator(".chip.left")
    assert chips.count() == 2
    several = chips.filter(has_text="3 runs")
    summary = " ".join(several.locator("summary").inner_text().split())
    assert summary == "3 runs left out: needs its container: add --use-singularity"
    assert not several.get_by_text("ngc-26.01, ngc-26.02, ngc-26.03").is_visible()
    several.locator("summary").click()
    assert several.get_by_text("ngc-26.01, ngc-26.02, ngc-26.03").is_visible()
    alone = chips.filter(has_text="torch-nightly").locator("summary").inner_text()
    assert " ".join(alone.split()) == "torch-nightly left out: is not enabled"


def test_failed_cases_are_named_below_the_chart_that_lacks_them(tmp_path):
    """Of two cases that would be the fastest of the headline's workload one failed: its ratio needs that word."""
    edition = made(tmp_path, cases=made_edition.CASES)
    assert "which failed" not in both(edition, tmp_path)[0]
    naive = next(row for row in edition.case_runs if row.workload == "attention")
    lacks = {"processes": (), "forwards": (), "device_time_us": None}
    failed = replace(naive, case="attention-fused", status="failed", reason="no", **lacks)
    page = both(replace(edition, case_runs=(*edition.case_runs, failed)), tmp_path)[0]
    assert "Without attention-fused, which failed." in html.unescape(page)
