"""A plan as text: the files that commands read, and the summary that is printed first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from kernelbook.plan.planning import Plan, printable
from kernelbook.text.credentials import without_secrets
from kernelbook.text.formatting import plural
from kernelbook.text.meaning import plain


def plan_json(plan: Plan) -> str:
    """The plan as collect_edition.py reads it: plan.json."""
    config = plan.config
    recorded = [case for run in plan.runs for case in plan.cases_of(run) if run.kind == "recorded"]
    traces = {case.name: case for case in recorded if case.measurement["workload"]}
    taken = {case.name for run in plan.runs_with_cases() for case in plan.cases_of(run)}
    published = any(run.kind == "published" for run in plan.runs)
    cases = {case.name: case for case in config.cases if published or case.name in taken}
    sources = {run.name: plan.source_of(run).as_posix() for run in plan.runs if run.kind != "container"}
    text = json.dumps(
        {
            "schema": 1,
            "edition": config.edition,
            "report": dict(config.report),
            "runs": [plain(run) | {"source": sources.get(run.name)} for run in plan.runs],
            "left_out": [plain(run) for run in plan.left_out],
            "rows": list(plan.rows()),
            "cases": [
                {**case.measurement, **{name: getattr(case, name) for name in ("label", "note", "expect", "sweep")}}
                for case in (cases | traces).values()
            ],
        },
        default=str,
    )
    return without_secrets(text)


def inputs_json(plan: Plan, run: str) -> str:
    """The processes of one run as extract_run.py reads them: case, number of the process, and files."""
    rows = [row for row in plan.rows() if row[0] == run]
    cases = json.loads(without_secrets(json.dumps([plan.spec(*row) for row in rows])))
    files = [[file.as_posix() for file in plan.files_of(*row)] for row in rows]  # opened, so nothing is removed
    inputs = [{"process": row[2], "case": case, "files": f} for row, case, f in zip(rows, cases, files, strict=True)]
    return json.dumps(inputs, sort_keys=True)


def summary(plan: Plan) -> str:
    """The runs that would be measured and those left out, a line each."""
    lines = []
    for run in plan.runs:
        if run.kind == "published":
            lines.append(f"run {run.name}: published figures from {run.where}")
            continue
        cases = plan.cases_of(run)
        processes = sum(len(plan.processes_of(run, case)) for case in cases)
        what = {"host": f"torch {plan.torch_version}"}.get(run.kind, run.where)
        if run.kind == "container":
            what += f", {plan.image_of(run).state()}"
        counts = f"{plural(len(cases), 'case')}, {plural(processes, 'process', 'processes')}"
        lines.append(f"run {run.name} ({run.kind}, {what}): {counts}")
        if not cases:
            lines.append(f"  no case is taken: see only_cases, cases, and runs.{run.name}.cases")
        for reason, skipped in _by_reason(plan.skipped(run)):
            lines.append(f"  skipped, {reason}: {', '.join(skipped)}")
    lines += [f"left out: {left.run}: {left.reason}" for left in plan.left_out]
    return without_secrets("\n".join([f"edition {plan.config.edition}", *lines]))


def digest(text: str) -> str:
    """16 hexadecimal digits that change with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _by_reason(reasons: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for reason in dict.fromkeys(reasons.values()):
        yield reason, [printable(name) for name, why in reasons.items() if why == reason]
