"""Sizes of the tensors of kernels, and element types of copies, from recorded shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelbook.cases import CaseFacts
from kernelbook.cases.facts import Input
from kernelbook.judge.cost_model.shapes import launched
from kernelbook.judge.cost_model.traffic import FACTORS
from kernelbook.kernel_names.model import UNKNOWN, element

Sizes = tuple[int, ...]  # elements of the tensors that an op takes, largest first


def tensor_sizes(facts: CaseFacts) -> dict[int, Sizes]:
    """Position of a kernel or memcpy in the representative forward -> sizes of the tensors of its op.

    Empty if no shapes were recorded, or if the recorded step launched other work.
    """
    pairs = ((each.activity.position, sizes_of(each.op.name, each.op.inputs)) for each in launched(facts))
    return {position: sizes for position, sizes in pairs if sizes}


def conversions(facts: CaseFacts) -> dict[int, tuple[str, str]]:
    """Position of a copy that changes the element type -> (type read, type written), spelled as in kernel names.

    From the types recorded with ``aten::copy_``, whose inputs are (target, source).
    """
    by_position = {}
    for each in launched(facts):
        if each.op.name != "aten::copy_" or len(each.op.inputs) < 2:
            continue
        written, read = (element(tensor.type or "") for tensor in each.op.inputs[:2])
        if UNKNOWN not in (read, written) and read != written:
            by_position[each.activity.position] = read, written
    return by_position


def sizes_of(op: str, inputs: Sequence[Input]) -> Sizes:
    """Sizes of the tensors among an op's inputs; (1,) for an op whose inputs are all single numbers.

    For a matrix product only the two factors count, so that a variant with ``out`` gives the same.
    """
    if not inputs:
        return ()
    if op in FACTORS:
        inputs = [inputs[place] for place in FACTORS[op] if place < len(inputs)]
    sizes = (math.prod(shape) for each in inputs for shape in each.shapes)
    return tuple(sorted((size for size in sizes if size > 1), reverse=True)) or (1,)
