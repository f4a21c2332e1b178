"""How far a result lies from float64, how many operations it takes, and how few bytes it could move."""

from __future__ import annotations

import contextlib
import copy
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from workloads import Workload

CHUNK = 2**26  # elements converted to float64 at a time: 512 MiB


def not_finite(result: Any) -> tuple[int, int]:
    """How many numbers of the forward's result are NaN or infinite, and of how many."""
    bad = total = 0
    for tensor in tensors(result):
        total += tensor.numel()
        if tensor.is_floating_point() or tensor.is_complex():
            bad += sum(int(chunk.isfinite().logical_not().sum()) for chunk in _chunks(tensor))
    return bad, total


def relative_error(result: Any, workload: Workload) -> float | None:
    """‖y - r‖ / ‖r‖ (L2, float64) of the forward's result against the workload's reference from the same inputs.

    None if nothing is to be compared: a step that changes its own weights gives another result each time.

    Raises ValueError that says why the two cannot be compared: other tensors than the reference has, or values that are
    not finite.
    """
    if workload.grad and workload.reference is None:
        return None
    reference = workload.reference or _own_forward_in_float64(workload.forward)
    got, wanted = list(tensors(result)), list(tensors(reference(*workload.inputs)))
    _refuse_other_shapes(got, wanted)
    difference = norm = 0.0
    for one, other in zip(got, wanted):  # noqa: B905 - Python 3.9 has no strict
        for y, r in zip(_chunks(one), _chunks(other)):  # noqa: B905
            difference += float((y.double() - r.double()).square().sum())
            norm += float(r.double().square().sum())
    if not math.isfinite(difference):
        raise ValueError("the result or its reference is not finite")
    if not norm:
        raise ValueError("the reference is zero everywhere")
    return math.sqrt(difference / norm)


def _refuse_other_shapes(got: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    if not got:
        raise ValueError("the result holds no tensor")
    shapes = [[list(tensor.shape) for tensor in side] for side in (got, wanted)]
    if shapes[0] != shapes[1]:
        raise ValueError("the result is of shape {}, its reference of {}".format(*(_listed(side) for side in shapes)))


def _listed(shapes: list[list[int]]) -> str:
    return " and ".join(map(str, shapes)) or "nothing"


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


def least_bytes(workload: Workload, result: Any) -> dict[str, int | None]:
    """Bytes that a forward must read at least (inputs, weights) and write (results), each counted once.

    Weights are those of a module, or of what a function closes over. None for both where gradients are let through:
    what a training step must move (activations, gradients, states of its optimizer) cannot be told from outside.
    """
    if workload.grad:
        return {"input_bytes": None, "output_bytes": None}
    written = _by_place(tensors(result))
    read = _by_place([*tensors(list(workload.inputs)), *_weights(workload.forward)])
    return {
        # an input that is written is not also read
        "input_bytes": sum(size for place, size in read.items() if place not in written),
        "output_bytes": sum(written.values()),
    }


def _by_place(found: Iterable[torch.Tensor]) -> dict[int, int]:
    """Where the tensors lie -> their bytes; of several at one place the largest counts."""
    sizes: dict[int, int] = {}
    for tensor in found:
        place = tensor.data_ptr()
        sizes[place] = max(sizes.get(place, 0), tensor.numel() * tensor.element_size())
    return sizes


def _weights(forward: Any) -> Iterator[torch.Tensor]:
    """The parameters of a module; of a function, those of its bound object and what it closes over, tensors too."""
    held = [forward, getattr(forward, "__self__", None)]
    for cell in getattr(forward, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a name that is not bound yet
            held.append(cell.cell_contents)
    for value in held:
        if isinstance(value, torch.nn.Module):
            yield from value.parameters()
    yield from tensors(held)
