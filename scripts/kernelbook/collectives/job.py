"""Reads the traces of all ranks of one job together: one clock, matched collectives, waits and bandwidths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelbook.collectives.matching import (
    MOST_APART,
    Disorder,
    GroupDisorder,
    Matched,
    RankClocks,
    align,
    label,
    match,
)
from kernelbook.collectives.model import Collective, CommunicationEvent, RankForward, RankTrace
from kernelbook.collectives.operations import JOINT, SEND_RECV, bus_factor
from kernelbook.collectives.stragglers import Straggler, find_straggler
from kernelbook.devices import link_rate
from kernelbook.text.formatting import duration, percent, plural
from kernelbook.trace.ranks import missing_ranks
from kernelbook.trace.types import TraceWarning


@dataclass(frozen=True)
class JobReading:
    """A job: `forwards` are the rows of the table `ranks`, `collectives` those of the table of that name.

    ranks: numbers of the ranks that have a trace. world_size: number of ranks of the job.
    clock_error_us: how far apart ranks still leave one collective, for 95 % of them; None if the clocks are not
    aligned. refused: why there are no figures across ranks; None if there are.
    disorders: collectives that a rank runs in another order than the first rank. group_disorders: collectives of two
    groups that a rank launches in another order.
    """

    ranks: tuple[int, ...]
    world_size: int
    forwards: tuple[RankForward, ...]
    collectives: tuple[Collective, ...]
    clock_error_us: float | None
    refused: str | None
    straggler: Straggler | None
    disorders: tuple[Disorder, ...]
    group_disorders: tuple[GroupDisorder, ...]
    warnings: tuple[TraceWarning, ...]

    @property
    def incomplete(self) -> bool:
        """Whether a rank of the job has no trace."""
        return self.world_size > len(self.ranks)

    def of_rank(self, rank: int) -> RankForward | None:
        """The figures of the whole file of a rank."""
        return next((row for row in self.forwards if row.rank == rank and row.index is None), None)


def read_job(traces: Sequence[RankTrace]) -> JobReading:
    """Read the ranks of one job together. traces: of different ranks, in any order."""
    ranks = sorted(traces, key=lambda trace: trace.rank)
    numbers = tuple(trace.rank for trace in ranks)
    size = max([*(trace.world_size or 0 for trace in ranks), numbers[-1] + 1]) if ranks else 0
    matching = match(ranks)
    clocks = align(ranks, matching.collectives)
    refused = _refusal(ranks, clocks)
    if refused:
        clocks = RankClocks((0,) * len(ranks), None, False, clocks.overlap)
    origin = min((t.origin + o for t, o in zip(ranks, clocks.offsets, strict=True) if t.origin is not None), default=0)
    rows = _collective_rows(ranks, () if refused else matching.collectives, clocks, origin, size)
    forwards = tuple(_forward_rows(ranks, rows, clocks, origin, comparable=not refused))
    error = None if clocks.error is None else clocks.error / 1000
    return JobReading(
        ranks=numbers,
        world_size=size,
        forwards=forwards,
        collectives=tuple(rows),
        clock_error_us=error,
        refused=refused,
        straggler=None if refused else find_straggler(ranks, rows, error),
        disorders=matching.disorders,
        group_disorders=matching.group_disorders,
        warnings=tuple(_warnings(ranks, rows, numbers, size, clocks, refused)),
    )


def _refusal(ranks: Sequence[RankTrace], clocks: RankClocks) -> str | None:
    if len(ranks) < 2:
        return "only one rank has a trace here: who came last, and who waited, needs the traces of the other ranks"
    if not any(rank.events for rank in ranks):
        return "no communication kernel is in these traces: nothing shows which rank waited for another"
    silent = next((rank for rank in ranks if not rank.events), None)
    if silent is not None:
        why = ": its file ends too early" if silent.truncated else ": record all ranks in the same steps"
        return f"rank {silent.rank} has no communication kernel in its trace{why}"
    if clocks.overlap is None:
        return "no collective of one rank matches one of another: record all ranks in the same steps"
    if not clocks.aligned:
        return "some ranks share no collective with the others: their clocks cannot be compared"
    if clocks.overlap < 1 - MOST_APART:
        share = percent(1 - clocks.overlap)
        apart = f"in {share} of the collectives the ranks do not overlap in time"
        return f"{apart}: these are traces of different steps or of different jobs, or their times are wrong"
    return None


# --- rows -------------------------------------------------------------------------------------------------------------


def _collective_rows(
    ranks: Sequence[RankTrace], matched: Sequence[Matched], clocks: RankClocks, origin: int, size: int
) -> list[Collective]:
    """A row for each communication kernel, by rank and start."""
    matched_rows: dict[tuple[int, int], Collective] = {}
    for each in matched:
        matched_rows |= _matched_rows(ranks, each, clocks.offsets, origin, size)
    rows = []
    for place, rank in enumerate(ranks):
        for position, event in enumerate(rank.events):
            row = matched_rows.get((place, position))
            rows.append(row or _row(rank.rank, event, label(event), clocks.offsets[place] - origin))
    return rows


def _row(rank: int, event: CommunicationEvent, group: str, shift: int) -> Collective:
    """The row of an unmatched event. shift: is added to the times of the rank's file (ns)."""
    return Collective(
        rank=rank,
        index=event.index,
        operation=event.operation,
        group=group,
        sequence=None,
        stream=event.stream,
        start_us=(event.start + shift) / 1000,
        duration_us=(event.end - event.start) / 1000,
        ranks=event.group_size or len(event.peers) or None,
        bytes=event.bytes,
        launch_us=None if event.launch is None else (event.launch + shift) / 1000,
    )


def _matched_rows(
    ranks: Sequence[RankTrace], matched: Matched, offsets: Sequence[int], origin: int, size: int
) -> dict[tuple[int, int], Collective]:
    members = {
        place: _row(ranks[place].rank, ranks[place].events[position], matched.group, offsets[place] - origin)
        for place, position in matched.members.items()
    }
    last = max(members, key=lambda place: (members[place].start_us, place))
    shortest = min(row.duration_us for row in members.values())
    listed = max(row.ranks or 0 for row in members.values()) or size
    people = 2 if matched.operation == SEND_RECV else listed
    whole = len(members) == people
    transfer = members[last].duration_us if matched.operation in JOINT else shortest
    others = medians_of_others({place: row.start_us for place, row in members.items()})
    late_at = {place: row.start_us - others[place] for place, row in members.items()}
    result = {}
    for place, row in members.items():
        most = row.duration_us if matched.operation in JOINT else row.duration_us - shortest
        changes: dict[str, Any] = {
            "sequence": matched.sequence,
            "ranks": people,
            "last_rank": members[last].rank if late_at[last] > 0 else None,
            "wait_us": min(members[last].start_us - row.start_us, most),
            "late_us": late_at[place],
        }
        if place == last and row.launch_us is not None:
            changes["unqueued_us"] = min(max(row.launch_us - others[place], 0.0), max(late_at[place], 0.0))
        if whole:
            changes |= _rates(row, transfer, people) | {"link_gb_s": link_rate(ranks[place].device, people)}
        result[place, matched.members[place]] = replace(row, **changes)
    return result


def medians_of_others(values: Mapping[int, float]) -> dict[int, float]:
    """Key -> the median of the values of all other keys. There must be at least two."""
    keys = sorted(values, key=lambda key: values[key])
    low, high = (len(keys) - 2) // 2, (len(keys) - 1) // 2  # places of the middle without the key's own value
    ordered = [values[key] for key in keys]
    return {
        key: (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2 for place, key in enumerate(keys)
    }


def _rates(row: Collective, transfer_us: float, people: int) -> dict[str, float | None]:
    """Bandwidths by NCCL's convention (nccl-tests, doc/PERFORMANCE.md)."""
    factor = bus_factor(row.operation, people)
    rate = row.bytes / transfer_us / 1000 if row.bytes and transfer_us > 0 else None
    bus = rate * factor if rate is not None and factor is not None else None
    return {"transfer_us": transfer_us, "algorithm_gb_s": rate, "bus_gb_s": bus}


def _forward_rows(
    ranks: Sequence[RankTrace], rows: Sequence[Collective], clocks: RankClocks, origin: int, comparable: bool
) -> Iterator[RankForward]:
    """The forwards on the clock of the job, with the waits of their collectives. comparable: whether waits exist."""
    waits: defaultdict[tuple[int, int | None], float] = defaultdict(float)
    for row in rows:
        for index in {None, row.index}:
            waits[row.rank, index] += row.wait_us or 0.0
    for rank, offset in zip(ranks, clocks.offsets, strict=True):
        for forward in rank.forwards:
            shift = ((rank.origin or 0) + offset - origin) / 1000
            start = None if forward.start_us is None else forward.start_us + shift
            clock = (rank.file_start + offset - origin) / 1000
            waiting = waits[rank.rank, forward.index] if comparable else None
            yield replace(forward, start_us=start, waiting_us=waiting, clock_us=clock)


# --- warnings ---------------------------------------------------------------------------------------------------------


def _warnings(
    ranks: Sequence[RankTrace],
    rows: Sequence[Collective],
    numbers: Sequence[int],
    size: int,
    clocks: RankClocks,
    refused: str | None,
) -> Iterator[TraceWarning]:
    if refused:
        yield TraceWarning("ranks_not_compared", 1, refused)
        return
    for warning in missing_ranks(numbers, size):
        text = f"{warning.message}; last is the last of those that have one, and transfer times are not known"
        yield replace(warning, message=text)
    alone = sum(row.sequence is None for row in rows)
    if alone:
        cut = ", ".join(str(rank.rank) for rank in ranks if rank.truncated)
        why = f"; the file of rank {cut} ends too early" if cut else ""
        text = (
            f"{plural(alone, 'communication kernel has', 'communication kernels have')} no counterpart on another rank"
        )
        yield TraceWarning("unmatched_collectives", alone, f"{text}: they are in no figure across ranks{why}")
    moved = {rank.rank: offset for rank, offset in zip(ranks, clocks.offsets, strict=True) if offset}
    if moved:
        largest = max(moved.values(), key=abs)
        text = f"the clocks of {plural(len(moved), 'rank')} were moved by up to {duration(abs(largest) / 1000)}"
        yield TraceWarning("clocks_moved", len(moved), f"{text}, so that ranks leave collectives together")
