"""Render the committed example report from the recorded and published runs only, with the same bytes every time.

Example: python scripts/render_example.py --output reports/example
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kernelbook.command import run
from kernelbook.config.loading import Config, load_config
from kernelbook.containers.probe import probe
from kernelbook.edition.collect import collect
from kernelbook.extraction.arrow_files import write_tables
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.plan.plan_texts import plan_json
from kernelbook.plan.planning import Plan, make_plan
from kernelbook.report.rendering import render_report

ROOT = Path(__file__).resolve().parent.parent
EDITION = "example"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("reports/example"), help="folder of the report")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        edition = collect_example(Path(scratch))
        render_report(edition, args.output, last_measured(edition))
    print(args.output / "index.html")
    return 0


def configuration() -> dict[str, Any]:
    """config.yaml, parsed."""
    return yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def collect_example(scratch: Path) -> Path:
    """The edition of the recorded and published runs of config.yaml; returns its folder."""
    config = load_config(configuration(), ROOT / "workflow" / "schemas")
    runs = tuple(run for run in config.runs if run.kind in ("recorded", "published"))
    return collect_runs(replace(config, edition=EDITION, runs=runs), scratch)


def collect_runs(config: Config, scratch: Path, containers_on: bool = False) -> Path:
    """Do what the workflow does for runs that need no measuring, in one process; returns the edition's folder."""
    plan = make_plan(config, ROOT, ROOT, containers_on=containers_on)
    results = scratch / "results"
    for spec in plan.runs_with_cases():
        status = probe(json.loads(plan.run_json(spec.name)), ROOT)
        (results / spec.name).mkdir(parents=True)
        (results / spec.name / "run.json").write_text(json.dumps(status), encoding="utf-8")
        extract(plan, spec.name, status, results)
    edition = scratch / "edition"
    collect(json.loads(plan_json(plan)), results).write(edition)
    return edition


def extract(plan: Plan, run_name: str, status: dict, results: Path) -> None:
    """The tables of every process of one run."""
    for name, case, process in plan.rows():
        if name == run_name:
            spec = json.loads(plan.case_json(name, case, process))
            measured = plan.measurement_of(name, case, process) if status["status"] == "ok" else None
            tables = tables_of(Origin(name, case, process, status), spec, measured)
            write_tables(tables, results / name / case / str(process))


def last_measured(edition: Path) -> str:
    """The date of the latest recorded run, so that every rendering has the same date."""
    runs = json.loads((edition / "edition.json").read_text(encoding="utf-8"))["runs"]
    return max(run["recorded_utc"] for run in runs if run["recorded_utc"])


if __name__ == "__main__":
    sys.exit(run(main))
