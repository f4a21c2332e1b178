"""Processes of the workflow that ended without a result: the reason, and the failed row of the case."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kernelbook.text.formatting import last_words, utc_now

STOPPED = {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
"""Exit statuses of processes that the user or the cluster stopped; their cases get no failed row."""
LOG_LINES = 40
LOG_BYTES = 1 << 16
LINE_LETTERS = 500


def log_tail(log: Path) -> list[str]:
    """The last 40 lines of a log that are not empty, each cut at 500 characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.rstrip()[:LINE_LETTERS] for line in lines if line.strip()][-LOG_LINES:]


def reason_of(work: str, status: int, log: Path) -> str:
    """Why there is no result. work: the subject of the sentence; status: its exit status, as a shell reports it."""
    if status == 0:
        return f"{work} ended well, but its result is gone: a workload must not remove the folders of the workflow"
    if status == 128 + signal.SIGKILL:
        return (
            f"{work} was killed (SIGKILL), as the system does when memory runs out: "
            "use smaller params, or give the job more memory"
        )
    if 128 < status <= 128 + signal.SIGRTMAX:
        return f"{work} was ended by signal {_signal_name(status - 128)}: see {log}"
    return f"{work} ended with status {status} ({last_words(log_tail(log))}): see {log}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def finish_measurement(
    spec: Mapping[str, Any], output: Path, status: int | None, log: Path, *, deadline_hours: str | None = None
) -> int:
    """Write case.json, and measurement.json if the measuring process did not.

    spec: the case. status: exit status of the process; None if its whole job was lost more than once, or if the
    deadline of its night passed first (deadline_hours). Returns 0, or the status of a process that was
    stopped, which leaves no measurement. Raises OSError if nothing can be written.
    """
    measurement = output / "measurement.json"
    if status in STOPPED:
        measurement.unlink(missing_ok=True)
        return status
    output.mkdir(parents=True, exist_ok=True)
    _replace(output / "case.json", msgspec.json.encode(spec))
    if measurement.is_symlink() or not measurement.is_file():
        lost = (
            "its jobs were killed as a whole before they left a result (out of memory, over the time limit, or the "
            "node was lost): give them more memory or time, or use smaller params"
        )
        if deadline_hours:
            lost = (
                f"the night's deadline of {deadline_hours} hours (schedule.deadline_hours) passed while its job waited "
                "or ran: look at the queue and its nodes (with Slurm: squeue, sinfo), or allow more hours"
            )
        reason = lost if status is None else reason_of("the measuring process", status, log)
        from kernelbook.extraction.measurement import SCHEMA  # imports NumPy: only where a row has to be written

        failed = {"schema": SCHEMA, "case": spec, "status": "failed", "reason": reason, "log_tail": log_tail(log)}
        if measurement.is_dir() and not measurement.is_symlink():
            shutil.rmtree(measurement)
        _replace(measurement, msgspec.json.encode(failed | {"started_utc": utc_now()}))
    return 0


def _replace(file: Path, content: bytes) -> None:
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_bytes(content + b"\n")
    beside.replace(file)
