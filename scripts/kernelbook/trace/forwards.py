"""The device activities and the CPU events of each forward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kernelbook.trace.arrow import microseconds, numbers, strings, texts
from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import ANNOTATION, KERNEL, OP, RUNTIME, Columns, cpu_kind
from kernelbook.trace.events import WITH_INPUTS, InputArgs
from kernelbook.trace.nesting import NONE, depths, looked_up
from kernelbook.trace.reader import EventReader
from kernelbook.trace.tables import summed_by_row, whole

_CATEGORIES = {ANNOTATION: "annotation", OP: "op", RUNTIME: "runtime"}


class Inputs(NamedTuple):
    """What `record_shapes` wrote of an op's inputs, as JSON text."""

    shapes: str | None = None
    types: str | None = None
    concrete: str | None = None
    strides: str | None = None


def _of_forwards(
    pairs: tuple[np.ndarray, np.ndarray], found: Attribution, forwards: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of pairs (range, item) those of the forwards, as (place in `forwards`, item), sorted by place."""
    place = np.full(len(found.ranges), NONE)
    place[forwards] = np.arange(len(forwards))
    place, item = place[pairs[0]], pairs[1]
    place, item = place[place != NONE], item[place != NONE]
    order = np.lexsort((item, place))
    return place[order], item[order]


def forward_activities(activities: pa.Table, found: Attribution, forwards: np.ndarray, number: np.ndarray) -> pa.Table:
    """The activities of the forwards, nested ranges included, with `index` and `position` in order of start.

    forwards: outermost ranges, as indices into `found.ranges`. number: per forward its `index`.
    """
    place, activity = _of_forwards(found.within(), found, forwards)
    table = activities.take(pa.array(activity))
    table = table.add_column(0, "index", numbers(number[place]))
    return table.add_column(1, "position", numbers(_position(place)))


def forward_calls(
    files: Sequence[Path], columns: Columns, found: Attribution, forwards: np.ndarray, number: np.ndarray
) -> pa.Table:
    """Every CPU event of the forwards, in order of start; `forwards` and `number` as above.

    Events of other threads are those whose innermost range, inferred as for kernels, is or lies in the forward.
    `kernels` and `self_device_time_us` of an op are what it launched itself; the runtime call that did it shows the
    same figures, so sum over one category only.
    """
    forest, device = found.forest, columns.device
    rows = forest.rows
    place, row = _of_forwards(found.rows_within(), found, forwards)
    order = np.lexsort((row, rows.start[row], place))
    row = row[order]
    position = _position(place)
    parent = _parents(place, row, forest.parent[row])
    kernels, time = _own_device_figures(columns, found)
    nothing = np.full(len(row), not len(device.start))
    inputs = _inputs(files, rows.ordinal[row[rows.kind[row] == OP]])
    of_row = [inputs.get(ordinal, Inputs()) for ordinal in rows.ordinal[row].tolist()]
    return pa.table(
        {
            "index": numbers(number[place]),
            "depth": numbers(depths(parent)),
            "parent": whole(looked_up(position, parent)),
            "position": numbers(position),
            "category": texts(rows.kind[row], [_CATEGORIES[kind] for kind in sorted(_CATEGORIES)]),
            "name": texts(rows.name[row], columns.names),
            "start_us": microseconds(rows.start[row] - rows.start[found.ranges[forwards]][place]),
            "duration_us": microseconds(forest.length[row]),
            "self_us": microseconds(forest.self_time[row]),
            "kernels": numbers(kernels[row], nothing),
            "self_device_time_us": microseconds(time[row], nothing),
            "correlation": whole(rows.correlation[row]),
            "input_shapes": strings([inputs.shapes for inputs in of_row]),
            "input_types": strings([inputs.types for inputs in of_row]),
            "concrete_inputs": strings([inputs.concrete for inputs in of_row]),
            "input_strides": strings([inputs.strides for inputs in of_row]),
            "thread": numbers(_thread_numbers(place, found.row_inferred[row], rows.thread[row])),
            "inferred": numbers(found.row_inferred[row]),
        }
    )


def _parents(place: np.ndarray, row: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Per line (place, row) the line of its parent row in the same place; NONE where that is none of the place's."""
    width = max(row.max(initial=0), parent.max(initial=0)) + 1
    key, wanted = place * width + row, place * width + parent
    by_key = np.argsort(key)
    at = np.searchsorted(key, wanted, sorter=by_key)
    line = by_key[np.minimum(at, len(key) - 1)] if len(key) else at
    return np.where((parent != NONE) & (key[line] == wanted), line, NONE)


def _position(place: np.ndarray) -> np.ndarray:
    """Per row, sorted by `place`, how many rows of the same place come before it."""
    return np.arange(len(place)) - np.searchsorted(place, place, "left")


def _thread_numbers(place: np.ndarray, inferred: np.ndarray, thread: np.ndarray) -> np.ndarray:
    """Per row the number of its thread within its forward: 0 is the forward's own, the others count from 1."""
    pairs, pair = np.unique(np.stack((place, np.where(inferred, thread, NONE))), axis=1, return_inverse=True)
    # every forward has its own thread first, with or without rows
    first = np.searchsorted(pairs[0], pairs[0], "left")
    has_own = pairs[1][first] == NONE if len(first) else first == NONE
    return (np.arange(len(first)) - first + ~has_own)[pair.reshape(-1)]


def _own_device_figures(columns: Columns, found: Attribution) -> tuple[np.ndarray, np.ndarray]:
    """Per CPU row the kernels and the device time (ns) that it launched itself: ops, and the calls that did it."""
    device, forest = columns.device, found.forest
    is_kernel = (device.category == KERNEL).astype(np.int64)
    kernels, time = (
        summed_by_row(forest, found.op, values) + summed_by_row(forest, found.launch, values)
        for values in (is_kernel, device.end - device.start)
    )
    return kernels, time


def _inputs(files: Iterable[Path], ordinals: Iterable[int]) -> dict[int, Inputs]:
    """The inputs of the ops with these ordinals, from a second pass over the files: few readers ever ask for them."""
    wanted = {int(ordinal) for ordinal in ordinals}
    found: dict[int, Inputs] = {}
    ordinal = 0
    for events in chain.from_iterable(EventReader(f, decode=WITH_INPUTS).batches() for f in files if wanted):
        for event in events:
            if event.ph != "X" or cpu_kind(event.cat) is None:
                continue
            if ordinal in wanted and isinstance(event.args, InputArgs):
                args = event.args
                found[ordinal] = Inputs(
                    _json_text(args.input_dims) or _json_text(args.old_input_dims),
                    _json_text(args.input_type),
                    _json_text(args.concrete_inputs),
                    _json_text(args.input_strides),
                )
            ordinal += 1
    return found


def _json_text(raw: bytes) -> str | None:
    return bytes(raw).decode("utf-8", "replace") or None
