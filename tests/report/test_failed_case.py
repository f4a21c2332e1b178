"""A case that failed: what it wrote last in its panel and in the twin, and the verdict that a terminal ends with."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbook.cases import CASE_COLUMNS
from kernelbook.edition.model import read_edition
from kernelbook.report.rendering import render_report
from kernelbook.text import formatting
from tests.report import made_edition

CREATED = "2026-11-29T15:00:00Z"
LINES = [
    "Traceback (most recent call last):",
    '  File "<cwd>/toy.py", line 7, in broken  ' + "x" * 300,
    "```",
    "RuntimeError: <script>window.hurt = 1</script>\u202e",
]
CASES = ("attention-inplace-eager", "sdpa-math-eager", "linear-eager")


@pytest.fixture(scope="module")
def edition(tmp_path_factory) -> Path:
    """Inplace failed; of math one of two processes did; linear is unsupported, and naive is well."""
    folder = made_edition.build(tmp_path_factory.mktemp("failed") / "edition", runs=made_edition.RUNS[:1])
    rows = [row | {"log_tail": []} for row in pq.read_table(folder / "cases.parquet").to_pylist()]
    by_case = {row["case"]: row for row in rows}
    by_case[CASES[0]] |= {"status": "failed", "reason": "it raised RuntimeError", "log_tail": LINES}
    by_case[CASES[2]] |= {"status": "unsupported", "reason": "needs CUDA", "log_tail": ["not told"]}
    rows.append(by_case[CASES[1]] | {"process": 2, "status": "failed", "reason": "killed", "log_tail": ["Killed"]})
    rows.append(rows[-1] | {"process": 3, "log_tail": None})
    pq.write_table(pa.Table.from_pylist(rows, schema=CASE_COLUMNS), folder / "cases.parquet")
    return folder


@pytest.fixture(scope="module")
def failed(edition) -> Path:
    render_report(edition, edition.parent / "report", CREATED)
    return edition.parent / "report"


def test_what_failed_processes_wrote_last_is_read_by_process(edition):
    rows = {row.case: row for row in read_edition(edition).case_runs}
    logs = {case: {p.process: p.log_tail for p in row.processes if p.log_tail} for case, row in rows.items()}
    assert logs[CASES[0]] == {1: tuple(LINES)}
    assert logs[CASES[1]] == {2: ("Killed",)}
    assert logs[CASES[2]] == logs["attention-naive-eager"] == {}


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_panel_of_a_failed_case_has_what_it_wrote_last_folded(open_page, failed, width):
    page = open_page(failed, f"#case-{CASES[0]}", width=width)
    log = page.locator(f"#case-{CASES[0]} details.log")
    assert log.count() == 1
    assert not log.locator("pre").is_visible()
    log.locator("summary").click()
    assert log.locator("summary").inner_text() == "Last output on h200"
    shown = log.locator("pre").inner_text().splitlines()
    assert shown == [*LINES[:-1], "RuntimeError: <script>window.hurt = 1</script>[U+202E]"]
    assert page.evaluate("window.hurt") is None
    assert log.locator("pre").evaluate("pre => pre.scrollWidth <= pre.clientWidth")  # long lines are broken
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


@pytest.mark.browser
def test_of_several_processes_it_is_said_which_one_wrote_it(open_page, failed):
    page = open_page(failed, f"#case-{CASES[1]}")
    assert page.locator(f"#case-{CASES[1]} details.log summary").inner_text() == "Last output on h200, process 2"
    assert page.locator("details.log").count() == 2


def test_the_twin_has_it_in_a_block_that_it_cannot_close(failed):
    twin = (failed / "details.md").read_text(encoding="utf-8")
    start = twin.index("<summary>Last output on h200</summary>")
    block = twin[start:].split("\n\n")[1].splitlines()
    assert (block[0], block[-1]) == ("<pre>", "</pre>")
    assert [html.unescape(line) for line in block[1:-1]] == [formatting.visible(line) for line in LINES]
    assert not [line for line in block[1:-1] if "<" in line or "`" in line]


def ends(edition: Path, report: Path, root: Path) -> list[str]:
    command = [sys.executable, root / "scripts/edition_status.py", "--edition-dir", edition, "--report", report]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_terminal_ends_with_the_verdict_and_the_report(edition, failed, root):
    # made_edition guesses 7 times, once wrongly; what failed is told beside it
    sentence = "1 case failed, 1 case failed in part; 1 of 7 guesses broke."
    assert json.loads((failed / "summary.json").read_text())["verdict"]["sentence"] == sentence
    page = failed / "index.html"
    assert ends(edition, page, root)[-2:] == [sentence, f"report: {page}"]


def test_a_report_without_a_summary_is_named_all_the_same(edition, tmp_path, root):
    page = tmp_path / "index.html"
    assert ends(edition, page, root)[-1] == f"report: {page}"
    (tmp_path / "summary.json").write_text(json.dumps({"verdict": {"held": 1}}))  # of an earlier version
    assert ends(edition, page, root)[-2:] == ["left out: torch-2.13: needs --use-singularity", f"report: {page}"]
