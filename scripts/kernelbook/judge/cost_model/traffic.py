"""What one op must read, write and compute, from the shapes and types of its operands; None for an op not known here.

Bytes are those of whole tensors: each input read once, each output written once, whatever the caches do. That is the
least that a kernel of the op can move, and what a well-made one does move of tensors larger than the L2 cache. An
input of no dimension counts nothing: it may be a number, and is a few bytes otherwise.
Semantics of the ops: PyTorch's ``native_functions.yaml``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelbook.cases import Call
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, Operand, concrete, operands

Operands = Sequence[Operand | None]
FLOATS = frozenset({"c10::BFloat16", "c10::Half", "float", "double"})
#: Where the two factors of a product stand among an op's inputs.
FACTORS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2),
           "aten::_addmm_activation": (1, 2)}  # fmt: skip
#: Pointwise ops by the number of their operands, which come first; a tensor behind them is an output handed in.
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
#: The places whose type the result has, where those are not all.
VALUED = {"where": (1, 2), "masked_fill": (0,)}
BOOLEAN = frozenset({"isneginf", "isposinf", "eq", "ne", "lt", "le", "gt", "ge",
                     "logical_not", "logical_and", "logical_or", "logical_xor"})  # fmt: skip
#: Ops that keep the type of whatever they are given; others turn whole numbers into floats, or not, by rules of torch.
KEEPING = frozenset({"clone", "tril", "triu", "where", "masked_fill"})
REDUCTIONS = frozenset({"all", "any", "sum", "mean", "amax", "amin"})
#: Functions of Liger Kernel, one Triton kernel each: two tensors read, one of their shape written.
PAIRED = frozenset({"LigerGELUMulFunction", "LigerSiLUMulFunction"})


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written, and FLOPs of a product (None elsewhere); ``kind``: the element type of its factors."""

    read: int
    written: int
    flops: int | None = None
    kind: str | None = None

    @property
    def bytes(self) -> int:
        return self.read + self.written


@dataclass(frozen=True)
class Access:
    """The tensors that the one kernel of an op reads and writes; one that it changes in place is among both."""

    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    flops: int | None = None
    kind: str | None = None

    @property
    def traffic(self) -> Traffic:
        read, written = (sum(each.bytes for each in tensors) for tensors in (self.reads, self.writes))
        return Traffic(read, written, self.flops, self.kind)


def traffic_of(call: Call, seeded: bool = False) -> Traffic | None:
    """The traffic of the one kernel that an op launched: that of `access_of`."""
    access = access_of(call, seeded)
    return access.traffic if access else None


def access_of(call: Call, seeded: bool = False) -> Access | None:
    """What the one kernel that an op launched reads and writes; ``seeded``: its output was filled by a copy before.

    None where the op is not known, or where a size cannot be told.
    """
    given = operands(call)
    if given is None:
        return None
    name = call.name.removeprefix("aten::")
    if call.name in FACTORS:
        return _product(call, given, seeded)
    if name == "copy_":
        return _moved(given[1:2], given[0])
    if name in ("fill_", "zero_"):
        return _moved((), given[0])
    if name in ("_softmax", "_log_softmax"):
        return _softmax(call, given)
    if name in REDUCTIONS:
        return _reduction(call, name, given)
    if call.name in PAIRED:
        return _pointwise("mul", given)
    return _pointwise(name, given)


def sizes(call: Call) -> tuple[int, int, int, int] | None:
    """(batch, m, n, k) of a product from the shapes of its factors, None where they are not those of a product."""
    given = operands(call) or ()
    first, second = FACTORS[call.name]
    if len(given) <= second:
        return None
    a, b = given[first], given[second]
    if a is None or b is None or len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3):
        return None
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        return None
    return math.prod(a.shape[:-2]), a.shape[-2], b.shape[-1], a.shape[-1]


def _moved(read: Operands, written: Operand | None) -> Access | None:
    return Access(tuple(each for each in read if each and each.shape), (written,)) if written else None


def _product(call: Call, given: Operands, seeded: bool) -> Access | None:
    """Factors, and what is added to their product: the bias, or the output in which a copy has put it."""
    found, places = sizes(call), FACTORS[call.name]
    factors = [each for place in places if place < len(given) and (each := given[place])]
    if found is None or len({each.kind for each in factors}) != 1:
        return None
    batch, m, n, k = found
    kind = factors[0].kind
    lead = (batch,) if len(factors[0].shape) == 3 else ()
    result = _handed_in(given, places[1] + 1) or Operand((*lead, m, n), kind)
    added = (result if seeded else given[0]) if places[0] == 1 else None
    read = tuple(each for each in (*factors, added) if each)
    return Access(read, (result,), 2 * batch * m * n * k, kind)


def _softmax(call: Call, given: Operands) -> Access | None:
    source = given[0]
    if not source:
        return None
    kind = "float" if concrete(call, 2) == "True" else source.kind
    return _moved((source,), _handed_in(given, 1) or Operand(source.shape, kind))


def _reduction(call: Call, name: str, given: Operands) -> Access | None:
    """Reads its source; what it writes has the reduced dimensions left out, which must have been recorded."""
    source, result = given[0], _handed_in(given, 1)
    if source is None or not source.shape:
        return None
    if result is None:
        truth = name in ("all", "any")
        kept = _kept(call, source.shape) if truth or (source.kind in FLOATS and not concrete(call, 3)) else None
        result = None if kept is None else Operand(kept, "bool" if truth else source.kind)
    return _moved((source,), result)


def _kept(call: Call, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """What a reduction leaves of a shape: nothing where no dimension was given; None where that cannot be read."""
    said = concrete(call, 1)
    if said in ("", "[]"):
        return ()
    dims = [int(dim) for dim in re.findall(r"-?\d+", said)]
    if len(operands(call) or ()) < 3 or not dims or any(not -len(shape) <= dim < len(shape) for dim in dims):
        return None
    return tuple(size for place, size in enumerate(shape) if not {place, place - len(shape)}.intersection(dims))


def _pointwise(name: str, given: Operands) -> Access | None:
    in_place = name.endswith("_") and not name.startswith("_")
    plain = name.removesuffix("_") if in_place else name
    count = POINTWISE.get(plain)
    if count is None:
        return None
    read = given[:count]
    if in_place:
        return _moved(read, given[0])
    return _moved(read, _handed_in(given, count) or _result(plain, read))


def _handed_in(given: Operands, count: int) -> Operand | None:
    """The output of an op's ``out`` variant, which stands behind its operands."""
    return next((each for each in given[count:] if each), None)


def _result(name: str, read: Operands) -> Operand | None:
    """The tensor that a pointwise op makes, None where its shape or type cannot be told from the operands.

    Numbers beside tensors give no type; where there are only such, theirs holds.
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
    """The shape that operands are broadcast to; None of none, or where they do not fit."""
    if not shapes:
        return None
    width = max(map(len, shapes))
    columns = list(zip(*[(1,) * (width - len(shape)) + shape for shape in shapes], strict=True))
    if any(len(set(column) - {1}) > 1 for column in columns):
        return None
    return tuple(next((size for size in column if size != 1), 1) for column in columns)
