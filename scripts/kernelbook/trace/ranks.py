"""Which traces belong together: the windows of one process, and the processes (ranks) of one job.

Two things tell: the names of files, and torch's `distributedInfo` with rank, world size and process groups.
tensorboard_trace_handler writes HOST_PID.TIME.pt.trace.json, one file per window. Users put a rank into the name of a
file (`job_rank3.json`) or of a folder (`rank_3/trace.json`, `3/trace.json`). A number in the name of a folder may mean
something else (the rank of an adapter, a step), so it counts only where the other files agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from kernelbook.trace.events import integer
from kernelbook.trace.files import TraceFile, without_ending
from kernelbook.trace.types import TraceWarning

RESTART_NS = 10 * 10**9  # a job that starts again writes its first window at least this long after its last one
_MOST_LISTED = 8
_RANK = re.compile(r"(?:^|(?<=[^a-z]))rank[-_.]?([0-9]{1,9})(?![0-9])")
_RANK_FOLDER = re.compile(rf"(?:.*[^a-z])?{_RANK.pattern}")
_NUMBER = re.compile(r"[0-9]{1,6}")
_WINDOW = re.compile(r"(?P<worker>.+)\.(?P<time>\d{13}|\d{16}|\d{19})\.pt\.trace")
_HOST_PID = re.compile(r"(?P<host>.+)_\d{1,10}")
_FILE, _FOLDER, _NUMBERED = range(3)
_Member = TypeVar("_Member")


class Window(msgspec.Struct):
    """A trace, and what its name says about it.

    place: index among the files. key: path without the parts that tell processes and windows apart.
    worker: the part of the name that identifies the process. host: the machine it ran on.
    written: when, in ns since 1970. named_rank: rank in the name. copies: files of its folder with the same trace.
    """

    place: int
    file: TraceFile
    key: str
    worker: str | None = None
    host: str | None = None
    written: int | None = None
    named_rank: int | None = None
    copies: tuple[Window, ...] = ()

    @property
    def world_size(self) -> int | None:
        return _rank_number((self.file.distributed or {}).get("world_size"))

    @property
    def recorded_rank(self) -> int | None:
        """Rank in the file; None for a job of one process."""
        return None if self.world_size == 1 else _rank_number((self.file.distributed or {}).get("rank"))

    @property
    def rank(self) -> int | None:
        """Rank in the file, or else in the name."""
        return self.named_rank if self.recorded_rank is None and self.world_size != 1 else self.recorded_rank

    def warnings(self) -> list[TraceWarning]:
        warnings = []
        if self.copies:
            names = ", ".join(copy.file.path.name for copy in self.copies[:_MOST_LISTED])
            text = f"copies of this trace lie beside it and are left out: {names}"
            warnings.append(TraceWarning("duplicate_rank", len(self.copies), text))
        if self.named_rank is not None and self.recorded_rank not in (None, self.named_rank):
            text = (
                f"the name says rank {self.named_rank}, the file says rank {self.recorded_rank}: the file is followed"
            )
            warnings.append(TraceWarning("rank_mismatch", 1, text))
        return warnings


class RankProcess(msgspec.Struct, frozen=True):
    """The windows of one process, in order of time."""

    windows: tuple[Window, ...]

    @property
    def first(self) -> Window:
        return self.windows[0]

    @property
    def rank(self) -> int | None:
        return self.first.rank


class Job(msgspec.Struct, frozen=True):
    """The processes of one job, in order of rank. `key`: what their paths have in common."""

    key: str
    processes: tuple[RankProcess, ...]

    @property
    def order(self) -> tuple[str, int, Path]:
        """Sorts jobs by key, then by time."""
        first = self.processes[0].first
        return self.key, first.written or 0, first.file.path

    def split_if_one_rank(self) -> list[Job]:
        """One job per process if several processes have the same rank; otherwise the job."""
        same_rank = len({process.rank for process in self.processes}) == 1
        return [_job([process]) for process in self.processes] if same_rank else [self]

    def warnings(self, process: RankProcess) -> list[TraceWarning]:
        """Ranks that are missing, and further processes with the rank of this one."""
        ranks = [each.rank for each in self.processes]
        present = [rank for rank in ranks if rank is not None]
        size = max((each.first.world_size or 0 for each in self.processes), default=0)
        warnings = list(missing_ranks(present, size)) if len(ranks) > 1 else []
        if (count := ranks.count(process.rank)) > 1:
            text = (
                f"{count} processes of this job say that they are rank {process.rank}, so its ranks are not compared: "
                "put each job into a folder of its own"
            )
            warnings.append(TraceWarning("duplicate_rank", count, text))
        return warnings


def jobs_of(files: Sequence[TraceFile]) -> list[Job]:
    """The jobs of these traces, by key and time. A trace that belongs to no other is a job of its own."""
    facts: tuple[Callable[[RankProcess], Hashable], ...] = (
        lambda process: process.first.world_size,
        _process_groups,
        lambda process: process.first.file.device,
    )
    parts = _grouped(_processes(_without_copies(_windows(files))), _job_key)
    for fact in facts:
        parts = [part for whole in parts for part in _split_by(whole, fact)]
    for place in (_folder, _folder_beside):
        parts = [part for bucket in _grouped(parts, place) for part in _completed(bucket)]
    jobs = [_job(part) for whole in parts for part in _without_duplicates(whole)]
    return sorted(jobs, key=lambda job: job.order)


def _without_copies(windows: Sequence[Window]) -> list[Window]:
    """The windows without copies of the trace of a rank in its folder; of equal files one with a rank in its name."""
    kept = []
    for same in _grouped(windows, lambda w: (w.file.path.parent, w.recorded_rank, w.file.content or w.place)):
        first = min(same, key=lambda w: (w.named_rank is None, len(w.file.path.name), w.place))
        first.copies = tuple(window for window in same if window is not first)
        kept.append(first)
    return kept


def _part_of(part: Sequence[RankProcess]) -> Hashable:
    """Key shared by the parts of one job; unique for a part that is a complete job."""
    first = part[0].first
    lacking = len(part) < (first.world_size or 0) and all(each.first.recorded_rank is not None for each in part)
    return (first.world_size, _process_groups(part[0]), first.file.device) if lacking else first.place


def _folder(part: Sequence[RankProcess]) -> Hashable:
    return _part_of(part), part[0].first.file.path.parent


def _folder_beside(part: Sequence[RankProcess]) -> Hashable:
    """Equal for traces of one name in folders beside each other, as hosts leave them. Numbers may be steps instead."""
    path = part[0].first.file.path
    alone = len(part) == 1 and not _NUMBER.fullmatch(path.parent.name)
    return _part_of(part), *((path.parent.parent, path.name) if alone else (path,))


def _completed(parts: list[list[RankProcess]]) -> list[list[RankProcess]]:
    """The parts as one job, if no rank occurs twice and at most one part is grouped by its names."""
    ranks = [process.rank for part in parts for process in part]
    by_name = [part for part in parts if part[0].first.named_rank is not None or part[0].first.host is not None]
    if len(set(ranks)) < len(ranks) or len(by_name) > 1:
        return parts
    return [[process for part in parts for process in part]]


class _NamedRank(NamedTuple):
    """A rank that a path may name: in which part, the path without it, and the rank."""

    where: int
    rest: str
    number: int


def _windows(files: Sequence[TraceFile]) -> list[Window]:
    """The files in their order, with what their names say."""
    windows = [_window(place, file) for place, file in enumerate(files)]
    groups: dict[tuple[int, str], list[tuple[Window, int]]] = {}
    for window in windows:
        if parts := _named_rank(window.key):
            groups.setdefault((parts.where, parts.rest), []).append((window, parts.number))
    for (where, rest), members in groups.items():
        if _are_ranks(where, members):
            for window, number in members:
                window.key, window.named_rank = rest, number
    return windows


def _window(place: int, file: TraceFile) -> Window:
    folder, slash, name = file.path.as_posix().lower().rpartition("/")
    name = without_ending(name)
    worker, host, written = None, None, None
    if match := _WINDOW.fullmatch(name):
        name = worker = match["worker"]
        written = int(match["time"].ljust(19, "0"))
    if worker and (match := _HOST_PID.fullmatch(worker)):
        host = match["host"]
        name = host if _RANK.search(host) else ""  # host and pid say nothing about what was run
    return Window(place, file, folder + slash + name, worker, host, written)


def _named_rank(path: str) -> _NamedRank | None:
    """The rank in the file's name, or in that of the nearest folder, or the number that is the folder's name."""
    *folders, name = path.split("/")
    if matches := list(_RANK.finditer(name)):
        return _NamedRank(_FILE, _without_rank(path, matches[-1][1]), int(matches[-1][1]))
    for folder in reversed(folders):
        if match := _RANK_FOLDER.fullmatch(folder):
            return _NamedRank(_FOLDER, _without_rank(path, match[1]), int(match[1]))
    if folders and _NUMBER.fullmatch(folders[-1]):
        return _NamedRank(_NUMBERED, "/".join([*folders[:-1], name]), int(folders[-1]))
    return None


def _without_rank(path: str, number: str) -> str:
    """The path without every mention of this rank."""
    return _RANK.sub(lambda match: "" if int(match[1]) == int(number) else match[0], path)


def _are_ranks(where: int, members: Sequence[tuple[Window, int]]) -> bool:
    """Whether these numbers are ranks: those of a job begin at 0, or the files themselves state ranks."""
    numbers = {number for _, number in members}
    from_0 = len(numbers) > 1 and 0 in numbers
    recorded = [window.recorded_rank for window, _ in members]
    if where == _NUMBERED:
        agree = all(window.recorded_rank in (None, number) for window, number in members)
        return agree and len(numbers) > 1 and (from_0 or None not in recorded)
    single_file = where == _FILE and len(numbers) == 1
    return from_0 or single_file or any(rank is not None for rank in recorded)


def _rank_number(value: object) -> int | None:
    """A rank or world size, also as text; None for anything else."""
    number = integer(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    return None if number is None or number < 0 else number


def _processes(windows: Iterable[Window]) -> list[RankProcess]:
    """The windows by process: those of one differ in the time that torch wrote into their names."""

    def identity(window: Window) -> Hashable:
        key = window.key, window.worker, window.rank, window.world_size
        return key if window.written is not None else window.place

    return [RankProcess(tuple(sorted(group, key=lambda w: w.written or 0))) for group in _grouped(windows, identity)]


def _job_key(process: RankProcess) -> Hashable:
    """Equal for processes that may be of one job; unique for a process without a rank."""
    first = process.first
    if process.rank is not None and (first.named_rank is not None or first.host is not None):
        return "path", first.key
    if process.rank is not None and (first.world_size or 0) > 1:
        return "folder", first.file.path.parent
    return first.place


def _process_groups(process: RankProcess) -> Hashable | None:
    """The process groups of the whole job, which every rank lists."""
    listed = (process.first.file.distributed or {}).get("pg_config")
    if not isinstance(listed, list):
        return None
    size = process.first.world_size
    groups = [group for group in listed if isinstance(group, dict) and group.get("pg_size") == size]
    return repr(sorted((str(group.get("pg_desc")), str(group.get("ranks"))) for group in groups))


def _split_by(members: list[RankProcess], fact: Callable[[RankProcess], Hashable]) -> list[list[RankProcess]]:
    """Split where the fact differs. None does not differ as long as all others agree."""
    values = {value for process in members if (value := fact(process)) is not None}
    return _grouped(members, fact) if len(values) > 1 else [members]


def _without_duplicates(members: list[RankProcess]) -> list[list[RankProcess]]:
    """Split a set with several processes of one rank: by time, or else by host if that makes a job complete."""
    if not _has_duplicates(members):
        return [members]
    if all(process.first.written is not None for process in members):
        parts = _by_time(members)
        if len(parts) > 1:
            return [smaller for part in parts for smaller in _without_duplicates(part)]
    parts = _grouped(members, lambda process: process.first.host)
    complete = any(len(part) == part[0].first.world_size for part in parts)
    return parts if complete and not any(map(_has_duplicates, parts)) else [members]


def _by_time(members: list[RankProcess]) -> list[list[RankProcess]]:
    """Start a new part where a rank appears again after a pause."""
    parts: list[list[RankProcess]] = [[]]
    for process in sorted(members, key=lambda each: each.first.written or 0):
        part = parts[-1]
        again = process.rank in {other.rank for other in part}
        if again and (process.first.written or 0) - (part[-1].first.written or 0) > RESTART_NS:
            parts.append([])
        parts[-1].append(process)
    return parts


def _has_duplicates(members: Sequence[RankProcess]) -> bool:
    return len({process.rank for process in members}) < len(members)


def _job(members: Sequence[RankProcess]) -> Job:
    ordered = sorted(members, key=lambda each: (each.rank or 0, each.first.written or 0, each.first.file.path))
    return Job(_common_key([process.first.key for process in ordered]), tuple(ordered))


def _common_key(keys: Sequence[str]) -> str:
    """The common start of the keys, cut at the end of a word."""
    if len(set(keys)) == 1:
        return keys[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*keys, strict=False))
    prefix = re.sub(r"[^/._-]*$", "", "".join(letters[0] for letters in same))
    return prefix.rstrip("/._-") or "ranks"


def missing_ranks(present: Iterable[int], world_size: int) -> Iterator[TraceWarning]:
    """A warning that lists the ranks of a job that have no trace; none where all have one, or none is known."""
    ranks = set(present)
    size = max(world_size, max(ranks, default=-1) + 1)
    count = size - len(ranks)
    if ranks and count:
        listed = ", ".join(map(str, islice((rank for rank in range(size) if rank not in ranks), _MOST_LISTED)))
        more = f" and {count - _MOST_LISTED} more" if count > _MOST_LISTED else ""
        yield TraceWarning("missing_rank", count, f"{count} of {size} ranks have no trace here: {listed}{more}")


def _grouped(members: Iterable[_Member], key: Callable[[_Member], Hashable]) -> list[list[_Member]]:
    """Members with equal keys together, in order of the first appearance of each key."""
    groups: dict[Hashable, list[_Member]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return list(groups.values())
