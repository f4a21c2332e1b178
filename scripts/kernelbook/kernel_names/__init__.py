"""From a kernel's name to what it says: library, family, element type, tensor cores, tile, fused ops ...

``decode(name)`` never raises: what a name does not say stays ``unknown`` or ``None``. How each library names its
kernels is written down as data: ``products``, ``attention`` and ``libraries`` hold ``Scheme`` rows for ``scheme.read``;
``triton`` and ``aten`` read the names that list ops; ``words`` reads every other name.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kernelbook.kernel_names import aten, attention, libraries, products, triton
from kernelbook.kernel_names.model import FAMILIES, UNKNOWN, KernelName, built_for, same_type
from kernelbook.kernel_names.scheme import read
from kernelbook.kernel_names.sentence import sentence_of
from kernelbook.kernel_names.text import CALLERS, head_and_template, readable

__all__ = ["FAMILIES", "UNKNOWN", "KernelName", "built_for", "decode", "decode_activity", "same_type"]

#: Order matters: attention kernels are built with CUTLASS, and their names hold its words.
SCHEMES = (*attention.SCHEMES, *products.SCHEMES, *libraries.SCHEMES)
MEMCPY = re.compile(r"Memcpy ([HDP]to[HDP]|\w+)")


@lru_cache(maxsize=16384)
def decode(name: str) -> KernelName:
    """The fields of one kernel name as a trace gives it (demangled or mangled). Untrusted text; never raises."""
    text = readable(name)
    found = _read(text)
    if found:
        return KernelName(**vars(found) | {"name": name, "sentence": sentence_of(found)})
    return KernelName(name=name, sentence=f"A kernel whose name follows no scheme known here: {_short(text)}.")


def _read(text: str) -> KernelName | None:
    if found := triton.parse(text):
        return found
    head, template = head_and_template(text)
    if found := aten.parse(head, template):
        return found
    called = text if head.rsplit("::", 1)[-1] in CALLERS else head
    for scheme in SCHEMES:
        if found := read(scheme, called, text):
            return found
    return libraries.parse(text, head, template)


def decode_activity(category: str, name: str) -> KernelName:
    """As ``decode`` for a device activity of any category (kernel, memcpy, memset)."""
    if category == "memcpy":
        found = MEMCPY.search(name)
        way = found[1] if found else UNKNOWN
        sentence = f"A copy by the copy engine or the driver, {way}: no kernel."
        return KernelName(name, "CUDA runtime", "copy/cast", tensor_cores="no", what=f"memcpy {way}", sentence=sentence)
    if category == "memset":
        sentence = "Memory set to one value by the driver: no kernel."
        return KernelName(name, "CUDA runtime", "fill/mask", tensor_cores="no", what="memset", sentence=sentence)
    return decode(name)


def _short(text: str) -> str:
    head = re.split(r"[<(]", text, maxsplit=1)[0]
    return head if len(head) <= 60 else head[:57] + "..."
