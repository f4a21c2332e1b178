"""Matches communication kernels of several ranks to collectives, by process group, order and size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

import numpy as np

from kernelbook.collectives.model import CommunicationEvent, RankTrace
from kernelbook.collectives.operations import ALIKE, JOINT, POINT_TO_POINT, SEND_RECV
from kernelbook.text.formatting import number_ranges
from kernelbook.trace.types import Ints

Signature = tuple[str, int | None]
_MOST_SHIFTED = 200  # positions by which the list of one rank is shifted against that of another
_CLEARLY = 0.5  # largest deviation of the clocks after a shift, as a share of that without a shift


@dataclass(frozen=True)
class Matched:
    """One collective. members: place of a rank in the job -> position of its event in `RankTrace.events`."""

    group: str
    sequence: int
    operation: str
    members: Mapping[int, int]


@dataclass(frozen=True)
class Disorder:
    """The first collective of a group that a rank runs in another order than the first rank does."""

    group: str
    rank: int
    sequence: int
    expected: Signature
    observed: Signature


@dataclass(frozen=True)
class GroupDisorder:
    """Two collectives of different groups that two ranks launch in opposite order.

    `earlier` comes before `later` on `rank`, and after it on `other`; both are numbers of ranks.
    """

    rank: int
    other: int
    earlier: Matched
    later: Matched


@dataclass(frozen=True)
class Matching:
    collectives: tuple[Matched, ...]
    disorders: tuple[Disorder, ...]
    group_disorders: tuple[GroupDisorder, ...]


@dataclass(frozen=True, order=True)
class _Key:
    """The properties that the events of one list share. A send and its receive form a separate list.

    peers: the ranks of the group, since two groups may have the same name on different ranks.
    """

    group: str
    peers: tuple[int, ...]
    pair: tuple[int, ...]
    window: int


def match(ranks: Sequence[RankTrace]) -> Matching:
    """Match the events of all ranks. An event that only one rank of the group has stays unmatched."""
    lists: dict[_Key, dict[int, list[int]]] = {}
    for place, rank in enumerate(ranks):
        for position, event in enumerate(rank.events):
            lists.setdefault(_key(event), {}).setdefault(place, []).append(position)
    collectives: list[Matched] = []
    disorders: list[Disorder] = []
    sequence: Counter[str] = Counter()
    for _, own in sorted(lists.items()):
        place, positions = next(iter(own.items()))
        group = label(ranks[place].events[positions[0]])
        for members in _matched_lists(ranks, group, own, disorders):
            if len(members) > 1:
                place, position = next(iter(members.items()))
                operation = _word(ranks[place].events[position])
                collectives.append(Matched(group, sequence[group], operation, members))
                sequence[group] += 1
    return Matching(tuple(collectives), tuple(disorders), tuple(_group_disorders(ranks, collectives)))


def _group_disorders(ranks: Sequence[RankTrace], collectives: Sequence[Matched]) -> Iterator[GroupDisorder]:
    """For each two groups and each rank, the first two collectives launched in another order than on the first rank.

    The order is that of the launches on the CPU, since each group has its own streams. Sends and receives are left out:
    torch may batch them into one call, in which their order is free.
    """
    by_group: dict[str, list[Matched]] = {}
    for each in collectives:
        if each.operation not in POINT_TO_POINT:
            by_group.setdefault(each.group, []).append(each)
    for first, second in combinations(by_group.values(), 2):
        shared = {place for each in first for place in each.members} & {
            place for each in second for place in each.members
        }
        places = sorted(shared)
        for place in places[1:]:
            if (pair := _opposite(ranks, [*first, *second], places[0], place)) is not None:
                yield GroupDisorder(ranks[place].rank, ranks[places[0]].rank, *pair)


def _opposite(
    ranks: Sequence[RankTrace], collectives: Sequence[Matched], reference: int, place: int
) -> tuple[Matched, Matched] | None:
    """The first two collectives that the reference launches in the opposite order: (earlier, later) at `place`."""
    launches: list[tuple[int, int, Matched]] = []
    for each in collectives:
        if reference in each.members and place in each.members:
            own, other = (ranks[at].events[each.members[at]].launch for at in (reference, place))
            if own is not None and other is not None:
                launches.append((own, other, each))
    launches.sort(key=lambda launch: launch[:2])
    for (_, before, one), (_, after, two) in pairwise(launches):
        if after < before and one.group != two.group:
            return two, one
    return None


def _key(event: CommunicationEvent) -> _Key:
    pair: tuple[int, ...] = ()
    if event.operation in POINT_TO_POINT and event.source is not None and event.destination is not None:
        pair = event.source, event.destination
    return _Key(event.group, event.peers, pair, event.window)


def label(event: CommunicationEvent) -> str:
    """The group of an event in words: its name, and its ranks if they are recorded."""
    peers = event.peers
    if not peers:
        return event.group
    return f"{event.group} (ranks {number_ranges(peers, len(peers))})"


def _word(event: CommunicationEvent) -> str:
    return SEND_RECV if event.operation in POINT_TO_POINT else event.operation


def _signature(event: CommunicationEvent) -> Signature:
    """The properties of an event that are equal on all ranks of its collective."""
    return _word(event), event.bytes if event.operation in ALIKE else None


def _matched_lists(
    ranks: Sequence[RankTrace], group: str, lists: Mapping[int, list[int]], disorders: list[Disorder]
) -> Iterable[dict[int, int]]:
    """The collectives of one group, each as: place of the rank -> position of its event."""
    signatures = {
        place: [_signature(ranks[place].events[position]) for position in positions]
        for place, positions in lists.items()
    }
    first = max(lists, key=lambda place: (len(lists[place]), -place))
    shifts, in_order = {}, True
    for place in lists:
        shifts[place] = _shift(ranks, lists, signatures, first, place)
        wrong = _first_difference(signatures[first], signatures[place], shifts[place])
        if wrong is not None:
            in_order = False
            expected, observed = signatures[first][wrong + shifts[place]], signatures[place][wrong]
            disorders.append(Disorder(group, ranks[place].rank, wrong, expected, observed))
    if not in_order:
        return _by_occurrence(lists, signatures)
    collectives: dict[int, dict[int, int]] = {}
    for place, positions in lists.items():
        for number, position in enumerate(positions):
            collectives.setdefault(number + shifts[place], {})[place] = position
    return [members for _, members in sorted(collectives.items())]


def _first_difference(first: Sequence[Signature], other: Sequence[Signature], shift: int) -> int | None:
    for number, signature in enumerate(other):
        if 0 <= number + shift < len(first) and first[number + shift] != signature:
            return number
    return None


def _shift(
    ranks: Sequence[RankTrace],
    lists: Mapping[int, list[int]],
    signatures: Mapping[int, list[Signature]],
    first: int,
    place: int,
) -> int:
    """How many collectives of the first rank precede the first one of this rank.

    0 for lists of equal length. A file that begins later lacks the first ones: then it is the shift that agrees with
    the order and for which matched kernels end closest to one another.
    """
    surplus = len(lists[first]) - len(lists[place])
    if not surplus:
        return 0
    other = signatures[place]
    fitting = [s for s in range(min(surplus, _MOST_SHIFTED) + 1) if signatures[first][s : s + len(other)] == other]
    if not fitting:
        return 0

    def apart(shift: int) -> float:
        ends = zip(lists[place], lists[first][shift:], strict=False)
        return median(abs(ranks[place].events[a].end - ranks[first].events[b].end) for a, b in ends)

    best = min(fitting, key=apart)
    return best if fitting[0] != 0 or apart(best) < _CLEARLY * apart(0) else 0


def _by_occurrence(lists: Mapping[int, list[int]], signatures: Mapping[int, list[Signature]]) -> list[dict[int, int]]:
    """The n-th event of one kind and size on each rank."""
    collectives: dict[tuple[Signature, int], dict[int, int]] = {}
    for place, positions in lists.items():
        count: Counter[Signature] = Counter()
        for position, signature in zip(positions, signatures[place], strict=True):
            collectives.setdefault((signature, count[signature]), {})[place] = position
            count[signature] += 1
    return list(collectives.values())


# --- the ranks on one clock ------------------------------------------------------------------------------------------


#: Share of joint collectives in which ranks may not overlap in time before the ranks count as those of different jobs.
MOST_APART = 0.2
#: Without joint collectives, ranks are on different clocks if their ends lie further apart than this (ns).
OTHER_CLOCK = 100_000_000


@dataclass(frozen=True)
class RankClocks:
    """The clocks of the ranks of a job.

    offsets: is added (ns) to the times of each rank, in the order of the job. error: how far apart (ns) ranks still
    leave one collective, for 95 % of them; None if unknown. aligned: whether collectives determine the offset of every
    rank. overlap: share of joint collectives in which all ranks overlap in time.
    """

    offsets: tuple[int, ...]
    error: int | None
    aligned: bool
    overlap: float | None


def align(ranks: Sequence[RankTrace], collectives: Sequence[Matched]) -> RankClocks:
    """The clocks of the ranks, from the ends of joint collectives.

    An offset is the median difference of ends. It is not applied if it is smaller than the spread of these differences:
    then it may be a property of the collective, not of the clock. A send or broadcast may end long before it is
    received, so without joint collectives only clearly different clocks are moved.
    """
    ends: list[dict[int, int]] = [{} for _ in ranks]
    joint = [each for each in collectives if each.operation in JOINT]
    for number, each in enumerate(joint or collectives):
        for place, position in each.members.items():
            ends[place][number] = ranks[place].events[position].end
    offsets: dict[int, int] = {0: 0} if ranks else {}
    errors: list[float] = []
    for anchor in _in_turn(offsets):
        for other in (place for place in range(len(ranks)) if place not in offsets):
            shared = sorted(ends[anchor].keys() & ends[other].keys())
            if shared:
                apart = np.array([ends[anchor][n] + offsets[anchor] - ends[other][n] for n in shared], dtype=np.int64)
                offsets[other], left = _offset(apart, certain=bool(joint))
                errors.append(left)
    aligned = len(offsets) == len(ranks)
    in_order = tuple(offsets.get(place, 0) for place in range(len(ranks)))
    error = round(max(errors)) if errors and aligned else None
    overlap = _overlap(ranks, joint, in_order) if joint else 1.0 if collectives else None
    return RankClocks(in_order, error, aligned, overlap)


def _in_turn(offsets: Mapping[int, int]) -> Iterator[int]:
    """The ranks with an offset, including those that are added during the iteration."""
    done = 0
    while done < len(offsets):
        yield list(offsets)[done]
        done += 1


def _offset(apart: Ints, certain: bool) -> tuple[int, float]:
    """(offset of a rank, how far apart 95 % of its ends still are); both in ns.

    apart: how much later (ns) a rank with a known clock left each collective. certain: whether all are joint ones.
    """
    middle = int(np.median(apart))
    spread = float(np.quantile(np.abs(apart - middle), 0.95))
    offset = middle if abs(middle) > (spread if certain else OTHER_CLOCK) else 0
    return offset, float(np.quantile(np.abs(apart - offset), 0.95))


def _overlap(ranks: Sequence[RankTrace], joint: Sequence[Matched], offsets: Sequence[int]) -> float:
    together = 0
    for each in joint:
        own = [(ranks[place].events[position], offsets[place]) for place, position in each.members.items()]
        last_start = max(event.start + offset for event, offset in own)
        together += all(event.end + offset >= last_start for event, offset in own)
    return together / len(joint)
