"""Operands of ops as recorded in a trace, and the op that launched each kernel of the forward.

Shapes come from the forward itself, or from the step that was recorded with shapes beside its trace.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelbook.cases import Activity, Call, CaseFacts
from kernelbook.cases.records import record_of
from kernelbook.trace import TraceError, read_trace

#: Bytes an element, by the names that the profiler gives to element types (those of C++, or of torch's own types).
ELEMENT_BYTES = {
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
    **dict.fromkeys(("c10::BFloat16", "c10::Half", "short", "short int"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
    "c10::complex<double>": 16,
}


@dataclass(frozen=True)
class Operand:
    """A tensor argument of an op; ``kind``: its element type as the profiler writes it.

    ``stored``: number of elements in memory, fewer than in the shape if a dimension was expanded; None if every element
    is stored or strides were not recorded.
    """

    shape: tuple[int, ...]
    kind: str
    stored: int | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the elements in memory; a broadcast operand counts once."""
        return (self.elements if self.stored is None else self.stored) * ELEMENT_BYTES[self.kind]


@dataclass(frozen=True)
class Launched:
    """A kernel or memcpy of the representative forward, with the op that launched it, from the step with shapes.

    ``alone``: the op launched no other kernel. ``seeded``: it copied before (addmm copies its bias to the output).
    """

    activity: Activity
    op: Call
    alone: bool
    seeded: bool


def shaped_calls(facts: CaseFacts) -> tuple[Call, ...]:
    """CPU calls with input shapes: of the forward itself, or of the step recorded with shapes."""
    if any(call.inputs for call in facts.calls):
        return facts.calls
    if not facts.trace_path or not facts.annotation:
        return ()
    return _read_shapes(str(Path(facts.trace_path).with_name("shapes.json.gz")), facts.annotation)


@lru_cache(maxsize=256)
def _read_shapes(path: str, annotation: str) -> tuple[Call, ...]:
    if not Path(path).is_file():
        return ()
    try:
        _, calls = read_trace(path, annotation).forwards()
    except (TraceError, OSError):
        return ()
    return tuple(record_of(Call, row) for row in calls.to_pylist() if row["index"] == 0)


def operands(call: Call) -> tuple[Operand | None, ...] | None:
    """The call's arguments by position, None for arguments other than tensors.

    A number beside a tensor has the shape of one element. Returns None if a size is unknown: no shapes, a list of
    tensors, an unknown type.
    """
    if not call.inputs or any(each.shape is None or each.type is None for each in call.inputs):
        return None
    result: list[Operand | None] = []
    for each in call.inputs:
        shape, kind = each.shape or (), each.type or ""
        if kind in ELEMENT_BYTES:
            result.append(Operand(shape, kind, _stored(shape, each.strides)))
        elif shape:
            return None
        else:
            result.append(None)
    return tuple(result)


def _stored(sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> int | None:
    """Elements in memory, without repeats by a stride of 0. None if no dimension was expanded."""
    if strides is None or len(strides) != len(sizes) or 0 not in strides:
        return None
    return math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride != 0)


def concrete(call: Call, place: int) -> str:
    """The value of a scalar argument as the profiler writes it; empty if it was not recorded."""
    return call.inputs[place].value or "" if place < len(call.inputs) else ""


def launched(facts: CaseFacts) -> list[Launched]:
    """The kernels and memcpys of the representative forward in order of launch, each with its op.

    Empty if no shapes were recorded, or if the two steps did not launch the same from the same ops.
    """
    calls = list(_launches(shaped_calls(facts)))
    work = [a for a in facts.activities if a.category in ("kernel", "memcpy")]
    work.sort(key=lambda a: a.launch_start_us if a.launch_start_us is not None else a.start_us or 0.0)
    if [(a.category, a.op) for a in work] != [(category, op.name) for category, op in calls]:
        return []
    kernels = Counter(op.position for category, op in calls if category == "kernel")
    copies = {op.position for category, op in calls if category == "memcpy"}
    return [
        Launched(activity, op, kernels[op.position] == 1, op.position in copies)
        for activity, (_, op) in zip(work, calls, strict=True)
    ]


def _launches(calls: tuple[Call, ...]) -> Iterator[tuple[str, Call]]:
    """(kernel or memcpy, innermost op) for each launch, in order; launches outside of ops are left out."""
    by_position = {call.position: call for call in calls}
    for call in calls:
        if call.category != "runtime":
            continue
        category, count = ("memcpy", 1) if "Memcpy" in call.name else ("kernel", call.kernels or 0)
        around = by_position.get(call.parent) if call.parent is not None else None
        while around is not None and around.category != "op":
            around = by_position.get(around.parent) if around.parent is not None else None
        if around is not None:
            yield from [(category, around)] * count
