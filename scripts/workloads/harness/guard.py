"""Ends the processes that a process started: the guard between the supervisor and its child.

Run as a script by `supervise`, it starts the child, adopts the processes that the child leaves behind, and ends all of
them when the supervisor dies. It imports only the standard library, so it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
PATIENCE_S = 5.0  # for killed processes that do not end, such as one stuck in a driver


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (Linux; elsewhere this does nothing)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int, parent: int) -> None:
    """Get this signal when the parent ends, or now if it has ended. parent: its process id."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def descendants() -> set[int]:
    """The ids of all processes below this one that have not ended, by /proc; empty if there is none."""
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    parents[int(name)] = int(parent)
    descendants: set[int] = set()
    todo = {os.getpid()}
    while todo:
        todo = {process for process, parent in parents.items() if parent in todo} - descendants
        descendants |= todo
    return descendants


def end_descendants(but: set[int]) -> None:
    """Kill all descendants but these, and those that they start meanwhile; gives up after `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := descendants() - but) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
        for process in left:
            with contextlib.suppress(ChildProcessError):  # only our own children can be reaped
                os.waitpid(process, os.WNOHANG)


def main(arguments: list[str]) -> NoReturn:
    """Run a command and end with its status or signal. arguments: the supervisor's process id, the command."""
    supervisor, *command = arguments

    def supervisor_died(*_: object) -> None:
        end_descendants(set())
        os._exit(1)

    def ask_child(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    adopt_orphans()
    signal.signal(signal.SIGTERM, supervisor_died)
    die_with_parent(signal.SIGTERM, int(supervisor))
    child = subprocess.Popen(command)
    signal.signal(signal.SIGUSR1, ask_child)
    status = child.wait()
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
