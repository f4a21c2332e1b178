"""Snakemake as a user runs it: in a working folder of its own, with a config.yaml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from tests.helpers import ROOT
from tests.helpers.forks import Served, forking
from tests.helpers.patience import LONG

BROKEN = ROOT / "tests/workflow/broken_workloads.py"
COMMAND = (sys.executable, "-m", "snakemake")


def run(command: list[object] | tuple[object, ...], folder: Path, status: int = 0, **environment: str) -> str:
    """Run a command in a folder, assert its exit status, and return what it printed (stdout and stderr)."""
    done = subprocess.run(
        [os.fspath(word) if isinstance(word, Path) else str(word) for word in command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=2 * LONG,
        check=False,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


@dataclass(frozen=True)
class WorkingFolder:
    """A folder in which Snakemake runs; `root` is the checkout (or an installed copy) with the Snakefile.

    forks: whether its jobs are forks of a process that has imported torch, pyarrow and the like, by `snakemake()`.
    Without that they are as users have them; both in one folder would make everything stale.
    """

    path: Path
    root: Path = ROOT
    forks: bool = True

    def configure(self, config: Mapping[str, Any]) -> None:
        (self.path / "config.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")

    @property
    def command(self) -> list[str]:
        """Snakemake on one core, with the Snakefile of `root`."""
        return [*COMMAND, "--snakefile", str(self.root / "Snakefile"), "--cores", "1"]

    def snakemake(self, *arguments: str, status: int = 0, **environment: str) -> str:
        """Run it to its end, assert its exit status, and return what it printed (stdout and stderr)."""
        words, variables = self.command[len(COMMAND) :], {**os.environ, "PYTHONPATH": "", **environment}
        variables |= forking() if self.forks else {}
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = Served(["-m", "snakemake", *words, *arguments], variables, self.path, output)
            process.wait(2 * LONG)
            output.seek(0)
            printed = output.read()
        assert process.returncode == status, printed
        return printed

    def start_hanging(self) -> Served:
        """Start Snakemake, as leader of a process group, and wait until the case `hang` of the host is measured."""
        self.hang_log.unlink(missing_ok=True)
        running = Served(self.command[1:], os.environ | forking(), self.path)
        deadline = time.monotonic() + LONG
        while not (self.hang_log.exists() and "making of the inputs" in self.hang_log.read_text()):
            assert time.monotonic() < deadline, "the measurement never began"
            assert running.poll() is None, running.communicate()[1]
            time.sleep(0.1)
        return running

    @property
    def hang_log(self) -> Path:
        return self.path / "logs/latest/host/hang/1.profile.log"

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The rows of cases.parquet of the edition `latest`, by (run, case)."""
        table = pq.read_table(self.path / "results/latest/edition/cases.parquet")
        return {(row["run"], row["case"]): row for row in table.to_pylist()}

    def cases(self) -> dict[str, dict[str, Any]]:
        """The same of an edition with one run, by case."""
        rows = self.rows()
        assert len({run for run, _ in rows}) == 1
        return {case: row for (_, case), row in rows.items()}

    def report(self, name: str = "index.html") -> str:
        return (self.path / "reports/latest" / name).read_text(encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        return json.loads(self.report("summary.json"))

    def run_json(self, run: str) -> dict[str, Any]:
        return json.loads((self.path / f"results/latest/{run}/run.json").read_text(encoding="utf-8"))

    def measurement(self, run: str, case: str) -> dict[str, Any]:
        return json.loads((self.path / f"results/latest/{run}/{case}/1/measurement.json").read_text(encoding="utf-8"))
