"""The library that a name belongs to, and the schemes of NCCL, CUB, cuDNN, MIOpen and others.

Source of NCCL's scheme, ``generate.py``: ``ncclDevKernel_<Function>_<RedOp>_<type>_<Algorithm>_<Protocol>``; kernels on
symmetric memory are ``ncclSymkDevKernel_<Function>_<how>_<RedOp>_<type>``.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import (
    FLOATING,
    MULTIPLY,
    UNKNOWN,
    KernelName,
    Scheme,
    architecture,
    element,
    element_in,
    tensor_cores,
)
from kernelbook.kernel_names.text import CALLERS, words
from kernelbook.kernel_names.words import by_words

SCHEMES = (
    Scheme("NCCL", "communication", "communication", "ccl", r"""
        ^(?:nccl|rccl|msccl)\w*?(?:Kernel_(?P<what>\w+)|$)
        _(?P<type>bf16|f(?:16|32|64)|f8e\dm\d|[iu](?:8|32|64)|half|float|double|u?int(?:8|32|64)_t|(?:__nv_|hip_)bfloat16)(?=_|\(|$)"""),
    Scheme("DeepEP", "communication", "exchange of tokens between experts", "ep::", r"(?:\bdeep_|\b)ep::", None),
    Scheme("CUB", "reduction", "reduces", "Reduce", r"""
        (?:cub|hipcub|rocprim)::(?:\w+::)*Device(?:Segmented)?Reduce\w*Kernel(?<!ByKeyKernel)""", None),
    Scheme("CUB", "other", "sort, scan or compaction", "cub::", r"(?:cub|hipcub)::(?:\w+::)*Device\w+", {}),
    Scheme("bitsandbytes", "elementwise", "optimizer", "kOptimizer", r"\bkOptimizer\w+", None),
    Scheme("MIOpen", "other", "convolution", "igemm_", r"""
        ^igemm_(?:fwd|bwd|wrw)_\w*?_(?P<type>bf16|fp16|fp32)
        _bt(?P<tile>\d+x\d+x\d+)
        (?P<tensor>_gtcx?\d?_)"""),
    Scheme("MIOpen", "other", "convolution", "naive_conv_", r"^naive_conv_\w+?_(?P<type>float|half|bhalf|int8_t)_"),
    Scheme("MIOpen", "copy/cast", "transposes", "batched_transpose_", r"^batched_transpose_\w*?(?P<type>half|float)?$"),
    Scheme("MIOpen", "elementwise", "tensor op", "SubTensorOpWith", r"^SubTensorOpWith(?:Cast|Scalar)"),
    Scheme("cuDNN", "other", "convolution", "plicit_convolve_", r"(?:ex|im)plicit_convolve_(?P<simt>[sdh]gemm)", None),
    Scheme("cuDNN", "other", "convolution", "", r"""
        \bcudnn::(?:\w+::)*\w*(?:[Cc]onv(?!ert)|[gG]rad|[fdw]prop|[Ww]inograd)|^conv(?:[123]?d_|olve)""", None, "no"),
)  # fmt: skip

#: Patterns by which a library is known. What its kernels do is decoded by their words.
LIBRARIES = {
    r"\bvllm::|_vllm\b": "vLLM", r"flashinfer": "FlashInfer", r"tensorrt_llm::": "TensorRT-LLM",
    r"transformer_engine::": "TransformerEngine", r"deep_gemm::": "DeepGEMM",
    r"fbgemm_gpu::|^(?:split_embedding|bounds_check_indices|linearize_index|permute_pooled)": "FBGEMM",
    r"\bck_tile::|\bck::": "Composable Kernel", r"\baiter::": "AITER", r"\bcub::|\brocprim::": "CUB",
    r"\bcudnn::|^cudnn_|_cudnn\b|nchwToNhwc|nhwcToNchw": "cuDNN", r"\bthrust::": "Thrust", r"cublas": "cuBLAS",
    r"cusparse": "cuSPARSE", r"cufft|vector_fft|_fft\b": "cuFFT", r"cusolver": "cuSOLVER", r"\bcurand": "cuRAND",
    r"\bmarlin": "Marlin", r"\bmachete": "Machete", r"\bflash::|pytorch_flash": "flash-attention",
    r"\bcutlass": "CUTLASS", r"^k(?:Quantize|Dequantize|gemm|Percentile|Int8)": "bitsandbytes",
}  # fmt: skip
#: Libraries whose kernels are ``other`` unless a word of the name states a family.
OTHERS = {"CUB", "Thrust", "cuSPARSE", "cuFFT", "cuSOLVER", "cuRAND", "FBGEMM"}
#: Element types as words of a name, or as CuTe writes a tensor's type.
NAMED_TYPE = re.compile(
    r"(?:(?<=_)|^|tensorptr)(bf16|bfloat16|fp?16|float16|half|fp?32|float|fp64|tf32|(?:mx)?fp8|e4m3|e5m2|(?:nv|mx)?fp4|e2m1|u?int8)"
    r"(?:_t)?(?=_|gmem|$)"
)
#: AMD's AITER writes the settings of its Triton kernels into their names; among them the sides of the tile.
SETTINGS = re.compile(r"_[A-Z]{2,}(?:_[A-Z]+)*_\d.*")
SIDE = re.compile(r"_BLOCK(?:_SIZE)?_([MNK])_(\d+)")
#: The words for a copy that quantises, and for the type that it writes.
QUANTISES = re.compile(r"(?<!de)quant|(?<!up)cast|(?<=cvt_)\w+_to_fp", re.IGNORECASE)
QUANTISED = re.compile(r"fp8|e4m3|int8|fp4|e2m1|(?<!un)signed char", re.IGNORECASE)
#: BLAS and LAPACK put the type in front of the routine's name.
BLAS = re.compile(
    r"(?:^|_)([sdcz])(?:gemm|gemv|geru?|gerc|get[rf]|geqr|symm|symv|syr|syev|hemm|her|tr[sm][mv]|potr?f|la[a-z]{3}|scal"
    r"|transpose|swap|copy|displace|gbtr|hetr|pot)"
)
BLAS_TYPES = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128"}
POINTER = re.compile(r"([\w:]+)(?: const)?\*")


def parse(text: str, head: str, template: str) -> KernelName | None:
    """The fields of a name that follows no scheme, from its words; None if they state nothing."""
    own = head.rsplit("::", 1)[-1]
    family, what = by_words(words(SETTINGS.sub("", own)[-160:]))
    if family == UNKNOWN and own in CALLERS:
        family, what = by_words(words(template[:300]))
    if family == UNKNOWN and "::" in head:
        family, what = by_words(words(head[-160:]))
    library = next((library for pattern, library in LIBRARIES.items() if re.search(pattern, head)), UNKNOWN)
    kind = _type(family, own, template, text)
    if family == UNKNOWN and library == UNKNOWN == kind:
        return None
    if family == UNKNOWN and library in OTHERS:
        family = "other"
    return KernelName(
        name="",
        library=library,
        family=family,
        element_type=kind,
        tensor_cores=tensor_cores(family, text),
        tile=_tile(own),
        architecture=architecture(head),
        what=what,
        generated=False if library != UNKNOWN else None,
    )


def _tile(own: str) -> str | None:
    sides = dict(SIDE.findall(own))
    return "x".join(sides[side] for side in "MNK" if side in sides) if {"M", "N"} <= set(sides) else None


def _type(family: str, own: str, template: str, text: str) -> str:
    """The element type that a kernel computes in; for one that quantises, the type that it writes.

    It is taken from the template, else from the words of the name, else from the arguments, if all the pointers among
    them to a floating-point type agree.
    """
    if family == "copy/cast" and QUANTISES.search(own):
        arguments = text[text.find("(") :]
        written = QUANTISED.search(template) or QUANTISED.search(own) or QUANTISED.search(arguments)
        if written:
            return element(written[0].lower())
    if (kind := element_in(template)) in FLOATING:
        return kind
    if routine := BLAS.search(own):
        return BLAS_TYPES[routine[1]]
    types = {element(word) for word in NAMED_TYPE.findall(own)}
    if not types:
        kinds = {element(word) for word in POINTER.findall(text[text.find("(") :])}
        types = kinds & set(FLOATING)
    if family in MULTIPLY:
        types -= {"fp32"}  # may be the type of the scales only
    return types.pop() if len(types) == 1 else kind
