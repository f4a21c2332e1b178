"""How the project's commands end: an error is one line, with where it happened only when asked for."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

TRACEBACK = "KERNELBOOK_TRACEBACK"


def run(main: Callable[[], int]) -> int:
    """Run a command's `main` and return its exit status; a closed pipe or Ctrl-C is no error to explain.

    Whatever else it raises ends the process with one line on stderr and status 1; with KERNELBOOK_TRACEBACK=1 in the
    environment the traceback comes first.
    """
    _mend_streams()
    sys.excepthook = _say
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _mend_streams() -> None:
    """Let closed outputs swallow what is written, and let those that lack a letter (LANG=C) spell it out."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if os.environ.get(TRACEBACK) == "1":
        traceback.print_exception(kind, error, trace)
    if isinstance(error, OSError) and error.filename is not None:
        fact = f"{error.filename}: {error.strerror}"
    elif isinstance(error, ValueError):
        fact = str(error)
    else:
        fact = f"{kind.__name__}: {error}"
    from kernelbook.text.formatting import visible

    hint = "" if os.environ.get(TRACEBACK) == "1" else f" ({TRACEBACK}=1 shows where)"
    print(f"{Path(sys.argv[0]).stem}: {visible(' '.join(fact.split()))}{hint}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # what cannot be written must not be tried once more at the end: Python 3.13 makes that status 120
        _drop_output()


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
