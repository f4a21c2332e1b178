"""ATen's own kernels: the wrapper says how it loops, the functor inside says what it computes and in which type.

Source: PyTorch's ``aten/src/ATen/native/cuda`` (``Loops.cuh``, ``Reduce.cuh``, ``SoftMax.cu``, ``Copy.cu`` ...): names
are C++ templates such as ``vectorized_elementwise_kernel<8, BinaryFunctor<c10::BFloat16, ..., MulFunctor<float> >>``.
The first number is how many elements a thread loads at once; a ``{lambda(T, bool)#1}`` holds the functor's types.
Kernels without such a wrapper are named after what they do and read by their words.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import FLOATING, UNKNOWN, KernelName, element_in
from kernelbook.kernel_names.scheme import MULTIPLY, tensor_cores
from kernelbook.kernel_names.text import words
from kernelbook.kernel_names.words import by_words

WRAPPER = re.compile(
    r"(?:(?:vectorized|unrolled|index|legacy)_)?elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel"
)
UNWRAPPED = ("softmax_warp_", "cunn_", "CatArrayBatched", "batch_norm_")
#: (functor, family, what, op), for functors that do not compute elementwise or whose op has another name.
FUNCTORS: tuple[tuple[str, str, str, str | None], ...] = (
    (r"masked_fill_kernel", "fill/mask", "fills where the mask is set", "masked_fill"),
    (r"FillFunctor", "fill/mask", "fills with a constant", "fill"),
    (r"where_kernel_impl", "fill/mask", "picks one of two by a mask", "where"),
    (r"isneginf_kernel_impl", "fill/mask", "marks the elements that are -inf", "isneginf"),
    (r"isposinf_kernel_impl", "fill/mask", "marks the elements that are +inf", "isposinf"),
    (r"arange_cuda_out|range_cuda|eye_out_cuda|linspace", "fill/mask", "fills with a sequence", "arange"),
    (r"\w*_copy_kernel_cuda|copy_device_to_device|\bCopy<|ConvertTo\w+Op", "copy/cast", "copies", "copy"),
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
COMPILED = tuple((re.compile(pattern), *rest) for pattern, *rest in FUNCTORS)
ARGUMENTS = re.compile(r"(?<!lambda)\([^()]*\)")
LAMBDA = re.compile(r"\{lambda\(([^()]+)\)")
#: ``bfloat16_copy_kernel_cuda`` writes the type of its name and takes that of its lambda (``Copy.cu``).
NAMED_COPY = re.compile(
    r"(?:ConvertTo(?=\w+Op\b)|\b(?=\w+_copy_kernel_cuda))(bfloat16|float16|float8|float4)(?:to(float32))?",
    re.IGNORECASE,
)
COPIED = {"bfloat16": "bf16", "float16": "fp16", "float8": "fp8", "float4": "fp4", "float32": "fp32"}
#: Ops of kernels with a name of their own.
OPS = {
    "softmax": "softmax", "cat array": "cat", "tril": "tril", "index": "index", "gather": "index", "embed": "embedding",
}  # fmt: skip


def parse(head: str, template: str) -> KernelName | None:
    """The fields of an ATen kernel, by its own name and its template; None if neither says that it is ATen's."""
    own = head.rsplit("::", 1)[-1]
    wrapped = WRAPPER.fullmatch(own)
    if "at::native" not in head and not wrapped and not own.startswith(UNWRAPPED):
        return None
    if wrapped:
        family, what, op = _functor(own, template)
    else:
        family, what = by_words(words(own))
        said = f"{what} {words(own)}"
        op = next((op for word, op in OPS.items() if word in said), None) if "backward" not in said else None
    kind, read = _types(ARGUMENTS.sub("", template), copies=what == "copies")
    if what == "copies":
        what = _converts(read, kind, "LoadWithCast" in template)
    return KernelName(
        name="",
        library="ATen",
        family=family,
        element_type=kind,
        source_type=read,
        tensor_cores=tensor_cores(family, own) if family in (*MULTIPLY, UNKNOWN, "other") else "no",
        fused_ops=(op,) if op else (),
        generated=False,
        what=what,
    )


def _functor(own: str, template: str) -> tuple[str, str, str | None]:
    """(family, what, op) of a kernel that wraps a functor."""
    reduces = own == "reduce_kernel"
    for pattern, family, what, op in COMPILED:
        found = pattern.search(template)
        if not found:
            continue
        word = found.group(1).strip("_") if pattern.groups else None
        if reduces and family != "reduction":
            return "reduction", f"reduces ({word})" if word else "reduces", None
        if own == "multi_tensor_apply_kernel" and family == "elementwise":
            return family, "one pass over many tensors", op
        return family, what or word.replace("_", " "), op or word
    if reduces:
        return "reduction", "reduces", None
    return "elementwise", "one pass over many tensors" if own.startswith("multi") else "elementwise", None


def _types(template: str, copies: bool) -> tuple[str, str | None]:
    """(type, type read where a copy converts and its name says from what)."""
    kind = element_in(template)
    if kind not in FLOATING and "Functor" not in template:
        kinds = [element_in(taken) for taken in LAMBDA.findall(template)]
        kind = next((each for each in kinds if each != UNKNOWN), kind)
    named = NAMED_COPY.search(template) if copies else None
    if not named:
        return kind, None
    written = COPIED[(named[2] or named[1]).lower()]
    read = COPIED[named[1].lower()] if named[2] else kind
    return written, None if read in (UNKNOWN, written) else read


def _converts(read: str | None, written: str, casts: bool) -> str:
    """What a copy does: ``copies``, ``converts fp32 to bf16``, ``converts to fp32``."""
    if not read and not casts:
        return "copies"
    to = "" if written == UNKNOWN else f" to {written}"
    return f"converts {read}{to}" if read else f"converts{to}" if to else "converts while it copies"
