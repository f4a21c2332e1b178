"""How annotated ranges are grouped: by name, by nesting and by the work they did; and which of them are incomplete."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import numpy as np

from kernelbook.trace.attribution import Attribution, queues_work
from kernelbook.trace.columns import ANNOTATION, KERNEL, OP, RUNTIME, Columns, distinct, median
from kernelbook.trace.nesting import NONE, contains, depths, summed_up
from kernelbook.trace.numbers import MISSING
from kernelbook.trace.types import Flags, Ints

_NUMBER = re.compile(r"\d+")
#: Ranges that torch itself opens, which are parts of a step: the forward is a range of the user's.
_OF_TORCH = re.compile(r"Optimizer\.\w+#|enumerate\(DataLoader\)#|nccl:|gloo:|mpi:|DistributedDataParallel\.forward")


class RangeGroups(msgspec.Struct, frozen=True):
    """Groups of ranges. Arrays and lists have one entry per range unless stated otherwise.

    A group holds the ranges that an annotation selects, or else the ranges of one name. Names that differ only in
    numbers form one group, unless a range of one lies inside a range of another or no two of them did the same work.

    group: index of the group.
    level: number of ranges of the group around the range; 0 is an outermost range.
    family: index of the range's name within its group; names that differ only in numbers are one.
    names: per family its name, with * for numbers that differ.
    label: the numbers that tell the names of a family apart; None in a family of one name.
    kind: number of the work that the range did, counted within group and level, the most frequent first. Ranges did
        the same work if they ran the same kernels or, without kernels, called the same ops.
    forward: group whose outermost ranges are the forwards, or NONE.
    merged: names that form one group, by the group's name.
    apart: names that differ only in numbers and form no group, by the name with * for numbers.
    """

    group: Ints
    level: Ints
    family: Ints
    names: list[str]
    label: list[str | None]
    kind: Ints
    forward: int
    merged: dict[str, list[str]]
    apart: dict[str, list[str]]

    @property
    def forward_name(self) -> str | None:
        """Name of the forwards, or of their first family, or None."""
        forwards = np.flatnonzero(self.is_forward)
        return self.names[self.family[forwards[0]]] if len(forwards) else None

    @property
    def selected(self) -> Flags:
        """Per range whether it is in the group of the forwards, at any level."""
        selected: Flags = (self.group == self.forward) & (self.forward != NONE)
        return selected

    @property
    def is_forward(self) -> Flags:
        outermost: Flags = self.selected & (self.level == 0)
        return outermost


def selected_names(columns: Columns, annotation: str | None) -> tuple[set[str], bool]:
    """(names of the ranges that an annotation selects, whether they are the profiler's steps).

    The annotation itself, if a range has that name, or else all names that match it as a glob. The steps
    (ProfilerStep#N) are selected only if no other range is.
    """
    rows = columns.cpu
    for steps in (False, True) if annotation is not None else ():
        codes = distinct(rows.name[(rows.kind == ANNOTATION) & (rows.step == steps)])
        names = {columns.names[code] for code in codes.tolist()}
        if annotation in names:
            return {str(annotation)}, steps
        if matching := {name for name in names if fnmatchcase(name, str(annotation))}:
            return matching, steps
    return set(), False


def incomplete_ranges(columns: Columns, attribution: Attribution, truncated: Sequence[bool]) -> Flags:
    """Per range whether its device figures may be too low because a file ends too early.

    torch writes the ops first, then each activity next to its launch. So a range is complete if a later runtime call
    of its window was read and every launch inside it has its activity. Without device activities there are no figures
    that could be too low. truncated: per window of the columns.
    """
    rows, ranges = attribution.forest.rows, attribution.ranges
    incomplete = np.zeros(len(ranges), dtype=bool)
    if not any(truncated) or not len(columns.device.start):
        return incomplete
    window_of_row = np.searchsorted(columns.windows, rows.start, "right") - 1
    window_of_range = window_of_row[ranges]
    calls = rows.kind == RUNTIME
    for window in np.flatnonzero(truncated):
        last = rows.start[calls & (window_of_row == window)].max(initial=-1)
        incomplete |= (window_of_range == window) & (rows.end[ranges] > last)
    lost: Flags = _launches_without_activity(columns, attribution) > 0
    return incomplete | (np.isin(window_of_range, np.flatnonzero(truncated)) & lost)


def _launches_without_activity(columns: Columns, attribution: Attribution) -> Ints:
    """Per range the number of launches during it that have no activity in the file."""
    rows, ranges = attribution.forest.rows, attribution.ranges
    calls = np.flatnonzero((rows.kind == RUNTIME) & (rows.correlation != MISSING))
    lost = queues_work(columns.names)[rows.name[calls]] & ~np.isin(rows.correlation[calls], columns.device.correlation)
    starts = np.sort(rows.start[calls[lost]])
    count: Ints = np.searchsorted(starts, rows.end[ranges], "right")
    return count - np.searchsorted(starts, rows.start[ranges], "left")


def group_ranges(
    columns: Columns,
    attribution: Attribution,
    time: Ints,
    doubtful: Flags,
    annotation: str | None = None,
    selected: Collection[str] = (),
) -> RangeGroups:
    """Group the ranges.

    time: per range the time (ns) that orders equally frequent kinds of work.
    doubtful: ranges that may lack work, and so do not define a kind.
    annotation, selected: a name or glob, and the names that it selects. Without an annotation, the forwards are the
    group whose ranges last longest in total, not counting ranges inside other ranges and ranges that torch opens.
    """
    name, names = _indices(columns.names, attribution.forest.rows.name[attribution.ranges])
    templates = [_NUMBER.sub("*", each) for each in names]
    work = _work(columns, attribution)
    merged, apart = _numbered_names(attribution, names, name, work, selected)
    group_of_name = [
        annotation if each in selected else template if template in merged else each
        for each, template in zip(names, templates, strict=True)
    ]
    family_of_name = list(zip(group_of_name, templates, strict=True))
    group, groups = _indices(group_of_name, name)
    family, families = _indices(family_of_name, name)
    members = Counter(family_of_name)
    single_name = dict(zip(family_of_name, names, strict=True))
    labels = [
        ", ".join(_NUMBER.findall(each)) if members[key] > 1 else None
        for key, each in zip(family_of_name, names, strict=True)
    ]
    level = depths(_enclosing_of_group(attribution, group))
    own = np.array([_OF_TORCH.match(each) is None for each in names], dtype=bool)
    forward = NONE if annotation is None or not selected else groups.index(annotation)
    return RangeGroups(
        group=group,
        level=level,
        family=family,
        names=[key[1] if members[key] > 1 else single_name[key] for key in families],
        label=[labels[place] for place in name.tolist()],
        kind=_kinds(group, level, list(zip(family.tolist(), work.tolist(), strict=True)), time, doubtful),
        forward=_longest(attribution, group, own[name]) if annotation is None else forward,
        merged=merged,
        apart=apart,
    )


def _indices(keys: Sequence[Hashable], name: Ints) -> tuple[Ints, list[Any]]:
    """(per range the index of the key of its name, the keys in order of the first range of each)."""
    index = {key: place for place, key in enumerate(dict.fromkeys(keys[place] for place in name.tolist()))}
    return np.array([index.get(key, NONE) for key in keys], dtype=np.int64)[name], list(index)


def _numbered_names(
    attribution: Attribution, names: Sequence[str], name: Ints, work: Ints, selected: Collection[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Names that differ only in numbers, by their template: (those that form one group, the others).

    name: index into `names` of each range. selected: names to leave out.
    """
    alike: dict[str, list[int]] = {}
    for place, each in enumerate(names):
        if each not in selected:
            alike.setdefault(_NUMBER.sub("*", each), []).append(place)
    alike = {template: places for template, places in alike.items() if len(places) > 1}
    template_of_name = np.full(len(names), NONE)
    for number, places in enumerate(alike.values()):
        template_of_name[places] = number
    template_of_range = template_of_name[name]
    around = _enclosing_of_group(attribution, template_of_range)
    inside = np.flatnonzero((around != NONE) & (template_of_range != NONE))
    nested = set(template_of_range[inside[name[inside] != name[around[inside]]]].tolist())
    works = set(zip(template_of_range.tolist(), work.tolist(), name.tolist(), strict=True))
    shared = {number for (number, _), count in Counter(each[:2] for each in works).items() if count > 1}
    merged: dict[str, list[str]] = {}
    apart: dict[str, list[str]] = {}
    for number, (template, places) in enumerate(alike.items()):
        target = merged if number in shared - nested else apart
        target[template] = [names[place] for place in places]
    return merged, apart


def _enclosing_of_group(attribution: Attribution, group: Ints) -> Ints:
    """Per range the innermost other range of its group that contains it, or NONE."""
    enclosing = np.full(len(group), NONE)
    candidate = attribution.open_around.copy()
    pending = np.flatnonzero(candidate != NONE)
    rows, ranges = attribution.forest.rows, attribution.ranges
    while pending.size:
        matches = contains(rows, ranges[candidate[pending]], ranges[pending])
        matches &= group[candidate[pending]] == group[pending]
        enclosing[pending[matches]] = candidate[pending[matches]]
        pending = pending[~matches]
        candidate[pending] = attribution.open_around[candidate[pending]]
        pending = pending[candidate[pending] != NONE]
    return enclosing


def _longest(attribution: Attribution, group: Ints, own: Flags) -> int:
    """The group whose ranges outside all other ranges last longest in total, or NONE without ranges.

    own: per range whether a user opened it.
    """
    outer = (attribution.enclosing == NONE) & own
    if not outer.any():
        return NONE
    length = attribution.forest.length[attribution.ranges[outer]]
    return int(np.bincount(group[outer], weights=length).argmax())


def _work(columns: Columns, attribution: Attribution) -> Ints:
    """Per range a number that is equal for ranges that ran the same kernels or, without kernels, called the same ops.

    It is the sum of the hashes of their names, so the order, which streams and threads change by chance, has no effect.
    """
    hashes = np.fromiter(map(hash, columns.names), dtype=np.int64, count=len(columns.names))
    device, rows, count = columns.device, attribution.forest.rows, len(attribution.ranges)
    group, activity = attribution.activities_in_ranges()
    is_kernel = device.category[activity] == KERNEL
    kernels = np.zeros(count, dtype=np.int64)
    np.add.at(kernels, group[is_kernel], hashes[device.name[activity[is_kernel]]])
    called = (rows.kind == OP) & (attribution.range_of_row != NONE)
    ops = np.zeros(count, dtype=np.int64)
    np.add.at(ops, attribution.range_of_row[called], hashes[rows.name[called]])
    has_kernels = np.bincount(group[is_kernel], minlength=count) > 0
    return np.where(has_kernels, kernels, summed_up(attribution.open_around, ops))


def _kinds(group: Ints, level: Ints, work: Sequence[Hashable], time: Ints, doubtful: Flags) -> Ints:
    """Per range the number of its work within its group and level, the most frequent first; 0 for doubtful ranges."""
    members: dict[tuple[int, int], dict[Hashable, list[int]]] = {}
    for place in np.flatnonzero(~doubtful).tolist():
        of_level = members.setdefault((int(group[place]), int(level[place])), {})
        of_level.setdefault(work[place], []).append(place)
    kind = np.zeros(len(group), dtype=np.int64)
    for works in members.values():
        for number, places in enumerate(_by_frequency(works, time) if len(works) > 1 else []):
            kind[places] = number
    return kind


def _by_frequency(works: Mapping[Hashable, list[int]], time: Ints) -> list[list[int]]:
    """The ranges of each work, most frequent work first; of equally frequent works, that of median time is first."""
    ordered = sorted(works.values(), key=len, reverse=True)
    most_frequent = [places for places in ordered if len(places) == len(ordered[0])]
    most_frequent.sort(key=lambda places: median(time[places]))
    first = most_frequent[(len(most_frequent) - 1) // 2]
    return [first, *(places for places in ordered if places is not first)]
