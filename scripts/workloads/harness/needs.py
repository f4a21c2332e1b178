"""The least that a forward needs: floating-point operations, and bytes read and written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from workloads import Workload
from workloads.harness import values


def flops(workload: Workload, inputs: tuple[Any, ...]) -> tuple[int | None, str | None]:
    """(floating-point operations of one forward, their source): `formula`, `counter`, or None for both if 0.

    torch's FlopCounterMode counts matrix products and attention, nothing elementwise, and gives 0 for CPU flash
    attention, so a workload may have a formula. The counter runs the eager forward.
    """
    if workload.flops:
        return workload.flops, "formula"
    from torch.utils.flop_counter import FlopCounterMode

    _spare_dynamo_import()
    with FlopCounterMode(display=False) as counter:
        workload.forward(*inputs)
    total = counter.get_total_flops()
    return (total, "counter") if total else (None, None)


def _spare_dynamo_import() -> None:
    """Keep the counter from importing torch._dynamo (seconds on a large build) if nothing is compiled.

    torch wraps the counter's dispatch so that torch.compile stays out of it, and that wrapper imports torch._dynamo on
    its first call unless the function has the attribute that says what to call instead.
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
    """Bytes that a forward must at least read (inputs, weights) and write (results), each counted once.

    Weights are those of a module, or of what a function closes over. None for both with `grad`: what a training step
    must move (activations, gradients, states of its optimizer) cannot be known from outside.
    """
    if workload.grad:
        return {"input_bytes": None, "output_bytes": None}
    written = _by_place(values.tensors(result))
    read = _by_place([*values.tensors(workload.inputs), *_weights(workload.forward)])
    return {
        # an input that is written is not also read
        "input_bytes": sum(size for place, size in read.items() if place not in written),
        "output_bytes": sum(written.values()),
    }


def _by_place(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """Address -> bytes of the tensor there, the largest if there are several."""
    sizes: dict[int, int] = {}
    for tensor in tensors:
        place = tensor.data_ptr()
        sizes[place] = max(sizes.get(place, 0), tensor.numel() * tensor.element_size())
    return sizes


def _weights(forward: Any) -> Iterator[torch.Tensor]:
    """The parameters of a module; of a function, those of its bound object and what it closes over, tensors too."""
    for leaf in values.leaves(values.held_by(forward), objects=False):
        if isinstance(leaf, torch.nn.Module):
            yield from leaf.parameters()
        elif isinstance(leaf, torch.Tensor):
            yield leaf
