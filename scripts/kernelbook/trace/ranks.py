"""Which rank of a distributed job each of several traces is, and whether the set is whole.

Traces are ranks of one job when their files differ in nothing but a rank number, or when they lie in one folder and
say inside that they are ranks of as many on the same kind of device. Anything else is no set, and nothing is missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import islice
from pathlib import Path

from kernelbook.recorded import RANK, without_ending
from kernelbook.trace.model import TraceWarning
from kernelbook.trace.summary import Summary


def assign_ranks(summaries: Sequence[Summary]) -> list[int | None]:
    """A rank per trace: from its distributedInfo, else from its file's name, else None; a job of one has no ranks."""
    return [_rank(each) for each in summaries]


def rank_warnings(summaries: Sequence[Summary], ranks: Sequence[int | None]) -> list[list[TraceWarning]]:
    """Per trace the warnings about the set of ranks it belongs to: its own rank twice, or ranks without a trace."""
    found: list[list[TraceWarning]] = [[] for _ in summaries]
    for members in _sets(summaries, ranks):
        own = [ranks[member] for member in members]
        size = max([summaries[member].world_size or 0 for member in members] + [max(own) + 1])
        for member, warnings in zip(members, _of_set(own, size), strict=True):
            found[member] = warnings
    return found


def _of_set(ranks: Sequence[int], size: int) -> list[list[TraceWarning]]:
    """The warnings of each member of one job of `size` ranks."""
    taken = Counter(ranks)
    missing = size - len(taken)
    first = islice((rank for rank in range(size) if rank not in taken), 5)
    lacking = TraceWarning(
        "missing_rank", missing, f"{missing} of {size} ranks have no trace here: {', '.join(map(str, first))} first"
    )
    found = []
    for rank in ranks:
        mine = [lacking] if missing else []
        if taken[rank] > 1:
            mine.append(
                TraceWarning("duplicate_rank", taken[rank], f"{taken[rank]} traces say that they are rank {rank}")
            )
        found.append(mine)
    return found


def _sets(summaries: Sequence[Summary], ranks: Sequence[int | None]) -> list[list[int]]:
    """The jobs among the traces, as places in `summaries`; a trace that stands alone is in none."""
    named = _grouped([_key_of_name(each.source) for each in summaries])
    taken = {place for members in named for place in members}
    inside = [
        None if place in taken or ranks[place] is None else _key_inside(each) for place, each in enumerate(summaries)
    ]
    return [*named, *_grouped(inside)]


def _grouped(keys: Sequence[Hashable | None]) -> list[list[int]]:
    """The places of equal keys, where there are two or more."""
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        if key is not None:
            places.setdefault(key, []).append(place)
    return [members for members in places.values() if len(members) > 1]


def _key_of_name(source: str) -> Hashable | None:
    """The path without its rank number; None where it has none."""
    path = Path(source)
    stem = without_ending(path.name.lower())
    return (path.parent, RANK.sub("", stem)) if RANK.search(stem) else None


def _key_inside(summary: Summary) -> Hashable | None:
    """What ranks of one job agree on; None where the file does not say that there are others."""
    if summary.rank is None or (summary.world_size or 0) < 2:
        return None
    return Path(summary.source).parent, summary.world_size, summary.device


def _rank(summary: Summary) -> int | None:
    if summary.rank is not None:
        return None if summary.world_size == 1 else summary.rank
    match = RANK.search(Path(summary.source).name)
    return int(match[1]) if match else None
