"""How far a result lies from float64, how many operations it takes, and how few bytes it could move."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from workloads import Workload

CHUNK = 2**26  # elements converted to float64 at a time: 512 MiB


def relative_error(result: Any, workload: Workload) -> float | None:
    """‖y - r‖ / ‖r‖ (L2, float64) of the forward's result against the workload's reference from the same inputs.

    None if there is nothing to compare or the result is not finite everywhere.
    """
    if workload.grad and workload.reference is None:
        return None  # a step that changes its own weights gives another result each time
    reference = workload.reference or _own_forward_in_float64(workload.forward)
    right = reference(*workload.inputs)
    difference = norm = 0.0
    pairs = list(zip(tensors(result), tensors(right)))  # noqa: B905 - Python 3.9 has no strict
    for got, wanted in pairs:
        for y, r in zip(_chunks(got), _chunks(wanted)):  # noqa: B905
            difference += float((y.double() - r.double()).square().sum())
            norm += float(r.double().square().sum())
    if not norm or not math.isfinite(difference):
        return None
    return math.sqrt(difference / norm)


def _own_forward_in_float64(forward: Callable[..., Any]) -> Callable[..., Any]:
    def widen(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    wide = copy.deepcopy(forward).double() if isinstance(forward, torch.nn.Module) else forward
    return lambda *inputs: wide(*[widen(value) for value in inputs])


def _chunks(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tensor.detach().reshape(-1).split(CHUNK)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def flops(workload: Workload) -> tuple[int | None, str | None]:
    """Floating-point operations of one forward and where the figure is from: `formula`, `counter`, or None for 0.

    torch's FlopCounterMode counts matrix products and attention, nothing elementwise, and gives 0 for CPU flash
    attention: hence the formula where a workload has one. It is given the eager forward.
    """
    if workload.flops:
        return workload.flops, "formula"
    from torch.utils.flop_counter import FlopCounterMode

    _spare_dynamo_import()
    with FlopCounterMode(display=False) as counter:
        workload.forward(*workload.inputs)
    total = counter.get_total_flops()
    return (total, "counter") if total else (None, None)


def _spare_dynamo_import() -> None:
    """Keep the counter from importing torch._dynamo (seconds on a large build) where nothing is compiled.

    torch wraps the counter's dispatch so that torch.compile stays out of it, and that wrapper imports torch._dynamo on
    its first call unless the function says already what to call instead.
    """
    from torch.utils import flop_counter

    if "torch._dynamo" in sys.modules:
        return
    for kind in vars(flop_counter).values():
        dispatch = vars(kind).get("__torch_dispatch__") if isinstance(kind, type) else None
        bare = getattr(dispatch, "__wrapped__", None)
        if bare is not None and not hasattr(bare, "__dynamo_disable"):
            bare.__dynamo_disable = bare


def least_bytes(workload: Workload, result: Any) -> dict[str, int]:
    """Bytes that a forward must read at least (inputs, weights) and write (results), each counted once."""
    read = list(tensors(list(workload.inputs)))
    if isinstance(workload.forward, torch.nn.Module):
        read += workload.forward.parameters()
    written = list(tensors(result))
    places = {tensor.data_ptr() for tensor in written}  # an input that is written is not also read
    return {
        "input_bytes": sum(t.numel() * t.element_size() for t in read if t.data_ptr() not in places),
        "output_bytes": sum(t.numel() * t.element_size() for t in written),
    }
