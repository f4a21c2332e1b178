"""What one library's naming scheme is, and how a name is read by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kernelbook.kernel_names.model import ARCHITECTURES, ELEMENT_TYPES, UNKNOWN, KernelName, element_in

#: The digits of a matrix instruction, as CUTLASS writes them without separators (M N K), read apart.
INSTRUCTIONS = {
    "884": "8x8x4", "1684": "16x8x4", "1688": "16x8x8", "8816": "8x8x16", "8832": "8x8x32", "16816": "16x8x16",
    "16832": "16x8x32", "16864": "16x8x64", "161616": "16x16x16", "168256": "16x8x256",
}  # fmt: skip
#: Of the operands, in Tensile's index letters: whether transposed.
INDICES = {"il": "n", "li": "t", "lj": "n", "jl": "t"}
EPILOGUES = {
    "bias": "bias", "relu": "relu", "gelu": "gelu", "badd": "beta add", "swi?glu": "swiglu", "split_?k": "split-K",
}  # fmt: skip
EPILOGUE = tuple((re.compile(rf"_{mark}(?=_|$)", re.IGNORECASE), word) for mark, word in EPILOGUES.items())
ARCHITECTURE = re.compile(r"(?:(?<![A-Za-z])sm_?|Sm)(\d{2,3})(?!\d)|(gfx\d+[a-f]?)")
#: The families that tensor cores can serve, and words for their instructions, NVIDIA's and AMD's.
MULTIPLY = ("GEMM", "attention")
TENSOR = re.compile(r"xdl|mfma|[whiu]g?mma|umma|tcgen05|tensor_?(?:op|core)|m\d+n\d+k\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Scheme:
    """A way in which a library names its kernels.

    ``mark`` is a part of every such name, by which most others are told apart at once. ``patterns`` stand one a line:
    the first is what the function's own name looks like (or its template, if the function only calls what that names),
    the rest may stand anywhere. Their named groups are the fields: ``type``, ``tile`` (or ``m``, ``n``, ``k``),
    ``stages``, ``cluster``, ``instruction``, ``layout``, ``architecture``, ``what``; ``tensor`` and ``simt`` say by
    their presence whether tensor cores are used, ``backward`` that it is a backward pass. ``math`` is the type of the
    arithmetic where it is not that of the operands; without either, the accumulator's letter, with the instruction,
    says the type. ``types`` are the spellings of types; None: the type is the first one in the C++ template.
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
    """The fields that the whole text gives, or None if the function's own name does not follow the scheme."""
    if scheme.mark not in name or not (first := scheme.compiled[0].search(name)):
        return None
    said: dict[str, str] = {}
    for match in filter(None, (first, *(pattern.search(text) for pattern in scheme.compiled[1:]))):
        for group, value in match.groupdict().items():
            if value is not None:
                said.setdefault(group, value)
    return KernelName(
        name="",
        library=scheme.library,
        family=scheme.family,
        element_type=_type(scheme, said, text),
        tensor_cores="yes" if "tensor" in said else "no" if "simt" in said else scheme.cores,
        instruction_shape=INSTRUCTIONS.get(said.get("instruction", ""), said.get("instruction")),
        layout=_layout(said),
        tile=said.get("tile") or "x".join(said[side] for side in "mnk" if side in said) or None,
        stages=int(said.get("stages", 0)) or None,
        cluster=said.get("cluster"),
        epilogue=_epilogue(text) if scheme.family == "GEMM" else None,
        architecture=f"gfx{said['gfx']}" if "gfx" in said else architecture(said.get("architecture") or text),
        generated=scheme.generated,
        what=said.get("what", scheme.what).replace("_", " ") + ", backward" * ("backward" in said),
    )


def _layout(said: Mapping[str, str]) -> str | None:
    if "a" in said and "b" in said:
        return INDICES[said["a"]] + INDICES[said["b"]]
    return said["layout"].lower() if "layout" in said else None


def _epilogue(text: str) -> str | None:
    return ", ".join(word for mark, word in EPILOGUE if mark.search(text)) or None


def _type(scheme: Scheme, said: Mapping[str, str], text: str) -> str:
    if scheme.types is None:
        return element_in(text[text.find("<") :])
    spelling = said.get("math") or said.get("type")
    if not spelling:
        spelling = said.get("accumulator", "") + ("" if "simt" in said else said.get("instruction", ""))
    return scheme.types.get(spelling, UNKNOWN)


def tensor_cores(family: str, text: str) -> str:
    """Whether a kernel without a scheme of its own says that it multiplies on tensor cores."""
    return "yes" if family in MULTIPLY and TENSOR.search(text) else UNKNOWN


def architecture(text: str) -> str | None:
    """``sm90`` or ``gfx942``: what a name, or a part of it, says that the kernel was built for."""
    if text.isdigit():
        return f"sm{text}"
    if text.lower() in ARCHITECTURES:
        return ARCHITECTURES[text.lower()]
    found = ARCHITECTURE.search(text)
    return None if not found else found[2] or f"sm{found[1]}"
