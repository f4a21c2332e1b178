"""The ranks of a job on one clock: no rank leaves a joint collective before the last one has entered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelbook.collectives.matching import Matched
from kernelbook.collectives.model import RankTrace
from kernelbook.collectives.names import JOINT
from kernelbook.trace.types import Ints

#: Share of joint collectives in which ranks may not overlap in time before the ranks count as those of different jobs.
MOST_APART = 0.2
#: Without joint collectives, ranks are on different clocks if their ends lie further apart than this (ns).
OTHER_CLOCK = 100_000_000


@dataclass(frozen=True)
class Clocks:
    """offsets: what is added (ns) to the times of each rank, in order of the job. error: how far (ns) ranks still leave
    one collective after another, for 95 % of them; None where it is not known. aligned: whether every rank has an
    offset that collectives give. overlap: share of joint collectives in which all ranks overlap in time."""

    offsets: tuple[int, ...]
    error: int | None
    aligned: bool
    overlap: float | None


def align(ranks: Sequence[RankTrace], collectives: Sequence[Matched]) -> Clocks:
    """The clocks by the ends of joint collectives.

    An offset is the median difference of ends. One that is smaller than the spread of these differences is not applied:
    it may be a property of the collective instead of the clock. A send or broadcast may end long before it is received,
    so that these alone move only clocks that are clearly different.
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
    return Clocks(in_order, error, aligned, overlap)


def _in_turn(offsets: Mapping[int, int]) -> Iterator[int]:
    """The ranks whose offset is known, also those that become known meanwhile."""
    done = 0
    while done < len(offsets):
        yield list(offsets)[done]
        done += 1


def _offset(apart: Ints, certain: bool) -> tuple[int, float]:
    """(the offset of a rank, how far 95 % of its ends still lie apart); both in ns.

    apart: how much later a rank whose clock is known left each collective. certain: whether all are joint ones.
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
