"""Which ranges are taken together, which of those are outermost, and which did the same work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import ANNOTATION, KERNEL, OP, Columns
from kernelbook.trace.nesting import NONE, contains, depths, summed_up

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class RangeGroups:
    """How the ranges are taken together; arrays and lists have one entry per range.

    A group holds the ranges that an annotation names or, of all others, those of one name. Names that differ in numbers
    alone are one group, unless one lies inside another or no two of them did the same work.

    group: index of the range's group. level: how many ranges of its group contain it; 0 is an outermost one.
    family: index of the ranges of its group whose names are the same but for numbers. names: what each family is
    called: a name or, for several, the name with * for each number. label: the numbers that tell the names of a family
    apart; None in a family of one name.
    kind: equal for ranges of a family and level that did the same work: they ran the same kernels or, where there are
    none, called the same ops. It counts in a group, and 0 is what most of its ranges did.
    forward: the group whose outermost ranges are the forwards, NONE where there is none.
    merged: the names that are one group, by its name. apart: names that differ in numbers alone and are no group, by
    the name that it would have had.
    """

    group: np.ndarray
    level: np.ndarray
    family: np.ndarray
    names: list[str]
    label: list[str | None]
    kind: np.ndarray
    forward: int
    merged: dict[str, list[str]]
    apart: dict[str, list[str]]

    @property
    def forward_name(self) -> str | None:
        """What the forwards are called, None where there is none; only one name of them if an annotation chose more."""
        forwards = np.flatnonzero(self.is_forward)
        return self.names[self.family[forwards[0]]] if len(forwards) else None

    @property
    def chosen(self) -> np.ndarray:
        """Whether each range is in the group of the forwards, at whatever level."""
        return self.group == self.forward if self.forward != NONE else np.zeros(len(self.group), dtype=bool)

    @property
    def is_forward(self) -> np.ndarray:
        """Whether each range is a forward."""
        return self.chosen & (self.level == 0)


def chosen_names(columns: Columns, annotation: str | None) -> tuple[set[str], bool]:
    """(the names of ranges that an annotation chooses, whether they are the profiler's steps).

    That is the very name if there is a range of it, else every name that matches the annotation as a glob. The steps
    (ProfilerStep#N) are chosen only where no other range is.
    """
    rows = columns.cpu
    for steps in (False, True):
        codes = np.unique(rows.name[(rows.kind == ANNOTATION) & (rows.step == steps)])
        names = {columns.names[code] for code in codes.tolist()}
        if annotation in names:
            return {annotation}, steps
        matching = {name for name in names if annotation is not None and fnmatchcase(name, annotation)}
        if matching:
            return matching, steps
    return set(), False


def group_ranges(
    columns: Columns,
    found: Attribution,
    time: np.ndarray,
    doubtful: np.ndarray,
    annotation: str | None = None,
    chosen: Collection[str] = (),
) -> RangeGroups:
    """Take the ranges together.

    time: per range the time (ns) by which kinds of work are compared. doubtful: per range whether it may lack work;
    then it does not tell what most ranges did. annotation, chosen: a name or a glob, and the names that it chooses.
    Without one the forwards are the group whose ranges last longest together, ranges that lie in others left out.
    """
    codes, name = np.unique(found.forest.rows.name[found.ranges], return_inverse=True)
    names = [columns.names[code] for code in codes.tolist()]
    alike = [_NUMBER.sub("*", each) for each in names]
    work = _work(columns, found)
    merged, apart = _names_by_numbers(found, names, name, work, chosen)
    group_of = [
        annotation if each in chosen else template if template in merged else each
        for each, template in zip(names, alike, strict=True)
    ]
    family_of = [*zip(group_of, alike, strict=True)]
    group, groups = _numbered(group_of, name)
    family, families = _numbered(family_of, name)
    members = Counter(family_of)
    own_name = dict(zip(family_of, names, strict=True))
    labels = [
        ", ".join(_NUMBER.findall(each)) if members[key] > 1 else None
        for key, each in zip(family_of, names, strict=True)
    ]
    level = depths(_nearest_of_group(found, group))
    return RangeGroups(
        group=group,
        level=level,
        family=family,
        names=[key[1] if members[key] > 1 else own_name[key] for key in families],
        label=[labels[place] for place in name.tolist()],
        kind=_kinds(group, level, [*zip(family.tolist(), work.tolist(), strict=True)], time, doubtful),
        forward=_longest(found, group) if annotation is None else groups.index(annotation) if chosen else NONE,
        merged=merged,
        apart=apart,
    )


def _numbered(keys: Sequence[Hashable], name: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """(per range the number of the key of its name, the keys by number: in the order in which ranges of them begin)."""
    number = {key: place for place, key in enumerate(dict.fromkeys(keys[place] for place in name.tolist()))}
    return np.array([number[key] for key in keys], dtype=np.int64)[name], list(number)


def _names_by_numbers(
    found: Attribution, names: Sequence[str], name: np.ndarray, work: np.ndarray, chosen: Collection[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Names that differ in numbers alone, by the name with * for each number: (those that are one range, the others).

    name: per range the place in `names`. chosen: names that are left out.
    """
    alike: dict[str, list[int]] = {}
    for place, each in enumerate(names):
        if each not in chosen:
            alike.setdefault(_NUMBER.sub("*", each), []).append(place)
    alike = {template: places for template, places in alike.items() if len(places) > 1}
    code = np.full(len(names), NONE)
    for number, places in enumerate(alike.values()):
        code[places] = number
    of_range = code[name]
    around = _nearest_of_group(found, of_range)
    inside = np.flatnonzero((around != NONE) & (of_range != NONE))
    nested = set(of_range[inside[name[inside] != name[around[inside]]]].tolist())
    did = set(zip(of_range.tolist(), work.tolist(), name.tolist(), strict=True))
    shared = {number for (number, _), count in Counter(each[:2] for each in did).items() if count > 1}
    merged, apart = {}, {}
    for number, (template, places) in enumerate(alike.items()):
        into = merged if number in shared - nested else apart
        into[template] = [names[place] for place in places]
    return merged, apart


def _nearest_of_group(found: Attribution, group: np.ndarray) -> np.ndarray:
    """Per range the innermost other range of its group that contains it, NONE where there is none."""
    nearest = np.full(len(group), NONE)
    candidate = found.open_around.copy()
    pending = np.flatnonzero(candidate != NONE)
    while pending.size:
        fits = contains(found.forest.rows, found.ranges[candidate[pending]], found.ranges[pending])
        fits &= group[candidate[pending]] == group[pending]
        nearest[pending[fits]] = candidate[pending[fits]]
        pending = pending[~fits]
        candidate[pending] = found.open_around[candidate[pending]]
        pending = pending[candidate[pending] != NONE]
    return nearest


def _longest(found: Attribution, group: np.ndarray) -> int:
    """The group whose ranges that lie in no other range last longest together, NONE without any range."""
    outer = found.enclosing == NONE
    if not outer.any():
        return NONE
    return int(np.bincount(group[outer], weights=found.forest.length[found.ranges[outer]]).argmax())


def _work(columns: Columns, found: Attribution) -> np.ndarray:
    """Per range a number that is the same where ranges ran the same kernels or, without any, called the same ops.

    It is the sum of the hashes of their names, so that order does not matter: streams and threads change it by chance.
    """
    of_name = np.fromiter(map(hash, columns.names), dtype=np.int64, count=len(columns.names))
    device, rows = columns.device, found.forest.rows
    group, activity = found.within()
    is_kernel = device.category[activity] == KERNEL
    kernels = np.zeros(len(found.ranges), dtype=np.int64)
    np.add.at(kernels, group[is_kernel], of_name[device.name[activity[is_kernel]]])
    called = (rows.kind == OP) & (found.range_of_row != NONE)
    ops = np.zeros(len(found.ranges), dtype=np.int64)
    np.add.at(ops, found.range_of_row[called], of_name[rows.name[called]])
    ran = np.bincount(group[is_kernel], minlength=len(found.ranges)) > 0
    return np.where(ran, kernels, summed_up(found.open_around, ops))


def _kinds(
    group: np.ndarray, level: np.ndarray, work: Sequence[Hashable], time: np.ndarray, doubtful: np.ndarray
) -> np.ndarray:
    """Per range the number of its work among those of its group and level, the commonest first; 0 if it is doubtful."""
    members: dict[tuple[int, int], dict[Hashable, list[int]]] = {}
    for place in np.flatnonzero(~doubtful).tolist():
        of_level = members.setdefault((int(group[place]), int(level[place])), {})
        of_level.setdefault(work[place], []).append(place)
    kind = np.zeros(len(group), dtype=np.int64)
    for works in members.values():
        for number, places in enumerate(_commonest_first([*works.values()], time) if len(works) > 1 else []):
            kind[places] = number
    return kind


def _commonest_first(works: list[list[int]], time: np.ndarray) -> list[list[int]]:
    """Places of ranges by what they did. Of works that are equally common, that of median time is the first."""
    ordered = sorted(works, key=len, reverse=True)
    commonest = [places for places in ordered if len(places) == len(ordered[0])]
    commonest.sort(key=lambda places: np.median(time[places]))
    first = commonest[(len(commonest) - 1) // 2]
    return [first, *(places for places in ordered if places is not first)]
