"""Copies of the inputs as they were made: finds those that a forward changes, and restores their first values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from workloads.harness import values

HEAD_BYTES = 2**28  # of a larger tensor only this much is kept


class Kept:
    """One tensor and a copy of its values in host memory, or of its first rows if it is large."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.head = _head(tensor).to("cpu", copy=True)
        self.whole = self.head.numel() == tensor.numel()
        self.version = _version(tensor)

    def changed(self) -> bool:
        """Whether its values differ from the copy; for a large one also whether torch has written to it since."""
        written = not self.whole and _version(self.tensor) != self.version
        return written or not values.same_bits(_head(self.tensor).cpu(), self.head)

    def restore(self) -> None:
        """Write the kept values back. Raises RuntimeError if the tensor cannot be written to, as an expanded one."""
        with torch.inference_mode() if self.tensor.is_inference() else contextlib.nullcontext():
            self.tensor.detach().copy_(self.head)


def _head(tensor: torch.Tensor) -> torch.Tensor:
    size = tensor.numel() * tensor.element_size()
    if size <= HEAD_BYTES or not tensor.dim():
        return tensor.detach()
    return tensor.detach()[: max(1, HEAD_BYTES * tensor.shape[0] // size)]


def _version(tensor: torch.Tensor) -> int | None:
    """torch's count of its own writes to the tensor; kernels from elsewhere are not counted."""
    return None if tensor.is_inference() else tensor._version


class Originals:
    """The inputs of a forward and the state of its modules, with the values that they have now.

    Takes host memory for inputs and buffers, at most 256 MiB for each tensor. For parameters only torch's count of
    writes is kept.
    """

    def __init__(self, forward: Any, inputs: tuple[Any, ...]) -> None:
        self._inputs = inputs
        self._containers = values.copied(inputs)
        self._layout = list(_placed(inputs))
        self._kept = {id(tensor): Kept(tensor) for _, tensor in self._layout}
        modules = [leaf for leaf in values.leaves(values.held_by(forward)) if isinstance(leaf, torch.nn.Module)]
        self._buffers = [(name, Kept(buffer)) for module in modules for name, buffer in module.named_buffers()]
        parameters = [pair for module in modules for pair in module.named_parameters()]
        self._parameters = [(name, parameter, _version(parameter)) for name, parameter in parameters]
        self._dirty: list[Kept] = []
        self.lost: str | None = None  # why a call cannot start from the first values again

    def changed_inputs(self) -> list[int]:
        """Numbers, from 1, of the arguments that were changed, in a tensor or in their structure."""
        dirty = {key: kept for key, kept in self._kept.items() if kept.changed()}
        self._dirty = [kept for kept in dirty.values() if kept.whole]
        if len(self._dirty) < len(dirty):
            self.lost = f"an input of more than {HEAD_BYTES >> 20} MiB was changed, and no copy of all of it was kept"
        try:
            self.fresh()
        except RuntimeError as error:
            self._dirty, self.lost = [], f"an input was changed and cannot be written back ({error})"
        places = {place for place, tensor in self._layout if id(tensor) in dirty}
        then, now = (_by_place(layout) for layout in (self._layout, _placed(self._inputs)))
        return sorted(places | {place for place in {*then, *now} if then.get(place) != now.get(place)})

    def changed_state(self) -> list[str]:
        """The names of the buffers and parameters of its modules that were changed."""
        buffers = [name for name, kept in self._buffers if kept.changed()]
        return buffers + [name for name, parameter, version in self._parameters if _version(parameter) != version]

    def fresh(self) -> tuple[Any, ...]:
        """The input tensors themselves, with their first values, in new containers.

        Only those that `changed_inputs` found are written back, and only if it set no `lost`.
        """
        for kept in self._dirty:
            kept.restore()
        return values.copied(self._containers)


def _placed(inputs: tuple[Any, ...]) -> Iterator[tuple[int, torch.Tensor]]:
    """(number of the argument from 1, tensor in it)."""
    for place, value in enumerate(inputs, 1):
        for tensor in values.tensors(value):
            yield place, tensor


def _by_place(layout: Iterable[tuple[int, torch.Tensor]]) -> dict[int, list[int]]:
    by_place: dict[int, list[int]] = {}
    for place, tensor in layout:
        by_place.setdefault(place, []).append(id(tensor))
    return by_place
