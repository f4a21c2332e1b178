"""Many traces at once: finding them, reading them on the cores there are, writing their tables."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from kernelbook.command import TRACEBACK
from kernelbook.summarize.summary import Summary, summarize
from kernelbook.trace.files import TraceFile, trace_files, without_ending
from kernelbook.trace.ranks import jobs_of
from kernelbook.trace.reading import read_trace
from kernelbook.trace.types import TraceError

_POLL_S = 0.1


@dataclass(frozen=True)
class Job:
    """A file to read. optional: found in a folder, so it is skipped when it is no trace. output: for its tables."""

    path: Path
    optional: bool
    output: Path | None = None


@dataclass(frozen=True)
class Failure:
    """Why there is no summary: one line. skippable: the file came with a folder and is no trace."""

    message: str
    skippable: bool


def find_jobs(paths: Sequence[Path], output: Path | None) -> list[Job]:
    """A job a file; of a folder every *.json and *.json.gz below it. No two jobs write into one folder."""
    found: list[tuple[Path, bool]] = []
    for path in paths:
        if path.is_dir():
            found += [(file, True) for file in trace_files(path)]
        else:
            found.append((path, False))
    taken: set[str] = set()
    return [Job(path, optional, output / _free_name(path, taken) if output else None) for path, optional in found]


def _free_name(path: Path, taken: set[str]) -> str:
    stem = without_ending(path.name)
    stem = os.fsencode(stem).decode("utf-8", "replace") or "trace"  # Arrow and CSV take no half characters
    name, number = stem, 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name.lower())
    return name


def run_job(job: Job, annotation: str | None) -> Summary | Failure:
    """Read one trace and write its tables."""
    try:
        reading = read_trace(job.path, annotation)
    except TraceError as error:
        return Failure(str(error), skippable=job.optional)
    if job.output is not None:
        from kernelbook.text.table_files import write_tables

        try:
            write_tables(reading.tables(), job.output)
        except OSError as error:
            message = f"{job.output}: the tables cannot be written: {error.strerror or error}; name another --output"
            return Failure(message, skippable=False)
    from kernelbook.extraction.trace_notes import trace_notes

    return summarize(reading, trace_notes(reading))


def among_each_other(summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries with their ranks, and with what is to be said of them as windows and ranks of jobs."""
    found = list(summaries)
    for job in jobs_of([TraceFile(Path(each.source), each.distributed, each.device) for each in summaries]):
        for process in job.processes:
            of = len(process.windows)
            for number, window in enumerate(process.windows, start=1):
                warnings = [*job.warnings(process), *window.warnings()]
                message = f"window {number} of {of} of one process, {window.worker}"
                notes = [{"code": "window", "count": of, "message": message}] if of > 1 else []
                found[window.place] = summaries[window.place].among(process.rank, warnings, notes)
    return found


def run_jobs(
    jobs: Sequence[Job], annotation: str | None, progress: Callable[[int], None] | None = None
) -> Iterator[Summary | Failure]:
    """Results in the order of the jobs. `progress` is called with the number of files done, a few times a second."""
    workers = min(len(jobs), os.cpu_count() or 1)
    pool: Executor = ProcessPoolExecutor(workers) if workers > 1 else ThreadPoolExecutor(1)
    with pool:
        futures = [pool.submit(run_job, job, annotation) for job in jobs]
        waiting: set[Future[Summary | Failure]] = set(futures)
        while waiting:
            _, waiting = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            if progress is not None:
                progress(len(jobs) - len(waiting))
        for job, future in zip(jobs, futures, strict=True):
            yield _outcome(job, annotation, future)


def _outcome(
    job: Job, annotation: str | None, future: Future[Summary | Failure], alone: bool = False
) -> Summary | Failure:
    """What the job returned. A worker that was killed, or a bug, is a failure of the one file that it happened on."""
    error = future.exception()
    if error is None:
        return future.result()
    if not isinstance(error, BrokenProcessPool):
        if os.environ.get(TRACEBACK) == "1":
            traceback.print_exception(error)
        what = f"{type(error).__name__}: {error}".replace("\n", " ")
        return Failure(f"{job.path}: a bug in the reader ({what}); please report it with the file", False)
    if alone:
        return Failure(f"{job.path}: reading was killed, perhaps for lack of memory", False)
    with ProcessPoolExecutor(1) as pool:  # a killed worker fails all jobs that were not done, whoever was the cause
        return _outcome(job, annotation, pool.submit(run_job, job, annotation), alone=True)
