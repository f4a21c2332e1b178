"""The forwards of one annotation: what each launched, and every CPU event inside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kernelbook.trace.arrow import microseconds, numbers, strings, texts
from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import ANNOTATION, KERNEL, OP, RUNTIME, Columns, cpu_kind
from kernelbook.trace.events import WITH_INPUTS, InputArgs
from kernelbook.trace.nesting import NONE
from kernelbook.trace.reader import EventReader
from kernelbook.trace.tables import summed_by_row, whole

_CATEGORIES = {ANNOTATION: "annotation", OP: "op", RUNTIME: "runtime"}


class Inputs(NamedTuple):
    """What `record_shapes` wrote of an op's inputs, as JSON text."""

    shapes: str | None = None
    types: str | None = None
    concrete: str | None = None
    strides: str | None = None


def forward_ranges(columns: Columns, found: Attribution, annotation: str) -> np.ndarray:
    """The ranges named exactly so, as indices into `found.ranges`."""
    if annotation not in columns.names:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(found.forest.rows.name[found.ranges] == columns.names.index(annotation))


def forward_activities(activities: pa.Table, found: Attribution, chosen: np.ndarray, number: np.ndarray) -> pa.Table:
    """The activities of the chosen ranges, nested ranges included, with `index` and `position` in order of start.

    number: per chosen range its `index`, which counts the ranges of its name.
    """
    group, activity = found.within()
    index = np.full(len(found.ranges), NONE)
    index[chosen] = number
    kept = index[group] != NONE if len(group) else np.empty(0, dtype=bool)
    index_of, activity = index[group[kept]], activity[kept]
    order = np.lexsort((activity, index_of))
    index_of, activity = index_of[order], activity[order]
    position = np.arange(len(order)) - np.searchsorted(index_of, index_of, "left")
    table = activities.take(pa.array(activity))
    table = table.add_column(0, "index", numbers(index_of))
    return table.add_column(1, "position", numbers(position))


def forward_calls(path: Path, columns: Columns, found: Attribution, chosen: np.ndarray, number: np.ndarray) -> pa.Table:
    """Every CPU event inside the chosen ranges on their own thread, in order of start; `number` as above.

    `kernels` and `self_device_time_us` of an op are what it launched itself; the runtime call that did it shows the
    same figures, so sum over one category only.
    """
    forest, device = found.forest, columns.device
    rows = forest.rows
    size = forest.summed(np.ones(len(rows.start), dtype=np.int64))
    tops = found.ranges[chosen]
    inside = [np.arange(top + 1, top + size[top]) for top in tops]
    row = np.concatenate([np.empty(0, dtype=np.int64), *inside])
    place = np.repeat(np.arange(len(tops)), [len(part) for part in inside])
    top = tops[place]
    position = row - top - 1
    parent = forest.parent[row]
    kernels, time = _own_device_figures(columns, found)
    nothing = np.full(len(row), not len(device.start))
    inputs = _inputs(path, rows.ordinal[row[rows.kind[row] == OP]])
    of_row = [inputs.get(ordinal, Inputs()) for ordinal in rows.ordinal[row].tolist()]
    return pa.table(
        {
            "index": numbers(number[place]),
            "depth": numbers(forest.depth[row] - forest.depth[top] - 1),
            "parent": numbers(parent - top - 1, parent == top),
            "position": numbers(position),
            "category": texts(rows.kind[row], [_CATEGORIES[kind] for kind in sorted(_CATEGORIES)]),
            "name": texts(rows.name[row], columns.names),
            "start_us": microseconds(rows.start[row] - rows.start[top]),
            "duration_us": microseconds(forest.length[row]),
            "self_us": microseconds(forest.self_time[row]),
            "kernels": numbers(kernels[row], nothing),
            "self_device_time_us": microseconds(time[row], nothing),
            "correlation": whole(rows.correlation[row]),
            "input_shapes": strings([inputs.shapes for inputs in of_row]),
            "input_types": strings([inputs.types for inputs in of_row]),
            "concrete_inputs": strings([inputs.concrete for inputs in of_row]),
            "input_strides": strings([inputs.strides for inputs in of_row]),
        }
    )


def _own_device_figures(columns: Columns, found: Attribution) -> tuple[np.ndarray, np.ndarray]:
    """Per CPU row the kernels and the device time (ns) that it launched itself: ops, and the calls that did it."""
    device, forest = columns.device, found.forest
    is_kernel = (device.category == KERNEL).astype(np.int64)
    kernels, time = (
        summed_by_row(forest, found.op, values) + summed_by_row(forest, found.launch, values)
        for values in (is_kernel, device.end - device.start)
    )
    return kernels, time


def _inputs(path: Path, ordinals: Iterable[int]) -> dict[int, Inputs]:
    """The inputs of the ops with these ordinals, from a second pass over the file: few readers ever ask for them."""
    wanted = {int(ordinal) for ordinal in ordinals}
    found: dict[int, Inputs] = {}
    ordinal = 0
    for events in EventReader(path, decode=WITH_INPUTS).batches() if wanted else ():
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
