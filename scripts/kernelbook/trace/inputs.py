"""The inputs of an op that `record_shapes` wrote: type, shape, strides and value of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kernelbook.trace.columns import OP, cpu_kind, distinct
from kernelbook.trace.events import STRICT_FAILURES, WITH_INPUTS, InputArgs, integer
from kernelbook.trace.frame import Column, Frame, Lists, listed, texts
from kernelbook.trace.nesting import NONE
from kernelbook.trace.reader import EventReader
from kernelbook.trace.types import Ints

Shape = tuple[int, ...]
Texts = tuple[bytes, ...]  # JSON of the dimensions, types, values and strides of one op's inputs


@dataclass(frozen=True)
class Input:
    """One input of an op, where the trace was recorded with shapes.

    ``type``: as the profiler writes it. ``shape``: () of a number, None if unknown. ``strides`` in elements: 0 along a
    dimension that is broadcast. ``value``: of a scalar. ``tensors``: of a list of tensors, the shape of each.
    """

    type: str | None = None
    shape: Shape | None = None
    strides: Shape | None = None
    value: str | None = None
    tensors: tuple[Shape, ...] | None = None

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of its tensors; none of a number."""
        return self.tensors or ((self.shape,) if self.shape else ())


def parse_inputs(texts: Texts) -> list[Input]:
    """The inputs that the JSON texts of one op describe, of which any may be empty or damaged."""
    return [_input(*parts) for parts in zip_longest(*map(_items, texts))]


def _items(text: bytes) -> list[Any]:
    try:
        value = msgspec.json.decode(text) if text else None
    except STRICT_FAILURES:
        return []
    return value if isinstance(value, list) else []


def _input(sizes: Any, kind: Any, value: Any, strides: Any) -> Input:
    tensors = tuple(map(_sizes, sizes)) if isinstance(sizes, list) else ()
    shapes = tuple(shape for shape in tensors if shape is not None)
    of_list = bool(tensors) and len(shapes) == len(tensors)
    return Input(
        type=kind if isinstance(kind, str) else None,
        shape=_sizes(sizes),
        strides=_sizes(strides),
        value=None if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode(),
        tensors=shapes if of_list else None,
    )


def _sizes(value: Any) -> Shape | None:
    if not isinstance(value, list) or not all(isinstance(each, int) and integer(each) is not None for each in value):
        return None
    return tuple(map(int, value))


class RecordedInputs:
    """The inputs of the ops of some files, read in a second pass over these: few readers ask for them."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files

    def lists(self, ordinals: Ints) -> Lists:
        """Per event the list of its inputs; null without any, and where the ordinal of the event is NONE."""
        if (ordinals == NONE).all():
            return listed([None] * len(ordinals), _frame)
        texts_of_op, every = self._recorded
        code = np.append(texts_of_op, NONE)[ordinals]
        used = distinct(code[code != NONE])
        rows = listed([parse_inputs(every[each]) for each in used.tolist()], _frame)
        return rows.take_or_null(np.where(code == NONE, NONE, np.searchsorted(used, code)))

    @cached_property
    def _recorded(self) -> tuple[Ints, list[Texts]]:
        """(per op the number of its texts, NONE without any; the distinct texts)."""
        codes: list[int] = []
        numbers: dict[Texts, int] = {}
        batches = chain.from_iterable(EventReader(file, decode=WITH_INPUTS).batches() for file in self._files)
        for event in chain.from_iterable(batches):
            if event.ph != "X" or cpu_kind(event.cat) != OP:
                continue
            recorded = _texts(event.args) if isinstance(event.args, InputArgs) else ()
            codes.append(numbers.setdefault(recorded, len(numbers)) if any(recorded) else NONE)
        return np.array(codes, dtype=np.int64), list(numbers)


def _texts(args: InputArgs) -> Texts:
    dims = bytes(args.input_dims) or bytes(args.old_input_dims)
    return dims, bytes(args.input_type), bytes(args.concrete_inputs), bytes(args.input_strides)


def _frame(inputs: Sequence[Input]) -> Frame:
    return Frame(
        {
            "type": texts([each.type for each in inputs]),
            "shape": listed([each.shape for each in inputs], _numbers),
            "strides": listed([each.strides for each in inputs], _numbers),
            "value": texts([each.value for each in inputs]),
            "tensors": listed([each.tensors for each in inputs], lambda shapes: listed(shapes, _numbers)),
        }
    )


def _numbers(values: Sequence[int]) -> Column:
    return Column(np.array(values, dtype=np.int64))
