"""The relative error of a result against float64, and its bound."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable
from typing import Any

import torch

from workloads import Workload
from workloads.harness import values

# The relative error that rounding explains: for bfloat16, float16 and TF32 about five times the spacing of the numbers
# next to 1, for fp32 and fp64 more, for long sums.
BOUNDS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-4, "float64": 1e-10}
TF32_BOUND = 5e-3


def not_finite(result: Any) -> tuple[int, int]:
    """(values of the forward's result that are NaN or infinite, all its values)."""
    bad = total = 0
    for tensor in values.tensors(result):
        total += tensor.numel()
        if tensor.is_floating_point() or tensor.is_complex():
            bad += sum(int(chunk.isfinite().logical_not().sum()) for chunk in values.chunks(tensor))
    return bad, total


def error_bound(dtype: str, device: torch.device) -> float:
    """The relative error that rounding explains in a case of this dtype.

    float32 has the bound of TF32 if torch may use that for matrix products or, on a GPU, for convolutions.
    """
    return TF32_BOUND if dtype == "float32" and _may_use_tf32(device) else BOUNDS[dtype]


def _may_use_tf32(device: torch.device) -> bool:
    with contextlib.suppress(RuntimeError):  # torch refuses to answer if its old and new settings were mixed
        products = torch.get_float32_matmul_precision() != "highest"
        return products or (device.type == "cuda" and torch.backends.cudnn.allow_tf32)
    return True


def reference_result(workload: Workload, inputs: tuple[Any, ...]) -> Any:
    """The result of the workload's reference on copies of the inputs; without one, of its own forward in float64.

    A module is copied as it is now. The forward to compare has to be the next call, since every call may change the
    module.
    """
    if workload.reference is not None:
        return workload.reference(*values.copied(inputs, _copy))
    return _own_forward_in_float64(workload.forward)(*values.copied(inputs, _wide_copy))


def _own_forward_in_float64(forward: Callable[..., Any]) -> Callable[..., Any]:
    return copy.deepcopy(forward).double() if isinstance(forward, torch.nn.Module) else forward


def _copy(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    copied = tensor.detach().to(dtype or tensor.dtype, copy=True)
    return copied.requires_grad_(tensor.requires_grad)


def _wide_copy(tensor: torch.Tensor) -> torch.Tensor:
    return _copy(tensor, torch.float64 if tensor.is_floating_point() else None)


def relative_error(result: Any, reference: Any) -> float:
    """‖y - r‖ / ‖r‖ (L2, float64) of the forward's result against that of the reference from the same inputs.

    Raises ValueError, which says why the two cannot be compared: their tensors have other shapes, the reference is zero
    everywhere, or values are not finite.
    """
    got, wanted = list(values.tensors(result)), list(values.tensors(reference))
    _refuse_other_shapes(got, wanted)
    difference, norm = values.distance(got, wanted)
    if not math.isfinite(difference):
        raise ValueError("the result or its reference is not finite")
    if not norm:
        raise ValueError("the reference is zero everywhere")
    return math.sqrt(difference / norm)


def _refuse_other_shapes(got: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    if not got:
        raise ValueError("the result holds no tensor")
    shapes = [[list(tensor.shape) for tensor in side] for side in (got, wanted)]
    if shapes[0] != shapes[1]:
        raise ValueError("the result is of shape {}, its reference of {}".format(*(_listed(side) for side in shapes)))


def _listed(shapes: list[list[int]]) -> str:
    return " and ".join(map(str, shapes)) or "nothing"
