"""Sizes of the tensors of kernels, and element types of copies, from recorded shapes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model.shapes import launched
from kernelbook.judge.cost_model.traffic import FACTORS
from kernelbook.kernel_names.model import UNKNOWN, element

Sizes = tuple[int, ...]  # elements of the tensors that an op takes, largest first


def tensor_sizes(facts: CaseFacts) -> dict[int, Sizes]:
    """Position of a kernel or memcpy in the representative forward -> sizes of the tensors of its op.

    Empty if no shapes were recorded, or if the recorded step launched other work.
    """
    pairs = ((each.activity.position, sizes_of(each.op.name, each.op.input_shapes or "[]")) for each in launched(facts))
    return {position: sizes for position, sizes in pairs if sizes}


def conversions(facts: CaseFacts) -> dict[int, tuple[str, str]]:
    """Position of a copy that changes the element type -> (type read, type written), spelled as in kernel names.

    From the types recorded with ``aten::copy_``, whose inputs are (target, source).
    """
    by_position = {}
    for each in launched(facts):
        kinds = json.loads(each.op.input_types or "[]") if each.op.name == "aten::copy_" else []
        written, read = (element(kind) for kind in kinds[:2]) if len(kinds) > 1 else (UNKNOWN, UNKNOWN)
        if UNKNOWN not in (read, written) and read != written:
            by_position[each.activity.position] = read, written
    return by_position


def sizes_of(op: str, shapes: str) -> Sizes:
    """Sizes from the JSON text of an op's input shapes; (1,) for an op whose inputs are all single numbers.

    For a matrix product only the two factors count, so that a variant with ``out`` gives the same.
    """
    inputs = json.loads(shapes)
    if not isinstance(inputs, list) or not inputs:
        return ()
    if op in FACTORS:
        inputs = [inputs[place] for place in FACTORS[op] if place < len(inputs)]
    return tuple(sorted((size for shape in inputs for size in _elements(shape) if size > 1), reverse=True)) or (1,)


def _elements(shape: Any) -> Iterator[int]:
    """Elements of one input; of a list of tensors, of each."""
    if isinstance(shape, list) and shape:
        if all(isinstance(side, int) for side in shape):
            yield math.prod(shape)
        else:
            for inner in shape:
                yield from _elements(inner)
