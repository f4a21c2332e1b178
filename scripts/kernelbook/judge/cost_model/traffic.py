"""Bytes and FLOPs of one op, from the shapes and types of its operands; None for unknown ops.

Bytes are those of whole tensors: each input read once, each output written once, the least that a kernel of the op can
move. Inputs without dimensions count as 0 bytes. Semantics of the ops: PyTorch's ``native_functions.yaml``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelbook.cases import Call, CaseFacts
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, Operand, concrete, launched, operands
from kernelbook.kernel_names.model import UNKNOWN, element
from kernelbook.trace.inputs import Input

Operands = Sequence[Operand | None]
FLOATS = frozenset({"c10::BFloat16", "c10::Half", "float", "double"})
#: Positions of the two factors of a product among an op's inputs.
FACTORS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2),
           "aten::_addmm_activation": (1, 2)}  # fmt: skip
#: Pointwise ops and the number of their operands, which come first; a tensor after them is an `out` argument.
POINTWISE = {
    **dict.fromkeys(("gelu", "relu", "silu", "sigmoid", "tanh", "exp", "exp2", "expm1", "log", "log1p", "log2"), 1),
    **dict.fromkeys(("sqrt", "rsqrt", "reciprocal", "neg", "abs", "sin", "cos", "erf", "hardtanh", "leaky_relu"), 1),
    **dict.fromkeys(("elu", "softplus", "hardswish", "clamp_min", "clamp_max", "clone", "tril", "triu"), 1),
    **dict.fromkeys(("isneginf", "isposinf", "logical_not"), 1),
    **dict.fromkeys(("add", "sub", "rsub", "mul", "div", "maximum", "minimum", "pow", "fmod", "atan2"), 2),
    **dict.fromkeys(("gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward", "threshold_backward"), 2),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"), 2),
    **dict.fromkeys(("where", "masked_fill", "addcmul", "addcdiv", "lerp", "clamp"), 3),
}
#: Positions that determine the result's type, if not all do.
VALUED = {"where": (1, 2), "masked_fill": (0,)}
BOOLEAN = frozenset({"isneginf", "isposinf", "eq", "ne", "lt", "le", "gt", "ge",
                     "logical_not", "logical_and", "logical_or", "logical_xor"})  # fmt: skip
#: Ops whose result has the type of the input; others may promote integers to floats.
KEEPING = frozenset({"clone", "tril", "triu", "where", "masked_fill"})
REDUCTIONS = frozenset({"all", "any", "sum", "mean", "amax", "amin"})
#: Functions of Liger Kernel, one Triton kernel each: two tensors read, one of their shape written.
PAIRED = frozenset({"LigerGELUMulFunction", "LigerSiLUMulFunction"})


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written, and FLOPs of a product (otherwise None); ``kind``: element type of its factors."""

    read: int
    written: int
    flops: int | None = None
    kind: str | None = None

    @property
    def bytes(self) -> int:
        return self.read + self.written


@dataclass(frozen=True)
class Access:
    """The tensors that the single kernel of an op reads and writes; a tensor changed in place is in both."""

    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    flops: int | None = None
    kind: str | None = None

    @property
    def traffic(self) -> Traffic:
        read, written = (sum(each.bytes for each in tensors) for tensors in (self.reads, self.writes))
        return Traffic(read, written, self.flops, self.kind)


def traffic_of(call: Call, seeded: bool = False) -> Traffic | None:
    access = access_of(call, seeded)
    return access.traffic if access else None


def access_of(call: Call, seeded: bool = False) -> Access | None:
    """Reads and writes of the single kernel of an op; ``seeded``: a copy filled its output before.

    None if the op or a size is unknown.
    """
    arguments = operands(call)
    if arguments is None:
        return None
    name = call.name.removeprefix("aten::")
    if call.name in FACTORS:
        return _product(call, arguments, seeded)
    if name == "copy_":
        return _moved(arguments[1:2], arguments[0])
    if name in ("fill_", "zero_"):
        return _moved((), arguments[0])
    if name in ("_softmax", "_log_softmax"):
        return _softmax(call, arguments)
    if name in REDUCTIONS:
        return _reduction(call, name, arguments)
    if call.name in PAIRED:
        return _pointwise("mul", arguments)
    return _pointwise(name, arguments)


def sizes(call: Call) -> tuple[int, int, int, int] | None:
    """(batch, m, n, k) of a product from the shapes of its factors; None if they do not form a product."""
    arguments = operands(call) or ()
    first, second = FACTORS[call.name]
    if len(arguments) <= second:
        return None
    a, b = arguments[first], arguments[second]
    if a is None or b is None or len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3):
        return None
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        return None
    return math.prod(a.shape[:-2]), a.shape[-2], b.shape[-1], a.shape[-1]


def _moved(read: Operands, written: Operand | None) -> Access | None:
    return Access(tuple(each for each in read if each and each.shape), (written,)) if written else None


def _product(call: Call, arguments: Operands, seeded: bool) -> Access | None:
    """Factors, and the added term: the bias, or the output if a copy has filled it."""
    size, places = sizes(call), FACTORS[call.name]
    factors = [each for place in places if place < len(arguments) and (each := arguments[place])]
    if size is None or len({each.kind for each in factors}) != 1:
        return None
    batch, m, n, k = size
    kind = factors[0].kind
    lead = (batch,) if len(factors[0].shape) == 3 else ()
    result = _handed_in(arguments, places[1] + 1) or Operand((*lead, m, n), kind)
    added = (result if seeded else arguments[0]) if places[0] == 1 else None
    read = tuple(each for each in (*factors, added) if each)
    return Access(read, (result,), 2 * batch * m * n * k, kind)


def _softmax(call: Call, arguments: Operands) -> Access | None:
    source = arguments[0]
    if not source:
        return None
    kind = "float" if concrete(call, 2) == "True" else source.kind
    return _moved((source,), _handed_in(arguments, 1) or Operand(source.shape, kind))


def _reduction(call: Call, name: str, arguments: Operands) -> Access | None:
    """Reads its input; the output lacks the reduced dimensions, which must be recorded."""
    source, result = arguments[0], _handed_in(arguments, 1)
    if source is None or not source.shape:
        return None
    if result is None:
        truth = name in ("all", "any")
        kept = _kept(call, source.shape) if truth or (source.kind in FLOATS and not concrete(call, 3)) else None
        result = None if kept is None else Operand(kept, "bool" if truth else source.kind)
    return _moved((source,), result)


def _kept(call: Call, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape after a reduction; () if no dimension is given, None if it cannot be read."""
    value = concrete(call, 1)
    if value in ("", "[]"):
        return ()
    dims = [int(dim) for dim in re.findall(r"-?\d+", value)]
    if len(operands(call) or ()) < 3 or not dims or any(not -len(shape) <= dim < len(shape) for dim in dims):
        return None
    return tuple(size for place, size in enumerate(shape) if not {place, place - len(shape)}.intersection(dims))


def _pointwise(name: str, arguments: Operands) -> Access | None:
    in_place = name.endswith("_") and not name.startswith("_")
    plain = name.removesuffix("_") if in_place else name
    count = POINTWISE.get(plain)
    if count is None:
        return None
    read = arguments[:count]
    if in_place:
        return _moved(read, arguments[0])
    return _moved(read, _handed_in(arguments, count) or _result(plain, read))


def _handed_in(arguments: Operands, count: int) -> Operand | None:
    """The output of an op's ``out`` variant, which follows its operands."""
    return next((each for each in arguments[count:] if each), None)


def _result(name: str, read: Operands) -> Operand | None:
    """The tensor that a pointwise op makes, None if the operands do not determine its shape or type.

    Numbers beside tensors do not affect the type; without tensors, the type of the numbers counts.
    """
    shape = _broadcast([each.shape for each in read if each])
    if not shape:
        return None
    if name in BOOLEAN:
        return Operand(shape, "bool")
    valued = [read[place] for place in VALUED.get(name, range(len(read))) if place < len(read)]
    present = [each for each in valued if each]
    kinds = {each.kind for each in [each for each in present if each.shape] or present}
    kind = kinds.pop() if len(kinds) == 1 else None
    return Operand(shape, kind) if kind in FLOATS or (kind in ELEMENT_BYTES and name in KEEPING) else None


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape that operands are broadcast to; None if there are no operands or they do not fit."""
    if not shapes:
        return None
    width = max(map(len, shapes))
    columns = list(zip(*[(1,) * (width - len(shape)) + shape for shape in shapes], strict=True))
    if any(len(set(column) - {1}) > 1 for column in columns):
        return None
    return tuple(next((size for size in column if size != 1), 1) for column in columns)


# --- sizes of tensors, and element types of copies -------------------------------------------------------------------


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
