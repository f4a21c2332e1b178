"""Working folders in which Snakemake is run as a user runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from tests.helpers.patience import LONG

QUICK = {"samples": 5, "warmup": 1, "schedule": {"active": 3}, "timeout_s": 600}
CASES = {
    "linear-eager": {"workload": "linear", "variant": "plain"},
    "matmul-add-64-eager": {
        "workload": "matmul_add",
        "annotation": "matmul_add",
        "variant": "plain",
        "params": {"size": 64},
    },
}


@dataclass(frozen=True)
class Folder:
    """A working folder with a config.yaml; `root` is the checkout that Snakemake takes its Snakefile from."""

    root: Path
    path: Path

    def configure(self, runs: Mapping[str, Any], cases: Mapping[str, Any] = CASES, **more: Any) -> None:
        headline = {"headline": [*cases][:2] if len(cases) > 1 else [*cases, *cases]}
        config = {"measure": QUICK, "device": "cpu", "runs": runs, "cases": cases, "report": headline} | more
        (self.path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def snakemake(self, *arguments: str, status: int = 0, environment: Mapping[str, str] | None = None) -> str:
        """Run it, expect this exit status, and return all that it said."""
        here = self.path == self.root
        snakefile: Sequence[str] = [] if here else ["--snakefile", str(self.root / "Snakefile")]
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", *snakefile, *arguments],
            cwd=self.path,
            env=os.environ | {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"} | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * LONG,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        table = pq.read_table(self.path / "results/latest/edition/cases.parquet")
        return {(row["run"], row["case"]): row for row in table.to_pylist()}

    def run_json(self, run: str) -> dict[str, Any]:
        return json.loads((self.path / f"results/latest/{run}/run.json").read_text(encoding="utf-8"))

    def measurement(self, run: str, case: str) -> dict[str, Any]:
        return json.loads((self.path / f"results/latest/{run}/{case}/1/measurement.json").read_text(encoding="utf-8"))
