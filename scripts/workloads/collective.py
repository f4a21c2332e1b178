"""One collective of torch.distributed over all ranks, of a given size."""

from __future__ import annotations

from collections.abc import Callable

import torch

from workloads import Context, Workload

Call = Callable[[], torch.Tensor]


def _of_rank(context: Context, rank: int, elements: int) -> torch.Tensor:
    """The numbers that a rank starts from; every rank can compute those of the others."""
    generator = torch.Generator(context.device).manual_seed(context.seed + rank)
    return torch.randn(elements, generator=generator, device=context.device, dtype=context.dtype)


def _sum(context: Context, elements: int) -> torch.Tensor:
    return sum((_of_rank(context, rank, elements).double() for rank in range(context.world_size)), torch.zeros(()))


def _all_reduce(context: Context, elements: int) -> tuple[Call, Call]:
    """The mean, in place, which later calls leave as it is; sums would grow with each call until they overflow.

    gloo has no mean: on a CPU the sum is divided.
    """
    from torch import distributed

    tensor, ranks = _of_rank(context, context.rank, elements), context.world_size
    has_mean = context.device.type == "cuda"
    operation = distributed.ReduceOp.AVG if has_mean else distributed.ReduceOp.SUM

    def forward() -> torch.Tensor:
        distributed.all_reduce(tensor, op=operation)
        return tensor if has_mean else tensor.div_(ranks)

    return forward, lambda: _sum(context, elements) / ranks


def _all_gather(context: Context, elements: int) -> tuple[Call, Call]:
    from torch import distributed

    part = elements // context.world_size
    own = _of_rank(context, context.rank, part)
    whole = own.new_empty(part * context.world_size)

    def forward() -> torch.Tensor:
        distributed.all_gather_into_tensor(whole, own)
        return whole

    return forward, lambda: torch.cat([_of_rank(context, r, part).double() for r in range(context.world_size)])


def _reduce_scatter(context: Context, elements: int) -> tuple[Call, Call]:
    from torch import distributed

    part = elements // context.world_size
    whole = _of_rank(context, context.rank, part * context.world_size)
    own = whole.new_empty(part)

    def forward() -> torch.Tensor:
        distributed.reduce_scatter_tensor(own, whole)
        return own

    return forward, lambda: _sum(context, part * context.world_size).chunk(context.world_size)[context.rank]


def collective(context: Context, bytes: int = 2**20) -> Workload:
    """Variants: `all-reduce`, `all-gather` and `reduce-scatter`.

    bytes: of the larger tensor, as in nccl-tests: what is reduced, what is gathered to, what is scattered from.
    """
    variants = {"all-reduce": _all_reduce, "all-gather": _all_gather, "reduce-scatter": _reduce_scatter}
    make = context.choose(variants)
    context.need_ranks("collective")
    forward, reference = make(context, bytes // torch.empty((), dtype=context.dtype).element_size())
    return Workload(forward, (), reference)
