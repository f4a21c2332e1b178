"""Which SDPA backends take given inputs on this device, and the reason each other one gives."""

from __future__ import annotations

import re
import warnings
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn import functional

from workloads import Unsupported

# torch's names of the backends, and how its warnings begin the list of reasons against each.
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
    """What torch says against this backend; it also warns of the others, which are only switched off by the pinning."""
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
