"""A library's naming scheme as data, and how a kernel name is decoded by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kernelbook.kernel_names.model import ARCHITECTURES, ELEMENT_TYPES, OPERANDS, UNKNOWN, KernelName, element_in

#: Matrix instructions as CUTLASS writes them, M N K without separators.
INSTRUCTIONS = {
    "884": "8x8x4", "1684": "16x8x4", "1688": "16x8x8", "8816": "8x8x16", "8832": "8x8x32", "16816": "16x8x16",
    "16832": "16x8x32", "16864": "16x8x64", "161616": "16x16x16", "168256": "16x8x256",
}  # fmt: skip
#: Tensile's index letters of each operand: t transposed, n not.
INDICES = {"il": "n", "li": "t", "lj": "n", "jl": "t"}
EPILOGUES = {
    "bias": "bias", "relu": "relu", "gelu": "gelu", "badd": "beta add", "swi?glu": "swiglu", "split_?k": "split-K",
}  # fmt: skip
EPILOGUE = tuple((re.compile(rf"_{mark}(?=_|$)", re.IGNORECASE), word) for mark, word in EPILOGUES.items())
ARCHITECTURE = re.compile(r"(?:(?<![A-Za-z])sm_?|S[mM])(\d{2,3})(?!\d)|(gfx\d+[a-f]?)")
#: The families that can use tensor cores, and the words for their instructions (NVIDIA's and AMD's).
MULTIPLY = ("GEMM", "attention")
TENSOR = re.compile(r"xdl|mfma|[whiu]g?mma|umma|tcgen05|tensor_?(?:op|core)|m\d+n\d+k\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Scheme:
    """How a library names one kind of kernel.

    ``mark``: a substring of every such name, a cheap first test. ``patterns``: one regular expression a line. The first
    must match the function's own name (or its template, if the function is a mere wrapper); the others are searched in
    the whole name. Their named groups are the fields: ``type``, ``tile`` (or ``m``, ``n``, ``k``), ``stages``,
    ``cluster``, ``instruction``, ``layout`` (or ``a`` and ``b``), ``architecture`` (or ``gfx``), ``what``. A match of
    ``tensor`` or ``simt`` means tensor cores or CUDA cores, one of ``backward`` a backward pass. ``math`` is the type
    of the arithmetic where it differs from the operands'. Without ``type`` and ``math`` the accumulator's letter and
    the instruction state the type. ``types``: spellings of types; None takes the type from the C++ template.
    ``cores``: whether tensor cores are used if neither group matches.
    """

    library: str
    family: str
    what: str
    mark: str
    patterns: str
    types: Mapping[str, str] | None = field(default_factory=lambda: ELEMENT_TYPES)
    cores: str = UNKNOWN
    generated: bool = False

    @cached_property
    def compiled(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(line.strip()) for line in self.patterns.splitlines() if line.strip())


def read(scheme: Scheme, name: str, text: str) -> KernelName | None:
    """The fields that the whole text states, or None if the function's own name does not follow the scheme."""
    if scheme.mark not in name or not (first := scheme.compiled[0].search(name)):
        return None
    groups: dict[str, str] = {}
    for match in filter(None, (first, *(pattern.search(text) for pattern in scheme.compiled[1:]))):
        for group, value in match.groupdict().items():
            if value is not None:
                groups.setdefault(group, value)
    return KernelName(
        name="",
        library=scheme.library,
        family=scheme.family,
        element_type=_type(scheme, groups, text),
        tensor_cores="yes" if "tensor" in groups else "no" if "simt" in groups else scheme.cores,
        instruction_shape=INSTRUCTIONS.get(groups.get("instruction", ""), groups.get("instruction")),
        layout=_layout(groups),
        tile=groups.get("tile") or "x".join(groups[side] for side in "mnk" if side in groups) or None,
        stages=int(groups.get("stages", 0)) or None,
        cluster=groups.get("cluster"),
        epilogue=_epilogue(text) if scheme.family == "GEMM" else None,
        architecture=f"gfx{groups['gfx']}" if "gfx" in groups else architecture(groups.get("architecture") or text),
        generated=scheme.generated,
        what=groups.get("what", scheme.what).replace("_", " ") + ", backward" * ("backward" in groups),
    )


def _layout(groups: Mapping[str, str]) -> str | None:
    if "a" in groups and "b" in groups:
        return INDICES[groups["a"]] + INDICES[groups["b"]]
    return groups["layout"].lower() if "layout" in groups else None


def _epilogue(text: str) -> str | None:
    return ", ".join(word for mark, word in EPILOGUE if mark.search(text)) or None


def _type(scheme: Scheme, groups: Mapping[str, str], text: str) -> str:
    if scheme.types is None:
        kind = element_in(text[text.find("<") :])
        return kind if kind in OPERANDS else UNKNOWN
    spelling = groups.get("math") or groups.get("type")
    if not spelling:
        spelling = groups.get("accumulator", "") + ("" if "simt" in groups else groups.get("instruction", ""))
    return scheme.types.get(spelling, UNKNOWN)


def tensor_cores(family: str, text: str) -> str:
    """``yes`` if the name of a matrix product or attention holds a word for tensor cores, else ``unknown``."""
    return "yes" if family in MULTIPLY and TENSOR.search(text) else UNKNOWN


def architecture(text: str) -> str | None:
    """The architecture that a name, or a part of it, states: ``sm90``, ``gfx942``."""
    if text.isdigit():
        return f"sm{text}"
    if text.lower() in ARCHITECTURES:
        return ARCHITECTURES[text.lower()]
    match = ARCHITECTURE.search(text)
    return None if not match else match[2] or f"sm{match[1]}"
