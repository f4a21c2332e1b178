"""Which backend of scaled_dot_product_attention ran, and what in its inputs kept a faster one from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelbook.cases import Activity, Call
from kernelbook.judge.cost_model.shapes import Operand, operands
from kernelbook.judge.findings.attention_backends import MATH
from kernelbook.judge.findings.costs import slow_finding, total
from kernelbook.judge.findings.peers import faster_peer
from kernelbook.judge.findings.rules import Finding, Scene, rule, type_name
from kernelbook.text.units import duration, plural

SDPA = "aten::scaled_dot_product_attention"
EFFICIENT = "aten::_scaled_dot_product_efficient_attention"
#: Largest head dimension of FLASH_ATTENTION (torch 2.6: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
MOST_HEAD_DIM = 256
SIXTEEN_BITS = ("c10::BFloat16", "c10::Half")

#: Reports about calls of attention: why no faster backend ran (with ``{ran}`` and ``{time}``), and the remedy.
Reason = tuple[str, str]


@rule(
    "slow-attention-backend",
    "attention on a slower backend than it could have: math, fp32, a dense mask, or EFFICIENT_ATTENTION of 16-bit "
    "inputs without a mask",
    yields=1,
)
def slow_attention_backend(scene: Scene) -> Iterator[Finding]:
    """From the inputs of scaled_dot_product_attention and the kernels that ran; equal calls together."""
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
        yield from slow_finding(scene, "slow-attention-backend", work, None, text.format(where=where), remedy)


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
    """Why no faster backend ran; None where a fast one did, or the inputs were not recorded."""
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
    fits = query.kind in SIXTEEN_BITS and query.shape[-1] <= MOST_HEAD_DIM
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
    """What in the inputs keeps fused backends from running."""
    if query.kind == "double":
        return "no fused backend takes fp64."
    if query.shape[-1] > MOST_HEAD_DIM:
        return f"a head dimension of {query.shape[-1]} is more than the {MOST_HEAD_DIM} of FLASH_ATTENTION."
    if mask is not None:
        return "FLASH_ATTENTION takes no mask; EFFICIENT_ATTENTION and CUDNN_ATTENTION do."
    return f"{_inputs(query)} do not exclude a fused backend."


def _inputs(query: Operand) -> str:
    return f"{type_name(query.kind)} inputs with a head dimension of {query.shape[-1]} and no mask"
