"""Start tonight's nightly, or go on with one that was interrupted; what this does not know goes to snakemake.

One nightly at a time: a second start ends at once. A night that is finished is not run again; --suffix makes one more
of the same date. What a killed one left locked or half done is unlocked and done again.

Exit status: 0 all well, or finished before; 1 it could not run; 3 a change was found; 4 something failed; 5 both.

Example:
  python scripts/nightly.py --cores 1 --use-singularity
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, NoReturn

import psutil
import yaml

from kernelbook.command import run
from kernelbook.history.nights import finished, is_night, tonight

SNAKEMAKE = (sys.executable, "-m", "snakemake")
TOKEN = "KERNELBOOK_NIGHTLY"
"""Environment variable by which everything that a nightly starts can be told."""
RESUME_HOURS = 20.0
ORPHANS_S = 1200
"""Longer than a measurement may take: its time limit, twice."""


@dataclass(frozen=True)
class Settings:
    """What config.yaml says that this command needs."""

    history: Path
    resume_hours: float

    def finished(self, night: str) -> bool:
        """Whether the night is done with."""
        return finished(night, self.history, Path("results", night, "night", "published.json"))


def main(argv: Sequence[str] | None = None) -> int:
    """Ends as snakemake does, since it becomes snakemake; returns only where there is nothing to do."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--suffix", help="one more night of this date: 2026-11-29-SUFFIX")
    parser.add_argument("--night", help="the night to run or to go on with (default: see above)")
    parser.add_argument("--config", nargs="+", default=[], action="extend", metavar="KEY=VALUE", help="as snakemake's")
    args, rest = parser.parse_known_args(argv)
    settings = read_settings(Path("config.yaml"))
    lock, earlier = take_lock(settings.history)
    named = [item.partition("=")[2] for item in args.config if item.startswith("edition=")]
    night = args.night or (named and named[-1]) or choose_night(settings, args.suffix, earlier)
    if not is_night(night):
        sys.exit(f"nightly: {night!r} is no name of a night: give its date, with a suffix or without")
    if settings.finished(night):
        print(f"nightly: night {night} is finished: nothing to do (one more tonight: --suffix {free_suffix(settings)})")
        return 0
    wait_for_others(Path.cwd(), earlier.get("token"))
    os.environ[TOKEN] = write_owner(lock, night)
    return become_snakemake(lock, [*rest, "--config", *args.config, f"edition={night}"])


def take_lock(history: Path) -> tuple[int, dict[str, Any]]:
    """The lock of this history's nightly, and what its last owner left in it; ends the process where it is taken."""
    history.mkdir(parents=True, exist_ok=True)
    lock = os.open(history / ".nightly.lock", os.O_RDWR | os.O_CREAT, 0o644)
    owner = read_owner(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"nightly: one is at work already ({described(owner)}): nothing was started")
    return lock, owner


def read_settings(path: Path) -> Settings:
    """The history's folder and how long a night is resumed; a mistake in the file is for Snakemake to tell."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        config = None
    sections = {name: _section(config, name) for name in ("history", "schedule")}
    hours = sections["schedule"].get("resume_hours", RESUME_HOURS)
    return Settings(Path(str(sections["history"].get("folder", "history"))), float(hours))


def _section(config: Any, name: str) -> Mapping[str, Any]:
    section = config.get(name) if isinstance(config, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def choose_night(settings: Settings, suffix: str | None, earlier: Mapping[str, Any], now: float | None = None) -> str:
    """Tonight, unless an earlier one was left unfinished not too long ago and no other is asked for."""
    left, age_s = earlier.get("night"), (time.time() if now is None else now) - earlier.get("started", 0.0)
    if suffix is None and left and is_night(left) and not settings.finished(left):
        if age_s <= settings.resume_hours * 3600:
            print(f"nightly: going on with night {left}")
            return left
        if left != tonight():
            print(f"nightly: night {left} was left unfinished; it can be finished with --night {left}")
    return tonight(suffix)


def free_suffix(settings: Settings) -> str:
    """The first of b, c, d ... z, z2, z3 ... that no finished night of this date has."""
    suffixes = chain("bcdefghijklmnopqrstuvwxyz", (f"z{number}" for number in count(2)))
    return next(suffix for suffix in suffixes if not settings.finished(tonight(suffix)))


def read_owner(lock: int) -> dict[str, Any]:
    """Who holds the lock or held it last, and the night it was at; empty where nobody did."""
    try:
        owner = json.loads(os.pread(lock, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def write_owner(lock: int, night: str) -> str:
    """Leave word in the lock file and return the token in it; a night that is gone on with keeps its first start."""
    earlier = read_owner(lock)
    started = earlier.get("started") if earlier.get("night") == night else None
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "night": night, "started": started or time.time()}
    owner["token"] = f"{owner['host']}-{owner['pid']}-{time.time_ns()}"
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(owner).encode(), 0)
    os.fsync(lock)
    return owner["token"]


def described(owner: Mapping[str, Any]) -> str:
    """The owner of the lock in words."""
    if not owner:
        return "just started"
    return f"process {owner.get('pid')} on {owner.get('host')}, night {owner.get('night')}"


def left_over(token: str | None) -> list[psutil.Process]:
    """What a nightly that died has started and what still runs on this machine: they carry its token."""
    return [process for process in psutil.process_iter() if token and _environ(process).get(TOKEN) == token]


def _environ(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}  # somebody else's, or gone meanwhile


def snakemakes(folder: Path) -> list[psutil.Process]:
    """The snakemakes that work in the folder on this machine."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        named = any(Path(word).name == "snakemake" for word in words[:4])
        if named and process.pid != os.getpid() and process.info["cwd"] == str(folder):
            found.append(process)
    return found


def wait_for_others(folder: Path, token: str | None) -> None:
    """Wait for what a nightly that died has left running, since it writes where the next one would.

    Ends the process where somebody else's snakemake is at work in the folder.
    """
    orphans = left_over(token)
    if orphans:
        print(f"nightly: waiting for {len(orphans)} process(es) that a killed nightly left running", flush=True)
        _, alive = psutil.wait_procs(orphans, timeout=ORPHANS_S)
        if alive:
            sys.exit(f"nightly: process {alive[0].pid} of a killed nightly does not end: end it first")
    others = snakemakes(folder)
    if others:
        sys.exit(f"nightly: snakemake is at work in this folder (process {others[0].pid}): nothing was started")


def become_snakemake(lock: int, args: Sequence[str]) -> NoReturn:
    """Turn into a snakemake that holds the lock until it ends, however it does; what a dead one left is unlocked."""
    if any(Path(".snakemake/locks").glob("*")):
        print("nightly: the last snakemake here was killed: unlocking")
        done = subprocess.run([*SNAKEMAKE, "--unlock", *args], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"nightly: could not unlock: {(done.stderr or done.stdout).strip()[-500:]}")
    os.set_inheritable(lock, True)
    sys.stdout.flush()
    os.execv(SNAKEMAKE[0], [*SNAKEMAKE, "nightly", "--rerun-incomplete", *args])


if __name__ == "__main__":
    sys.exit(run(main))
