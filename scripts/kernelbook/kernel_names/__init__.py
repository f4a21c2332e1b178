"""Decode a kernel's name: library, family, element type, tensor cores, tile, fused ops ...

``decode(name)`` never raises: what a name does not state stays ``unknown`` or ``None``. The naming schemes are data:
``products``, ``attention`` and ``libraries`` list ``Scheme`` rows, which ``scheme.read`` applies; ``triton`` and
``aten`` decode names that list ops; ``words`` decodes every other name by its words.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from kernelbook.kernel_names import aten, attention, libraries, products, triton
from kernelbook.kernel_names.model import FAMILIES, UNKNOWN, KernelName, built_for, read, same_type, sentence_of
from kernelbook.kernel_names.text import CALLERS, head_and_template, readable

__all__ = ["FAMILIES", "UNKNOWN", "KernelName", "built_for", "decode", "decode_activity", "same_type"]

#: The first match wins: attention comes first, because its kernels are built with CUTLASS and match its schemes too.
SCHEMES = (*attention.SCHEMES, *products.SCHEMES, *libraries.SCHEMES)
MEMCPY = re.compile(r"Memcpy ([HDP]to[HDP]|\w+)")


@lru_cache(maxsize=16384)
def decode(name: str) -> KernelName:
    """The fields of one kernel name, mangled or demangled, as a trace contains it. Untrusted text; never raises."""
    text = readable(name)
    if kernel := _fields(text):
        return replace(kernel, name=name, sentence=sentence_of(kernel))
    return KernelName(name=name, sentence=f"The name follows no known naming scheme: {_short(text)}.")


def _fields(text: str) -> KernelName | None:
    head, template = head_and_template(text)
    if kernel := triton.parse(text) or aten.parse(head, template):
        return kernel
    wraps = head.rsplit("::", 1)[-1] in CALLERS or head.startswith("xmma")
    name = text if wraps else head
    for scheme in SCHEMES:
        if kernel := read(scheme, name, text):
            return kernel
    return libraries.parse(text, head, template)


def decode_activity(category: str, name: str) -> KernelName:
    """As ``decode`` for a device activity of any category (kernel, memcpy, memset)."""
    if category == "memcpy":
        match = MEMCPY.search(name)
        kind = match[1] if match else UNKNOWN
        sentence = f"A memory copy by the copy engine or the driver, {kind}: not a kernel."
        what = f"memcpy {kind}"
        return KernelName(name, "CUDA runtime", "copy/cast", tensor_cores="no", what=what, sentence=sentence)
    if category == "memset":
        sentence = "Memory set to one value by the driver: not a kernel."
        return KernelName(name, "CUDA runtime", "fill/mask", tensor_cores="no", what="memset", sentence=sentence)
    return decode(name)


def _short(text: str) -> str:
    head = re.split(r"[<(]", text, maxsplit=1)[0]
    return head if len(head) <= 60 else head[:57] + "..."
