"""Matrix products and convolutions: how cuBLAS, cuDNN, CUTLASS, Tensile, TensorRT-LLM and others name them.

Sources:
* CUTLASS 2 and 3: its documentation of the profiler and ``cutlass_library``: class of instruction, accumulator,
  instruction, element types, tile, stages or cluster, layouts, alignment.
* ``ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn``: output type, accumulator and instruction, operand
  type, tile, its depth x stages.
* ``xmma``: types of operands and output, then of the arithmetic and the accumulator; ``ffma`` and ``dfma`` are CUDA
  cores, ``tensorMxNxK`` and ``warpgroup`` tensor cores.
* ``nvjet``: not documented by NVIDIA. Letters of types: operands (two if they may differ), then, last, accumulator
  and output; seen with known operands are t bf16, h fp16, q fp8, o fp4.
* Tensile: ``Cijk_<A>_<B>`` where l is the summed index: Ailk is not transposed, Alik is; then the types, operand first.
"""

from __future__ import annotations

from kernelbook.kernel_names.model import INSTRUCTIONS, Scheme

ARCH = r"(?P<architecture>sm\d+)"
SIDES = r"(?P<m>\d+)x(?P<n>\d+)"
DIMS = r"\d+x\d+x\d+"
TYPE = r"(?:tf32|bf16|f16|f32|f64|e4m3|e5m2|e2m1|f8|f4|i8|i4|i32|s8|u8|s4|s32)"
CONVOLUTION = r"[fdw]prop|[dw]grad|(?:de)?conv\w*?"
PRODUCT = r"(?:(?:bs)?sp)?gemm|gemv|symm|hemm|syr2?kx?|her2?kx?|trmm"
#: What an accumulator's letter says about the operands: on CUDA cores by itself, on tensor cores with the instruction.
#: If no type is named, s1688 is tf32: CUTLASS names 16-bit operands, and 16x8x8 takes no others.
LETTERS = {
    "s": "fp32", "d": "fp64", "h": "fp16", "c": "complex64", "z": "complex128", "gc": "complex64", "gz": "complex128",
    "s1688": "tf32", **{f"h{digits}": "fp16" for digits in INSTRUCTIONS}, "d884": "fp64", "d1684": "fp64",
}  # fmt: skip
SPELLED = LETTERS | {
    "bf16": "bf16", "f16": "fp16", "fp16": "fp16", "f32": "fp32", "fp32": "fp32", "f64": "fp64", "tf32": "tf32",
    "s8": "int8", "int8": "int8", "u8": "uint8", "uint8": "uint8", "s4": "int4", "f8": "fp8", "e4m3": "fp8",
    "e5m2": "fp8", "f4": "fp4", "e2m1": "fp4", "f6": "fp6", "e3m2": "fp6", "e2m3": "fp6",
}  # fmt: skip
NVJET_TYPES = {"t": "bf16", "h": "fp16", "q": "fp8", "o": "fp4", "s": "tf32", "tf32": "tf32", "d": "fp64"}
TENSILE_TYPES = {
    "H": "fp16", "B": "bf16", "S": "fp32", "D": "fp64", "C": "complex64", "Z": "complex128", "F8": "fp8", "B8": "fp8",
    "I8": "int8", "4xi8": "int8", "X": "tf32", "F4": "fp4", "F6": "fp6",
}  # fmt: skip
TRTLLM_TYPE = r"(?:Mx)?E\dm\d|Bfloat16|Fp16"


def _cutlass2(operation: str) -> str:
    return (
        r"cutlass_(?:(?P<architecture>\d+)_)?(?:(?P<simt>simt)|(?:wmma_)?(?P<tensor>(?:sp)?tensorop))_(?:[a-z]+\d+_)?"
        rf"(?P<accumulator>[a-z])(?P<instruction>\d+)?(?P<math>tf32|bf16|f16)?(?:{operation})(?:_[a-z]+)*?"
        rf"(?:_(?P<type>{TYPE}))?_{SIDES}(?:_(?P<k>\d+)x(?P<stages>\d+))?(?:_(?P<layout>[nt]{{2}})(?![a-z]))?"
    )


def _cutlass3(operation: str) -> str:
    return rf"""
        cutlass3x_(?P<architecture>sm\d+)_(?:(?P<simt>simt)|(?P<tensor>\w*?tensorop))_(?:[a-z](?P<instruction>{DIMS})?_?)?(?P<math>tf32)?(?:9xbf16)?(?:implicit_gemm_)?(?:{operation})(?:_[a-z]+)*?_(?:ue\d+m\dx)?c?(?P<type>{TYPE})(?=_|$)
        _(?P<tile>{DIMS})(?:_(?P<cluster>{DIMS}))?(?:_(?P<stages>\d+))?(?:_(?P<layout>[nthc]{{2,3}})(?![a-z]))?
    """


XMMA = rf"""
    _(?:c?{TYPE})+_c?(?P<type>{TYPE})(?:{TYPE})+_
    _tilesize(?P<tile>{DIMS})
    _stage(?P<stages>\d+)
    _cgasize(?P<cluster>{DIMS})
    (?P<simt>_[fdh]fma)
    _tensor(?P<instruction>{DIMS})
    (?P<tensor>_tensor\d|_warpgroupsize)
    _(?P<layout>[ntc]{{2}})_[ntc](?=_)
"""
XMMA_TRAITS = r"""
    \b(?P<architecture>Volta|Turing|Ampere|Hopper)_(?:(?P<simt>[fdi]fma)|(?P<tensor>[hid]g?mma))
    Cta_tile<(?:\w+::)*\w+, (?P<m>\d+), (?P<n>\d+), (?P<k>\d+)
"""
NO_PRODUCT = "cuda_reorder|.*implicit_gemm"
GENERATION = r"(?:\b|_)(?P<architecture>maxwell|volta|turing|ampere|hopper)_(?:[a-z]+\d+(?:x\d+)?_)?"
CORES = r"(?P<accumulator>g?[a-z])(?:(?P<tensor>(?P<instruction>\d{3,}))|(?P<simt>))"
SPLIT_K = "adds up the parts of a split-K product"

SCHEMES = (
    Scheme("cuBLAS", "GEMM", "matrix product (nvjet)", "nvjet_", rf"""
        nvjet_(?:{ARCH}_)?(?P<type>[a-z])[a-z]+_(?:(?P<math>tf32)_)?(?:mma_)?{SIDES}(?=[x_]\d)
        _\d+x\d+_(?P<k>\d+)x(?P<stages>\d+)(?:_(?P<cluster>\d+x\d+)_|$)
        _\d+x\d+x(?P<k>\d+)(?:_(?P<stages>\d+)_|$)
        _(?P<layout>[NT]{{3,4}})$""", NVJET_TYPES, "yes"),
    Scheme("cuBLAS", "GEMM", "matrix product (xmma)", "_xmma_", rf"{ARCH}_xmma_(?:{PRODUCT})_" + XMMA),
    Scheme("cuDNN", "other", "convolution", "_xmma_", rf"{ARCH}_xmma_(?:{CONVOLUTION})_" + XMMA),
    Scheme("cuBLAS", "GEMM", "matrix product (xmma)", "xmma", rf"^xmma\w*::gemm::(?!{NO_PRODUCT})" + XMMA_TRAITS, {}),
    Scheme("cuDNN", "other", "convolution", "xmma", r"^xmma\w*::(?:implicit_gemm|gemm)::" + XMMA_TRAITS, {}),
    Scheme("CUTLASS", "GEMM", "matrix product", "cutlass3x_", _cutlass3(PRODUCT), SPELLED),
    Scheme("CUTLASS", "other", "convolution", "cutlass3x_", _cutlass3(CONVOLUTION), SPELLED),
    Scheme("CUTLASS", "GEMM", "matrix product", "cutlass_", _cutlass2(PRODUCT), SPELLED),
    Scheme("CUTLASS", "other", "convolution", "cutlass_", _cutlass2(CONVOLUTION), SPELLED),
    Scheme("cuBLAS", "GEMM", "matrix product", "gemm_", rf"""
        {GENERATION}{CORES}gemm(?:_(?P<type>[a-z]+\d+))?_
        _{SIDES}_
        _stages_(?P<k>\d+)x(?P<stages>\d+)
        _(?P<layout>[ntc]{{2}})(?:_v\d)?$""", SPELLED),
    Scheme("cuDNN", "other", "convolution", "_", rf"""
        {GENERATION}{CORES}(?:cudnn|(?:{CONVOLUTION}))(?:_(?P<type>[a-z]+\d+)(?:x\d+)?(?:_[a-z]+\d+x\d+)?)?_
        _{SIDES}_
        _stages_(?P<k>\d+)x(?P<stages>\d+)""", SPELLED),
    Scheme("cuBLAS", "GEMM", "matrix-vector or narrow product", "gem", r"""
        (?:^|::)(?:gemv\d?[NT]\w*|gemmSN_(?P<layout>[NT]{2})_kernel|gemmk1_kernel|gemm_kernel2x2_core|gemvx::kernel)\b
    """, None, "no"),
    Scheme("cuBLAS", "reduction", SPLIT_K, "splitKreduce_kernel", r"(?:^|::)splitKreduce_kernel", {}),
    Scheme("cuBLAS", "elementwise", "epilogue", "cublasLt::epilogue", r"cublasLt::epilogue", None),
    Scheme("cuBLAS", "reduction", "dot product", "_kernel", r"(?:^|::)(?:dot|reduce_1Block)_kernel$", None, "no"),
    Scheme("Tensile", "GEMM", "matrix product (AMD)", "Cijk_A", r"""
        Cijk_A(?P<a>il|li)k_B(?P<b>lj|jl)k_(?P<type>F8|B8|F4|F6|I8|4xi8|[HBSDCZX])
        _MT(?P<tile>\d+x\d+x\d+)
        (?P<tensor>_MI\d+x\d+x\d+)
        (?P<simt>_TT\d+_\d+_)
        _ISA(?P<gfx>[0-9a-f]{3,4})(?=_|$)""", TENSILE_TYPES),
    Scheme("Tensile", "reduction", SPLIT_K, "_PostGSU", r"Cijk_(?P<type>F8|B8|I8|[HBSD])\w*_PostGSU", TENSILE_TYPES),
    Scheme("TensorRT-LLM", "GEMM", "batched matrix product", "bmm_", rf"""
        ^bmm_\w+?_(?P<type>{TRTLLM_TYPE})(?:{TRTLLM_TYPE})?_Fp32_
        _t(?P<tile>{DIMS})
        _s(?P<stages>\d+)_
        _m(?P<instruction>{DIMS})
        _c(?P<cluster>{DIMS})_
        _rM_(?P<layout>[TNB]{{2}})_""", cores="yes"),
    Scheme("DeepGEMM", "GEMM", "matrix product", "deep_gemm::", r"::\w*?(?P<type>fp8|bf16|fp4)\w*gemm", cores="yes"),
    Scheme("AITER", "GEMM", "matrix product (AMD)", "aiter::", r"""
        \baiter::(?P<type>fp8|f4|i8|bf16)gemm
        _(?P<layout>[nt]{2})_
        _(?P<tile>\d+x\d+)(?=_|$)""", cores="yes"),
    Scheme("Triton", "GEMM", "grouped matrix product", "matmul_ogs", rf"""
        ^_(?:p_)?matmul_ogs_(?P<layout>[NT]{{3}})_(?P<type>[a-z0-9]+?)x[a-z0-9]+?x[a-z0-9]+?_(?P<tile>{DIMS})"""),
    Scheme("Marlin", "GEMM", "matrix product, few-bit weights", "arlin", r"[Mm]arlin\w*::Marlin\w*$", None, "yes"),
    Scheme("CUTLASS", "GEMM", "matrix product (CuTe)", "kernel_cutlass_", r"""
        ^kernel_cutlass_(?:[A-Za-z0-9]|_(?!object_at))*?[Gg]emm(?!a)
        tensorptr(?P<type>bf16|f16|f32|f8\w*?|f4\w*?)gmem""", cores="yes", generated=True),
    Scheme("CUTLASS", "GEMM", "matrix product", "ernel", r"""
        ^(?:cutlass(?:_\w+)?::)?(?:device_kernel|Kernel2?)<(?!cutlass::(?:transform|reduction)::).{0,400}?(?:Gemm|GEMM|_gemm)
        <(?:cute::)?C?<(?P<m>\d{2,})>, ?(?:cute::)?C?<(?P<n>\d+)>, ?(?:cute::)?C?<(?P<k>\d{2,})> ?>
        GemmShape<(?P<m>\d+), (?P<n>\d+), (?P<k>\d+)
        (?P<simt>Simt)
        (?P<tensor>Gmma|Umma|Tma|Tensor|Mma(?:Multistage|Pipelined)|Wmma)""", None),
)  # fmt: skip
