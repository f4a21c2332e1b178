"""The lanes of all ranks of a job on one time axis, with their collectives joined."""

import re

import pytest

from kernelbook.cli.report import render_folders
from tests.collectives.made_job import collective, compute, folder_of_pair, late_pair, message, write_rank
from tests.trace.made_trace import annotation


@pytest.fixture
def figure_of(tmp_path):
    """folder of traces -> the figure of ranks on its page, or None."""

    def make(folder):
        render_folders([folder], tmp_path / "report")
        page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
        figures = re.findall(r'<figure class="chart ranks".*?</figure>', page, flags=re.DOTALL)
        assert len(figures) <= 1
        return figures[0] if figures else None

    return make


def shapes(figure, css):
    return re.findall(rf'<path class="{css}" d="([^"]*)"', figure)


def test_ranks_are_on_one_axis_and_their_collective_is_joined(figure_of, tmp_path):
    """A forward spans 20 to 600: rank 0 computes until 120, enters at 300 and waits until 500, when rank 1 enters.

    In units of the drawing, of which 1000 are the 580 µs: 120 is at 172.4, 300 at 482.8 and 500 at 827.6. Each of two
    rows is 50 high, with its lanes from 34 to 62 % and from 66 to 94 % of that.
    """
    figure = figure_of(folder_of_pair(tmp_path / "traces"))
    assert [text.strip() for text in re.findall(r'class="y-tick"[^>]*>([^<]*)', figure)] == ["rank 0", "rank 1"]
    waits, *moves = "M482.8 33H827.6V47H482.8z", "M827.6 33H1000V47H827.6z", "M827.6 83H1000V97H827.6z"
    assert shapes(figure, "boxes waits") == [waits]
    work = "M0 17H172.4V31H0z", "M0 67H172.4V81H0z"
    assert shapes(figure, "boxes") == [work[0], moves[0], work[1], moves[1]]
    assert shapes(figure, "join") == ["M482.8 40.00L827.6 90.00"]
    assert shapes(figure, "dots last") == ["M827.6 90z"]
    assert "rank 1 came last, others waited up to 200 µs" in figure
    assert "Rank 1 came last to 1 of 1." in figure


def test_the_figure_is_in_report_md_as_a_file(tmp_path):
    render_folders([folder_of_pair(tmp_path / "traces")], tmp_path / "report")
    assert (tmp_path / "report" / "figures" / "ranks-job-traces.svg").read_text(encoding="utf-8").count("came last")


def test_a_trace_of_no_job_and_ranks_that_cannot_be_compared_have_none(figure_of, tmp_path):
    rank0, _ = late_pair()
    alone, apart = tmp_path / "alone", tmp_path / "apart"
    for folder in (alone, apart):
        folder.mkdir()
        write_rank(folder, 0, rank0, 2)
    silent = [annotation("train_step", 1000, 700), *compute(1010, 1020, 100, 1)]
    write_rank(apart, 1, silent, 2)
    assert figure_of(alone) is None
    assert figure_of(apart) is None


def test_hostile_names_of_groups_stay_text(figure_of, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    hostile = "</title><script>alert(1)</script>\u202e"
    for rank, events in enumerate(late_pair()):
        for event in events:
            if "Process Group Name" in event["args"]:
                event["args"]["Process Group Name"] = hostile
        write_rank(folder, rank, events, 2)
    figure = figure_of(folder)
    assert "<script" not in figure
    assert "&lt;script&gt;" in figure
    assert "\u202e" not in figure


def test_above_eight_ranks_those_that_are_alike_share_a_row_and_at_most_eight_rows_are_drawn(figure_of, tmp_path):
    """Ten ranks compute for 100, 200 ... 1,000 of 1,100 µs, except the last two, which are alike: nine kinds."""
    folder = tmp_path / "traces"
    folder.mkdir()
    args = message("allreduce", 2**19, range(10))
    for rank in range(10):
        length = 100 * min(rank + 1, 9)
        events = [annotation("step", 0, 1200), *compute(10, 20, length, 1)]
        write_rank(folder, rank, [*events, *collective(15, 20 + length, 1080 - length, 2, args)], 10)
    names = re.findall(r'class="y-tick"[^>]*>([^<]*)', figure_of(folder))
    assert len(names) == 8
    assert names[-1] == "ranks 8, 9"


def test_the_dot_of_a_rank_that_shares_a_row_is_where_it_entered(figure_of, tmp_path):
    """Nine alike ranks enter between 500 and 516 of 20 to 820; the last of them shares the row of rank 0."""
    folder = tmp_path / "traces"
    folder.mkdir()
    args = message("allreduce", 2**19, range(9))
    for rank in range(9):
        start = 500 + 2 * rank
        write_rank(folder, rank, [annotation("step", 0, 900), *compute(10, 20, 400, 1),
                                  *collective(15, start, 820 - start, 2, args)], 9)  # fmt: skip
    figure = figure_of(folder)
    assert re.findall(r'class="y-tick"[^>]*>([^<]*)', figure) == ["ranks 0 to 8"]
    assert shapes(figure, "dots last") == ["M620 80z"]  # 516 of 20 to 820, in units of 1000
    assert "ranks that are alike share a row" in figure
    assert shapes(figure, "join") == []
