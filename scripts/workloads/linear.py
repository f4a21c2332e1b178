"""One `nn.Linear` with bias: a GEMM whose epilogue adds the bias, and a transpose that only changes strides."""

from __future__ import annotations

import torch

from workloads import Context, Workload


def linear(
    context: Context, batch: int = 1024, in_features: int = 32, out_features: int = 64, bias: bool = True
) -> Workload:
    """`nn.Linear(in_features, out_features)` on `batch` rows."""
    context.choose({"plain": None})
    layer = torch.nn.Linear(in_features, out_features, bias=bias, device=context.device, dtype=context.dtype)

    def reference(x: torch.Tensor) -> torch.Tensor:
        product = torch.einsum("bi,oi->bo", x.double(), layer.weight.double())
        return product if layer.bias is None else product + layer.bias.double()

    return Workload(layer, (context.random(batch, in_features),), reference)
