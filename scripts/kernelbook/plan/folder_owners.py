"""Records which Snakemakes run in a working folder, so that only the lock of a killed one is removed.

Snakemake's own lock does not say whose it is. Each Snakemake of Kernelbook also leaves an empty file named after its
owner: process, start time, PID namespace and host. The file is deleted at exit, unless the process is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from kernelbook.containers.launching import INTO_CONTAINER

LOCKS = Path(".snakemake/locks")
OWNERS = Path(".snakemake/kernelbook-owners")
VARIABLE = "KERNELBOOK_OWNER"
"""Environment variable with the owner, by which the processes that a Snakemake started can be found."""
CLOCK_S = 2
"""Largest difference of a start time when it is read again, since the system's clock may be set meanwhile."""
ORPHANS_S = 1200
"""Longest time of a measurement: twice its time limit."""


@dataclass(frozen=True)
class Owner:
    """A Snakemake that runs or ran in a folder. started: seconds since the epoch."""

    pid: int
    started: int
    namespace: int
    host: str

    @classmethod
    def this_process(cls) -> Owner:
        """The owner for the current process."""
        started = round(psutil.Process().create_time())
        return cls(os.getpid(), started, os.stat("/proc/self/ns/pid").st_ino, socket.gethostname())

    @classmethod
    def parse(cls, name: str) -> Owner:
        """The owner whose text is `name`; an unreadable one counts as one of another host."""
        try:
            pid, started, namespace, host = name.split("-", 3)
            return cls(int(pid), int(started), int(namespace), host)
        except ValueError:
            return cls(0, 0, 0, name)

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}-{self.namespace}-{self.host}"

    def is_here(self) -> bool:
        """Whether it is a process of this host and PID namespace."""
        here = Owner.this_process()
        return (self.namespace, self.host) == (here.namespace, here.host)

    def may_live(self) -> bool:
        """Whether the process runs; True for one of another host or PID namespace, which cannot be checked."""
        if not self.is_here():
            return True
        try:
            process = psutil.Process(self.pid)
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and abs(process.create_time() - self.started) <= CLOCK_S
        except psutil.NoSuchProcess:
            return False


def living_owners(folder: Path = Path()) -> list[Owner]:
    """The other Snakemakes that run in the folder, or may run."""
    return [owner for owner in _others(folder) if owner.may_live()]


def enter(folder: Path = Path()) -> None:
    """Register this process as an owner of the folder, and remove Snakemake's lock if all earlier owners are dead.

    Of two that enter at once each sees the other, so neither removes a lock that the other has just taken. A lock
    without any owner belongs to another program and stays.
    """
    me = Owner.this_process()
    file = (folder / OWNERS / str(me)).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    atexit.register(file.unlink, missing_ok=True)
    for prefix in ("", *INTO_CONTAINER):
        os.environ[prefix + VARIABLE] = str(me)
    locks = list((folder / LOCKS).glob("*.lock"))
    if not locks:  # ended, or unlocked by the user, who knows that all are dead
        for owner in _others(folder):
            if not owner.is_here():
                (folder / OWNERS / str(owner)).unlink(missing_ok=True)
        return
    living = living_owners(folder)
    if living:
        for owner in living:
            print(f"process {owner.pid} on {owner.host} runs snakemake in this folder, or did", file=sys.stderr)
    elif _others(folder):
        print("the last snakemake in this folder was killed: going on where it stopped", file=sys.stderr)
        for lock in locks:
            lock.unlink(missing_ok=True)


def wait_for_orphans(folder: Path = Path()) -> None:
    """Wait for processes that killed owners left running on this host, since they write to the same files.

    Then deletes the files of these owners. Exits if the processes do not end within 20 minutes.
    """
    dead = [owner for owner in _others(folder) if not owner.may_live()]
    orphans = _started_by({str(owner) for owner in dead})
    if orphans:
        print(
            f"waiting for {len(orphans)} process(es) that a killed snakemake left running", file=sys.stderr, flush=True
        )
        _, alive = psutil.wait_procs(orphans, timeout=ORPHANS_S)
        if alive:
            sys.exit(f"process {alive[0].pid} of a killed snakemake does not end: end it first")
    for owner in dead:
        (folder / OWNERS / str(owner)).unlink(missing_ok=True)


def _others(folder: Path) -> Sequence[Owner]:
    """All registered owners except this process."""
    me = str(Owner.this_process())
    names = sorted(os.listdir(folder / OWNERS)) if (folder / OWNERS).is_dir() else []
    return [Owner.parse(name) for name in names if name != me]


def _started_by(owners: set[str]) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if owners and _environ(process).get(VARIABLE) in owners]


def _environ(process: psutil.Process) -> Mapping[str, str]:
    with contextlib.suppress(psutil.Error, OSError):  # another user's, or ended meanwhile
        return process.environ()
    return {}
