"""What is profiled: one small file for each workload. They run inside a container with torch, without `kernelbook`.

A workload is a function. Its first argument is a `Context`, its other arguments are the case's parameters, and it
returns a `Workload`. Writing your own takes a file like this, named as `workload: my/rows.py:softmax_rows`:

    import torch
    from workloads import Workload

    def softmax_rows(context, rows=4096, columns=1024):
        def forward(x):
            return torch.softmax(x, dim=-1)

        return Workload(forward, (context.random(rows, columns),))

Without a `reference` a workload is compared with its own forward in float64.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType

    import torch


class Unsupported(Exception):  # noqa: N818 - it is a finding about the machine, not an error
    """The case cannot run here, which is not a failure. The message says why, then the remedy."""


class Workload(NamedTuple):
    """One thing to measure.

    forward: called as `forward(*inputs)` under `torch.no_grad`, unless `grad`; a function or a `torch.nn.Module`.
    inputs: tensors on the device, or containers of them. If the forward changes them, each call starts from what the
        call before it left, and the row of the case warns of that.
    reference: called as `reference(*inputs)` with fresh copies of the inputs; returns the result in float64.
    flops: floating-point operations of one forward by formula, if torch's counter is known to be wrong.
    useful_flops: those of them that the result needs; causal attention leaves out the masked half.
    pinned: a context entered once, before the first forward, and left after the last one (e.g. `sdpa_kernel(...)`).
    grad: enable gradients, for a backward pass or a whole training step. A step that changes its own weights has no
        result to compare, so without a `reference` no relative error is given.
    facts: called once after all measuring; returns {"sdpa_backends": ...} for measurement.json, and no other key.
    """

    forward: Callable[..., Any]
    inputs: tuple[Any, ...]
    reference: Callable[..., Any] | None = None
    flops: int | None = None
    useful_flops: int | None = None
    pinned: AbstractContextManager[Any] | None = None
    facts: Callable[[], dict[str, Any]] | None = None
    grad: bool = False


@dataclass(frozen=True)
class Context:
    """Where and how to build a workload. torch's random generators are seeded before the workload is called.

    rank, world_size: number of this process, and of all processes. With `ranks`, torch's default process group exists.
    """

    variant: str
    device: torch.device
    dtype: torch.dtype
    seed: int
    rank: int = 0
    world_size: int = 1

    def random(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """Normal random numbers of this shape, not zeros, on which a GPU draws less power and runs faster."""
        import torch

        return torch.randn(*shape, device=self.device, dtype=self.dtype).mul_(scale)

    def choose(self, variants: dict[str, Any]) -> Any:
        """The entry of this case's variant. Raises ValueError, which lists the known ones, if there is none."""
        if self.variant not in variants:
            raise ValueError(f'there is no variant "{self.variant}" here: use one of {", ".join(sorted(variants))}')
        return variants[self.variant]

    def package(self, name: str, install: str) -> ModuleType:
        """Import a package that only this case needs. Raises Unsupported, with how to install it, if it is missing."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise Unsupported(f"{name} cannot be imported ({error}): pip install {install}") from error

    def need_ranks(self, what: str) -> None:
        """Raise ValueError for a case without `ranks`, which has no process group."""
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError(f"{what} needs a process group: give the case `ranks: 2`, or as many as there are GPUs")

    def need_cuda(self, what: str) -> None:
        """Raise Unsupported if the device is not a GPU."""
        if self.device.type != "cuda":
            raise Unsupported(f"{what} runs on a GPU alone and the device is {self.device.type}: {gpu_remedy()}")


def gpu_remedy() -> str:
    """What to do if a case needs a GPU and the device is none."""
    import torch

    if torch.cuda.is_available():
        return "this machine has one: set device: cuda (or auto) in the config"
    return "measure it on a machine with a GPU"
