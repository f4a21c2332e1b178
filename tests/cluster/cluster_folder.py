"""Working folders in which Snakemake runs, with options of the test's own, as on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.helpers.snakemake import COMMAND, WorkingFolder, run

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
class Folder(WorkingFolder):
    forks: bool = False

    def configure_runs(self, runs: Mapping[str, Any], cases: Mapping[str, Any] = CASES, **more: Any) -> None:
        headline = {"headline": [*cases][:2] if len(cases) > 1 else [*cases, *cases]}
        self.configure({"measure": QUICK, "device": "cpu", "runs": runs, "cases": cases, "report": headline} | more)

    def snakemake(self, *arguments: str, status: int = 0, **environment: str) -> str:
        """Run it with these arguments alone: no number of cores, no Snakefile where the folder has its own."""
        snakefile = [] if self.path == self.root else ["--snakefile", str(self.root / "Snakefile")]
        environment = {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"} | environment
        return run([*COMMAND, *snakefile, *arguments], self.path, status, **environment)
