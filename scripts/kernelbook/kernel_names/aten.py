"""ATen's own kernels: the wrapper says how it loops, the functor inside says what it computes and in which type.

Source of the scheme: PyTorch's ``aten/src/ATen/native/cuda`` (``Loops.cuh``, ``Reduce.cuh``, ``SoftMax.cu``,
``Copy.cu`` ...): names are demangled C++ templates such as
``vectorized_elementwise_kernel<8, BinaryFunctor<c10::BFloat16, ..., MulFunctor<float> >, ...>``. The first number is
the elements that one thread loads at once; a ``{lambda(T, bool)#1}`` holds the types the functor takes.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import UNKNOWN, KernelName, element

WRAPPER = re.compile(
    r"(vectorized_elementwise_kernel|unrolled_elementwise_kernel|elementwise_kernel|elementwise_kernel_manual_unroll"
    r"|index_elementwise_kernel|elementwise_kernel_with_index|reduce_kernel|legacy::\w+)\b"
)
#: (pattern, family, what, op), the first that matches wins; a pattern matches anywhere in the name.
RULES: tuple[tuple[str, str, str, str | None], ...] = (
    (r"softmax_warp_forward|cunn_SoftMaxForward|SpatialSoftMaxForward", "softmax", "softmax", "softmax"),
    (r"softmax_warp_backward|cunn_SoftMaxBackward|SpatialSoftMaxBackward", "softmax", "softmax, backward", None),
    (r"masked_fill_kernel", "fill/mask", "fills where the mask is set", "masked_fill"),
    (r"FillFunctor", "fill/mask", "fills with a constant", "fill"),
    (r"where_kernel_impl", "fill/mask", "picks one of two by a mask", "where"),
    (r"triu_tril_kernel", "fill/mask", "keeps one triangle", "tril"),
    (r"isneginf_kernel_impl", "fill/mask", "marks the elements that are -inf", "isneginf"),
    (r"isposinf_kernel_impl", "fill/mask", "marks the elements that are +inf", "isposinf"),
    (r"arange_cuda_out|range_cuda|eye_out_cuda|linspace", "fill/mask", "fills with a sequence", "arange"),
    (r"(?:bfloat16|float16|float8\w*|float4\w*)_copy_kernel_cuda", "copy/cast", "copies", "copy"),
    (r"direct_copy_kernel_cuda|copy_device_to_device|LoadWithCast.*copy_kernel", "copy/cast", "copies", "copy"),
    (r"CatArrayBatchedCopy", "copy/cast", "copies several tensors into one", "cat"),
    (r"batched_transpose|transpose_tile", "copy/cast", "transposes", "transpose"),
    (r"vectorized_layer_norm_kernel|layer_norm_grad|RowwiseMoments|GammaBetaBackward", "reduction", "layer norm", None),
    (r"batch_norm_\w+", "reduction", "batch norm", None),
    (r"\bMeanOps\b", "reduction", "mean", "mean"),
    (r"\bsum_functor\b", "reduction", "sum", "sum"),
    (r"\b(?:Norm\w*Ops|norm_kernel)\b", "reduction", "norm", "norm"),
    (r"\bArg(?:Max|Min)Ops\b", "reduction", "index of the largest or smallest", None),
    (r"indexSelect|index_select|vectorized_gather|gather_kernel|index_kernel|index_elementwise|indexFunc|index_put",
     "other", "gathers or scatters by index", "index"),
    (r"embedding", "other", "embedding look-up", "embedding"),
    (r"(?:max|avg)_pool", "other", "pooling", None),
    (r"nll_loss|ClassNLLCriterion", "other", "negative log likelihood", None),
    (r"distribution_(?:elementwise|nullary)", "other", "random numbers", None),
    (r"fused_dropout|dropout_kernel", "elementwise", "dropout", "dropout"),
    (r"multi_tensor_apply_kernel", "elementwise", "one pass over many tensors", None),
    (r"(?:bitonic|radix)Sort|sort", "other", "sorts", "sort"),
    (r"GeluCUDAKernelImpl|GeluCUDAKernel", "elementwise", "GELU", "gelu"),
    (r"CUDAFunctor(?:OnSelf|OnOther)?_add|\bAddFunctor\b", "elementwise", "adds", "add"),
    (r"\bMulFunctor\b|MulScalarFunctor", "elementwise", "multiplies", "mul"),
    (r"\bDivFunctor\b", "elementwise", "divides", "div"),
    (r"threshold_kernel_impl", "elementwise", "threshold (ReLU)", "threshold"),
    (r"clamp_(?:scalar|min|max)|launch_clamp", "elementwise", "clamps", "clamp"),
    (r"compare_scalar_kernel|Compare\w+Functor|logical_\w+_kernel", "elementwise", "compares", "compare"),
    (r"pow_tensor_scalar", "elementwise", "power", "pow"),
    (r"(\w+?)_kernel_cuda", "elementwise", "", None),
    (r"(\w+?)_kernel_impl", "elementwise", "", None),
    (r"(silu|gelu|elu|hardswish|sigmoid|tanh)_kernel\b", "elementwise", "", None),
    (r"\b(\w+)Functor\b", "elementwise", "", None),
)  # fmt: skip
COMPILED = tuple((re.compile(pattern), *rest) for pattern, *rest in RULES)
TYPES = (
    r"(c10::(?:BFloat16|Half|Float8_e4m3fn|Float8_e5m2|complex<\w+>)"
    r"|double|float|unsigned char|signed char|short|long|int|bool)"
)
FUNCTOR_TYPE = re.compile(r"(?:\w*Functor\w*|ReduceOp|\w+Ops|func_wrapper_t|threshold_kernel_impl)<" + TYPES + r"\b")
LAMBDA = re.compile(r"\{lambda\(([^()]+)\)#")
TEMPLATE = re.compile(r"<(?:\d+, )*" + TYPES + r"\b")


def element_type(text: str) -> str:
    """The type the functor works in: its first template type, else what its lambda takes (a mask's bool aside)."""
    found = FUNCTOR_TYPE.search(text)
    if found:
        return element(found.group(1))
    for arguments in LAMBDA.findall(text):
        types = [element(part) for part in arguments.split(",")]
        known = [t for t in types if t not in (UNKNOWN, "bool")]
        if known or "bool" in types:
            return known[0] if known else "bool"
    found = TEMPLATE.search(text)
    return element(found.group(1)) if found else UNKNOWN


#: ``bfloat16_copy_kernel_cuda`` writes the type of its name and takes that of its lambda (``Copy.cu``).
NAMED_COPY = re.compile(r"(bfloat16|float16|float8|float4)\w*_copy_kernel_cuda")
COPIED = {"bfloat16": "bf16", "float16": "fp16", "float8": "fp8", "float4": "fp4"}
#: Loads that convert what they read to the type that the functor takes and writes; the name does not say from which.
CASTING_LOAD = "LoadWithCast"


def _conversion(text: str) -> tuple[str | None, str] | None:
    """(type read, type written) of a copy that converts, None for the former where the name does not say it."""
    named, taken = NAMED_COPY.search(text), element_type(text)
    if named:
        written = COPIED[named.group(1)]
        return (None if taken == UNKNOWN else taken, written) if taken != written else None
    return (None, taken) if CASTING_LOAD in text else None


def _what(what: str, word: str | None) -> str:
    return what or (word or "").replace("_", " ").strip() or "elementwise"


def _converts(read: str | None, written: str) -> str:
    """What a converting copy does: ``converts fp32 to bf16``, ``converts to fp32``."""
    to = "" if written == UNKNOWN else f" to {written}"
    return f"converts {read}{to}" if read else f"converts{to}" if to else "converts while it copies"


def parse(text: str) -> KernelName | None:
    """The fields of an ATen kernel's name, or None if nothing in it says that it is ATen's."""
    wrapper = WRAPPER.search(text)
    ours = "at::native" in text or wrapper or re.search(r"softmax_warp_|cunn_|multi_tensor_apply|CatArrayBatched", text)
    if not ours:
        return None
    reduces = wrapper is not None and wrapper.group(1) == "reduce_kernel"
    family, what, op = ("reduction", "reduces", None) if reduces else (UNKNOWN, "", None)
    for pattern, rule_family, rule_what, rule_op in COMPILED:
        found = pattern.search(text)
        if not found:
            continue
        word = found.group(1) if pattern.groups else None
        if reduces and rule_family != "reduction":
            what = f"reduces ({word})" if word else what
        else:
            family, what, op = rule_family, _what(rule_what, word), rule_op or word
        break
    if family == UNKNOWN and wrapper:
        family, what = "elementwise", "elementwise"
    read, written = None, element_type(text)
    if what == "copies" and (conversion := _conversion(text)):
        read, written = conversion
        what = _converts(read, written)
    return KernelName(
        name="",
        library="ATen",
        family=family,
        element_type=written,
        source_type=read,
        tensor_cores="no" if family not in (UNKNOWN, "other") else UNKNOWN,
        fused_ops=(op,) if op else (),
        generated=False,
        what=what,
    )
