"""The fields of a decoded kernel name, the families, and the spellings of element types and architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

UNKNOWN = "unknown"

#: What a device activity does. The first six have a colour of their own in the kernel strip.
FAMILIES = (
    "GEMM", "attention", "softmax", "elementwise", "copy/cast", "fill/mask", "reduction", "communication", "other",
    UNKNOWN,
)  # fmt: skip


@dataclass(frozen=True)
class KernelName:
    """The fields of one kernel name. What the name does not state is ``unknown`` or ``None``, never a guess.

    ``element_type``: fp64, fp32, tf32, fp16, bf16, fp8, fp4, int8 ..., or ``16-bit`` if it may be fp16 or bf16.
    ``tensor_cores``: yes, no or unknown. ``instruction_shape``, ``tile`` and ``cluster``: numbers joined by x.
    ``layout``: lower-case letters as in the name, the two operands first (t transposed, n not).
    ``source_type``: the type that a converting copy reads; it writes ``element_type``. ``architecture``: the one that
    the kernel was built for, which may be older than the device (see ``built_for``).
    ``generated``: True for a kernel that a compiler made for this program, False for one shipped in a library.
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
    what: str = ""  # what it does, in a few words
    sentence: str = ""


#: How C++ and the libraries (CUTLASS, cuBLAS, NCCL, TensorRT-LLM) spell each element type, without namespace; ``#``
#: stands for a space.
SPELLINGS = {
    "fp64": "double f64 fp64 float64",
    "fp32": "float f32 fp32 float32",
    "tf32": "tf32 tfloat32_t tf32_t",
    "fp16": "half __half half_t Half float16 _Float16 f16 fp16 h __half2 half2 Fp16",
    "bf16": "bf16 BFloat16 bfloat16_t bfloat16 bf16_t __bf16 __nv_bfloat16 nv_bfloat16 __hip_bfloat16 hip_bfloat16 "
    "__nv_bfloat162 Bfloat16 bhalf_t",
    "fp8": "e4m3 e5m2 fp8 mxfp8 f8 f8e4m3 f8e5m2 fp8e4m3 fp8e5m2 float_e4m3_t float_e5m2_t Float8_e4m3fn Float8_e5m2 "
    "Float8_e4m3fnuz Float8_e5m2fnuz __nv_fp8_e4m3 __nv_fp8_e5m2 __hip_fp8_e4m3 __hip_fp8_e4m3_fnuz fp8_t f8_t "
    "f8_fnuz_t f8_ocp_t bf8_t bf8_fnuz_t bf8_ocp_t E4m3 E5m2 MxE4m3",
    "fp4": "e2m1 f4 fp4 nvfp4 mxfp4 float_e2m1_t __nv_fp4_e2m1 Float4_e2m1fn_x2 E2m1 MxE2m1",
    "int8": "s8 i8 int8 int8_t Int8 signed#char",
    "uint8": "u8 uint8 uint8_t unsigned#char",
    "int4": "s4 i4 int4b_t",
    "int16": "short int16_t",
    "uint16": "u16 uint16_t unsigned#short",
    "uint32": "u32 uint32_t unsigned#int",
    "uint64": "u64 uint64_t unsigned#long",
    "int32": "s32 i32 int32 int int32_t",
    "int64": "i64 int64 long int64_t",
    "complex64": "complex<float>",
    "complex128": "complex<double> double2",
    "bool": "bool",
}
ELEMENT_TYPES = {spelling.replace("#", " "): kind for kind, text in SPELLINGS.items() for spelling in text.split()}
FLOATING = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "complex64", "complex128")
#: Types that are seldom those of an index or a flag.
OPERANDS = (*FLOATING, "int8")
IDENTIFIER = re.compile(r"complex<(?:float|double)>|(?:unsigned |signed )?[A-Za-z_]\w*")

#: The compute capability for each generation that cuBLAS and cuDNN name.
ARCHITECTURES = {"maxwell": "sm50", "volta": "sm70", "turing": "sm75", "ampere": "sm80", "hopper": "sm90"}

#: NVIDIA's name of each generation, by compute capability.
GENERATIONS = {
    digits: name
    for name, several in {
        "Maxwell": "50 52 53", "Pascal": "60 61 62", "Volta": "70 72", "Turing": "75", "Ampere": "80 86 87 88",
        "Ada": "89", "Hopper": "90", "Blackwell": "100 101 103 110 120 121",
    }.items()
    for digits in several.split()
}  # fmt: skip


def element(spelling: str | None) -> str:
    """The element type for one spelling; ``unknown`` for None and for spellings that are not in the table."""
    return ELEMENT_TYPES.get((spelling or "").strip().rsplit("::", 1)[-1], UNKNOWN)


def element_in(text: str) -> str:
    """The first floating-point type or int8 in a piece of C++, else its first other element type."""
    other = UNKNOWN
    for match in IDENTIFIER.finditer(text):
        kind = ELEMENT_TYPES.get(match.group(), UNKNOWN)
        if kind in OPERANDS:
            return kind
        other = kind if other == UNKNOWN else other
    return other


def same_type(one: str, other: str) -> bool:
    """Whether two decoded element types may be the same: ``16-bit`` matches fp16 and bf16."""
    return one == other or ("16-bit" in (one, other) and {one, other} <= {"16-bit", "bf16", "fp16"})


def built_for(kernel: KernelName, capability: str | None) -> str | None:
    """``sm80 (Ampere), runs on sm90 (Hopper)`` for a kernel that was built for an older architecture than the device's.

    ``capability`` is the device's, as torch reports it (9.0). None if the name states no architecture, if the
    capability is unknown, or if the kernel was built for it. An older kernel uses no newer instructions.
    """
    built = re.fullmatch(r"sm(\d+)", kernel.architecture or "")
    device = re.fullmatch(r"(\d+)\.?(\d)", capability or "")
    if not built or not device or int(built[1]) >= int(device[1] + device[2]):
        return None
    return f"{_generation(built[1])}, runs on {_generation(device[1] + device[2])}"


def _generation(digits: str) -> str:
    name = GENERATIONS.get(digits)
    return f"sm{digits} ({name})" if name else f"sm{digits}"


def sentence_of(kernel: KernelName) -> str:
    """For example: ``cuBLAS matrix product (nvjet) in bf16 on tensor cores, tile 64x8x64, 16 stages, operands TNT.``"""
    library = "" if kernel.library == UNKNOWN else f"{kernel.library}: "
    kind = "" if kernel.element_type == UNKNOWN or kernel.what.startswith("converts") else f" in {kernel.element_type}"
    if kernel.family in ("GEMM", "attention"):
        kind += {"yes": " on tensor cores", "no": " on CUDA cores"}.get(kernel.tensor_cores, "")
    parts = [library + (kernel.what or kernel.family) + kind]
    if kernel.fused_ops and kernel.library == "Triton":
        parts.append("fusing " + ", ".join(kernel.fused_ops))
    parts += [
        words.format(value)
        for words, value in (
            ("instruction {}", kernel.instruction_shape),
            ("tile {}", kernel.tile),
            ("{} stages", kernel.stages),
            ("cluster {}", kernel.cluster),
            ("operands {}", kernel.layout.upper() if kernel.layout else None),
            ("epilogue {}", kernel.epilogue),
            ("built for {}", kernel.architecture),
        )
        if value
    ]
    return ", ".join(parts) + "."


# --- schemes ---------------------------------------------------------------------------------------------------------


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

    ``mark``: a substring of every such name, a cheap first test. ``patterns``: one regular expression per line. The
    first must match the function's own name (or its template, if the function is only a wrapper); the others are
    searched in the whole name. Their named groups are the fields: ``type``, ``tile`` (or ``m``, ``n``, ``k``),
    ``stages``, ``cluster``, ``instruction``, ``layout`` (or ``a`` and ``b``), ``architecture`` (or ``gfx``), ``what``.
    A match of ``tensor`` or ``simt`` means tensor cores or CUDA cores, one of ``backward`` a backward pass. ``math`` is
    the type of the arithmetic if it differs from the operands'. Without ``type`` and ``math`` the accumulator's letter
    and the instruction state the type. ``types``: spellings of types; if it is None, the type is read from the C++
    template. ``cores``: whether tensor cores are used if neither group matches.
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
