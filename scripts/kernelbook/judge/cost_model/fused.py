"""What the kernels that Inductor generates read and write, inferred from the data flow of the forward around them.

A trace records the shapes of a generated kernel's tensors and not which of them it reads, writes, or changes in place.
Inductor passes them in this order, none twice: those changed in place, those read, those written
(``KernelArgs.python_argdefs`` in ``torch/_inductor/codegen/common.py``). Of the ways in which all kernels of a forward
could share theirs out, most are impossible, since a forward

* reads no more than its inputs and what it wrote before;
* writes nothing that is neither read later nor its output;
* changes in place only what it wrote itself.

Where all that is possible gives a kernel the same number of bytes, that is its traffic; else it is not known.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernelbook.cases import CaseFacts
from kernelbook.judge.cost_model.shapes import ELEMENT_BYTES, Launched, Operand, operands
from kernelbook.judge.cost_model.traffic import Access, Traffic, access_of
from kernelbook.kernel_names import decode

#: Kernels whose tensors are passed in the order above; those of templates and for lists of tensors are not.
GENERATED = ("triton_poi_", "triton_red_", "triton_per_")
#: Ops that make a tensor out of nothing: a kernel without any of them reads something.
MAKING = frozenset({"full", "full_like", "ones", "ones_like", "zeros", "zeros_like", "new_full", "new_ones",
                    "new_zeros", "fill", "arange", "iota", "scalar_tensor", "eye", "lift_fresh", "rand", "randn",
                    "randint", "bernoulli", "native_dropout", "linspace", "empty"})  # fmt: skip
#: More ways than this are not looked through.
MOST_WAYS = 4096
Size = tuple[int, str]  # elements and element type: all that tells tensors apart, since views change the shape


@dataclass(frozen=True)
class Way:
    """One way in which a kernel can share out its tensors.

    ``changed``: those in place, which are among both others. ``generated``: no two of its tensors are the same one, as
    those of an op may be.
    """

    access: Access
    changed: tuple[Operand, ...] = ()
    generated: bool = False


def fused_traffic(facts: CaseFacts, pairs: Sequence[Launched]) -> dict[int, Traffic]:
    """Position of a generated kernel -> its traffic, for those of which it can be inferred.

    Empty where there is no such kernel, where another kernel's traffic is not known, or where the forward's inputs and
    output were not measured.
    """
    fused = [pair for pair in pairs if pair.op.name.startswith(GENERATED)]
    if not fused or facts.input_bytes is None or facts.output_bytes is None:
        return {}
    ways = tuple(_ways(pair) for pair in pairs)
    if not all(ways) or math.prod(map(len, ways)) > MOST_WAYS:
        return {}
    found = _inferred(ways, facts.input_bytes, facts.output_bytes)
    by_position = {pair.activity.position: each for pair, each in zip(pairs, found, strict=True) if pair in fused}
    return {position: traffic for position, traffic in by_position.items() if traffic is not None}


def _ways(pair: Launched) -> tuple[Way, ...]:
    """All ways of one kernel; a single one where its op says it, none where nothing is known of it."""
    if pair.activity.category == "memcpy" and pair.op.name != "aten::copy_":
        return ()
    if not pair.op.name.startswith(GENERATED):
        access = access_of(pair.op, pair.seeded) if pair.alone or pair.activity.category == "memcpy" else None
        return (Way(access),) if access else ()
    given = operands(pair.op)
    if given is None or not pair.alone:
        return ()
    tensors = tuple(each for each in given if each and each.shape)
    reads_some = not MAKING.intersection(decode(pair.op.name).fused_ops)
    ends = [(i, j) for i in range(len(tensors) + 1) for j in range(i, len(tensors) + 1)]
    return tuple(
        Way(Access(tensors[:j], tensors[:i] + tensors[j:]), tensors[:i], generated=True)
        for i, j in ends
        if (i or j < len(tensors)) and (j or not reads_some)
    )


@lru_cache(maxsize=256)
def _inferred(ways: tuple[tuple[Way, ...], ...], inputs: int, outputs: int) -> tuple[Traffic | None, ...]:
    """The traffic of each kernel, None where the possible ways of all disagree on its bytes."""
    possible = [world for world in itertools.product(*ways) if _is_possible(world, inputs, outputs)]
    return tuple(_agreed(column) for column in zip(*possible, strict=True)) or (None,) * len(ways)


def _agreed(column: Sequence[Way]) -> Traffic | None:
    traffic = [way.access.traffic for way in column]
    return traffic[0] if len({each.bytes for each in traffic}) == 1 else None


def _is_possible(world: Sequence[Way], inputs: int, outputs: int) -> bool:
    """Whether a forward with inputs and output of so many bytes can be made of these kernels, in this order."""
    made: Counter[Size] = Counter()
    taken: Counter[Size] = Counter()  # how many of its inputs must be of a size
    for way in world:
        changed = _sizes(way.changed)
        if changed - made:
            return False
        for size, number in _sizes(way.access.reads).items():
            taken[size] = max(taken[size], (number if way.generated else 1) - made[size])
        made += _sizes(way.access.writes) - changed
    needed = sum(number * elements * ELEMENT_BYTES[kind] for (elements, kind), number in taken.items())
    return needed <= inputs and _unread(world) <= outputs


def _unread(world: Sequence[Way]) -> int:
    """Bytes written that nothing reads later: a read is of one tensor, and so of one that was written at the most."""
    readers: Counter[Size] = Counter()
    unread = 0
    for way in reversed(world):
        for size, number in _sizes(way.access.writes).items():
            elements, kind = size
            unread += max(number - readers[size], 0) * elements * ELEMENT_BYTES[kind]
            readers[size] = max(readers[size] - number, 0)
        readers += _sizes(way.access.reads)
    return unread


def _sizes(tensors: Sequence[Operand]) -> Counter[Size]:
    return Counter((tensor.elements, tensor.kind) for tensor in tensors)
