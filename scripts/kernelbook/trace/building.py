"""Builds the columns of a trace from batches of its events.

What is done here for each event decides how long a large trace takes, so the numbers of a batch are only collected.
They are checked and converted once per file, a whole column at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from kernelbook.trace.columns import (
    ANNOTATION,
    DRIVER,
    OP,
    OVERHEAD,
    RUNTIME,
    Columns,
    CpuRows,
    DeviceRows,
    activity_category,
    cpu_kind,
    is_ignored,
    main_span,
    ordered,
)
from kernelbook.trace.events import Args, Event, identity, message_of
from kernelbook.trace.numbers import (
    MISSING,
    counts_of,
    floats_of,
    integers_of,
    sizes_of,
    spans_of,
    stream_of,
    valid_size,
)
from kernelbook.trace.types import Array, Ints

Part = dict[str, Any]  # columns of some rows by name; one value stands for the same value in every row
Kind = tuple[str, int]  # table, and kind of a CPU row or category of an activity
Types = dict[str, type[np.generic]]
_STEP = "ProfilerStep#"
_PAUSE_NS = 10_000  # between two windows of one process: more than any tolerance
_NO_ARGS = Args()
_configuration_of = attrgetter("grid", "block", "registers", "shared_memory", "occupancy", "bytes")
# The tables, and the types of their columns besides the times.
_CPU: Types = {
    "kind": np.int8, "name": np.int32, "thread": np.int32, "number": np.int64, "ordinal": np.int64, "message": np.int32,
}  # fmt: skip
_DEVICE: Types = {
    "category": np.int8, "name": np.int32, "device": np.int64, "stream": np.int64, "correlation": np.int64,
    "configuration": np.int32, "lane": np.int32, "message": np.int32,
}  # fmt: skip
_TABLES = {"cpu": _CPU, "overhead": _CPU, "device": _DEVICE}


class Events(dict[str | None, list[Event]]):
    """Complete events by category. Categories of one kind share a list.

    kinds: the lists by kind. others: those of categories in no table.
    """

    def __init__(self) -> None:
        self.kinds: dict[Kind, list[Event]] = {}
        self.others: dict[str | None, list[Event]] = {}

    def __missing__(self, category: str | None) -> list[Event]:
        kind = cpu_kind(category)
        if kind is not None:
            events = self.kinds.setdefault(("overhead" if kind == OVERHEAD else "cpu", kind), [])
        elif (activity := activity_category(category)) is not None:
            events = self.kinds.setdefault(("device", activity), [])
        else:
            events = self.others.setdefault(category, [])
        self[category] = events
        return events


class Codes(dict[Any, int]):
    """Numbers its keys in the order of their first appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code

    def of(self, keys: Iterable[Any]) -> Ints:
        return np.fromiter(map(self.__getitem__, keys), np.int32)

    def of_pairs(self, first: list[Any], second: list[Any]) -> Ints | int:
        """Codes of (first, second); one number if all pairs are equal, as those of one thread usually are."""
        if first.count(first[0]) == second.count(second[0]) == len(first):
            return self[first[0], second[0]]
        return self.of(zip(first, second, strict=True))


class Configurations(Codes):
    """Numbers the distinct values of `_configuration_of`, of which a trace has far fewer than activities.

    Keys are kept, so a grid or block that is not valid, which may have any length, becomes None.
    """

    def __missing__(self, key: tuple[Any, ...]) -> int:
        grid, block, *others = key
        valid = (valid_size(grid), valid_size(block), *others)
        return super().__missing__(key) if valid == key else self[valid]

    def columns(self) -> dict[str, Array]:
        """The columns of the activities, with one row per configuration."""
        grids, blocks, registers, shared_memory, occupancies, sizes = zip(*self, strict=True) if self else [()] * 6
        return {
            "sizes": np.hstack((sizes_of(grids), sizes_of(blocks))),
            "registers": counts_of(registers),
            "shared_memory": counts_of(shared_memory),
            "bytes": counts_of(sizes),
            "occupancy": floats_of(occupancies),
        }


class ColumnBuilder:
    """Builds `Columns` from batches of events."""

    def __init__(self) -> None:
        self._names = Codes()
        self._threads = Codes()
        self._lanes = Codes()
        self._messages = Codes()
        self._configurations = Configurations()
        self._events = Events()
        self._others: Counter[str | None] = Counter()  # number of events of each category that is in no table
        self._malformed = 0
        self._ops = 0
        self._parts: dict[str, list[Part]] = {table: [] for table in _TABLES}  # of the current file, one per batch
        self._tables: dict[str, list[Part]] = {table: [] for table in _TABLES}  # one per file, with times in ns
        self._windows: list[int] = []
        self._shifts: list[int] = []
        self._window_end = 0

    def add(self, events: Sequence[Event]) -> None:
        of_category = self._events
        for event in events:
            if event.ph == "X":
                of_category[event.cat].append(event)
        for (table, kind), rows in self._events.kinds.items():
            if rows:
                part = self._activities(kind, rows) if table == "device" else self._cpu_rows(kind, rows)
                self._parts[table].append(part)
                rows.clear()
        for category, rows in self._events.others.items():
            self._others[category] += len(rows)
            rows.clear()

    def end_window(self) -> None:
        """Start a new file of the same process. Its events follow the earlier ones after a short pause."""
        tables = {table: self._timed(_joined(parts, _TABLES[table])) for table, parts in self._parts.items()}
        self._parts = {table: [] for table in _TABLES}
        first, last = main_span(np.concatenate([tables["cpu"]["start"], tables["device"]["start"]]))
        shift = self._window_end - first if self._windows else 0
        self._windows.append(first + shift)
        self._shifts.append(shift)
        for name, table in tables.items():
            self._tables[name].append(table)
            end = int(table["end"][table["start"] <= last].max(initial=0))
            self._window_end = max(self._window_end, end + shift + _PAUSE_NS)
            table["start"] += shift
            table["end"] += shift

    def _cpu_rows(self, kind: int, events: list[Event]) -> Part:
        count = len(events)
        args = [event.args or _NO_ARGS for event in events]
        ordinal: Ints | int = MISSING
        if kind == OP:
            ordinal = np.arange(self._ops, self._ops + count)
            self._ops += count
        return {
            "kind": kind,
            "name": self._names.of([event.name or "" for event in events]),
            "thread": self._threads.of_pairs([event.pid for event in events], [event.tid for event in events]),
            "ts": floats_of([event.ts for event in events]),
            "dur": floats_of([event.dur for event in events]),
            "number": integers_of([a.correlation for a in args] if kind >= RUNTIME else [a.external_id for a in args]),
            "ordinal": ordinal,
            "message": self._message_codes(args),
        }

    def _activities(self, category: int, events: list[Event]) -> Part:
        args = [event.args or _NO_ARGS for event in events]
        devices = [a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)]
        streams = [a.stream if a.stream is not None else stream_of(e.tid) for a, e in zip(args, events, strict=True)]
        return {
            "category": category,
            "name": self._names.of([event.name or "" for event in events]),
            "ts": floats_of([event.ts for event in events]),
            "dur": floats_of([event.dur for event in events]),
            "device": integers_of(devices),
            "stream": integers_of(streams),
            "correlation": integers_of([a.correlation for a in args]),
            "configuration": self._configurations.of(map(_configuration_of, args)),
            "lane": self._lanes.of_pairs([event.pid for event in events], devices),
            "message": self._message_codes(args),
        }

    def _message_codes(self, args: Sequence[Args]) -> Ints | int:
        """Per event the code of what its arguments state about a collective; MISSING if none does."""
        collectives = [each.collective for each in args]
        if collectives.count(None) == len(args):
            return MISSING
        codes = np.full(len(args), MISSING, np.int32)
        for place, collective in enumerate(collectives):
            if collective is not None and (message := message_of(args[place])):
                codes[place] = self._messages[message]
        return codes

    def _timed(self, table: Part) -> Part:
        """The rows that have valid times, with `start` and `end` in ns."""
        start, end, valid = spans_of(table.pop("ts"), table.pop("dur"))
        table |= {"start": start, "end": end}
        if valid.all():
            return table
        self._malformed += int((~valid).sum())
        return {name: column[valid] for name, column in table.items()}

    def finish(self) -> Columns:
        """The columns, with times relative to the earliest event of the main span."""
        self.end_window()
        origin = self._windows[0]
        times = {"start": np.int64, "end": np.int64}
        cpu, overhead, device = (_joined(self._tables[table], types | times) for table, types in _TABLES.items())
        for table in (cpu, overhead, device):
            table["start"] -= origin
            table["end"] -= origin
        names, place = _sorted_codes(self._names, [table["name"] for table in (cpu, overhead, device)])
        threads, place_of_thread = _sorted_codes(
            [_identities(thread) for thread in self._threads], [cpu["thread"], overhead["thread"]]
        )
        for table in (cpu, overhead, device):
            table["name"] = place[table["name"]]
        for table in (cpu, overhead):
            table["thread"] = place_of_thread[table["thread"]]
        return Columns(
            cpu=_cpu_rows(threads, names, cpu),
            device=self._device_rows(device),
            overhead=_cpu_rows(threads, names, overhead),
            names=names,
            origin=origin,
            windows=np.array(self._windows) - origin,
            shifts=np.array(self._shifts),
            messages=list(self._messages),
            malformed=self._malformed,
            unknown={str(category): count for category, count in self._others.items() if not is_ignored(category)},
            categories=frozenset(category for category in self._events if category),
        )

    def _device_rows(self, table: Mapping[str, Array]) -> DeviceRows:
        """The activities by start, device and stream."""
        ties = ("device", "stream", "correlation", "end", "category", "name")
        order = ordered((table["start"],), [table[name] for name in ties])
        columns = {name: column[order] for name, column in table.items()}
        configuration = columns.pop("configuration")
        columns |= {name: column[configuration] for name, column in self._configurations.columns().items()}
        return DeviceRows([_identities(lane) for lane in self._lanes], **columns)


def _cpu_rows(threads: list[Any], names: Sequence[str], table: dict[str, Array]) -> CpuRows:
    """Driver calls become runtime calls, and steps annotations: older formats call a step an operator.

    Of rows that start together, the one that ends last is first, except that a runtime call is after an op. Of equally
    long rows, an annotation is first, a driver call last, then the one with the lowest id and the first name is first.
    So the order of the events in the file has no effect.
    """
    kind = table["kind"]
    table["driver"] = kind == DRIVER
    kind[table["driver"]] = RUNTIME
    is_step = np.fromiter((name.startswith(_STEP) for name in names), bool, len(names))
    table["step"] = is_step[table["name"]] & (kind < RUNTIME)
    kind[table["step"]] = ANNOTATION
    order = ordered(
        (table["thread"], table["start"]),
        (kind == RUNTIME, -table["end"], kind, table["driver"], table["number"], table["name"]),
    )
    return CpuRows(threads, **{name: table.pop(name)[order] for name in list(table)})


def _joined(parts: Sequence[Part], types: Types) -> dict[str, Array]:
    """The columns of all parts, and the times `ts` and `dur` if these are not converted yet."""
    if "start" not in types:
        types = types | {"ts": np.float64, "dur": np.float64}
    if len(parts) == 1 and all(isinstance(value, np.ndarray) for value in parts[0].values()):
        return parts[0]
    ends = np.cumsum([0, *(len(part["name"]) for part in parts)]).tolist()
    rows = [slice(*span) for span in pairwise(ends)]
    joined = {name: np.empty(ends[-1], dtype) for name, dtype in types.items()}
    for name, column in joined.items():
        for part, own in zip(parts, rows, strict=True):
            column[own] = part[name]
    return joined


def _sorted_codes(values: Iterable[Any], columns: Sequence[Ints]) -> tuple[list[Any], Ints]:
    """(the distinct values that the columns refer to, in order; per value its place there). Numbers are before text."""
    values = list(values)
    used = np.zeros(len(values), dtype=bool)
    for column in columns:
        used[column] = True
    in_order = sorted(set(compress(values, used)), key=_sort_key)
    place = {value: index for index, value in enumerate(in_order)}
    return in_order, np.array([place.get(value, MISSING) for value in values], dtype=np.int32)


def _sort_key(value: str | tuple[int | str, ...]) -> Any:
    return value if isinstance(value, str) else [(isinstance(part, str), part) for part in value]


def _identities(ids: tuple[Any, Any]) -> tuple[int | str, int | str]:
    """The ids of a process and thread, equal whether they are written as numbers or as text."""
    return identity(ids[0]), identity(ids[1])
