"""A progress bar while traces are read, for those who watch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_S = 2.0


@contextmanager
def progress_bar(files: int) -> Iterator[Callable[[int], None] | None]:
    """A function to report the number of files done; the bar comes for several files, or after two seconds."""
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
