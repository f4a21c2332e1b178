"""The result of one measurement of a comparison if the case has ranks."""

import pytest

from kernelbook.compare.measuring import measured_in
from kernelbook.compare.subjects import Subject, Wish, cases_of, read_settings
from kernelbook.sources.workload_source import Places
from tests.helpers import ROOT
from tests.workflow.test_rank_tables import write


def test_the_time_of_a_job_is_that_of_its_slowest_rank():
    """Medians of the recorded ranks, taken from their files by hand: 9751.6 and 9789.3 µs."""
    folder = ROOT / "resources" / "recorded" / "h200-x2-torch2.11" / "ddp-step" / "1"
    assert measured_in(folder, 1.0).median_us == pytest.approx(9789.3, abs=0.1)


def test_a_job_that_failed_has_its_reason_and_no_time(tmp_path):
    write(tmp_path / "step" / "1", status="failed", reason="rank 1: out of memory")
    got = measured_in(tmp_path / "step" / "1", 1.0)
    assert (got.status, got.median_us, got.reason) == ("failed", None, "rank 1: out of memory")


def test_a_case_with_ranks_is_measured_with_ranks_on_both_sides(tmp_path):
    subjects = [Subject(side, "host", "host") for side in "AB"]
    settings = read_settings(ROOT / "config.yaml")
    _, *sides = cases_of(*subjects, settings, Wish(only_cases=("ddp-step",)), Places(ROOT, ROOT))
    assert [side["ddp-step"]["ranks"] for side in sides] == [2, 2]
