"""Finds traces, reads them in parallel and writes their tables."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kernelbook.command import TRACEBACK
from kernelbook.summarize.summary import Summary, read_together, summarize
from kernelbook.trace.files import TraceFile, content_of, trace_files, without_ending
from kernelbook.trace.ranks import jobs_of
from kernelbook.trace.reading import read_trace
from kernelbook.trace.types import TraceError, TraceWarning

_POLL_S = 0.1
_PATIENCE_S = 2.0


class FileToRead(msgspec.Struct, frozen=True):
    """A file to read.

    optional: it was found in a folder, so it is skipped if it is not a trace. output: folder for its tables.
    """

    path: Path
    optional: bool
    output: Path | None = None

    @property
    def renamed(self) -> bool:
        """Whether another file has the same name, so that the folder of the tables got a different one."""
        return self.output is not None and self.output.name != _table_name(self.path)


class ReadFailure(msgspec.Struct, frozen=True):
    """Why there is no summary, in one line. skippable: the file was found in a folder and is not a trace."""

    message: str
    skippable: bool


def find_jobs(paths: Sequence[Path], output: Path | None) -> list[FileToRead]:
    """One job per file, with a separate output. A folder stands for every *.json and *.json.gz below it."""
    files: list[tuple[Path, bool]] = []
    for path in paths:
        files += [(file, True) for file in trace_files(path)] if path.is_dir() else [(path, False)]
    used: set[str] = set()
    return [
        FileToRead(path, optional, output / _unused_name(path, used) if output else None) for path, optional in files
    ]


def _unused_name(path: Path, used: set[str]) -> str:
    stem = _table_name(path)
    name, number = stem, 1
    while name.lower() in used:
        number += 1
        name = f"{stem}-{number}"
    used.add(name.lower())
    return name


def _table_name(path: Path) -> str:
    """The file's name without its ending, as a folder's name: valid UTF-8, and not `.` or `..`."""
    name = os.fsencode(without_ending(path.name)).decode("utf-8", "replace")
    return "trace" if name in ("", ".", "..") else name


def run_job(job: FileToRead, annotation: str | None) -> Summary | ReadFailure:
    """Read one trace, and write its tables if the job has an output."""
    try:
        reading = read_trace(job.path, annotation)
    except TraceError as error:
        return ReadFailure(str(error), skippable=job.optional)
    if job.output is not None:
        from kernelbook.text.table_files import write_tables

        try:
            write_tables(reading.tables(), job.output)
        except OSError as error:
            message = f"{job.output}: the tables cannot be written: {error.strerror or error}; name another --output"
            return ReadFailure(message, skippable=False)
    from kernelbook.extraction.trace_notes import trace_notes

    return summarize(reading, trace_notes(reading))


def relate(summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries with their ranks, and with warnings and notes about the windows and ranks of jobs."""
    related = list(summaries)
    traces = {place: each.rank_trace for place, each in enumerate(summaries) if each.rank_trace is not None}
    for job in jobs_of([_trace_file(each) for each in summaries]):
        report = read_together(job, traces) if traces else None
        for process in job.processes:
            of = len(process.windows)
            for number, window in enumerate(process.windows, start=1):
                warnings = [*job.warnings(process), *window.warnings()]
                message = f"window {number} of {of} of one process, {window.worker}"
                notes = [TraceWarning("window", of, message)] if of > 1 else []
                related[window.place] = summaries[window.place].related(process.rank, warnings, notes, report)
                for copy in window.copies:
                    text = f"a copy of {window.file.path.name}: left out of the job"
                    warning = TraceWarning("duplicate_rank", 1, text)
                    related[copy.place] = summaries[copy.place].related(process.rank, [warning], [])
    return related


def _trace_file(summary: Summary) -> TraceFile:
    path = Path(summary.source)
    content = content_of(path) if summary.rank_trace is not None else None
    return TraceFile(path, summary.distributed, summary.device, content)


def run_jobs(
    jobs: Sequence[FileToRead], annotation: str | None, progress: Callable[[int], None] | None = None
) -> Iterator[Summary | ReadFailure]:
    """Yield the results in the order of the jobs.

    progress: called a few times per second with the number of files done.
    """
    workers = min(len(jobs), os.cpu_count() or 1)
    pool = processes(workers) if workers > 1 else ThreadPoolExecutor(1)
    with pool:
        futures = [pool.submit(run_job, job, annotation) for job in jobs]
        waiting: set[Future[Summary | ReadFailure]] = set(futures)
        while waiting:
            _, waiting = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            if progress is not None:
                progress(len(jobs) - len(waiting))
        for job, future in zip(jobs, futures, strict=True):
            yield _outcome(job, annotation, future)


def processes(workers: int | None = None) -> Executor:
    """A pool of processes, by default one a core; one thread if the machine has no shared memory (/dev/shm)."""
    from concurrent.futures import ProcessPoolExecutor  # imports multiprocessing, which a single trace does not need

    try:
        return ProcessPoolExecutor(workers, initializer=_end_silently)
    except OSError:
        return ThreadPoolExecutor(1)


def _end_silently() -> None:
    """Let Ctrl-C end this process without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _outcome(
    job: FileToRead, annotation: str | None, future: Future[Summary | ReadFailure], alone: bool = False
) -> Summary | ReadFailure:
    """The result of a job. A killed worker or a bug is a failure of that one file."""
    error = future.exception()
    if error is None:
        return future.result()
    if not isinstance(error, BrokenExecutor):
        if os.environ.get(TRACEBACK) == "1":
            traceback.print_exception(error)
        what = f"{type(error).__name__}: {error}".replace("\n", " ")
        return ReadFailure(f"{job.path}: a bug in the reader ({what}); please report it with the file", False)
    if alone:
        return ReadFailure(f"{job.path}: reading was killed, perhaps for lack of memory", False)
    with processes(1) as pool:  # a killed worker fails all unfinished jobs: find out which was the cause
        return _outcome(job, annotation, pool.submit(run_job, job, annotation), alone=True)


@contextmanager
def progress_bar(files: int) -> Iterator[Callable[[int], None] | None]:
    """A function that takes the number of files done, or None if stderr is not a terminal.

    The bar appears for several files, or after two seconds.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading traces"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=files)
    began = time.monotonic()

    def report(done: int) -> None:
        if not bar.live.is_started and (files > 1 or time.monotonic() - began > _PATIENCE_S):
            bar.start()
        bar.update(task, completed=done)

    try:
        yield report
    finally:
        bar.stop()
