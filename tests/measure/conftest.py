"""Runs profile_case.py as processes of their own, the way the workflow does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import profile_case
from tests.helpers import ROOT
from tests.helpers.forks import Served
from tests.helpers.patience import LONG

PROFILE_CASE = str(ROOT / "scripts/profile_case.py")
FAULTS = "tests/measure/fixtures/faults.py"


@dataclass(frozen=True)
class Outcome:
    """What one call of profile_case.py left; `measurement` is None if there is no file."""

    status: int
    stderr: str
    output: Path
    measurement: dict[str, Any] | None


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is not strict JSON")


@dataclass(frozen=True)
class Measuring:
    """profile_case.py, started in a folder of the test's own."""

    folder: Path

    @property
    def output(self) -> Path:
        return self.folder / "out"

    def start(
        self,
        workload: str,
        device: str = "cpu",
        env: dict[str, str] | None = None,
        extra: Sequence[str] = (),
        **keys: Any,
    ) -> subprocess.Popen | Served:
        """Start it. workload: a built-in one, or `:name` for a function of fixtures/faults.py; keys: of the case.

        env: further environment variables, for a new process; without them it is a fork of one that has imported torch.
        """
        words = [PROFILE_CASE, *self._arguments(workload, device, **keys), *extra]
        environment = {**os.environ, "TMPDIR": str(self.folder), **(env or {})}
        if env is None:
            return Served(words, environment, ROOT)
        return subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)

    def _arguments(self, workload: str, device: str, **keys: Any) -> list[str]:
        name = FAULTS + workload if workload.startswith(":") else workload
        case = {"case": "a-case", "workload": name, "annotation": "a_forward", "samples": 20, "timeout_s": LONG, **keys}
        case_file = self.folder / "case.json"
        case_file.write_text(json.dumps(case))
        places = ["--output", str(self.output), "--lock-dir", str(self.folder)]
        return ["--case-file", str(case_file), "--device", device, *places]

    def here(self, workload: str, **keys: Any) -> Outcome:
        """The same with the supervisor in this process; the child is one of its own all the same."""
        return self._outcome(profile_case.main(self._arguments(workload, "cpu", **keys)), "")

    def finish(self, process: subprocess.Popen | Served) -> Outcome:
        """Wait for it and read what it left."""
        _, stderr = process.communicate(timeout=2 * LONG)
        return self._outcome(process.returncode, stderr)

    def _outcome(self, status: int, stderr: str) -> Outcome:
        file = self.output / "measurement.json"
        found = json.loads(file.read_text(), parse_constant=_no_constant) if file.exists() else None
        return Outcome(status, stderr, self.output, found)

    def __call__(self, workload: str, **keys: Any) -> Outcome:
        return self.finish(self.start(workload, **keys))


@pytest.fixture
def measure(tmp_path: Path) -> Measuring:
    """profile_case.py in this test's folder."""
    return Measuring(tmp_path)


@pytest.fixture(scope="module")
def measure_once(tmp_path_factory: pytest.TempPathFactory) -> Measuring:
    """The same in a folder that a module's tests share."""
    return Measuring(tmp_path_factory.mktemp("measured"))
