"""`summary.json`: what other programs read. docs/ describes each field; `SCHEMA` counts its breaking changes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.insight_tables import FINDINGS
from kernelbook.report import first_screen

SCHEMA = 2


def summary(edition: Edition, created_utc: str) -> dict[str, Any]:
    """The edition as plain JSON values. Times are microseconds; what was not measured is null."""
    verdict = first_screen.verdict(edition)
    return {
        "schema": SCHEMA,
        "edition": edition.edition,
        "created_utc": created_utc,
        "verdict": {
            "sentence": verdict.sentence,
            "held": verdict.held,
            "judged": verdict.judged,
            "not_applicable": verdict.not_applicable,
            "reasons": dict(verdict.reasons),
            "failed_cases": verdict.failed + verdict.lost_cases,
            "lost_runs": verdict.lost_runs,
            "cases_failed_in_part": verdict.in_part,
        },
        "headline": [
            {
                "run": head.run.run,
                "fast": {"case": head.fast.case, "device_time_us": head.fast_us},
                "slow": {"case": head.slow.case, "device_time_us": head.slow_us},
                "ratio": round(head.ratio, 4),
            }
            for head in first_screen.headlines(edition)
        ],
        "runs": [_run(run) for run in edition.runs],
        "left_out": [{"run": run, "reason": reason} for run, reason in edition.left_out],
        "cases": [_case(row) for row in edition.case_runs],
        "expectations": [asdict(row) for row in edition.judged],
        "findings": [{name: getattr(row, name) for name in FINDINGS.names} for row in edition.findings],
        "ceilings": [asdict(row) for row in edition.ceilings],
        "counters": [asdict(row) for row in edition.counters],
        "trust": [asdict(row) for row in edition.trust],
        "sdpa_backends": [asdict(row) for row in edition.backends],
    }


def dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _run(run: Run) -> dict[str, Any]:
    return {key: value for key, value in asdict(run).items() if key != "environment"}


def _case(row: CaseFacts) -> dict[str, Any]:
    return {
        "run": row.run,
        "case": row.case,
        "workload": row.workload,
        "variant": row.variant,
        "mode": row.mode,
        "dtype": row.dtype,
        "params": dict(row.params),
        "warmup": row.warmup,
        "status": row.status,
        "reason": row.reason,
        "processes": len(row.processes),
        "failed_processes": [
            {"process": process.process, "status": process.status, "reason": process.reason}
            for process in row.bad_processes
        ],
        "kernels": row.kernels,
        "memcpys": row.memcpys,
        "memsets": row.memsets,
        "launches": row.launches,
        "cpu_time_us": row.cpu_time_us,
        "device_time_us": row.device_time_us,
        "device_busy_us": row.device_busy_us,
        "forward_time_us": {"median": row.forward_time_us, "p05": row.forward_p05_us, "p95": row.forward_p95_us},
        "first_call_us": row.first_call_us,
        "inductor_cache": row.inductor_cache,
        "peak_memory_bytes": row.peak_memory_bytes,
        "flops": row.flops,
        "relative_error": row.relative_error,
        "kernel_names": [act.name for act in row.activities if act.category == "kernel"],
        "warnings": [{"code": warned.code, "message": warned.message} for warned in row.notes],
    }
