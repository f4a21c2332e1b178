"""A training step of a small transformer on several ranks: DDP, or FSDP2, which shards the weights too."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.profiler import record_function

from workloads import Context, Unsupported, Workload


def _ddp(context: Context, layers: torch.nn.Sequential) -> torch.nn.Module:
    ids = [context.device.index] if context.device.type == "cuda" else None
    return torch.nn.parallel.DistributedDataParallel(layers, device_ids=ids, gradient_as_bucket_view=True)


def _fsdp2(context: Context, layers: torch.nn.Sequential) -> torch.nn.Module:
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise Unsupported(
            f"torch {torch.__version__} has no fully_shard: measure it with torch 2.6 or later"
        ) from error
    mesh = init_device_mesh(context.device.type, (context.world_size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(layers, mesh=mesh)
    return layers


def data_parallel(
    context: Context, batch: int = 8, seq: int = 512, dim: int = 1024, heads: int = 16, layers: int = 4
) -> Workload:
    """Forward, loss, backward and AdamW on `batch` sequences for each rank. Variants: `ddp`, `fsdp2`."""
    wrap: Any = context.choose({"ddp": _ddp, "fsdp2": _fsdp2})
    context.need_ranks("data_parallel")
    blocks = [torch.nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
              for _ in range(layers)]  # fmt: skip
    model = wrap(context, torch.nn.Sequential(*blocks).to(context.device, context.dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=context.device.type == "cuda")

    def step(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with record_function("forward"):
            loss = functional.mse_loss(model(x), target)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
        return loss.detach()

    return Workload(step, (context.random(batch, seq, dim), context.random(batch, seq, dim)), grad=True)
