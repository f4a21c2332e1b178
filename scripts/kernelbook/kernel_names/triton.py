"""Triton: Inductor's generated kernels, and known hand-written ones.

Source of the scheme: ``torch/_inductor/codegen/triton.py``: ``triton_<kind>_fused_<ops joined by _>_<number>`` with the
kinds poi (pointwise), red (reduction), per (persistent reduction), tem (template: products, convolution, flex
attention) and ``for`` (several pointwise kernels in one). The ops are ATen names in sorted order, joined by ``_``. As
they may contain ``_`` too, they are split with a list of ATen names.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import UNKNOWN, KernelName

KINDS = {
    "poi": "pointwise", "red": "reduction", "per": "persistent reduction", "tem": "template",
    "for": "several pointwise kernels in one", "split_scan": "scan",
}  # fmt: skip
INDUCTOR = re.compile(r"^triton_(?P<kind>poi|red|per|tem|for|split_scan)_fused(?:_(?P<ops>.*?))?_?(?P<number>\d+)$")
OLD_INDUCTOR = re.compile(r"^triton__?(?:\d+d)+\w*$|^triton_\d*$|^triton__$")

#: ATen names with an underscore; the longest match wins. A name that is not listed is split at every underscore.
OPS_WITH_UNDERSCORES = (
    "_adaptive_avg_pool2d", "_fused_rms_norm", "_log_softmax", "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "_safe_softmax",
    "_scaled_dot_product_flash_attention", "_scaled_mm", "_softmax", "_softmax_backward_data",
    "_log_softmax_backward_data", "_to_copy", "_unsafe_index", "_unsafe_view", "_weight_norm_interface",
    "as_strided", "as_strided_scatter", "avg_pool2d", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "clamp_max", "clamp_min", "constant_pad_nd", "embedding_dense_backward", "expand_as",
    "flex_attention", "flex_attention_backward", "floor_divide", "full_like", "gelu_backward",
    "hardtanh_backward", "index_add", "index_put", "index_select", "inductor_lookup_seed", "inductor_random",
    "inductor_seeds", "leaky_relu", "linalg_vector_norm", "log_sigmoid_forward", "logical_and", "logical_not",
    "logical_or", "logical_xor", "masked_fill", "masked_scatter", "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward", "moe_forward", "mse_loss", "native_batch_norm",
    "native_batch_norm_backward", "native_dropout", "native_dropout_backward", "native_group_norm",
    "native_group_norm_backward", "native_layer_norm", "native_layer_norm_backward", "new_empty_strided",
    "new_full", "new_ones", "new_zeros", "nll_loss_backward", "nll_loss_forward", "ones_like",
    "pixel_shuffle", "prepare_softmax_online", "scalar_tensor", "scatter_add", "select_backward",
    "select_scatter", "sigmoid_backward", "silu_backward", "slice_backward", "slice_scatter", "squeeze_copy",
    "tanh_backward", "threshold_backward", "upsample_nearest2d", "var_mean", "zeros_like",
)  # fmt: skip
SOFTMAX_OPS = {"_softmax", "_safe_softmax", "_log_softmax", "prepare_softmax_online", "_softmax_backward_data"}
GEMM_OPS = {"mm", "bmm", "addmm", "baddbmm", "_scaled_mm"}
FILL_OPS = {
    "full", "full_like", "ones", "zeros", "ones_like", "zeros_like", "new_zeros", "new_ones", "new_full",
    "fill", "arange", "iota", "tril", "triu", "masked_fill", "where", "scalar_tensor", "eye", "lift_fresh",
}  # fmt: skip
COPY_OPS = {"_to_copy", "clone", "copy", "cat", "stack", "constant_pad_nd"}
VIEW_OPS = {
    "view", "_unsafe_view", "t", "transpose", "permute", "expand", "reshape", "unsqueeze", "squeeze", "slice",
    "select", "as_strided", "detach", "alias", "split", "unbind",
}  # fmt: skip

#: Liger's kernels, whose names do not state all that they compute: (family, what).
LIGER = {
    "_geglu_tanh_forward_kernel": ("elementwise", "GELU (tanh) of gate, times up, Liger"),
    "_geglu_tanh_backward_kernel": ("elementwise", "GELU (tanh) of gate, times up, backward, Liger"),
    "_swiglu_forward_kernel": ("elementwise", "SiLU of gate, times up, Liger"),
    "_swiglu_backward_kernel": ("elementwise", "SiLU of gate, times up, backward, Liger"),
    "_rms_norm_forward_kernel": ("reduction", "RMS norm, Liger"),
    "_rms_norm_backward_kernel": ("reduction", "RMS norm, backward, Liger"),
    "_layer_norm_forward_kernel": ("reduction", "layer norm, Liger"),
    "_triton_rope": ("elementwise", "rotary embedding, Liger"),
    "liger_cross_entropy_kernel": ("softmax", "cross entropy, Liger"),
}


def split_ops(text: str) -> tuple[str, ...]:
    """ATen names from Inductor's joined form: ``_unsafe_view_gelu_mul`` -> (_unsafe_view, gelu, mul)."""
    names = sorted(OPS_WITH_UNDERSCORES, key=len, reverse=True)
    ops: list[str] = []
    rest = text
    while rest:
        long = next((n for n in names if rest == n or rest.startswith(n + "_")), None)
        op = long or rest.lstrip("_").split("_", 1)[0]
        if not long and rest.startswith("_"):
            op = "_" + op
        ops.append(op)
        rest = rest[len(op) :]
        rest = rest[1:] if rest.startswith("_") else rest
    return tuple(op for op in ops if op.strip("_"))


def _family(kind: str, ops: tuple[str, ...]) -> str:
    names = set(ops)
    if kind == "tem":
        if any(op.startswith("flex_attention") for op in ops):
            return "attention"
        return "GEMM" if names & GEMM_OPS else "other" if "convolution" in names else UNKNOWN
    if names & SOFTMAX_OPS or {"amax", "exp", "sub", "sum"} <= names:
        return "softmax"
    if kind in ("red", "per"):
        return "reduction"
    if kind == "split_scan":
        return "other"
    work = names - VIEW_OPS
    if work and work <= FILL_OPS:
        return "fill/mask"
    if work and work <= COPY_OPS | FILL_OPS:
        return "copy/cast"
    return "copy/cast" if names and not work else "elementwise"  # only views: a change of layout


def parse(text: str) -> KernelName | None:
    """The fields of a Triton kernel's name, or None if it is not known to be Triton's."""
    if match := INDUCTOR.match(text):
        ops = split_ops(match["ops"] or "")
        family, what = _family(match["kind"], ops), f"{KINDS[match['kind']]} kernel by Inductor"
        return KernelName("", "Triton", family, fused_ops=ops, generated=True, what=what)
    if OLD_INDUCTOR.match(text):
        return KernelName("", "Triton", generated=True, what="kernel by Inductor, name without ops")
    if text in LIGER:
        family, what = LIGER[text]
        return KernelName("", "Triton", family, generated=False, what=what)
    return None
