"""The tables of all processes of a run. Those that are out of date are made again, each in a separate process.

Each rank of a job is read in a separate process, too; its tables are joined when all ranks are read. A process that
crashes or is killed while it reads loses only its own row.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

from kernelbook.counters import counters_beside
from kernelbook.extraction.arrow_files import new_file, read_schema, read_table, write_tables
from kernelbook.extraction.lost_processes import STOPPED, reason_of
from kernelbook.extraction.process_tables import (
    Origin,
    failed_tables,
    rank_file,
    ranks_of,
    tables_of,
)
from kernelbook.plan.earlier import STAMP, TABLE_SUFFIX, TABLES, made_from, table_file, write_stamp
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
        """Digest of everything that the tables depend on. code: digest of the code that makes them."""
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
    """Make the tables of every process whose sources changed, and return the number of these processes.

    code: digest of the code that makes them; workers: processes at a time. Raises SystemExit with 128 + its number if
    a signal of `STOPPED` ends one of them, OSError if a table cannot be written.
    """
    changed = [reading for reading in readings if made_from(reading.folder) != reading.source(code)]
    waiting = [task for reading in reversed(changed) for task in reversed(_tasks(reading))]
    unread = Counter(task.reading.folder for task in waiting if task.rank is not None)
    running: dict[int, tuple[ExtractionTask, BaseProcess]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop()
            process = FORK.Process(target=_run, args=(task, code), daemon=True)
            process.start()
            running[process.sentinel] = task, process
        for sentinel in wait(list(running)):
            done, ended = running.pop(sentinel)  # type: ignore[arg-type]  # only sentinels were waited for
            _finish(done, ended, code)
            if done.rank is not None:
                unread[done.reading.folder] -= 1
                if not unread[done.reading.folder]:
                    waiting.append(ExtractionTask(done.reading, joins=True))
    return len(changed)


@dataclass(frozen=True)
class ExtractionTask:
    """The work of one process: read a measured process or one rank of it, or join the tables of its ranks."""

    reading: Reading
    rank: int | None = None
    joins: bool = False

    @property
    def folder(self) -> Path:
        folder = self.reading.folder
        return folder if self.rank is None else folder.with_name(f".{folder.name}-rank-{self.rank}")

    @property
    def log(self) -> Path:
        log = self.reading.log
        return log if self.rank is None else log.with_name(f"{log.stem}.rank-{self.rank}{log.suffix}")

    @property
    def origin(self) -> Origin:
        return replace(self.reading.origin, rank=self.rank)

    def tables(self) -> dict[str, pa.Table]:
        files, spec = self.reading.files, self.reading.spec
        first = files[0] if files else None
        if self.rank is not None and first is not None:
            return tables_of(self.origin, spec, rank_file(first, self.rank))
        return tables_of(self.origin, spec, first, files[1:])

    def write(self, tables: Mapping[str, pa.Table], code: str) -> None:
        """Write the tables, and for a whole process the stamp that marks them as complete."""
        (self.folder / STAMP).unlink(missing_ok=True)
        source = self.reading.source(code)
        write_tables(tables, self.folder)
        if self.rank is None:
            write_stamp(self.folder, source)


def _tasks(reading: Reading) -> list[ExtractionTask]:
    """One task for each rank of a job, or one for the process."""
    ranks = ranks_of(reading.files[0]) if reading.files else None
    return [ExtractionTask(reading)] if ranks is None else [ExtractionTask(reading, rank) for rank in range(ranks)]


def _run(task: ExtractionTask, code: str) -> None:
    """Do a task in the current process, with its output in the task's log."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    task.log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr = task.log.open("w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), 2)
    if task.joins:
        _join(task.reading, code)
    else:
        task.write(task.tables(), code)


def _join(reading: Reading, code: str) -> None:
    """Write the tables of all ranks as one; a rank at a time is in memory, and has record batches of its own."""
    reading.folder.mkdir(parents=True, exist_ok=True)
    (reading.folder / STAMP).unlink(missing_ok=True)
    source = reading.source(code)
    parts = [task.folder for task in _tasks(reading)]
    for name in TABLES:
        files = [table_file(part, name) for part in parts]
        schema = pa.unify_schemas([read_schema(file) for file in files], promote_options="default")
        size = sum(file.stat().st_size for file in files)
        with new_file(table_file(reading.folder, name), schema, size) as writer:
            for file in files:
                table = read_table(file)
                writer.write_table(pa.concat_tables([schema.empty_table(), table], promote_options="default"))
    write_stamp(reading.folder, source)
    for part in parts:
        shutil.rmtree(part)


def _finish(task: ExtractionTask, process: BaseProcess, code: str) -> None:
    """Write the failed row of a process or rank whose reading ended without tables."""
    process.join()
    status = process.exitcode or 0
    status = 128 - status if status < 0 else status
    process.close()
    if status in STOPPED:
        raise SystemExit(status)
    if status:
        reason = reason_of("reading the measurement", status, task.log)
        task.write(failed_tables(task.origin, task.reading.spec, reason), code)


def _states(files: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    """(path, size, time of change in ns) of each file, of those beside a measurement.json, and of counters."""
    for file in files:
        whole = file.name == MEASUREMENT and file.parent.is_dir()
        counters = None if whole else counters_beside(file)
        beside = [file, *([counters] if counters else [])]
        if whole:  # of a job with ranks, those of the ranks too
            beside = sorted([*file.parent.iterdir(), *file.parent.glob("rank-*/*")])
        for each in beside:
            if each.suffix != TABLE_SUFFIX and each.name != STAMP and os.path.lexists(each):
                state = os.lstat(each)
                yield os.fspath(each), state.st_size, state.st_mtime_ns
