"""Calls a forward again from the same inputs: is its result random, is its work the same at each call?"""

from __future__ import annotations

import collections
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workloads.harness import values

# Calls of the CUDA runtime and driver that queue no work. Their number varies by chance if another thread polls the
# device, as NCCL's watchdog does with its events.
IDLE_CALL = re.compile(r"(?!.*(Launch|Memcpy|Memset))(cuda|cu|hip)[A-Z]\w*$")

Warned = tuple[str, int, str]  # code, count, message


@dataclass(frozen=True)
class RepeatedCall:
    """One call: copies of the tensors in its result, counts of its ops, whether it drew random numbers.

    ``work``: counted by name of the op and shapes of its inputs.
    """

    result: list[torch.Tensor]
    work: collections.Counter[tuple[str, str]]
    drew: bool


def recorded(call: Callable[[], Any], seed: int) -> RepeatedCall:
    """Make one call with every global random generator seeded: torch's, Python's, and NumPy's if that is loaded."""
    numpy = sys.modules.get("numpy")
    torch.manual_seed(seed)
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed)
    before = _generators(numpy)
    with torch.autograd.profiler.profile(record_shapes=True) as profiler:
        result = call()
    work = collections.Counter(
        (event.name, str(event.input_shapes)) for event in profiler.function_events if not IDLE_CALL.match(event.name)
    )
    copies = [tensor.detach().clone() for tensor in values.tensors(result)]
    return RepeatedCall(copies, work, _generators(numpy) != before)


def _generators(numpy: Any) -> list[str]:
    """The states of the global random generators."""
    states = [torch.get_rng_state().tolist(), random.getstate()]
    if torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state().tolist())
    if numpy is not None:
        name, keys, *more = numpy.random.get_state()
        states.append([name, keys.tolist(), *more])
    return [str(state) for state in states]


def judge(call: Callable[[], Any], bound: float, compare_results: bool = True) -> Iterator[Warned]:
    """Warnings about what differs between two calls from the same inputs.

    A third call with the seed of the second shows what is only random.

    call: starts from fresh inputs each time. bound: the relative error that rounding explains.
    compare_results: False for a step that changes its own weights.
    Codes: random, varying_result, varying_work.
    """
    first, second = recorded(call, 1), recorded(call, 2)
    same_result = not compare_results or alike(first.result, second.result, bound)
    if same_result and first.work == second.work:
        return
    third = recorded(call, 2)
    if first.drew and alike(third.result, second.result, bound) and third.work == second.work:
        text = "the forward is random: calls from the same inputs give results that differ with the seed"
        yield "random", 1, f"{text} (call .eval() on a model with dropout)"
        return
    if not same_result:
        text = "calls from the same inputs give different results: the forward counts its calls, keeps a state, or"
        yield "varying_result", 1, f"{text} draws random numbers that no global seed sets"
    if first.work != second.work:
        yield "varying_work", 1, f"calls from the same inputs do different work: {_difference(first.work, second.work)}"


def alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor], bound: float) -> bool:
    """Whether the shapes are equal and the values differ by no more than rounding, as in sums in another order."""
    if [tensor.shape for tensor in one] != [tensor.shape for tensor in other]:
        return False
    if all(values.same_bits(a, b) for a, b in zip(one, other)):  # noqa: B905 - Python 3.9 has no strict
        return True
    difference, norm = values.distance(one, other)
    return not math.sqrt(difference) > bound * math.sqrt(norm)  # also where neither is finite


def uneven_ops(averages: Sequence[dict[str, Any]], forwards: int) -> Iterator[Warned]:
    """A warning of ops whose count in torch's own averages is no multiple of the number of forwards."""
    uneven = [f"{row['name']} {row['count']} times" for row in averages
              if row["name"].startswith("aten::") and row["count"] % forwards]  # fmt: skip
    if uneven:
        listed = ", ".join(uneven[:3]) + (", ..." if len(uneven) > 3 else "")
        yield "varying_work", len(uneven), f"the {forwards} profiled forwards do not all do the same work: {listed}"


def _difference(first: collections.Counter[tuple[str, str]], second: collections.Counter[tuple[str, str]]) -> str:
    more = next(iter(first - second), None)
    less = next(iter(second - first), None)
    parts = [f"{name} {shapes} {first[name, shapes]} times, then {second[name, shapes]}"
             for name, shapes in filter(None, (more, less))]  # fmt: skip
    return "; ".join(parts)
