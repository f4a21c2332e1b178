"""Ranks that do the same in the same time, to be listed as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Member = TypeVar("Member")
#: Times of ranks that count as one may differ by this share.
WITHIN = 0.05
#: Up to so many have a row each.
ALONE = 8


def fold(members: Iterable[tuple[Member, object, float, tuple[float, ...]]], alone: int = ALONE) -> list[list[Member]]:
    """Members that are alike, in order of the first of each; up to `alone` members each stay by themselves.

    members: (member, what must be equal, scale, times). Two are alike if each time differs by at most `WITHIN` of the
    scale of the first.
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
