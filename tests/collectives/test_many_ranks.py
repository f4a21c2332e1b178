"""A job of 64 ranks, of which one is late: ranks that are alike share a row, in the terminal and on the page."""

from __future__ import annotations

import json

import pytest

from kernelbook.cli import main
from kernelbook.cli.report import render_folders
from kernelbook.collectives.likeness import fold
from kernelbook.text.formatting import number_ranges
from tests.collectives.made_job import late_pair, write_rank

RANKS = 64
LEAD = "ank 1 comes last to 3 of 3 all-reduces, by 200 µs in the median, because its CPU queues work too late"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The events of `late_pair`: rank 1 is the late one, and all others do what its rank 0 does."""
    folder = tmp_path_factory.mktemp("job of 64")
    early, late = late_pair()
    for events in (early, late):
        for event in events:
            if "Group size" in event.get("args", {}):
                event["args"] |= {"Group size": RANKS, "Process Group Ranks": str(list(range(RANKS)))}
    for rank in range(RANKS):
        write_rank(folder, rank, late if rank == 1 else early, RANKS)
    return folder


def test_the_terminal_has_one_row_for_ranks_that_are_alike(job, capsys):
    assert main(["summarize", str(job)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"r{LEAD}")
    title = next(number for number, line in enumerate(lines) if line.startswith("Ranks ("))
    table = [line.split("  ")[0] for line in lines[title + 2 :]]
    assert table[:2] == ["0, 2 to 63", "1"]


def test_the_report_leads_with_the_straggler_and_folds_ranks_that_are_alike(job, tmp_path):
    """By hand: 63 ranks of 1,200 µs, and rank 1 with 600; of these 76.2 ms, 57.0 are the all-reduces: 75 %."""
    render_folders([job], tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert len(page) < 8e6
    sentence = json.loads((tmp_path / "report" / "summary.json").read_text(encoding="utf-8"))["verdict"]["sentence"]
    assert sentence.startswith(f"R{LEAD}; rank 0 spends 50 % of its device time waiting.")
    assert sentence.endswith("64 traces: 76.2 ms of device time (75 % communication and waiting for ranks, 25 % GEMM).")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `job`")
    ]
    assert [(row[1], row[4], row[5]) for row in rows[:2]] == [
        ("0, 2 to 63", "1.20 ms", "99 %"),
        ("1", "600 µs", "0.8 %"),
    ]
    assert text.count("comes last to 3 of 3") == 1  # in the headline, and not once more below it
    details = (tmp_path / "report" / "details.md").read_text(encoding="utf-8")
    assert "The whole file, rank 0 (alike: 2 to 63)" in details
    assert "The whole file, rank 1:" in details
    assert len([line for line in page.splitlines() if "The whole file" in line]) == 2


def test_ranks_that_differ_by_more_than_a_twentieth_of_a_forward_have_rows_of_their_own():
    times = {"a": 10.0, "b": 15.0, "c": 15.1, "other kernels": 10.0}
    members = [(name, len(name), 100.0, (time,)) for name, time in times.items()]
    assert fold(members, alone=3) == [["a", "b"], ["c"], ["other kernels"]]
    assert fold(members) == [[name] for name in times]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3, 1], "1, 3"),
        ([0, 1, 2], "0 to 2"),
        ([0, 2, 3, 4, 7, 8], "0, 2 to 4, 7, 8"),
        (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14 ... (20 in all)"),
    ],
)
def test_ranks_in_words(numbers, text):
    assert number_ranges(numbers) == text
