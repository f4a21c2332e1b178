"""The highest rates of this device, measured in the same run: large matrix products, and copies in memory and in L2."""

from __future__ import annotations

import torch

from workloads import Context, Unsupported, Workload

FP8_FROM = (8, 9)  # the first compute capability with fp8 tensor cores (Ada)
L2_SHARE = 2  # source and target of the copy in L2 fill 1 / L2_SHARE of it


def _matmul(context: Context, size: int = 8192) -> Workload:
    def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.double(), b.double())

    return Workload(torch.matmul, (context.random(size, size), context.random(size, size)), reference)


def _matmul_fp8(context: Context, size: int = 8192) -> Workload:
    """A product of e4m3 operands with a result of the case's dtype; cuBLASLt takes the second one column-major."""
    context.need_cuda("the fp8 product")
    _need_fp8(context.device)

    def forward(a: torch.Tensor, b: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=context.dtype)

    def reference(a: torch.Tensor, b: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.double(), b.double().t())

    operands = [context.random(size, size).to(torch.float8_e4m3fn) for _ in range(2)]
    one = torch.ones((), device=context.device, dtype=torch.float32)
    return Workload(forward, (*operands, one), reference, flops=2 * size**3)


def _need_fp8(device: torch.device) -> None:
    if torch.version.hip or torch.cuda.get_device_capability(device) < FP8_FROM:
        raise Unsupported("e4m3 products need an NVIDIA GPU of compute capability 8.9 or later: leave this case out")
    if not hasattr(torch, "_scaled_mm") or not hasattr(torch, "float8_e4m3fn"):
        raise Unsupported(f"torch {torch.__version__} has no e4m3 product: measure it with torch 2.5 or later")


def _copy(context: Context, bytes: int = 2**31) -> Workload:
    source = context.random(bytes // torch.empty((), dtype=context.dtype).element_size())
    target = torch.empty_like(source)
    return Workload(target.copy_, (source,), lambda source: source)


def _copy_l2(context: Context, bytes: int | None = None, times: int = 128) -> Workload:
    """The same copy again and again between tensors that stay in the L2 cache."""
    workload = _copy(context, bytes or _l2_bytes(context) // (2 * L2_SHARE))

    def forward(source: torch.Tensor) -> torch.Tensor:
        for _ in range(times):
            target = workload.forward(source)
        return target

    return Workload(forward, workload.inputs, workload.reference)


def _l2_bytes(context: Context) -> int:
    context.need_cuda("a copy of the size of the L2 cache")
    size = getattr(torch.cuda.get_device_properties(context.device), "L2_cache_size", None)
    if not size:
        raise Unsupported("this torch does not report the size of the L2 cache: set the bytes of one tensor in params")
    return int(size)


def ceiling(context: Context, **params: int) -> Workload:
    """Variants: `matmul` and `matmul-fp8` (square, `size`), `copy` (`bytes`, each read once and written once), and
    `copy-l2` (`bytes` of each tensor, from the size of the L2 cache by default, copied `times` times).
    """
    variants = {"matmul": _matmul, "matmul-fp8": _matmul_fp8, "copy": _copy, "copy-l2": _copy_l2}
    return context.choose(variants)(context, **params)
