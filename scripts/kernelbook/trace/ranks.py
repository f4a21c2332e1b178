"""Which traces belong together: the windows of one process, and the processes (ranks) of one job.

Names tell (`window`), and what torch writes inside: `distributedInfo` with rank, world size and process groups. Nothing
else makes traces a set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from kernelbook.trace.files import TraceFile
from kernelbook.trace.types import TraceWarning
from kernelbook.trace.window import Window, windows_of

RESTART_NS = 10 * 10**9  # a job that is started again writes its first window at least this much after the last one
_MOST_LISTED = 8


@dataclass(frozen=True)
class Process:
    """The windows of one process in the order of time."""

    windows: tuple[Window, ...]

    @property
    def first(self) -> Window:
        return self.windows[0]

    @property
    def rank(self) -> int | None:
        return self.first.rank


@dataclass(frozen=True)
class Job:
    """The processes of one job in the order of ranks. key: what their paths have in common."""

    key: str
    processes: tuple[Process, ...]

    @property
    def order(self) -> tuple[str, int, Path]:
        """Sorts jobs by key, and those of one key by time."""
        first = self.processes[0].first
        return self.key, first.written or 0, first.file.path

    def apart(self) -> list[Job]:
        """Several processes that say they are one and the same rank, each by itself; else the job."""
        alike = len({process.rank for process in self.processes}) == 1
        return [_job([process]) for process in self.processes] if alike else [self]

    def warnings(self, process: Process) -> list[TraceWarning]:
        """What is to be said of a process among the others: ranks that are missing, its own there twice."""
        ranks = [each.rank for each in self.processes]
        found = _missing(ranks, [each.first.world or 0 for each in self.processes])
        if (twice := ranks.count(process.rank)) > 1:
            text = f"{twice} processes of this job say that they are rank {process.rank}"
            found.append(TraceWarning("duplicate_rank", twice, text))
        return found


def jobs_of(files: Sequence[TraceFile]) -> list[Job]:
    """The jobs that these traces are of, in the order of keys and of time. A trace of no set is a job of its own."""
    jobs: list[Job] = []
    for members in _grouped(_processes(windows_of(files)), _set_of):
        facts = (lambda p: p.first.world, _process_groups, lambda p: p.first.file.device)
        parts = [members]
        for fact in facts:
            parts = [part for whole in parts for part in _by_fact(whole, fact)]
        jobs += [_job(part) for whole in parts for part in _untangled(whole)]
    return sorted(jobs, key=lambda job: job.order)


def _processes(windows: Iterable[Window]) -> list[Process]:
    """The windows of each process together: they differ in the time that torch wrote into their names."""

    def identity(window: Window) -> Hashable:
        known = window.key, window.worker, window.rank, window.world
        return known if window.written is not None else window.place

    return [Process(tuple(sorted(some, key=lambda w: w.written or 0))) for some in _grouped(windows, identity)]


def _set_of(process: Process) -> Hashable:
    """What the processes of one job have in common; a process without a rank is in no set."""
    first = process.first
    if process.rank is not None and (first.named is not None or first.host is not None):
        return "path", first.key
    return ("folder", first.file.path.parent) if process.rank is not None and (first.world or 0) > 1 else first.place


def _process_groups(process: Process) -> Hashable | None:
    """The groups that hold the whole job, which every rank of it lists."""
    listed = (process.first.file.distributed or {}).get("pg_config")
    if not isinstance(listed, list):
        return None
    groups = [group for group in listed if isinstance(group, dict) and group.get("pg_size") == process.first.world]
    return repr(sorted((str(group.get("pg_desc")), str(group.get("ranks"))) for group in groups))


def _by_fact(members: list[Process], fact: Callable[[Process], Hashable]) -> list[list[Process]]:
    """Apart where the fact differs; who does not say goes with the others as long as these agree."""
    known = {value for process in members if (value := fact(process)) is not None}
    return _grouped(members, fact) if len(known) > 1 else [members]


def _untangled(members: list[Process]) -> list[list[Process]]:
    """One job a part, where a rank is there several times: by time, else by host where that makes a job whole."""
    if not _repeated(members):
        return [members]
    times = [process.first.written for process in members]
    if None not in times:
        parts = _by_time(members)
        if len(parts) > 1:
            return [smaller for part in parts for smaller in _untangled(part)]
    parts = _grouped(members, lambda process: process.first.host)
    complete = any(len(part) == part[0].first.world for part in parts)
    return parts if complete and not any(map(_repeated, parts)) else [members]


def _by_time(members: list[Process]) -> list[list[Process]]:
    """A new part where a rank comes again after a pause."""
    parts: list[list[Process]] = [[]]
    for process in sorted(members, key=lambda each: each.first.written or 0):
        part = parts[-1]
        again = process.rank in {other.rank for other in part}
        if again and (process.first.written or 0) - (part[-1].first.written or 0) > RESTART_NS:
            parts.append([])
        parts[-1].append(process)
    return parts


def _repeated(members: Sequence[Process]) -> bool:
    return len({process.rank for process in members}) < len(members)


def _job(members: Sequence[Process]) -> Job:
    ordered = sorted(members, key=lambda each: (each.rank or 0, each.first.written or 0, each.first.file.path))
    return Job(_common([process.first.key for process in ordered]), tuple(ordered))


def _common(keys: Sequence[str]) -> str:
    """The key of all, or what the keys begin with, without the rest of a number or word."""
    if len(set(keys)) == 1:
        return keys[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*keys, strict=False))
    prefix = re.sub(r"[^/._-]*$", "", "".join(letters[0] for letters in same))
    return prefix.rstrip("/._-") or "ranks"


def _missing(ranks: Sequence[int | None], worlds: Sequence[int]) -> list[TraceWarning]:
    """The ranks of a job of several that have no trace."""
    taken = {rank for rank in ranks if rank is not None}
    if len(ranks) < 2 or not taken:
        return []
    size = max(*worlds, max(taken) + 1)
    count = size - len(taken)
    listed = ", ".join(map(str, islice((rank for rank in range(size) if rank not in taken), _MOST_LISTED)))
    more = f" and {count - _MOST_LISTED} more" if count > _MOST_LISTED else ""
    text = f"{count} of {size} ranks have no trace here: {listed}{more}"
    return [TraceWarning("missing_rank", count, text)] if count else []


def _grouped(members: Iterable, key: Callable) -> list[list]:
    """Members of equal keys together, in the order in which the keys first appear."""
    groups: dict[Hashable, list] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return list(groups.values())
