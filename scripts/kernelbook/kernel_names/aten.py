"""ATen's own kernels: a wrapper that loops over the elements, and in its template a functor that computes.

Source: PyTorch's ``aten/src/ATen/native/cuda`` (``Loops.cuh``, ``Reduce.cuh``, ``SoftMax.cu``, ``Copy.cu`` ...): names
are C++ templates such as ``vectorized_elementwise_kernel<8, BinaryFunctor<c10::BFloat16, ..., MulFunctor<float> >>``.
The arguments of a ``{lambda(T, bool)#1}`` are the functor's types. A kernel without a wrapper is decoded by its words.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import FLOATING, MULTIPLY, UNKNOWN, KernelName, element_in, tensor_cores
from kernelbook.kernel_names.text import words
from kernelbook.kernel_names.words import by_words

WRAPPER = re.compile(
    r"(?:(?:vectorized|unrolled|index|legacy)_)?elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel"
    r"|kernelPointwiseApply\d"
)
UNWRAPPED = ("softmax_warp_", "cunn_", "CatArrayBatched", "batch_norm_")
#: (functor, family, what, op), the first match wins. Without ``what`` or ``op`` the functor's own name is taken.
FUNCTORS: tuple[tuple[str, str, str, str | None], ...] = (
    (r"masked_fill_kernel", "fill/mask", "fills where the mask is set", "masked_fill"),
    (r"FillFunctor", "fill/mask", "fills with a constant", "fill"),
    (r"where_kernel_impl", "fill/mask", "picks one of two by a mask", "where"),
    (r"isneginf_kernel_impl", "fill/mask", "marks the elements that are -inf", "isneginf"),
    (r"isposinf_kernel_impl", "fill/mask", "marks the elements that are +inf", "isposinf"),
    (r"arange_cuda_out|range_cuda|eye_out_cuda|linspace", "fill/mask", "fills with a sequence", "arange"),
    (r"\w*_copy_kernel_cuda|copy_device_to_device|\bCopy(?:Op)?<|Convert\w*To\w+Op", "copy/cast", "copies", "copy"),
    (r"bernoulli|random_from_to|(?:uniform|normal|exponential)_and_transform", "other", "random numbers", None),
    (r"\bMeanOps\b", "reduction", "mean", "mean"),
    (r"\bsum_functor\b|sum_kernel", "reduction", "sum", "sum"),
    (r"\bArg(?:Max|Min)Ops\b", "reduction", "index of the largest or smallest", None),
    (r"\b(?:\w*Norm\w*Ops|norm_kernel|\w*L[p2]?Norm\w*Functor)\b", "reduction", "norm", "norm"),
    (r"batch_norm\w*", "reduction", "batch norm", None),
    (r"index_kernel|index_put|index_copy|index_fill|gather_kernel|take_put|put_kernel|flip_kernel", "other",
     "gathers or scatters by index", "index"),
    (r"CUDAFunctor(?:OnSelf|OnOther)?_add|\bAddFunctor\b", "elementwise", "adds", "add"),
    (r"\bMulFunctor\b|MulScalarFunctor", "elementwise", "multiplies", "mul"),
    (r"\bDivFunctor\b", "elementwise", "divides", "div"),
    (r"threshold_kernel_impl", "elementwise", "threshold (ReLU)", "threshold"),
    (r"clamp_(?:scalar|min|max)|launch_clamp", "elementwise", "clamps", "clamp"),
    (r"compare_scalar_kernel|Compare\w*Functor|logical_\w+_kernel", "elementwise", "compares", "compare"),
    (r"GeluCUDAKernel\w*", "elementwise", "GELU", "gelu"),
    (r"pow_tensor_scalar", "elementwise", "power", "pow"),
    (r"\b(?!gpu_)(\w{1,60}?)(?:_cuda)?_kernel(?:_cuda|_impl)?\b", "elementwise", "", None),
    (r"\b(?!AUnary|BUnary|Binary|Opaque)(\w{1,60})Functor\b", "elementwise", "", None),
)  # fmt: skip
COMPILED = tuple((re.compile(pattern), family, what, op) for pattern, family, what, op in FUNCTORS)
ARGUMENTS = re.compile(r"(?<!lambda)\([^()]*\)")
#: The lambda of the loop itself: its argument is an index, not an element.
INDEXING = re.compile(r"(?<!\}, )(?<!const::)\{lambda\(int(?:, bool)?\)")
LAMBDA = re.compile(r"\{lambda\(([^()]+)\)")
#: ``bfloat16_copy_kernel_cuda`` writes the type in its name and reads its lambda's (``Copy.cu``).
NAMED_COPY = re.compile(
    r"(?:Convert(?:Float)?To(?=\w+Op\b)|\b(?=\w+_copy_kernel_cuda))(bfloat16|float16|float8|float4)(?:to(float32))?",
    re.IGNORECASE,
)
COPIED = {"bfloat16": "bf16", "float16": "fp16", "float8": "fp8", "float4": "fp4", "float32": "fp32"}
#: (word, op) of kernels without a wrapper.
OPS = {
    "softmax": "softmax", "cat array": "cat", "tril": "tril", "index": "index", "gather": "index", "embed": "embedding",
}  # fmt: skip


def parse(head: str, template: str) -> KernelName | None:
    """The fields of an ATen kernel, from its qualified name and its template; None if it is not ATen's."""
    own = head.rsplit("::", 1)[-1]
    wrapped = WRAPPER.fullmatch(own)
    if "at::native" not in head and not wrapped and not own.startswith(UNWRAPPED):
        return None
    if wrapped:
        family, what, op = _functor(own, template)
    else:
        family, what = by_words(words(own))
        if family == UNKNOWN:
            family, what = by_words(words(head[-160:]))
        text = f"{what} {words(own)}"
        op = next((op for word, op in OPS.items() if word in text), None) if "backward" not in text else None
    kind, source = _types(ARGUMENTS.sub("", template), copies=what == "copies")
    if what == "copies":
        what = _conversion(source, kind, "LoadWithCast" in template)
    return KernelName(
        name="",
        library="ATen",
        family=family,
        element_type=kind,
        source_type=source,
        tensor_cores=tensor_cores(family, own) if family in (*MULTIPLY, UNKNOWN, "other") else "no",
        fused_ops=(op,) if op else (),
        generated=False,
        what=what,
    )


def _functor(own: str, template: str) -> tuple[str, str, str | None]:
    """(family, what, op) of a kernel that wraps a functor."""
    reduces = own == "reduce_kernel"
    for pattern, family, what, op in COMPILED:
        match = pattern.search(template)
        if not match:
            continue
        word = match[1].strip("_") if pattern.groups else ""
        if reduces and family != "reduction":
            return "reduction", f"reduces ({word})" if word else "reduces", None
        if own == "multi_tensor_apply_kernel" and family == "elementwise":
            return family, "one pass over many tensors", op
        return family, what or word.replace("_", " "), op or word or None
    if reduces:
        return "reduction", "reduces", None
    return "elementwise", "one pass over many tensors" if own.startswith("multi") else "elementwise", None


def _types(template: str, copies: bool) -> tuple[str, str | None]:
    """(element type, source type); the source type only of a copy whose name states that it converts."""
    if "OpaqueType" in template:  # stands for any type of that size
        return UNKNOWN, None
    template = INDEXING.sub("", template)
    kind = element_in(template)
    if kind not in FLOATING and "Functor" not in template:
        kinds = (element_in(arguments) for arguments in LAMBDA.findall(template))
        kind = next((each for each in kinds if each != UNKNOWN), kind)
    copy = NAMED_COPY.search(template) if copies else None
    if not copy:
        return kind, None
    written = COPIED[(copy[2] or copy[1]).lower()]
    source = COPIED[copy[1].lower()] if copy[2] else kind
    return written, None if source in (UNKNOWN, written) else source


def _conversion(source: str | None, written: str, casts: bool) -> str:
    """What a copy does: ``copies``, ``converts fp32 to bf16``, ``converts to fp32``."""
    if not source and not casts:
        return "copies"
    to = "" if written == UNKNOWN else f" to {written}"
    return f"converts {source}{to}" if source else f"converts{to}" if to else "converts while it copies"
