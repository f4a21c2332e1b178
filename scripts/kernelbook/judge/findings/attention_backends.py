"""Costs of unfused attention: fp32 products and casts, a mask built in each call, safe softmax, a slow backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelbook.cases import Activity, Call, CaseFacts
from kernelbook.judge.cost_model import gemm_costs
from kernelbook.judge.cost_model.shapes import Operand, operands
from kernelbook.judge.findings.copies import casts
from kernelbook.judge.findings.costs import (
    described,
    device_finding,
    positions,
    slow_finding,
    timed,
    total,
)
from kernelbook.judge.findings.peers import BACKENDS, FLEX, attention_way, faster_peer
from kernelbook.judge.findings.rules import DEVICE, RECOVERABLE, SPENT, Finding, Scene, rule, type_name
from kernelbook.text.formatting import duration, plural, significant, tally

MASK_OPS = {"aten::ones", "aten::full", "aten::tril", "aten::triu", "aten::scalar_tensor", "aten::where"}
SAFE = "aten::_safe_softmax"
MATH = "aten::_scaled_dot_product_attention_math"
SIXTEEN_BITS = "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)"
TF32 = "torch.set_float32_matmul_precision('high') runs fp32 products in TF32 on tensor cores"


def fused_backend(scene: Scene) -> str:
    """Advice to use a fused backend, without a full stop; short if slower-than-peer reports one with its saving."""
    faster = faster_peer(scene)
    if faster is not None and any(activity.family == "attention" for activity in faster.peer.activities):
        what = "flex_attention" if attention_way(faster.peer) == FLEX else "a fused backend"
        return f"take {what}, which saves {duration(faster.saved_us)} in all, as {faster.peer.case} shows"
    return f"take a fused backend ({BACKENDS}), which replaces all kernels of math by one"


def runs_math(scene: Scene) -> bool:
    """Whether SDPA used its math backend, in this case or in its eager twin."""
    twin = scene.eager_twin()
    return any(MATH in a.op_path for a in [*scene.activities, *(twin.activities if twin else ())])


# --- products in fp32 ------------------------------------------------------------------------------------------------


@rule("fp32-gemm", "16-bit inputs, but GEMM kernels that compute in fp32 on CUDA cores")
def fp32_gemm(scene: Scene) -> Iterator[Finding]:
    """Includes casts of operands and outputs, and the time of the same products on tensor cores in another case."""
    if scene.facts.dtype not in ("bfloat16", "float16"):
        return
    gemms = [
        k
        for k in scene.kernels
        if k.family == "GEMM" and k.decoded.element_type == "fp32" and k.decoded.tensor_cores == "no"
    ]
    if not gemms:
        return
    around = casts_of_products(scene)
    text = (
        f"Inputs are {scene.facts.dtype}, but {plural(len(gemms), 'GEMM kernel')} ran in fp32 on CUDA cores, "
        f"{duration(total(gemms))} a forward"
    )
    if around:
        takes = "takes" if len(around) == 1 else "take"
        text += f", and {plural(len(around), 'cast')} of their operands and outputs {takes} {duration(total(around))}"
    both = sorted([*gemms, *around], key=lambda a: a.position)
    spent = total(both)
    faster = _on_tensor_cores(scene)
    text += "."
    if faster:
        text += (
            f" In {scene.facts.dtype} on tensor cores the same products take {duration(faster[1])} ({faster[0].case})."
        )
    saved = max(spent - faster[1], 0.0) if faster else spent
    whole = faster_peer(scene)
    if faster and whole:
        text += f" That is {duration(saved)} of the {duration(whole.saved_us)} by which {whole.peer.case} is faster."
    kind = RECOVERABLE if faster else SPENT
    yield timed(scene, DEVICE, saved, text, _remedy(scene), described(both), kind, positions(both))


def _remedy(scene: Scene) -> str:
    if runs_math(scene):
        return (
            f"Keep math in 16 bits ({SIXTEEN_BITS}), so that its products run on tensor cores; or "
            f"{fused_backend(scene)}. Where fp32 is meant, {TF32}."
        )
    return f"Multiply in 16 bits on tensor cores; where fp32 is meant, {TF32}."


def casts_of_products(scene: Scene) -> list[Activity]:
    """Kernels that convert an operand of a product before it, or its output directly after it.

    Known from recorded shapes only. An operand has the number of elements of a factor and is converted to the type in
    which the product reads it.
    """
    rows = {a.position: a for a in scene.activities}
    products = gemm_costs(scene.facts)
    matches: dict[int, Activity] = {}
    for cast in casts(scene):
        for product in products:
            sides = (product.m * product.k * product.batch, product.k * product.n * product.batch)
            operand = cast.widens and cast.position < product.position and cast.elements in sides
            output = (
                not cast.widens
                and cast.elements == product.m * product.n * product.batch
                and _follows(rows, product.position, cast.position)
            )
            if operand or output:
                matches[cast.position] = rows[cast.position]
    return list(matches.values())


def _follows(rows: dict[int, Activity], first: int, then: int) -> bool:
    """Whether nothing but memsets runs between the two."""
    return first < then and all(rows[p].category == "memset" for p in range(first + 1, then) if p in rows)


def _on_tensor_cores(scene: Scene) -> tuple[CaseFacts, float] | None:
    """The comparable case with products of the same sizes, all on tensor cores, and their least time."""
    own = sorted((g.batch, g.m, g.n, g.k) for g in gemm_costs(scene.facts))
    candidates = []
    for peer in scene.peers():
        theirs = gemm_costs(peer)
        same = own and sorted((g.batch, g.m, g.n, g.k) for g in theirs) == own and peer.dtype == scene.facts.dtype
        kernels = {a.position: a for a in peer.activities}
        if same and all(kernels[g.position].decoded.tensor_cores == "yes" for g in theirs):
            candidates.append((peer, sum(g.time_us for g in theirs)))
    return min(candidates, key=lambda one: one[1], default=None)


@rule("discarded-output", "SDPA's math backend converts the attention weights, which its caller discards")
def discarded_output(scene: Scene) -> Iterator[Finding]:
    """``_scaled_dot_product_attention_math`` returns (output, weights), both converted to the type of the inputs.

    ``scaled_dot_product_attention`` uses the output only (ATen/native/transformers/attention.cpp). The weights are
    identified by their shape (..., queries, keys).
    """
    rows = {a.position: a for a in scene.activities if MATH in a.op_path}
    if not rows:
        return
    taken, scores = positions(casts_of_products(scene)), _scores(scene)
    unread = [
        cast
        for cast in casts(scene)
        if not cast.widens and cast.elements in scores and cast.position in rows and cast.position not in taken
    ]
    if not unread:
        return
    cast = unread[0]
    text = (
        f"{MATH} converts the attention weights from {cast.source} to {cast.target} "
        f"({significant(cast.elements / 1e6)} M elements) for its second return value, which "
        "aten::scaled_dot_product_attention discards: no kernel reads them."
    )
    remedy = f"Keep math in 16 bits ({SIXTEEN_BITS}), which needs no conversion; or {fused_backend(scene)}."
    yield from device_finding(scene, [rows[c.position] for c in unread], text, remedy)


def _scores(scene: Scene) -> set[int]:
    """Numbers of elements that one product writes and another reads: scores, and weights made of them."""
    products = gemm_costs(scene.facts)
    return {g.m * g.n * g.batch for g in products} & {g.m * g.k * g.batch for g in products}


# --- mask and softmax ------------------------------------------------------------------------------------------------


@rule("mask-rebuilt", "the forward builds a triangular mask")
def mask_rebuilt(scene: Scene) -> Iterator[Finding]:
    """Kernels that build the mask; adding it to the scores is reported separately."""
    if not any(call.name in ("aten::tril", "aten::triu") for call in scene.facts.ops):
        return
    builds = [
        k
        for k in scene.kernels
        if k.family in ("fill/mask", "copy/cast", "elementwise") and set(k.op_path) & MASK_OPS and SAFE not in k.op_path
    ]
    adds = [k for k in scene.kernels if k.op_path and k.op_path[-1] == "aten::add_" and MATH in k.op_path]
    also = f" Adding it to the scores takes another {duration(total(adds))}." if adds else ""
    text = f"The causal mask is rebuilt in each call by {plural(len(builds), 'kernel')}: {_counted(builds)}.{also}"
    remedy = "Build the mask once, outside the forward."
    if runs_math(scene):
        remedy = (
            f"With is_causal=True, {fused_backend(scene)}. Passing a mask as attn_mask only avoids these "
            "kernels, and excludes FLASH_ATTENTION."
        )
    yield from device_finding(scene, builds, text, remedy)


def _counted(builds: Sequence[Activity]) -> str:
    """The op of each kernel: ``ones, tril, 2 × scalar_tensor, where``."""
    names = [next(op for op in reversed(k.op_path) if op in MASK_OPS).removeprefix("aten::") for k in builds]
    return tally(names)


@rule("safe-softmax", "safe softmax (aten::_safe_softmax) runs kernels besides softmax")
def safe_softmax(scene: Scene) -> Iterator[Finding]:
    extra = [k for k in scene.kernels if SAFE in k.op_path and k.family != "softmax"]
    text = (
        f"Safe softmax runs {plural(len(extra), 'kernel')} besides softmax, to give zeros where a row is fully masked: "
        f"{duration(total(extra))}."
    )
    remedy = "With a causal mask no row is fully masked, so plain softmax gives the same result"
    remedy += f"; math has no option for it: {fused_backend(scene)}." if runs_math(scene) else "."
    yield from device_finding(scene, extra, text, remedy)


# --- the backend that ran, and the property of the inputs that excludes a faster one ---------------------------------


SDPA = "aten::scaled_dot_product_attention"
EFFICIENT = "aten::_scaled_dot_product_efficient_attention"
#: Largest head dimension of FLASH_ATTENTION (torch 2.6: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
MOST_HEAD_DIM = 256
SIXTEEN_BIT_TYPES = ("c10::BFloat16", "c10::Half")

#: Reports about calls of attention: why no faster backend ran (with ``{ran}`` and ``{time}``), and the remedy.
Reason = tuple[str, str]


@rule(
    "slow-attention-backend",
    "attention on a slower backend than it could have: math, fp32, a dense mask, or EFFICIENT_ATTENTION of 16-bit "
    "inputs without a mask",
    yields=1,
)
def slow_attention_backend(scene: Scene) -> Iterator[Finding]:
    """From the inputs of scaled_dot_product_attention and the kernels that ran; equal calls are merged."""
    by_reason: dict[Reason, list[Activity]] = {}
    calls = [call for call in scene.facts.calls if call.name == SDPA]
    works = _kernels(scene, calls)
    for call, work in zip(calls, works, strict=True):
        reason = _reason(scene, call, work) if work else None
        if reason:
            by_reason.setdefault(reason, []).extend(work)
    for (text, remedy), work in by_reason.items():
        kernels = [a for a in work if a.family == "attention"] or work
        names = {kernel.name for kernel in kernels}
        ran = kernels[0].label if len(names) == 1 else plural(len(work), "kernel")
        where = f"{ran}, in {duration(total(work))}"
        yield from slow_finding(scene, work, None, text.format(where=where), remedy)


def _kernels(scene: Scene, calls: Sequence[Call]) -> list[list[Activity]]:
    """The kernels that each call launched, by the time of their launch."""
    forward = scene.facts.representative
    origin = (forward.start_us if forward else None) or 0.0
    works: list[list[Activity]] = [[] for _ in calls]
    for kernel in scene.kernels:
        at = kernel.launch_start_us
        if SDPA not in kernel.op_path or at is None:
            continue
        for call, work in zip(calls, works, strict=True):
            if call.start_us <= at - origin < call.start_us + call.duration_us:
                work.append(kernel)
    return works


def _reason(scene: Scene, call: Call, work: Sequence[Activity]) -> Reason | None:
    """Why no faster backend ran; None if a fast one did, or the inputs were not recorded."""
    tensors = operands(call) or ()
    query = tensors[0] if tensors else None
    if query is None:
        return None
    mask = tensors[3] if len(tensors) > 3 else None
    dense = mask if mask is not None and len(mask.shape) > 1 else None
    of_mask = f" with a dense mask of {' × '.join(map(str, dense.shape))}" if dense else ""
    if any(MATH in kernel.op_path for kernel in work):
        return f"Attention{of_mask} ran on SDPA's math backend, {{where}}: {_why_math(query, dense)}", MATH_REMEDY
    if not any(kernel.family == "attention" for kernel in work):
        return None
    if query.kind == "float":
        return (
            "Attention of fp32 tensors ran on {where}: FlashAttention and cuDNN take 16-bit inputs alone.",
            "Compute attention in bfloat16 or float16 (autocast does).",
        )
    if dense:
        return (
            f"Attention{of_mask} ran on {{where}}: the kernel computes all blocks, and FlashAttention takes no mask.",
            "If the mask is causal, pass is_causal=True; for other patterns use flex_attention, which skips blocks.",
        )
    fits = query.kind in SIXTEEN_BIT_TYPES and query.shape[-1] <= MOST_HEAD_DIM
    if fits and any(EFFICIENT in kernel.op_path for kernel in work) and faster_peer(scene) is None:
        return (
            f"Attention of {_inputs(query)} ran on {{where}}, EFFICIENT_ATTENTION: FLASH_ATTENTION takes such inputs "
            "too, and is faster on GPUs of 8.0 and later.",
            "Look for sdpa_kernel(EFFICIENT_ATTENTION) or enable_flash_sdp(False); sdpa_kernel(FLASH_ATTENTION) warns "
            "why it does not run.",
        )
    return None


MATH_REMEDY = (
    "Allow a fused backend (sdpa_kernel with FLASH_ATTENTION, EFFICIENT_ATTENTION or CUDNN_ATTENTION); with that one "
    "alone allowed, torch warns why it does not run."
)


def _why_math(query: Operand, mask: Operand | None) -> str:
    """The property of the inputs that excludes fused backends, in words."""
    if query.kind == "double":
        return "no fused backend takes fp64."
    if query.shape[-1] > MOST_HEAD_DIM:
        return f"a head dimension of {query.shape[-1]} is more than the {MOST_HEAD_DIM} of FLASH_ATTENTION."
    if mask is not None:
        return "FLASH_ATTENTION takes no mask; EFFICIENT_ATTENTION and CUDNN_ATTENTION do."
    return f"{_inputs(query)} do not exclude a fused backend."


def _inputs(query: Operand) -> str:
    return f"{type_name(query.kind)} inputs with a head dimension of {query.shape[-1]} and no mask"
