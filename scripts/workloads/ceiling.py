"""What this device can do at most, measured in the same run: a large matrix product and a large copy."""

from __future__ import annotations

import torch

from workloads import Context, Workload


def _matmul(context: Context, size: int = 8192) -> Workload:
    def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.double(), b.double())

    return Workload(torch.matmul, (context.random(size, size), context.random(size, size)), reference)


def _copy(context: Context, bytes: int = 2**31) -> Workload:
    source = context.random(bytes // torch.empty((), dtype=context.dtype).element_size())
    target = torch.empty_like(source)
    return Workload(target.copy_, (source,), lambda source: source)


def ceiling(context: Context, **params: int) -> Workload:
    """Variants: `matmul` (square, `size`), and `copy` (`bytes`, each read once and written once)."""
    return context.choose({"matmul": _matmul, "copy": _copy})(context, **params)
