"""A matrix product and an addition: two kernels in eager mode, one `addmm` when compiled."""

from __future__ import annotations

import torch

from workloads import Context, Workload


def matmul_add(context: Context, size: int = 64) -> Workload:
    """`a @ b + c` of three square matrices."""
    context.choose({"plain": None})

    def forward(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.add(torch.matmul(a, b), c)

    def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.addmm(c.double(), a.double(), b.double())

    return Workload(forward, tuple(context.random(size, size) for _ in range(3)), reference)
