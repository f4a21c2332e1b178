"""Matrix products: cuBLAS (nvjet, xmma, and the ampere_/volta_ names), CUTLASS 2 and 3, Tensile.

Sources of the schemes:
* CUTLASS 2 and 3 procedural names: CUTLASS documentation, "profiler.md", and ``cutlass_library``: opcode class,
  accumulator letter, instruction shape, element types, threadblock tile, stages or cluster, layouts, alignment.
* ``ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn``: NVIDIA's older names; the same fields in another
  order, ``stages_KxS`` giving the tile's depth and the pipeline's stages.
* ``xmma``: operand and output types in pairs, ``tilesizeMxNxK``, ``stageS``, and either ``ffma`` (CUDA cores) or
  ``tensorMxNxK`` (tensor cores); ``warpgroup`` marks Hopper's warpgroup instructions.
* ``nvjet``: undocumented by NVIDIA. Read here: tile MxN, depth x stages, cluster, ``bias``, ``splitK``, operand
  letters, and the type code at the front. Only codes seen with known operand types are decoded (t bf16, h fp16).
* ``bmm_<output>_<A><B>_Fp32_t<tile>_s<stages>_m<instruction>_c<cluster>``: TensorRT-LLM's generated products.
* Tensile: ``Cijk_<A indices>_<B indices>`` where l is the summed index: Ailk is not transposed, Alik is.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import (
    HALF_OR_LESS,
    INSTRUCTIONS,
    UNKNOWN,
    KernelName,
    architecture,
    element,
)

NVJET = re.compile(
    r"nvjet_(?:(?P<arch>sm\d+)_)?(?P<types>[a-z0-9]+)_(?:mma_)?(?P<m>\d+)x(?P<n>\d+)"
    r"(?:x(?P<k3>\d+)_(?P<s3>\d+)|_(?P<k>\d+)x(?P<s>\d+))_(?P<rest>.*)$"
)
#: Type codes (operand, compute, output) seen with inputs of a known type.
NVJET_TYPES = {"tst": "bf16", "tss": "bf16", "hsh": "fp16", "hss": "fp16", "qqtst": "fp8", "qqhsh": "fp8"}
CUTLASS2 = re.compile(
    r"cutlass_(?:(?P<cc>\d+)_)?(?P<opclass>simt|wmma_tensorop|tensorop)_(?:(?P<in>[a-z]+\d+)_)?"
    r"(?P<acc>[a-z])(?P<inst>\d*)(?P<math>tf32|bf16|f16)?gemm(?P<grouped>_grouped)?(?P<mid>(?:_[a-z0-9]+)*?)"
    r"_(?P<m>\d+)x(?P<n>\d+)_(?P<k>\d+)x(?P<s>\d+)(?:_(?P<layout>[nt]{2}))?(?:_align(?P<align>\d+))?"
)
CUTLASS3 = re.compile(
    r"cutlass3x_sm(?P<cc>\d+)_(?P<opclass>simt|tensorop)_(?:(?P<acc>[a-z])(?P<inst>\d+x\d+x\d+))?(?P<math>tf32)?gemm_"
    r"(?P<a>[a-z]+[0-9a-z]*)_(?P<b>[a-z]+[0-9a-z]*)_(?P<c>[a-z]+[0-9a-z]*)_.*?"
    r"(?P<tile>\d+x\d+x\d+)_(?P<cluster>\d+x\d+x\d+)(?:_(?P<s>\d+))?(?:_(?P<layout>[nt]{2,3}))?"
)
NAMED = re.compile(
    r"^(?P<gen>maxwell|volta|turing|ampere|hopper)_(?:(?P<in>[a-z]+\d+)_)?"
    r"(?P<acc>[a-z])(?P<inst>\d*)gemm(?:_(?P<out>fp16|bf16|fp32|f32))?_(?P<m>\d+)x(?P<n>\d+)(?P<rest>[a-zA-Z0-9_]*)$"
)
XMMA = re.compile(
    r"sm(?P<cc>\d+)_xmma_gemm_(?P<a>[a-z]+\d+?)(?P<b>f32|f16|bf16|i8|i32|e4m3|e5m2)_"
    r"(?P<math>[a-z]+\d+?)(?P<c>f32|f16|bf16|i8|i32|e4m3|e5m2)_(?P<acc>[a-z]+\d+)_(?P<layout>[nt]{2})_(?P<out>[nt])"
    r"_tilesize(?P<tile>\d+x\d+x\d+)(?P<rest>.*)$"
)
TRT_GEN = re.compile(
    r"^bmm_(?P<out>[A-Z][A-Za-z0-9]*?)_(?P<a>(?:Mx)?(?:E\dm\d|Bfloat16|Fp16))(?P<b>(?:Mx)?(?:E\dm\d|Bfloat16|Fp16))_Fp32_"
    r".*?t(?P<tile>\d+x\d+x\d+)\w*?_s(?P<s>\d+)_.*?_m(?P<inst>\d+x\d+x\d+)_c(?P<cluster>\d+x\d+x\d+)_rM_(?P<layout>[TNB][TNB])"
)
TENSILE = re.compile(r"^Cijk_A(?P<a>il|li)k_B(?P<b>lj|jl)k_(?P<types>[A-Z0-9]+)_.*?MT(?P<tile>\d+x\d+x\d+)")
CUDA_CORE = {"s": "fp32", "d": "fp64", "h": "fp16", "c": "complex64", "z": "complex128"}


def parse(text: str) -> KernelName | None:
    """The fields of a GEMM's name, or None if it follows none of the schemes above."""
    for read in (_nvjet, _xmma, _cutlass3, _cutlass2, _named, _vector, _tensile, _tensorrt_gen, _triton_gemm):
        found = read(text)
        if found:
            return found
    return None


def _nvjet(text: str) -> KernelName | None:
    found = NVJET.search(text)
    if not found:
        return None
    rest = found["rest"]
    kind = NVJET_TYPES.get(found["types"], UNKNOWN)
    cluster = re.match(r"(\d+x\d+)_(?:2cta_)?[hv]_", rest)
    letters = re.search(r"_([NT]{3,4})$", rest)
    extras = [word for word, mark in (("bias", "_bias"), ("beta add", "_badd"), ("split-K", "_splitK")) if mark in rest]
    return KernelName(
        name="",
        library="cuBLAS",
        family="GEMM",
        element_type=kind,
        tensor_cores="yes" if kind in HALF_OR_LESS else UNKNOWN,
        layout=letters.group(1).lower() if letters else None,
        tile=f"{found['m']}x{found['n']}x{found['k'] or found['k3']}",
        stages=int(found["s"] or found["s3"]),
        cluster=cluster.group(1) if cluster else None,
        epilogue=", ".join(extras) or None,
        architecture=found["arch"],
        generated=False,
        what="matrix product (nvjet)",
    )


def _xmma(text: str) -> KernelName | None:
    found = XMMA.search(text)
    if not found:
        return None
    rest = found["rest"]
    kind = element(found["math"])
    shape = re.search(r"_tensor(\d+x\d+x\d+)", rest)
    stages = re.search(r"_stage(\d+)", rest)
    if "_ffma" in rest or "_dfma" in rest:
        cores = "no"
    else:
        cores = "yes" if shape or ("warpgroup" in rest and kind in HALF_OR_LESS) else UNKNOWN
    return KernelName(
        name="",
        library="cuBLAS" if "cublas" in rest else "cuDNN" if "cudnn" in rest else UNKNOWN,
        family="GEMM",
        element_type=kind,
        tensor_cores=cores,
        instruction_shape=shape.group(1) if shape else None,
        layout=found["layout"],
        tile=found["tile"],
        stages=int(stages.group(1)) if stages else None,
        epilogue="split-K" if "splitK" in rest else None,
        architecture=f"sm{found['cc']}",
        generated=False,
        what="matrix product (xmma)",
    )


def _cutlass3(text: str) -> KernelName | None:
    found = CUTLASS3.search(text)
    if not found:
        return None
    kind = "tf32" if found["math"] else element(found["a"])
    tensor = found["opclass"] == "tensorop"
    return KernelName(
        name="",
        library="CUTLASS",
        family="GEMM",
        element_type=kind,
        tensor_cores="yes" if tensor else "no",
        instruction_shape=found["inst"] if tensor else None,
        layout=found["layout"],
        tile=found["tile"],
        stages=int(found["s"]) or None if found["s"] else None,  # 0 stands for "as many as fit"
        cluster=found["cluster"],
        architecture=f"sm{found['cc']}",
        generated=False,
        what="matrix product",
    )


def _cutlass2(text: str) -> KernelName | None:
    found = CUTLASS2.search(text)
    if not found:
        return None
    words = [w for w in (found["mid"] or "").split("_") if w]
    inputs = found["in"] or found["math"] or next((w for w in words if element(w) != UNKNOWN), None)
    tensor = found["opclass"] != "simt"
    kind = _cutlass2_element(found["acc"], found["inst"], inputs, tensor)
    return KernelName(
        name="",
        library="CUTLASS",
        family="GEMM",
        element_type=kind,
        tensor_cores="yes" if tensor else "no",
        instruction_shape=INSTRUCTIONS.get(found["inst"] or ""),
        layout=found["layout"],
        tile=f"{found['m']}x{found['n']}x{found['k']}",
        stages=int(found["s"]),
        epilogue="relu" if "relu" in words else None,
        architecture=f"sm{found['cc']}" if found["cc"] else None,
        generated=False,
        what="grouped matrix product" if found["grouped"] else "matrix product",
    )


def _cutlass2_element(accumulator: str, instruction: str, inputs: str | None, tensor: bool) -> str:
    """Without a type, ``s1688`` on tensor cores is tf32: CUTLASS names 16-bit operands, and 16x8x8 takes no other."""
    if not tensor:
        return element(inputs) if inputs else CUDA_CORE.get(accumulator, UNKNOWN)
    if inputs:
        return element(inputs)
    if accumulator == "s" and instruction == "1688":
        return "tf32"
    return {"h": "fp16", "d": "fp64"}.get(accumulator, UNKNOWN)


def _named(text: str) -> KernelName | None:
    found = NAMED.search(text)
    if not found:
        return None
    rest = found["rest"]
    shape = INSTRUCTIONS.get(found["inst"] or "")
    depth = re.search(r"_stages_(\d+)x(\d+)", rest)
    letters = re.search(r"_([nt]{2})$", rest)
    inputs = element(found["in"]) if found["in"] else UNKNOWN
    if not found["inst"]:
        kind, cores = (inputs if found["in"] else CUDA_CORE.get(found["acc"], UNKNOWN)), "no"
    else:
        kind, cores = inputs if found["in"] else ("fp16" if found["acc"] == "h" else UNKNOWN), "yes"
    return KernelName(
        name="",
        library="cuBLAS",
        family="GEMM",
        element_type=kind,
        tensor_cores=cores,
        instruction_shape=shape,
        layout=letters.group(1) if letters else None,
        tile=f"{found['m']}x{found['n']}" + (f"x{depth.group(1)}" if depth else ""),
        stages=int(depth.group(2)) if depth else None,
        epilogue=", ".join(w for w in ("relu", "bias") if f"_{w}" in rest) or None,
        architecture=architecture(text),
        generated=False,
        what="matrix product",
    )


def _vector(text: str) -> KernelName | None:
    """cuBLAS's small products: gemv (matrix by vector), gemmSN (few columns), gemmk1 (inner size 1)."""
    found = re.search(r"\b(gemv\w*|gemmSN_(?P<layout>[NT]{2})_kernel|gemmk1_kernel|gemm_kernel2x2_core)\b", text)
    if not found:
        return None
    kind = re.search(r"<(?:int, int, )?(?:\(?int\)?\d*, )*(__half|__nv_bfloat16|float|double)", text)
    simt = "gemmSN" in found.group(1) and kind and kind.group(1) in ("float", "double")
    return KernelName(
        name="",
        library="cuBLAS",
        family="GEMM",
        element_type=element(kind.group(1)) if kind else UNKNOWN,
        tensor_cores="no" if simt else UNKNOWN,
        layout=found["layout"].lower() if found["layout"] else None,
        generated=False,
        what="matrix-vector product" if found.group(1).startswith("gemv") else "matrix product for few columns",
    )


def _tensile(text: str) -> KernelName | None:
    found = TENSILE.search(text)
    if not found:
        return None
    shape = re.search(r"_MI(\d+x\d+)x\d+_", text)
    target = re.search(r"_ISA(\d+[a-z]?)", text)
    kinds = {"B": "bf16", "H": "fp16", "S": "fp32", "D": "fp64", "F8": "fp8", "I8": "int8", "4": UNKNOWN}
    return KernelName(
        name="",
        library="Tensile",
        family="GEMM",
        element_type=kinds.get(found["types"][0], UNKNOWN),
        tensor_cores="yes" if shape else UNKNOWN,
        layout=("n" if found["a"] == "il" else "t") + ("n" if found["b"] == "lj" else "t"),
        tile=found["tile"],
        epilogue="bias" if "_Bias_" in text else None,
        architecture=f"gfx{target.group(1)}" if target else None,
        generated=False,
        what="matrix product (AMD)",
    )


def _tensorrt_gen(text: str) -> KernelName | None:
    found = TRT_GEN.match(text)
    if not found:
        return None
    return KernelName(
        name="",
        library="TensorRT-LLM",
        family="GEMM",
        element_type=element(found["a"]),
        tensor_cores="yes",
        instruction_shape=found["inst"],
        layout=found["layout"].lower(),
        tile=found["tile"],
        stages=int(found["s"]),
        cluster=found["cluster"],
        epilogue="swiglu" if "swiGlu" in text else None,
        architecture=architecture(text),
        generated=False,
        what="batched matrix product",
    )


def _triton_gemm(text: str) -> KernelName | None:
    """Hand-written Triton products of OpenAI's triton_kernels, whose names hold types and tile."""
    found = re.match(r"_matmul_ogs_(?P<layout>[NT]{3})_(?P<a>[a-z0-9]+?)x(?P<b>[a-z]+\d+)x(?P<c>[a-z0-9]+?)_"
                     r"(?P<tile>\d+x\d+x\d+)", text)  # fmt: skip
    if not found:
        return None
    return KernelName(
        name="",
        library="Triton",
        family="GEMM",
        element_type=element(found["a"]),
        layout=found["layout"].lower(),
        tile=found["tile"],
        epilogue="swiglu" if text.endswith("_swiglu") else None,
        generated=False,
        what="grouped matrix product",
    )
