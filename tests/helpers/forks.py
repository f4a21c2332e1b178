"""Python processes as forks of a server that has imported torch and Snakemake, since importing takes longest.

A fork differs from a new process in nothing that these tests look at but its start: tests of the start itself, of the
environment that Python or torch read as they start, and of packages that cannot be imported start a new process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import multiprocessing
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
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from tests.helpers import ROOT

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.helpers.preloaded"])
GUARD = str(ROOT / "scripts/workloads/harness/guard.py")


def set_up(environment: Mapping[str, str], folder: Path, arguments: Sequence[str]) -> None:
    """Give this process the variables, the working folder, the arguments and the modules of a new one.

    A script of this checkout finds `kernelbook` imported, as it would import it itself.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    checkout = (str(ROOT), str(ROOT / "scripts"), "", *added)  # also those that pytest added
    sys.path[:] = [*filter(None, added), *(path for path in sys.path if path not in checkout)]
    sys.argv = list(arguments)
    ours = ("tests",) if Path(arguments[0]).parent == ROOT / "scripts" else ("workloads", "kernelbook", "tests")
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
        multiprocessing.current_process()._config["daemon"] = False  # as one that may have children
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
    """Environment variables for a new process, by which FORK_PYTHON does what `python` does in a fork of a server."""
    folder = Path(tempfile.mkdtemp(prefix="forks-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    client = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fork_client.py"))]
    (folder / "python").write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
    (folder / "snakemake").write_text('#!/bin/sh\nexec "$FORK_PYTHON" -m snakemake "$@"\n')
    for program in folder.iterdir():
        program.chmod(0o755)
    ready, told = FORKSERVER.Pipe(duplex=False)
    FORKSERVER.Process(target=_serve, args=(str(folder / "server"), os.getpid(), told), daemon=True).start()
    ready.recv()
    places = {"FORK_SERVER": str(folder / "server"), "FORK_PYTHON": str(folder / "python")}
    return places | {"FORK_SESSION": str(os.getsid(0))}


def _serve(address: str, owner: int, told: Connection) -> None:
    """Fork this process for each client until the owner is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        told.send(True)
        alive, answering = os.pidfd_open(owner), set()
        while True:
            ready = select.select([listener, alive], [], [])[0]
            if alive in ready:
                os._exit(0)
            connection = listener.accept()[0]
            answering = {process for process in answering if os.waitpid(process, os.WNOHANG)[0] == 0}
            answering.add(os.fork())
            if 0 in answering:
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> NoReturn:
    """Fork as asked, and report how that ended."""
    message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    words, environment, folder, group = json.loads(message)
    child = os.fork()
    if child == 0:
        if group:
            os.setpgid(0, group)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        run_python(words, environment, Path(folder))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(child, signal.SIGKILL if group else signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def _run_with_stderr(stderr: Connection, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    os.setpgid(0, 0)
    os.dup2(stderr.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    run_python(words, environment, folder)


class Served:
    """`python WORDS...` as a fork of the server, with the part of Popen that tests use.

    It leads a process group; stderr is a pipe.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        reader, writer = FORKSERVER.Pipe(duplex=False)
        arguments = (writer, list(words), dict(environment), folder)
        self._process = FORKSERVER.Process(target=_run_with_stderr, args=arguments, daemon=True)
        self._process.start()
        writer.close()
        self.pid = self._process.pid
        self.stderr = os.fdopen(os.dup(reader.fileno()), errors="replace")
        reader.close()

    @property
    def returncode(self) -> int | None:
        """None while it runs; of a process that a signal ended, the negative number of it."""
        return self._process.exitcode

    poll = returncode.fget

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        said = self.stderr.read()
        self.stderr.close()
        self._process.join(timeout)
        return None, said

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
