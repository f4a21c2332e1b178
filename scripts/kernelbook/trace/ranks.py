"""Which rank of a distributed job each of several traces is, and whether the set is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from kernelbook.recorded import RANK
from kernelbook.trace.model import TraceWarning
from kernelbook.trace.summary import Summary


def assign_ranks(summaries: Sequence[Summary]) -> list[int | None]:
    """A rank per trace: from its distributedInfo, else from its file's name, else the next that is free.

    All None for a single trace, and where nothing says that the traces are ranks.
    """
    known = [each.rank if each.rank is not None else _named(each.source) for each in summaries]
    if len(summaries) < 2 or all(rank is None for rank in known):
        return [None] * len(summaries)
    free = (rank for rank in count() if rank not in known)
    return [next(free) if rank is None else rank for rank in known]


def rank_warnings(summaries: Sequence[Summary], ranks: Sequence[int | None]) -> list[list[TraceWarning]]:
    """Per trace the warnings about the set of ranks: its own rank twice, or ranks without a trace."""
    taken = Counter(rank for rank in ranks if rank is not None)
    if not taken:
        return [[] for _ in summaries]
    size = max([each.world_size or 0 for each in summaries] + [max(taken) + 1])
    missing = size - len(taken)
    first = [rank for rank in range(min(size, max(taken) + 2)) if rank not in taken][:5]
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


def _named(source: str) -> int | None:
    match = RANK.search(Path(source).name)
    return int(match[1]) if match else None
