"""What a kernel's name says: the fields, the families, and the vocabulary of element types and architectures."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNKNOWN = "unknown"

#: What a device activity does. The first six have a colour of their own in the kernel strip.
FAMILIES = (
    "GEMM",
    "attention",
    "softmax",
    "elementwise",
    "copy/cast",
    "fill/mask",
    "reduction",
    "communication",
    "other",
    UNKNOWN,
)


@dataclass(frozen=True)
class KernelName:
    """The fields of one kernel name. What the name does not say is ``unknown`` or ``None``, never a guess.

    ``element_type``: fp64, fp32, tf32, fp16, bf16, fp8, fp4, int8 ..., or ``16-bit`` where the name does not tell
    fp16 from bf16. ``tensor_cores``: yes, no or unknown. ``instruction_shape``, ``tile`` and ``cluster``: numbers
    joined by x. ``layout``: the letters of the name, lower case, first the two operands (t transposed, n not).
    ``source_type``: of a copy that converts to ``element_type``, the type that it reads. ``architecture``: what it was
    built for; see ``built_for`` for what that means on a device.
    ``generated``: True for a kernel made by a compiler for this program, False for one shipped in a library.
    """

    name: str
    library: str = UNKNOWN
    family: str = UNKNOWN
    element_type: str = UNKNOWN
    tensor_cores: str = UNKNOWN
    instruction_shape: str | None = None
    layout: str | None = None
    tile: str | None = None
    stages: int | None = None
    cluster: str | None = None
    epilogue: str | None = None
    architecture: str | None = None
    source_type: str | None = None
    fused_ops: tuple[str, ...] = ()
    generated: bool | None = None
    what: str = ""  # what it does, in a few words; part of the sentence
    sentence: str = ""


#: Spellings of element types: CUTLASS and cuBLAS (bf16, f16, h), C++ (c10::BFloat16), Tensile (B, H, S).
ELEMENT_TYPES = {
    "bf16": "bf16",
    "f16": "fp16",
    "fp16": "fp16",
    "h": "fp16",
    "half": "fp16",
    "f32": "fp32",
    "fp32": "fp32",
    "f64": "fp64",
    "tf32": "tf32",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "fp8": "fp8",
    "e2m1": "fp4",
    "s8": "int8",
    "u8": "uint8",
    "i8": "int8",
    "s4": "int4",
    "i32": "int32",
    "s32": "int32",
    "Bfloat16": "bf16",
    "Fp16": "fp16",
    "E4m3": "fp8",
    "MxE4m3": "fp8",
    "E2m1": "fp4",
    "MxE2m1": "fp4",
    "c10::BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "cutlass::bfloat16_t": "bf16",
    "c10::Half": "fp16",
    "__half": "fp16",
    "cutlass::half_t": "fp16",
    "float": "fp32",
    "double": "fp64",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "bool": "bool",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "unsigned char": "uint8",
    "signed char": "int8",
}

#: Marketing names that cuBLAS and cuDNN put first, as compute capabilities.
ARCHITECTURES = {"maxwell": "sm50", "volta": "sm70", "turing": "sm75", "ampere": "sm80", "hopper": "sm90"}

#: What NVIDIA calls the generations, by compute capability.
GENERATIONS = {
    **dict.fromkeys(("50", "52", "53"), "Maxwell"),
    **dict.fromkeys(("60", "61", "62"), "Pascal"),
    **dict.fromkeys(("70", "72"), "Volta"),
    "75": "Turing",
    **dict.fromkeys(("80", "86", "87"), "Ampere"),
    "89": "Ada",
    "90": "Hopper",
    **dict.fromkeys(("100", "101", "103", "110", "120", "121"), "Blackwell"),
}

#: The digits of a matrix instruction, as CUTLASS writes them without separators (M N K), read apart.
INSTRUCTIONS = {
    "884": "8x8x4",
    "1684": "16x8x4",
    "1688": "16x8x8",
    "8816": "8x8x16",
    "8832": "8x8x32",
    "16816": "16x8x16",
    "16832": "16x8x32",
    "16864": "16x8x64",
    "161616": "16x16x16",
    "168256": "16x8x256",
}

#: Element types that have no CUDA-core GEMM among the named families: a matrix instruction in the name is enough.
HALF_OR_LESS = {"fp16", "bf16", "fp8", "fp4", "int8", "int4", "tf32", "16-bit"}


def element(spelling: str | None) -> str:
    """The element type for one spelling; ``unknown`` for None and for spellings that are not in the table."""
    return ELEMENT_TYPES.get((spelling or "").strip(), UNKNOWN)


def same_type(one: str, other: str) -> bool:
    """Whether two element types as names give them may be one: ``16-bit`` is any of 16 bits."""
    return one == other or ("16-bit" in (one, other) and {one, other} <= {"16-bit", "bf16", "fp16"})


def built_for(kernel: KernelName, capability: str | None) -> str | None:
    """``sm80 (Ampere), runs on sm90 (Hopper)``: of a kernel built for an older architecture than the device's.

    capability: the device's, as torch has it (9.0). None where the name states no architecture, the capability is not
    known, or the two are the same. Such a kernel uses no instruction that is newer than its architecture.
    """
    built = re.fullmatch(r"sm(\d+)", kernel.architecture or "")
    device = re.fullmatch(r"(\d+)\.?(\d)", capability or "")
    if not built or not device or int(built[1]) >= int(device[1] + device[2]):
        return None
    return f"{_generation(built[1])}, runs on {_generation(device[1] + device[2])}"


def _generation(digits: str) -> str:
    name = GENERATIONS.get(digits)
    return f"sm{digits} ({name})" if name else f"sm{digits}"


def architecture(text: str) -> str | None:
    """``sm80`` and the like from the first such token of a name, or None."""
    found = re.search(r"(?<![a-z0-9])(?:cutlass_|sm_?)(\d{2,3})(?=[a-z]?(?:_|\b))", text, re.IGNORECASE)
    if found:
        return f"sm{found.group(1)}"
    word = re.match(r"(?:void )?(maxwell|volta|turing|ampere|hopper)_", text)
    return ARCHITECTURES[word.group(1)] if word else None
