"""A GeGLU MLP: two projections, a gate through GELU (tanh), a product, a projection back."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch.nn import functional

from workloads import Context, Workload

Gate = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class GeGLU(torch.nn.Module):
    """Three linears without bias; `gate` fuses GELU and the product, or does not."""

    def __init__(self, dim: int, hidden: int, gate: Gate) -> None:
        super().__init__()
        self.gate_proj = torch.nn.Linear(dim, hidden, bias=False)
        self.up_proj = torch.nn.Linear(dim, hidden, bias=False)
        self.down_proj = torch.nn.Linear(hidden, dim, bias=False)
        self.gate = gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.gate(self.gate_proj(x), self.up_proj(x)))


def _torch(context: Context, dim: int, hidden: int) -> torch.nn.Module:
    return GeGLU(dim, hidden, lambda gate, up: functional.gelu(gate, approximate="tanh") * up)


def _liger(context: Context, dim: int, hidden: int) -> torch.nn.Module:
    context.need_cuda("Liger's Triton kernel")
    return GeGLU(dim, hidden, context.package("liger_kernel.ops.geglu", "liger-kernel").LigerGELUMulFunction.apply)


def _hub_liger(context: Context, dim: int, hidden: int) -> torch.nn.Module:
    context.need_cuda("Liger's Triton kernel")
    layers = context.package("kernels", "kernels").get_kernel("kernels-community/liger-kernels", version=1).layers
    return layers.LigerGEGLUMLP(
        SimpleNamespace(hidden_size=dim, intermediate_size=hidden, hidden_act="gelu_pytorch_tanh")
    )


def mlp(context: Context, batch: int = 64, seq: int = 128, dim: int = 768, hidden: int = 3072) -> Workload:
    """Variants: `torch`; `liger`, its gate one Triton kernel; `hub-liger`, the same from the Hugging Face hub."""
    build = context.choose({"torch": _torch, "liger": _liger, "hub-liger": _hub_liger})
    model = build(context, dim, hidden).to(context.device, context.dtype)

    def reference(x: torch.Tensor) -> torch.Tensor:
        x = x.double()
        gate = x @ model.gate_proj.weight.double().T
        up = x @ model.up_proj.weight.double().T
        # GELU by its tanh form, written out (Hendrycks and Gimpel, 2016).
        inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
        return (0.5 * gate * (1 + torch.tanh(inner)) * up) @ model.down_proj.weight.double().T

    return Workload(model, (context.random(batch, seq, dim),), reference)
