"""Start tonight's night, or go on with one that was interrupted; arguments other than these are passed to snakemake.

Only one runs at a time: a second start ends at once. A night that is finished is not run again; --suffix makes one more
of the same date. What a killed night left locked is unlocked, and what it left unfinished is done again. After
schedule.deadline_hours all jobs that wait or run are stopped and count as failed, and the rest is judged.

Exit status: 0 all well, or finished before; 1 it could not run; 3 a change was found; 4 something failed; 5 both.

Example:
  python scripts/nightly.py --cores 1 --use-singularity
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import yaml

from kernelbook.command import run
from kernelbook.history.nights import DEADLINE_VARIABLE, finished, is_night, tonight
from kernelbook.plan.folder_owners import living_owners

SNAKEMAKE = (sys.executable, "-m", "snakemake")
RESUME_HOURS = 20.0
STOP_S = 60.0
"""Seconds that Snakemake has to cancel its jobs after the deadline, before it is interrupted again."""
MOST_STOPS = 10
"""Interrupts after which it is killed."""


@dataclass(frozen=True)
class Settings:
    """The settings of config.yaml that this command needs."""

    history: Path
    resume_hours: float
    deadline_hours: float | None = None

    def finished(self, night: str) -> bool:
        """Whether the night is finished."""
        return finished(night, self.history, Path("results", night, "night", "published.json"))


def main(argv: Sequence[str] | None = None) -> int:
    """End with the status of snakemake; without a deadline, replace this process by it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--suffix", help="one more night of this date: 2026-11-29-SUFFIX")
    parser.add_argument("--night", help="the night to run or to go on with (default: see above)")
    parser.add_argument("--config", nargs="+", default=[], action="extend", metavar="KEY=VALUE", help="as snakemake's")
    args, rest = parser.parse_known_args(argv)
    os.environ.pop(DEADLINE_VARIABLE, None)
    settings = read_settings(Path("config.yaml"))
    lock, earlier = take_lock(settings.history)
    editions = [item.partition("=")[2] for item in args.config if item.startswith("edition=")]
    night = args.night or (editions and editions[-1]) or choose_night(settings, args.suffix, earlier)
    if not is_night(night):
        sys.exit(f"nightly: {night!r} is no name of a night: give its date, with a suffix or without")
    if settings.finished(night):
        print(f"nightly: night {night} is finished: nothing to do (one more tonight: --suffix {free_suffix(settings)})")
        return 0
    for owner in living_owners():
        sys.exit(f"nightly: process {owner.pid} on {owner.host} runs snakemake in this folder: nothing was started")
    write_owner(lock, night)
    os.environ.setdefault("KERNELBOOK_COMMAND", shlex.join(["python", *sys.argv]))
    os.set_inheritable(lock, True)
    words = [*own_snakefile(rest), *rest, "--config", *args.config, f"edition={night}"]
    command = [*SNAKEMAKE, "nightly", "--rerun-incomplete", *words]
    sys.stdout.flush()
    if settings.deadline_hours is None:
        os.execv(command[0], command)
    return run_until(command, settings.deadline_hours, lock)


def own_snakefile(rest: Sequence[str]) -> list[str]:
    """`--snakefile` of this checkout, if neither the working folder nor the command line has a Snakefile."""
    named = any(word in ("-s", "--snakefile") or word.startswith(("-s=", "--snakefile=")) for word in rest)
    here = any(Path(place).is_file() for place in ("Snakefile", "workflow/Snakefile"))
    return [] if named or here else ["--snakefile", str(Path(__file__).resolve().parent.parent / "Snakefile")]


def take_lock(history: Path) -> tuple[int, dict[str, Any]]:
    """The lock of this history and the record of its last owner in it; ends the process if it is taken."""
    history.mkdir(parents=True, exist_ok=True)
    lock = os.open(history / ".nightly.lock", os.O_RDWR | os.O_CREAT, 0o644)
    owner = read_owner(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"nightly: one is at work already ({described(owner)}): nothing was started")
    return lock, owner


def read_settings(path: Path) -> Settings:
    """The settings of config.yaml; Snakemake reports mistakes in it."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        config = None
    sections = {name: _section(config, name) for name in ("history", "schedule")}
    hours, deadline = (sections["schedule"].get(key) for key in ("resume_hours", "deadline_hours"))
    return Settings(
        Path(str(sections["history"].get("folder", "history"))),
        RESUME_HOURS if hours is None else float(hours),
        None if deadline is None else float(deadline),
    )


def _section(config: Any, name: str) -> Mapping[str, Any]:
    section = config.get(name) if isinstance(config, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def choose_night(settings: Settings, suffix: str | None, earlier: Mapping[str, Any], now: float | None = None) -> str:
    """Tonight, or an unfinished night that is not too old, unless the command line asks for another."""
    left, age_s = earlier.get("night"), (time.time() if now is None else now) - earlier.get("started", 0.0)
    if suffix is None and left and is_night(left) and not settings.finished(left):
        if age_s <= settings.resume_hours * 3600:
            print(f"nightly: going on with night {left}")
            return left
        if left != tonight():
            print(f"nightly: night {left} was left unfinished; it can be finished with --night {left}")
    return tonight(suffix)


def free_suffix(settings: Settings) -> str:
    """The first of b, c, d ... z, z2, z3 ... that no finished night of this date has as its suffix."""
    suffixes = chain("bcdefghijklmnopqrstuvwxyz", (f"z{number}" for number in count(2)))
    return next(suffix for suffix in suffixes if not settings.finished(tonight(suffix)))


def read_owner(lock: int) -> dict[str, Any]:
    """The process that holds or last held the lock, and its night; empty if there was none."""
    try:
        owner = json.loads(os.pread(lock, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def write_owner(lock: int, night: str) -> None:
    """Write this process and its night into the lock file; a night that is resumed keeps its first start."""
    earlier = read_owner(lock)
    started = earlier.get("started") if earlier.get("night") == night else None
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "night": night, "started": started or time.time()}
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(owner).encode(), 0)
    os.fsync(lock)


def described(owner: Mapping[str, Any]) -> str:
    """The owner of the lock in words."""
    if not owner:
        return "just started"
    return f"process {owner.get('pid')} on {owner.get('host')}, night {owner.get('night')}"


def run_until(command: Sequence[str], hours: float, lock: int) -> int:
    """Run Snakemake; after `hours` stop it as Ctrl-C does, and run it once more to judge what was measured.

    The second execution measures nothing: DEADLINE_VARIABLE makes each missing measurement a failed one. Returns the
    exit status, which says that something failed (4 or 5) if the deadline passed. Signals are passed on.
    """
    with started(command, lock) as running:
        try:
            return exit_status(running.wait(hours * 3600))
        except subprocess.TimeoutExpired:
            print(
                f"nightly: the deadline of {hours:g} hours (schedule.deadline_hours) has passed: the jobs that wait or "
                "run are stopped, and what was measured is judged",
                flush=True,
            )
        for _ in range(MOST_STOPS):  # Snakemake loses an interrupt at some moments of its start
            os.killpg(running.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(STOP_S)
                break
        else:
            os.killpg(running.pid, signal.SIGKILL)
    os.environ[DEADLINE_VARIABLE] = f"{hours:g}"
    with started(command, lock) as judging:
        status = exit_status(judging.wait())
    return {0: 4, 3: 5}.get(status, status)


def started(command: Sequence[str], lock: int) -> subprocess.Popen[bytes]:
    """Start Snakemake in a process group of its own, to which this process passes its signals on."""
    # a background job of a shell ignores Ctrl-C, and its children inherit that: the deadline could not stop them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    running = subprocess.Popen(command, process_group=0, pass_fds=[lock])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.killpg(running.pid, number))
    return running


def exit_status(returned: int) -> int:
    """The status as a shell states it: 128 and its number for a signal."""
    return returned if returned >= 0 else 128 - returned


if __name__ == "__main__":
    sys.exit(run(main))
