"""What unfused attention pays for: fp32 products and casts, a mask made anew, the guard of safe softmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelbook.findings.copies import converts
from kernelbook.findings.registry import (
    DEVICE,
    Finding,
    Scene,
    described,
    device_finding,
    part,
    positions,
    rule,
    severity,
    total,
)
from kernelbook.units import duration, plural

MASK_OPS = {"aten::ones", "aten::full", "aten::tril", "aten::triu", "aten::scalar_tensor", "aten::where"}
SAFE = "aten::_safe_softmax"
MATH = "aten::_scaled_dot_product_attention_math"


@rule("fp32-gemm", "half-precision inputs, yet GEMM kernels that compute in fp32 on CUDA cores")
def fp32_gemm(scene: Scene) -> Iterator[Finding]:
    """The casts that feed them are counted with them."""
    if scene.facts.dtype not in ("bfloat16", "float16"):
        return
    gemms = [
        k
        for k in scene.kernels
        if k.family == "GEMM" and k.decoded.element_type == "fp32" and k.decoded.tensor_cores == "no"
    ]
    if not gemms:
        return
    casts = [k for k in scene.kernels if converts(k)]
    text = (
        f"Inputs are {scene.facts.dtype}, but {plural(len(gemms), 'GEMM kernel')} "
        f"ran in fp32 on CUDA cores, {duration(total(gemms))} a forward"
        + (f", and {plural(len(casts), 'cast')} around them {_take(casts)} {duration(total(casts))}." if casts else ".")
    )
    remedy = "Use an implementation that multiplies in half precision on tensor cores."
    if any(MATH in k.ops for k in gemms):
        remedy = (
            "Let a fused backend take it (sdpa_kernel with FLASH_ATTENTION, EFFICIENT_ATTENTION or CUDNN_ATTENTION); "
            "or keep math in half precision with torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)."
        )
    time_us = total([*gemms, *casts])
    share = part(time_us, scene.device_time_us)
    both = [*gemms, *casts]
    weight = severity(share)
    yield Finding("fp32-gemm", weight, time_us, share, described(both), remedy, text, positions(both), DEVICE)


def _take(several: Sequence[object]) -> str:
    return "takes" if len(several) == 1 else "take"


@rule("mask-rebuilt", "a triangular mask is made from scratch inside the forward")
def mask_rebuilt(scene: Scene) -> Iterator[Finding]:
    """The kernels that build it; adding it to the scores is told apart."""
    if not any(call.name in ("aten::tril", "aten::triu") for call in scene.facts.ops):
        return
    builds = [
        k
        for k in scene.kernels
        if k.family in ("fill/mask", "copy/cast", "elementwise") and set(k.ops) & MASK_OPS and SAFE not in k.ops
    ]
    named = list(dict.fromkeys(op for k in builds for op in k.ops if op in MASK_OPS))
    adds = [k for k in scene.kernels if k.ops and k.ops[-1] == "aten::add_" and MATH in k.ops]
    also = f" Adding it to the scores takes another {duration(total(adds))}." if adds else ""
    text = (
        f"The causal mask is rebuilt at each call, {plural(len(builds), 'kernel')}: "
        f"{', '.join(n.removeprefix('aten::') for n in named)}.{also}"
    )
    remedy = "Build the mask once outside the forward, or use a fused backend, which needs no mask for is_causal=True."
    yield from device_finding(scene, "mask-rebuilt", builds, text, remedy)


@rule("safe-softmax", "safe softmax (aten::_safe_softmax) runs kernels besides softmax itself")
def safe_softmax(scene: Scene) -> Iterator[Finding]:
    """The guard for rows that are masked whole."""
    extra = [k for k in scene.kernels if SAFE in k.ops and k.family != "softmax"]
    text = (
        f"Safe softmax runs {plural(len(extra), 'kernel')} beside softmax, to give zeros where a row is masked whole: "
        f"{duration(total(extra))}."
    )
    remedy = "A causal mask masks no row whole: plain softmax gives the same there; fused backends have no such pass."
    yield from device_finding(scene, "safe-softmax", extra, text, remedy)
