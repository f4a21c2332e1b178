"""Ctrl-C in the middle of a measurement: nothing goes on, and the next execution measures the case again."""

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.helpers.patience import LONG

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_a_measurement_stopped_by_ctrl_c_is_made_again(root, tmp_path):
    hanging = {"workload": f"{root}/tests/workflow/broken_workloads.py:hanging", "retries": 0}
    config = {"runs": {"host": {"host": True}}, "cases": {"hang": hanging}, "report": {"headline": ["hang", "hang"]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile"), "--cores", "1"]
    running = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL)
    log = tmp_path / "logs/latest/host/hang/1.profile.log"
    deadline = time.monotonic() + LONG
    while not (log.exists() and "making of the inputs" in log.read_text()):
        assert time.monotonic() < deadline, "the measurement never began"
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    assert running.wait(LONG) != 0
    assert "stopped from outside by SIGINT" in log.read_text()
    assert not (tmp_path / "results/latest/host/hang/1/measurement.json").exists()
    again = subprocess.run([*command, "--dry-run"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Measuring hang on host, process 1" in again.stdout + again.stderr
