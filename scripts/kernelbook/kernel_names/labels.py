"""Kernel names short enough for a table, and what a name says; the whole name is always one step away."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from kernelbook.kernel_names import UNKNOWN, KernelName, decode_activity
from kernelbook.text.formatting import clip, visible

WRAPPERS = ("elementwise_kernel", "reduce_kernel")
UNSAID = (None, "", UNKNOWN, ())
NOT_LISTED = ("name", "family", "what", "sentence")


@dataclass(frozen=True)
class KernelLabel:
    """How one name is shown: short, what it does, the decoder's sentence, its fields as (label, value), its ops."""

    short: str
    what: str
    sentence: str
    precision: str
    family: str
    details: tuple[tuple[str, str], ...]
    ops: tuple[str, ...] = ()


@lru_cache(maxsize=8192)
def kernel_label(category: str, name: str) -> KernelLabel:
    """What a device activity's name says, ready to be shown."""
    found = decode_activity(category, name)
    details = tuple(
        (spec.name.replace("_", " "), _words(getattr(found, spec.name)))
        for spec in fields(KernelName)
        if spec.name not in NOT_LISTED and getattr(found, spec.name) not in UNSAID
    )
    said = visible(found.what), visible(found.sentence)
    return KernelLabel(short(name), *said, _precision(found), found.family, details, found.fused_ops)


def activity_label(act: Any) -> KernelLabel:
    """As `kernel_label`, for anything with a category and a name; a copy names both types where they are recorded."""
    found = kernel_label(act.category, act.name)
    converts = getattr(act, "converts", None)
    return replace(found, what=f"converts {visible(converts)}", precision="") if converts else found


def _precision(found: KernelName) -> str:
    """`bf16, tensor cores`: the element type and, for what may use them, whether tensor cores do the work."""
    if found.element_type == UNKNOWN or found.what.startswith("converts"):  # which says the types itself
        return ""
    if found.family not in ("GEMM", "attention") or found.tensor_cores == UNKNOWN:
        return found.element_type
    return f"{found.element_type}, {'tensor' if found.tensor_cores == 'yes' else 'CUDA'} cores"


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(visible, value)) if isinstance(value, tuple) else visible(value)


def short(name: str, limit: int = 56) -> str:
    """The function's name without return type, namespaces, template and call arguments."""
    text = visible(name).replace("(anonymous namespace)::", "")
    text = re.sub(r"^(void|std::\S+) ", "", text)
    base = re.split(r"[<(]", text, maxsplit=1)[0].strip()
    base = base.rsplit("::", 1)[-1] or text
    what = _functor(text) if base.endswith(WRAPPERS) else None
    return clip(f"{base} · {what}" if what else base, limit)


def _functor(text: str) -> str | None:
    """What an elementwise kernel computes: the functor or the host function among its template arguments."""
    found = re.findall(r"(\w+(?:Functor(?:_\w+)?|_kernel_impl|_kernel_cuda|_kernel))\b", text)
    found = [
        word for word in found if not word.endswith(WRAPPERS) and not re.fullmatch(r"\w+(ary|wrapper)Functor", word)
    ]
    return re.sub(r"(_kernel_impl|_kernel_cuda|_kernel|Functor)", "", found[0]).strip("_") if found else None
