"""Causal attention, written out by hand, fused by FlexAttention, or left to one SDPA backend."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn import functional

from workloads import Context, Unsupported, Workload

# --- backends --------------------------------------------------------------------------------------------------------


# torch's name of each backend -> the start of the warning that lists the reasons against it.
BACKENDS = {
    "MATH": "Math kernel",
    "EFFICIENT_ATTENTION": "Memory efficient kernel",
    "FLASH_ATTENTION": "Flash attention kernel",
    "CUDNN_ATTENTION": "cuDNN attention kernel",
}


def pin(name: str) -> AbstractContextManager[Any]:
    """A context in which `scaled_dot_product_attention` may use this backend alone (`torch.nn.attention`)."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as error:
        raise Unsupported("this torch cannot pin an SDPA backend: use torch 2.3 or newer") from error
    if not hasattr(SDPBackend, name):
        raise Unsupported(f"this torch has no SDPA backend {name}: use a newer torch")
    return sdpa_kernel(getattr(SDPBackend, name))


def survey(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    """Call each backend once on these causal inputs: {"MATH": {"usable": bool, "reasons": [str]}, ...}."""
    return {name.split("_")[0].lower(): _try(name, q, k, v) for name in BACKENDS}


def _try(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        try:
            with pin(name):
                functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return {"usable": True, "reasons": []}
        except Unsupported as error:
            return {"usable": False, "reasons": [str(error)]}
        except RuntimeError as error:
            refusal = str(error).splitlines()[0]
    reasons = own_reasons(name, [_plain(str(warning.message)) for warning in caught])
    if not reasons and q.device.type == "cpu":
        reasons = ["there is no such kernel for the CPU"]
    return {"usable": False, "reasons": reasons or [refusal]}


def own_reasons(name: str, warned: list[str]) -> list[str]:
    """torch's reasons against this backend, without those against the backends that the pinning switched off."""
    reasons: list[str] = []
    section = ""
    for line in warned:
        if line.endswith("not used because:"):
            section = line
        elif section.startswith(BACKENDS[name]) and line not in reasons:
            reasons.append(line)
    return reasons


def _plain(warning: str) -> str:
    """torch's warning without the place in its C++ source."""
    return re.sub(r"\s*\(Triggered internally at .*\)\s*$", "", warning, flags=re.S).strip()


# --- workload --------------------------------------------------------------------------------------------------------


Forward = Callable[..., torch.Tensor]

SDPA_VARIANTS = {
    "sdpa-math": "MATH",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-auto": None,
}


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Every step makes a new tensor. `mask` is True where a query must not see the key."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    scores = scores.masked_fill(mask, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def inplace(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The same with the scores scaled and masked in place, for inference only.

    Raises ValueError for inputs that require grad.
    """
    if q.requires_grad or k.requires_grad or v.requires_grad:
        raise ValueError(
            "in-place attention is for inference: an input requires grad, and backward would read scores that were "
            "overwritten; use the naive variant, or inputs that do not require grad"
        )
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores.mul_(1.0 / math.sqrt(q.shape[-1]))
    scores.masked_fill_(mask, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's own attention; the backend decides which kernels run."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object) -> torch.Tensor:
    """softmax(q kᵀ / √d + causal mask) v in float64, one batch entry at a time to keep memory small."""
    future = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    rows = []
    for q1, k1, v1 in zip(q.double(), k.double(), v.double()):  # noqa: B905 - Python 3.9 has no strict
        scores = torch.einsum("hqd,hkd->hqk", q1, k1) / math.sqrt(q.shape[-1])
        rows.append(torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v1)
    return torch.stack(rows)


def _flex(context: Context, seq: int) -> Forward:
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError as error:
        raise Unsupported("this torch has no FlexAttention: use torch 2.5 or newer") from error

    def causal(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return query >= key

    block_mask = create_block_mask(causal, B=None, H=None, Q_LEN=seq, KV_LEN=seq, device=context.device)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask)


def _hub_flash(context: Context) -> Forward:
    context.need_cuda("FlashAttention")
    flash = context.package("kernels", "kernels").get_kernel("kernels-community/flash-attn2", version=2)

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        # The hub's kernel wants (batch, seq, heads, head_dim): views, nothing is copied.
        out = flash.flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=True)
        return out.transpose(1, 2)

    return forward


def attention(context: Context, batch: int = 8, heads: int = 16, seq: int = 1024, head_dim: int = 64) -> Workload:
    """Variants: `naive`, `inplace`, `flex`, `hub-flash`, `sdpa-math|efficient|flash|cudnn|auto`.

    FLOPs are the two matrix products in full, 4 · batch · heads · seq² · head_dim, for every variant: whether the
    masked half is computed is one of their differences.
    """
    builders = {
        "naive": lambda: naive,
        "inplace": lambda: inplace,
        "flex": lambda: _flex(context, seq),
        "hub-flash": lambda: _hub_flash(context),
        **dict.fromkeys(SDPA_VARIANTS, lambda: sdpa),
    }
    q, k, v = (context.random(batch, heads, seq, head_dim) for _ in range(3))
    inputs: tuple[torch.Tensor, ...] = (q, k, v)
    if context.variant in ("naive", "inplace"):
        inputs += (torch.ones(seq, seq, dtype=torch.bool, device=context.device).triu(1),)
    backend = SDPA_VARIANTS.get(context.variant)
    return Workload(
        context.choose(builders)(),
        inputs,
        reference,
        flops=4 * batch * heads * seq * seq * head_dim,
        # query i needs the first i of the keys, (seq + 1) / 2 on average
        useful_flops=2 * batch * heads * seq * (seq + 1) * head_dim,
        pinned=pin(backend) if backend else None,
        facts=lambda: {"sdpa_backends": survey(q, k, v)},
    )
