"""From a kernel's name to what it says: library, family, element type, tensor cores, tile, fused ops ...

``decode(name)`` never raises: a name that follows no known scheme has ``unknown`` in every field. The schemes and
their sources are in the modules, one a library: ``gemm``, ``attention``, ``triton``, ``aten``, ``libraries``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from kernelbook.kernel_names import aten, attention, gemm, libraries, triton
from kernelbook.kernel_names.model import FAMILIES, UNKNOWN, KernelName, built_for, same_type
from kernelbook.kernel_names.words import sentence_of

__all__ = ["FAMILIES", "UNKNOWN", "KernelName", "built_for", "decode", "decode_activity", "same_type"]

#: Order matters: an Inductor name may contain "mm" or "convolution", and CUTLASS's attention contains "cutlass".
PARSERS = (triton.parse, attention.parse, gemm.parse, libraries.parse, aten.parse)
MEMCPY = re.compile(r"Memcpy (?P<way>[HDP]to[HDP]|\w+)")


@lru_cache(maxsize=8192)
def decode(name: str) -> KernelName:
    """The fields of one kernel name as a trace gives it (demangled or mangled). Untrusted text; never raises."""
    text = _readable(name)
    for parse in PARSERS:
        found = parse(text)
        if found:
            return replace(found, name=name, sentence=sentence_of(found))
    return KernelName(name=name, sentence=f"A kernel whose name follows no scheme known here: {_short(text)}.")


def decode_activity(category: str, name: str) -> KernelName:
    """As ``decode`` for a device activity of any category (kernel, memcpy, memset)."""
    if category == "memcpy":
        found = MEMCPY.search(name)
        way = found["way"] if found else UNKNOWN
        return KernelName(
            name=name,
            library="CUDA runtime",
            family="copy/cast",
            tensor_cores="no",
            what=f"memcpy {way}",
            sentence=f"A copy by the copy engine or the driver, {way}: no kernel.",
        )
    if category == "memset":
        return KernelName(
            name=name,
            library="CUDA runtime",
            family="fill/mask",
            tensor_cores="no",
            what="memset",
            sentence="Memory set to one value by the driver: no kernel.",
        )
    return decode(name)


def _short(text: str) -> str:
    head = re.split(r"[<(]", text.removeprefix("void "), maxsplit=1)[0]
    return head if len(head) <= 60 else head[:57] + "..."


def _readable(name: str) -> str:
    """A mangled name as its identifiers joined by ``::``; Nsight's ``(int)4``, ``<unnamed>`` as torch has them."""
    if name.startswith("_Z"):
        return "::".join(_identifiers(name)) or name
    text = re.sub(r"\((?:unsigned )?(?:int|long|bool|char)\)(?=\d)", "", name)
    return text.replace("<unnamed>", "(anonymous namespace)")


def _identifiers(mangled: str) -> list[str]:
    """The length-prefixed identifiers of an Itanium C++ name, in order."""
    words, at = [], 2
    while at < len(mangled):
        number = re.match(r"\d+", mangled[at:])
        if not number:
            at += 1
            continue
        start = at + len(number.group(0))
        word = mangled[start : start + int(number.group(0))]
        if re.fullmatch(r"[A-Za-z_]\w*", word):
            words.append(word)
            at = start + len(word)
        else:
            at = start
    return words
