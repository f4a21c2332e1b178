"""What the name of a trace says: of which process it is a window, and which rank that is.

torch's tensorboard_trace_handler writes HOST_PID.TIME.pt.trace.json, a file a window. People put a rank into the name
of a file (`job_rank3.json`) or of a folder (`rank_3/trace.json`, `3/trace.json`). A number in a folder's name may be
something else (the rank of an adapter, a step), so it counts only where the other files bear it out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kernelbook.trace.events import integer
from kernelbook.trace.files import TraceFile, without_ending
from kernelbook.trace.types import TraceWarning

_RANK = re.compile(r"(?:^|(?<=[^a-z]))rank[-_.]?([0-9]{1,9})(?![0-9])")
_RANK_FOLDER = re.compile(rf"(?:.*[^a-z])?{_RANK.pattern}")
_NUMBER = re.compile(r"[0-9]{1,6}")
_WINDOW = re.compile(r"(?P<worker>.+)\.(?P<time>\d{13}|\d{16}|\d{19})\.pt\.trace")
_HOST_PID = re.compile(r"(?P<host>.+)_\d{1,10}")
_FILE, _FOLDER, _NUMBERED = range(3)


@dataclass
class Window:
    """A trace, and what its name says of it.

    place: its number among the given files. key: the path without what tells processes and windows apart. worker: what
    tells the process apart, and host: the machine that it ran on; None where the name does not say. written: when, in
    ns since 1970. named: its rank.
    """

    place: int
    file: TraceFile
    key: str
    worker: str | None = None
    host: str | None = None
    written: int | None = None
    named: int | None = None

    @property
    def world(self) -> int | None:
        """The number of ranks that the file says its job has."""
        return _whole((self.file.distributed or {}).get("world_size"))

    @property
    def inside(self) -> int | None:
        """The rank that the file says it is; a job of one has no ranks."""
        return None if self.world == 1 else _whole((self.file.distributed or {}).get("rank"))

    @property
    def rank(self) -> int | None:
        """That of the file, else that of its name."""
        return self.named if self.inside is None and self.world != 1 else self.inside

    def warnings(self) -> list[TraceWarning]:
        """Whether name and file disagree."""
        if self.named is None or self.inside in (None, self.named):
            return []
        text = f"the name says rank {self.named}, the file says rank {self.inside}: the file is followed"
        return [TraceWarning("rank_mismatch", 1, text)]


class _Numbered(NamedTuple):
    """A rank that a path may name: where it stands, the path without it, and the number."""

    where: int
    rest: str
    number: int


def windows_of(files: Sequence[TraceFile]) -> list[Window]:
    """The files in their order, with what their names say."""
    windows = [_window(place, file) for place, file in enumerate(files)]
    groups: dict[tuple[int, str], list[tuple[Window, int]]] = {}
    for window in windows:
        if found := _numbered(window.key):
            groups.setdefault(found[:2], []).append((window, found.number))
    for (where, rest), members in groups.items():
        if _are_ranks(where, members):
            for window, number in members:
                window.key, window.named = rest, number
    return windows


def _window(place: int, file: TraceFile) -> Window:
    folder, slash, name = file.path.as_posix().lower().rpartition("/")
    what = without_ending(name)
    worker, host, written = None, None, None
    if found := _WINDOW.fullmatch(what):
        what = worker = found["worker"]
        written = int(found["time"].ljust(19, "0"))
    if worker and (found := _HOST_PID.fullmatch(worker)):
        host = found["host"]
        what = host if _RANK.search(host) else ""  # a host and a pid say nothing of what was run
    return Window(place, file, folder + slash + what, worker, host, written)


def _numbered(path: str) -> _Numbered | None:
    """The rank in the file's name, else in that of the nearest folder, else the number that its folder is."""
    *folders, name = path.split("/")
    if found := list(_RANK.finditer(name)):
        return _Numbered(_FILE, _without(path, found[-1][1]), int(found[-1][1]))
    for folder in reversed(folders):
        if found := _RANK_FOLDER.fullmatch(folder):
            return _Numbered(_FOLDER, _without(path, found[1]), int(found[1]))
    if folders and _NUMBER.fullmatch(folders[-1]):
        return _Numbered(_NUMBERED, "/".join([*folders[:-1], name]), int(folders[-1]))
    return None


def _without(path: str, number: str) -> str:
    """The path without this rank, wherever it stands."""
    return _RANK.sub(lambda found: "" if int(found[1]) == int(number) else found[0], path)


def _are_ranks(where: int, members: Sequence[tuple[Window, int]]) -> bool:
    """Whether these numbers are ranks: those of a job begin at 0, or the files say inside that they are ranks."""
    numbers = {number for _, number in members}
    from_0 = len(numbers) > 1 and 0 in numbers
    inside = [window.inside for window, _ in members]
    if where == _NUMBERED:
        agree = all(window.inside in (None, number) for window, number in members)
        return agree and len(numbers) > 1 and (from_0 or None not in inside)
    alone = where == _FILE and len(numbers) == 1
    return from_0 or alone or any(rank is not None for rank in inside)


def _whole(value: object) -> int | None:
    """A number of ranks or a rank, also as text; None for anything else."""
    found = integer(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    return None if found is None or found < 0 else found
