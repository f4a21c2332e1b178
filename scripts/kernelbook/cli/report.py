"""Make a report of folders of traces: one page, report.md, summary.json and tables, without Snakemake.

Each FOLDER is a run of the report, and each trace, or job of several ranks, a case. JSON files of another kind are
skipped. A folder may also hold measurements of the workflow (CASE/PROCESS/measurement.json). Figures per forward need
a record_function range; --annotation names the range that is a forward.

--json prints one object about the report; its schema is cli/report.schema.json in the package.

Examples:
  %(prog)s traces/
  %(prog)s before/ after/ -o comparison
  %(prog)s traces/ --annotation 'ProfilerStep#*'

Exit status: 0 the report was made, with a row and a reason for each file that cannot be read; 1 it could not be made;
2 bad arguments, such as a folder without traces.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kernelbook.cli.json_types import ReportLine

SCHEMA: Literal[1] = 1
OUTPUT = Path("kernelbook-report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="+", metavar="FOLDER", help="folders of traces")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, metavar="DIR",
                        help=f"folder of the report ({OUTPUT}); a report that is there is replaced")  # fmt: skip
    parser.add_argument("--annotation", metavar="GLOB", help="name of the ranges that are forwards, or a glob")
    parser.add_argument("--json", action="store_true", help="one JSON object about the report")


def run(args: argparse.Namespace) -> int:
    """Render the report and print where it is. Returns the exit status of the module's text."""
    from kernelbook.cli.traces import print_error, writing

    problem = _problem(args.folder, args.output)
    if problem:
        print(f"kernelbook report: {problem}", file=sys.stderr)
        return 2
    with _status(), writing(args.output, "-o"):
        render_folders(args.folder, args.output, args.annotation)
    summary = json.loads((args.output / "summary.json").read_text(encoding="utf-8"))
    if args.annotation is not None and not any(_has_forwards(case) for case in summary["cases"]):
        remedy = f"kernelbook summarize {' '.join(map(str, args.folder))} lists the names"
        print_error(f"kernelbook report: no range matches --annotation {args.annotation!r}: {remedy}")
    about = _about(summary, args.output)
    if args.json:
        print(json.dumps(about, allow_nan=False))
    else:
        for each in about["failed"]:
            print_error(f"failed: {each['run']}/{each['case']}: {each['reason']}")
        print(summary["verdict"]["sentence"])
        print(f"report: {args.output / 'index.html'}")
    return 0


def _has_forwards(case: Mapping[str, Any]) -> bool:
    return case["status"] == "ok" and all(warning["code"] != "no_forwards" for warning in case["warnings"])


def render_folders(folders: Sequence[Path], output: Path, annotation: str | None = None) -> None:
    """Render a report of folders of traces into `output`, replacing the report that is there.

    annotation: name of the ranges that are forwards, or a glob. Raises ConfigError if a folder has no case.
    """
    from kernelbook.config.loading import load_config
    from kernelbook.containers.probe import probe
    from kernelbook.edition.collect import collect
    from kernelbook.extraction.run_tables import read_run, readings_of
    from kernelbook.home import home
    from kernelbook.plan.plan_texts import inputs_json, plan_json
    from kernelbook.plan.planning import make_plan
    from kernelbook.report.rendering import render_report

    settings = _settings(folders, annotation)
    plan = make_plan(load_config(settings, home() / "workflow" / "schemas"), Path.cwd(), home(), containers_on=False)
    with tempfile.TemporaryDirectory(prefix="kernelbook-") as scratch:
        work = Path(scratch)
        for each in plan.runs:
            folder = work / each.name
            folder.mkdir()
            status = probe(json.loads(plan.run_json(each.name)), Path.cwd())
            (folder / "run.json").write_text(json.dumps(status), encoding="utf-8")
            inputs = json.loads(inputs_json(plan, each.name))
            read_run(readings_of(inputs, status, folder, work / "logs"), "", os.cpu_count() or 1)
        collect(json.loads(plan_json(plan)), work).write(work / "edition")
        render_report(work / "edition", output)


def _settings(folders: Sequence[Path], annotation: str | None) -> dict[str, Any]:
    """The configuration of a report with a recorded run for each folder."""
    runs: dict[str, Any] = {}
    for folder in folders:
        run = {"recorded": str(folder.resolve()), "cases": list(case_files(folder))}
        runs[_run_name(folder, runs)] = run | ({"annotation": annotation} if annotation else {})
    return {"edition": next(iter(runs)), "runs": runs}


def _run_name(folder: Path, used: Mapping[str, Any]) -> str:
    """The folder's name, with the characters that a run's name may have."""
    name = re.sub(r"[^a-z0-9.]+", "-", folder.resolve().name.lower()).strip("-.") or "traces"
    name = name if name[0].isalpha() else f"traces-{name}"
    number, unused = 1, name
    while unused in used:
        number += 1
        unused = f"{name}-{number}"
    return unused


@cache
def case_files(folder: Path) -> Mapping[str, Sequence[Path]]:
    """Case -> its files. Cases that have only JSON files of another kind are left out, with a line on stderr."""
    from kernelbook.cli.traces import print_skipped
    from kernelbook.trace.files import unreadable_folders
    from kernelbook.trace.reader import EventReader
    from kernelbook.trace.recorded import recorded_cases

    cases, skipped = {}, list(unreadable_folders(folder).values())
    for case, processes in recorded_cases(folder).items():
        files = [folder / file for process in processes.values() for file in process.files]
        bare = any(process.bare for process in processes.values())
        other = [message for file in files if bare and (message := EventReader(file).other_json())]
        if len(other) == len(files):
            skipped += other
        else:
            cases[case] = files
    print_skipped(skipped)
    return cases


def _problem(folders: Sequence[Path], output: Path) -> str | None:
    from kernelbook.cli.traces import output_problem
    from kernelbook.trace.files import unreadable_folders

    if problem := output_problem(output, "report", "summary.json", "-o"):
        return problem
    for folder in folders:
        if folder.is_file():
            return f"{folder}: is a file: name its folder, or use kernelbook summarize {folder}"
        if not folder.is_dir():
            return f"{folder}: {'is no folder' if os.path.lexists(folder) else 'no such folder'}"
        if (why := unreadable_folders(folder).get(folder)) is not None:
            return why
        if not case_files(folder):
            return f"{folder}: holds no trace (*.json, *.json.gz) and no CASE/PROCESS/measurement.json"
    return None


def _about(summary: Mapping[str, Any], output: Path) -> ReportLine:
    cases = summary["cases"]
    failed = [case for case in cases if case["status"] != "ok"]
    return {
        "schema": SCHEMA,
        "page": str(output / "index.html"),
        "summary": str(output / "summary.json"),
        "headline": summary["verdict"]["sentence"],
        "cases": len(cases),
        "failed": [{"run": case["run"], "case": case["case"], "reason": case["reason"]} for case in failed],
    }


@contextmanager
def _status() -> Iterator[None]:
    """Show a line on stderr during the work if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the traces, and rendering the report"):
        yield
