"""Python processes as forks of a server that has imported torch and Snakemake, since importing takes longest.

One server serves all workers of a test run. A client connects, sends one message with its streams (its folder; which
process group the fork joins: that of a process, 0 for one of its own, -1 for the server's; the number of words of the
command; these words and the environment; NUL between them), and receives the process ID, then the exit status. Where
it disconnects the fork is killed.

A fork differs from a new process in nothing that these tests look at but its start: tests of the start itself, of the
environment that Python or torch read as they start, and of packages that cannot be imported start a new process.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import inspect
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from tests.helpers import ROOT

GUARD = str(ROOT / "scripts/workloads/harness/guard.py")


def set_up(environment: Mapping[str, str], folder: Path, arguments: Sequence[str]) -> None:
    """Give this process the variables, the working folder, the arguments and the modules of a new one.

    A script or the Snakefile of this checkout finds `kernelbook` imported, as it would import it itself.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    checkout = (str(ROOT), str(ROOT / "scripts"), "", *added)  # also those that pytest added
    sys.path[:] = [*filter(None, added), *(path for path in sys.path if path not in checkout)]
    sys.argv = list(arguments)
    of_checkout = Path(arguments[0]).parent == ROOT / "scripts" or str(ROOT / "Snakefile") in arguments
    ours = ("tests",) if of_checkout else ("workloads", "kernelbook", "tests")
    for name in [name for name in sys.modules if name.split(".")[0] in ours]:
        del sys.modules[name]
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    atexit._clear()


EXECUTE_CHILD = subprocess.Popen._execute_child


def execute_or_fork(self: subprocess.Popen, args: Sequence[str], *rest: object) -> None:
    """Popen's _execute_child, but `python -m MODULE` and `python ... guard.py` become forks of this process."""
    words = [os.fspath(word) for word in args]
    if words[0] != sys.executable or not (words[1] == "-m" or GUARD in words):
        return EXECUTE_CHILD(self, args, *rest)
    wanted = inspect.signature(EXECUTE_CHILD).bind(self, args, *rest).arguments
    pipes = [wanted[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
    sys.stdout.flush()
    sys.stderr.flush()
    self.pid = os.fork()
    if self.pid == 0:
        if wanted["start_new_session"]:
            os.setsid()
        if wanted["process_group"] >= 0:
            os.setpgid(0, wanted["process_group"])
        for stream, pipe in enumerate((pipes[0], pipes[3], pipes[5])):
            if pipe != -1:
                os.dup2(pipe, stream)
        run_python(words[1:], dict(wanted["env"] or os.environ), Path(wanted["cwd"] or Path.cwd()))
    self._child_created = True
    self._close_pipe_fds(*pipes)
    return None


def run_python(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> NoReturn:
    """Do what `python WORDS...` does, in this process, and end it."""
    status = 1
    try:
        os.closerange(3, 1024)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", 1, closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        words = [word for word in words if word not in ("-I", "-S")]
        set_up(environment, folder, words[words[0] == "-m" :])
        _use_threads(environment.get("OMP_NUM_THREADS", ""))
        sys.executable = environment.get("FORK_PYTHON", sys.executable)
        subprocess.Popen._execute_child = execute_or_fork
        if words[0] == "-m":
            runpy._run_module_as_main(words[1])
        else:
            sys.path.insert(0, str(Path(words[0]).parent))
            runpy.run_path(words[0], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:  # noqa: BLE001 - as Python itself does with whatever ends a process
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _use_threads(count: str) -> None:
    """As OMP_NUM_THREADS does where it is set before torch is imported."""
    if count and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(count))


@functools.cache
def forking() -> dict[str, str]:
    """Environment variables for a new process, by which FORK_PYTHON does what `python` does in a fork of the server."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = Path(tempfile.gettempdir(), f"forks-{run or os.getpid()}")
    folder.mkdir(exist_ok=True)
    places = {"FORK_SERVER": str(folder / "server"), "FORK_PYTHON": str(folder / "python")}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "server").exists():
            client = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fork_client.py"))]
            for name, words in (("python", shlex.join(client)), ("snakemake", '"$FORK_PYTHON" -m snakemake')):
                (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
                (folder / name).chmod(0o755)
            _start_server(places["FORK_SERVER"], os.getppid() if run else os.getpid())
    return places | {"FORK_SESSION": str(os.getsid(0))}


def _start_server(address: str, owner: int) -> None:
    """Start the server, and wait until it has imported everything."""
    command = [sys.executable, "-c", f"from tests.helpers.forks import serve; serve({address!r}, {owner})"]
    # in huge pages, of which there are few to copy, a fork takes 11 ms of CPU time instead of 30
    variables = os.environ | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"}
    server = subprocess.Popen(command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    with server, server.stdout:
        assert server.stdout.readline(), "the server of forks did not start"


def serve(address: str, owner: int) -> NoReturn:
    """Fork this process for each client until the process `owner` is gone.

    It is no descendant of the worker that starts it: a test may measure in its worker, which ends all that has begun
    below it since, and that would be what other workers have forked meanwhile.
    """
    if os.fork():
        os._exit(0)
    from tests.helpers import preloaded  # noqa: F401

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(1, b"ready\n")
        os.dup2(0, 1)
        alive = os.pidfd_open(owner)
        running: list[_Fork] = []
        while True:
            clients = [fork.connection for fork in running if not fork.killed]
            ready = select.select([listener, alive, *clients, *(fork.ended for fork in running)], [], [])[0]
            if alive in ready:
                shutil.rmtree(Path(address).parent, ignore_errors=True)
                os._exit(0)
            for fork in running:
                fork.report_or_kill(ready)
            running = [fork for fork in running if fork.ended not in ready]
            if listener in ready:
                running += _fork(listener.accept()[0])


@dataclass
class _Fork:
    """A fork of the server, the connection to its client, and a file descriptor that can be read when it has ended."""

    pid: int
    group: int
    connection: socket.socket
    ended: int
    killed: bool = False

    def report_or_kill(self, ready: Sequence[socket.socket | int]) -> None:
        """Report how it ended, or end it where the client is gone."""
        if self.ended in ready:
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            with self.connection, contextlib.suppress(OSError):
                self.connection.send(str(status).encode())
            os.close(self.ended)
        elif self.connection in ready and not self.killed:
            self.killed = True
            os.kill(self.pid, signal.SIGTERM if self.group == -1 else signal.SIGKILL)


def _fork(connection: socket.socket) -> Sequence[_Fork]:
    """Fork as asked, or not where the client was killed before it asked."""
    message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    if not message:
        connection.close()
        return []
    folder, joined, count, *words = os.fsdecode(message).split("\0")
    words, variables, group = words[: int(count)], words[int(count) :], int(joined)
    child = os.fork()
    if child == 0:
        if group != -1:
            os.setpgid(0, group)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        run_python(words, dict(variable.split("=", 1) for variable in variables), Path(folder))
    for stream in streams:
        os.close(stream)
    if group != -1:
        with contextlib.suppress(OSError):
            os.setpgid(child, group)  # as the fork does: the client reads its ID only once it is in the group
    with contextlib.suppress(OSError):
        connection.send(str(child).encode())
    return [_Fork(child, group, connection, os.pidfd_open(child))]


class Served:
    """`python WORDS...` as a fork of the server, with the part of Popen that tests use.

    It leads a process group. Its stdout and stderr are one pipe, `stderr`, or the file `output`.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, output: IO[str] | None = None
    ) -> None:
        reader, writer = os.pipe()
        self.stderr = os.fdopen(reader, errors="replace")
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(forking()["FORK_SERVER"])
        variables = (f"{name}={value}" for name, value in environment.items())
        message = os.fsencode("\0".join([str(folder), "0", str(len(words)), *words, *variables]))
        with os.fdopen(writer) as pipe, open(os.devnull) as nothing:
            streams = [nothing, output or pipe, output or pipe]
            socket.send_fds(self._connection, [message], [stream.fileno() for stream in streams])
        self.pid = int(self._connection.recv(16))
        self.returncode: int | None = None  # of a process that a signal ended, the negative number of it

    def poll(self) -> int | None:
        """None while it runs, then its return code."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Its return code, or None where it still runs after `timeout` seconds."""
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(self._connection.recv(16))
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        with self.stderr:
            printed = self.stderr.read()
        self.wait(timeout)
        return None, printed

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
