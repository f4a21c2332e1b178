"""Reads the traces named on a command line; a file that cannot be read becomes a line on stderr."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelbook.summarize.batch import ReadFailure
    from kernelbook.summarize.summary import Summary

MOST_SKIPPED = 3


def read_summaries(
    paths: Sequence[Path], annotation: str | None = None, output: Path | None = None
) -> tuple[list[Summary], int]:
    """Summaries of the traces in files and folders, with their ranks; and the exit status, 2 if a named file is bad.

    output: folder for the tables of each trace.
    """
    from kernelbook.summarize.batch import ReadFailure, find_jobs, progress_bar, relate, run_jobs
    from kernelbook.summarize.summary import Summary
    from kernelbook.trace.files import unreadable_folders

    jobs = find_jobs(paths, output)
    with progress_bar(len(jobs)) as progress:
        results = list(run_jobs(jobs, annotation, progress)) if jobs else []
    for job in jobs:
        if job.renamed:
            print_error(f"{job.path}: another file has this name: its tables are in {job.output}")
    failures = [
        ReadFailure(message, skippable=folder != path)
        for path in paths
        if path.is_dir()
        for folder, message in unreadable_folders(path).items()
    ]
    failures += [result for result in results if isinstance(result, ReadFailure)]
    _print_failures(failures)
    status = 0 if all(failure.skippable for failure in failures) else 2
    summaries = relate([result for result in results if isinstance(result, Summary)])
    if output is not None:
        from kernelbook.summarize.summary import write_job_tables

        write_job_tables(summaries, output)
    if not summaries and not status:
        print_error(f"{', '.join(map(str, paths))}: no trace found; name a file or another folder")
        return [], 2
    return summaries, status


def _print_failures(failures: Sequence[ReadFailure]) -> None:
    for failure in failures:
        if not failure.skippable:
            print_error(failure.message)
    print_skipped([failure.message for failure in failures if failure.skippable])


def print_skipped(messages: Sequence[str]) -> None:
    """A line for each of the first files and folders that were skipped, then the number of the others."""
    for message in messages[:MOST_SKIPPED]:
        print_error(f"skipped: {message}")
    if len(messages) > MOST_SKIPPED:
        print_error(f"skipped: {len(messages) - MOST_SKIPPED} more that cannot be read or are no traces")


def print_error(message: str) -> None:
    """Print one line on stderr, safe for any file name."""
    from kernelbook.text.formatting import visible

    print(visible(message), file=sys.stderr)


# --- folders that are written ----------------------------------------------------------------------------------------


def output_problem(output: Path, kind: str, mark: str, option: str) -> str | None:
    """Why `output` cannot become a folder of this kind, with the remedy; None if it can.

    mark: a file that every such folder has. A folder with other content is not replaced.
    """
    remedy = f"name another folder with {option}"
    try:
        if output.is_file() or (output.is_dir() and any(output.iterdir()) and not (output / mark).is_file()):
            return f"{output}: is not a {kind}, and is not replaced: {remedy}"
    except OSError as error:
        return f"{output}: cannot be read: {error.strerror}: {remedy}"
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not above.is_dir():
        return f"{output}: {above} is a file: {remedy}"
    for folder in (above, output):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            return f"{output}: cannot be written, {folder} is read-only for you: {remedy}"
    return None


@contextmanager
def writing(output: Path, option: str) -> Iterator[None]:
    """Raise a ValueError with the remedy if the disk of `output`, or of temporary files, is full or read-only."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        remedy = f"make room there and in {tempfile.gettempdir()}, or name another folder with {option}"
        raise ValueError(f"{output}: cannot be written: {error.strerror}: {remedy}") from error
