"""A night on Slurm whose jobs exceed their time; apart from the other nights, since it waits for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.test_slurm import jobs_of
from tests.cluster.test_slurm_nights import configured, judged, night_of, statuses

pytestmark = [pytest.mark.slurm, pytest.mark.torch, pytest.mark.slow]


def test_jobs_over_their_time_are_a_failure_of_their_night(slurm: str, tmp_path: Path) -> None:
    folder = configured(tmp_path, {"hang": {"workload": "hang.py:hang"}})
    night_of(folder, "--set-resources", "profile_case:runtime=1", status=4, meanwhile=lambda over: None)
    assert statuses(folder) == {"hang": "failed"}
    verdict = judged(folder)
    (failed,) = verdict["failed"]
    assert (verdict["exit_status"], failed["run"], failed["case"]) == (4, "host", None)  # no case of the run is left
    states = [job["JobState"] for job in jobs_of(folder)]
    assert sorted(states) == ["COMPLETED", "TIMEOUT", "TIMEOUT"]  # the third one only writes down that both were lost
