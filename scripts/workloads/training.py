"""A whole training step: forward, loss, backward and optimizer, each in its own range."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.profiler import record_function

from workloads import Context, Workload

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 1e-3}),
    "adamw-loop": (torch.optim.AdamW, {"lr": 1e-4, "foreach": False}),
    "adamw-foreach": (torch.optim.AdamW, {"lr": 1e-4, "foreach": True}),
    "adamw-fused": (torch.optim.AdamW, {"lr": 1e-4, "fused": True}),
}


def training(context: Context, batch: int = 8192, dim: int = 768, hidden: int = 3072, layers: int = 2) -> Workload:
    """One step of a plain MLP with squared error. Variants: `backward` (no optimizer), or an optimizer, see above."""
    kind, options = context.choose({"backward": (None, {}), **OPTIMIZERS})
    blocks = [torch.nn.Sequential(torch.nn.Linear(dim, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, dim))
              for _ in range(layers)]  # fmt: skip
    model = torch.nn.Sequential(*blocks).to(context.device, context.dtype)
    optimizer = kind(model.parameters(), **options) if kind else None

    def step(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        with record_function("forward"):
            loss = functional.mse_loss(model(x), target)
        with record_function("backward"):
            loss.backward()
        if optimizer is not None:
            with record_function("optimizer"):
                optimizer.step()
        return loss.detach()

    return Workload(step, (context.random(batch, dim), context.random(batch, dim)), grad=True)
