"""The tables of all processes of a run: those that changed are made again, each in a process of its own.

A process that crashes or is killed while it reads costs its own row and no other.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

from kernelbook.counters import counters_beside
from kernelbook.extraction.lost_processes import STOPPED, reason_of
from kernelbook.extraction.process_tables import Origin, failed_tables, tables_of, write_tables
from kernelbook.plan.made_tables import STAMP, made_from, write_stamp
from kernelbook.trace.recorded import MEASUREMENT

FORK = multiprocessing.get_context("fork")  # what is imported already need not be imported again


@dataclass(frozen=True)
class Reading:
    """One measured process. spec: the case as configured; files: measurement.json, or the windows of a bare trace."""

    origin: Origin
    spec: Mapping[str, Any]
    files: tuple[Path, ...]
    folder: Path
    log: Path

    def source(self, code: str) -> str:
        """Digest of all that the tables depend on. code: digest of the code that makes them."""
        status = {key: value for key, value in self.origin.status.items() if key != "probed_utc"}
        facts = [code, status, self.spec, list(_states(self.files))]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def readings_of(
    inputs: Iterable[Mapping[str, Any]], status: Mapping[str, Any], folder: Path, logs: Path
) -> Iterator[Reading]:
    """The processes of one run. inputs: inputs.json; status: run.json; folder and logs: those of the run."""
    for entry in inputs:
        case, process = entry["case"]["case"], entry["process"]
        files = () if status["status"] == "lost" else tuple(map(Path, entry["files"]))
        origin, log = Origin(status["run"], case, process, status), logs / case / f"{process}.extract.log"
        yield Reading(origin, entry["case"], files, folder / case / str(process), log)


def read_run(readings: Iterable[Reading], code: str, workers: int = 1) -> int:
    """Make the tables of every process whose sources changed; returns how many those are.

    code: digest of the code that makes them; workers: processes at a time. Where a signal of `STOPPED` ends one of
    these, raises SystemExit with 128 + its number. Raises OSError where a table cannot be written.
    """
    changed = [reading for reading in readings if made_from(reading.folder) != reading.source(code)]
    pa.array([0])  # makes pyarrow import what it imports at first use, before there are copies of this process
    waiting = list(reversed(changed))
    running: dict[int, tuple[Reading, BaseProcess]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            reading = waiting.pop()
            process = FORK.Process(target=_read, args=(reading, code), daemon=True)
            process.start()
            running[process.sentinel] = reading, process
        for sentinel in wait(list(running)):
            _finish(*running.pop(sentinel), code)  # type: ignore[arg-type]  # only sentinels were waited for
    return len(changed)


def _read(reading: Reading, code: str) -> None:
    """Make the tables of one process, in a process of its own; what it prints goes to its log."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    reading.log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr = reading.log.open("w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), 2)
    first = reading.files[0] if reading.files else None
    _write(reading, tables_of(reading.origin, reading.spec, first, reading.files[1:]), code)


def _finish(reading: Reading, process: BaseProcess, code: str) -> None:
    """Write the failed row of a process whose reading ended without tables."""
    process.join()
    status = process.exitcode or 0
    status = 128 - status if status < 0 else status
    process.close()
    if status in STOPPED:
        raise SystemExit(status)
    if status:
        reason = reason_of("reading the measurement", status, reading.log)
        _write(reading, failed_tables(reading.origin, reading.spec, reason), code)


def _write(reading: Reading, tables: Mapping[str, Any], code: str) -> None:
    (reading.folder / STAMP).unlink(missing_ok=True)
    source = reading.source(code)
    write_tables(tables, reading.folder)
    write_stamp(reading.folder, source)


def _states(files: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of change in ns of each file, of those beside a measurement.json, and of counters."""
    for file in files:
        whole = file.name == MEASUREMENT and file.parent.is_dir()
        counters = None if whole else counters_beside(file)
        beside = [file, *([counters] if counters else [])]
        if whole:  # of a job with ranks, those of the ranks too
            beside = sorted([*file.parent.iterdir(), *file.parent.glob("rank-*/*")])
        for each in beside:
            if each.suffix != ".parquet" and each.name != STAMP and os.path.lexists(each):
                state = os.lstat(each)
                yield os.fspath(each), state.st_size, state.st_mtime_ns
