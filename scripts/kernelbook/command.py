"""Runs the project's commands: an error is printed as one line, with its traceback only on request."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

TRACEBACK = "KERNELBOOK_TRACEBACK"
INTERRUPTED = 128 + signal.SIGINT


def run(main: Callable[[], int]) -> int:
    """Run a command's `main` and return its exit status: 0 if the reader of a pipe left, 130 after Ctrl-C.

    Any other exception of `main` ends the process with one line on stderr and status 1; with KERNELBOOK_TRACEBACK=1 in
    the environment the traceback comes first.
    """
    _mend_streams()
    sys.excepthook = _say
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 0
    except (KeyboardInterrupt, SystemExit) as end:  # SystemExit also if Ctrl-C ended a process that this one started
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        return INTERRUPTED
    return status


def _mend_streams() -> None:
    """Replace closed streams by empty ones, and escape letters that the encoding of an output lacks (LANG=C)."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if os.environ.get(TRACEBACK) == "1":
        traceback.print_exception(kind, error, trace)
    if isinstance(error, OSError) and error.strerror is not None:
        fact = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
        if error.errno == errno.ENOSPC:
            fact = f"{fact}: make room, or write to another disk"
    elif isinstance(error, ValueError):
        fact = str(error)
    else:
        fact = f"{kind.__name__}: {error}"
    from kernelbook.text.formatting import visible

    hint = "" if os.environ.get(TRACEBACK) == "1" else f" ({TRACEBACK}=1 shows where)"
    print(f"{Path(sys.argv[0]).stem}: {visible(' '.join(fact.split()))}{hint}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # Python 3.13 would flush again at exit, fail again, and end with status 120
        _drop_output()


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
