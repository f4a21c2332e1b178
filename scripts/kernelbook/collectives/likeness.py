"""Groups ranks that do the same work in the same time, which are listed as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Member = TypeVar("Member")
#: Times of the ranks of a group may differ by this share.
WITHIN = 0.05
#: Up to this number of ranks, each has its own row.
ALONE = 8


def fold(members: Iterable[tuple[Member, object, float, tuple[float, ...]]], alone: int = ALONE) -> list[list[Member]]:
    """Groups of similar members, in the order of their first members; up to `alone` members each form their own group.

    members: (member, value that must be equal, scale, times). Two are similar if each time differs by at most `WITHIN`
    of the scale of the first.
    """
    members = list(members)
    if len(members) <= alone:
        return [[member] for member, *_ in members]
    groups: list[tuple[list[Member], object, float, tuple[float, ...]]] = []
    for member, fact, scale, times in members:
        for own, same, most, first in groups:
            apart = max((abs(a - b) for a, b in zip(first, times, strict=True)), default=0.0)
            if same == fact and apart <= WITHIN * most:
                own.append(member)
                break
        else:
            groups.append(([member], fact, scale, times))
    return [own for own, *_ in groups]
