"""Which library a name is from, and the schemes of those that say more than a word: NCCL, CUB, cuDNN, quantisation.

NCCL's scheme is in its ``generate.py``: ``ncclDevKernel_<Function>_<RedOp>_<type>_<Algorithm>_<Protocol>``; kernels on
symmetric memory are ``ncclSymkDevKernel_<Function>_<how>_<RedOp>_<type>``.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import FLOATING, UNKNOWN, KernelName, element, element_in
from kernelbook.kernel_names.scheme import MULTIPLY, Scheme, architecture, tensor_cores
from kernelbook.kernel_names.text import CALLERS, words
from kernelbook.kernel_names.words import by_words

SCHEMES = (
    Scheme("NCCL", "communication", "communication", "ccl", r"""
        ^(?:nccl|rccl|msccl)\w*?(?:Kernel_(?P<what>\w+)|$)
        _(?P<type>bf16|f(?:16|32|64)|f8e\dm\d|[iu](?:8|32|64)|half|float|double|u?int(?:8|32|64)_t|__nv_bfloat16)(?=_|\(|$)"""),
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
        \bcudnn::(?:cnn|detail|winograd\w*|gemm)::|^conv[123]?d_|cask\w*cudnn::""", None, "no"),
)  # fmt: skip

#: Where a library shows in the name; what its kernels do is read from their words.
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
#: Libraries whose kernels are of the family ``other`` unless their words say more.
OTHERS = {"CUB", "Thrust", "cuSPARSE", "cuFFT", "cuSOLVER", "cuRAND", "FBGEMM"}
#: Element types as words of a name, and as CuTe writes a tensor's.
NAMED_TYPE = re.compile(
    r"(?:(?<=_)|^|tensorptr)(bf16|bfloat16|fp?16|float16|half|fp?32|float|fp64|fp8|e4m3|e5m2|(?:nv|mx)?fp4|e2m1|int8)"
    r"(?:_t)?(?=_|gmem|$)"
)
#: What a quantisation writes, as names put it.
QUANTISED = re.compile(r"fp8|e4m3|int8|fp4|e2m1", re.IGNORECASE)
POINTER = re.compile(r"([\w:]+)(?: const)?\*")


def parse(text: str, head: str, template: str) -> KernelName | None:
    """The fields of any other name, by its words; None if they do not say what it does."""
    own = head.rsplit("::", 1)[-1]
    family, what = by_words(words(own[-160:]))
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
        architecture=architecture(head),
        what=what,
        generated=False if library != UNKNOWN else None,
    )


def _type(family: str, own: str, template: str, text: str) -> str:
    """The type that a kernel works in; of one that quantises, the type that it writes.

    It is looked for in the template, in the words of the name, and last in what the arguments point to, where all of
    them that say a type say the same one.
    """
    if family == "copy/cast" and "quant" in own.lower() and "dequant" not in own.lower():
        written = QUANTISED.search(template) or QUANTISED.search(own)
        if written:
            return element(written[0].lower())
    if (kind := element_in(template)) != UNKNOWN:
        return kind
    named = {element(word) for word in NAMED_TYPE.findall(own)}
    if not named:
        kinds = {element(word) for word in POINTER.findall(text[text.find("(") :])}
        named = kinds & set(FLOATING)
    if family in MULTIPLY:
        named -= {"fp32"}  # which may be no more than the scales
    return named.pop() if len(named) == 1 else UNKNOWN
