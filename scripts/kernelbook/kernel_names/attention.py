"""Fused attention: FlashAttention 2 and 3, PyTorch's memory-efficient kernels, cuDNN's and TensorRT-LLM's.

Sources of the schemes:
* ``fmha_cutlassF_<type>_aligned_<queries>x<keys>_<rf|gmem>_sm<cc>``: PyTorch's generator
  ``mem_eff_attention/kernels/generate_kernels.py``; F forward, B backward.
* ``flash_fwd_kernel<Flash_fwd_kernel_traits<head_dim, block_m, block_n, warps, ..., type>>``: FlashAttention 2's
  ``kernel_traits.h``; its products are warp-level matrix instructions for every type it is built for (fp16, bf16).
* ``FlashAttnFwdSm90`` ...: FlashAttention 3, Hopper warpgroup instructions.
* ``cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1``: cuDNN's run-time
  fusion engine. ``f16`` is in the name for bf16 data too (it was in our own bf16 trace), so only "16-bit" is known.
* ``fmhaSm100fKernel_Qkv<type>O<type>H<head_dim>...``: TensorRT-LLM's generated kernels for Blackwell.
* ``fmha_v2_flash_attention_<type>_<queries>_<keys>_S_<inputs>_<head_dim>_..._sm<cc>``: TensorRT-LLM, fmha_v2.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import HALF_OR_LESS, UNKNOWN, KernelName, architecture, element

EFFICIENT = re.compile(r"fmha_cutlass(?P<way>F|B)_(?P<type>[a-z0-9]+)_(?:aligned|notaligned)_(?P<tile>\d+x\d+)")
FLASH2 = re.compile(r"flash_(?P<way>fwd|bwd)_(?P<what>\w*)")
TRAITS = re.compile(r"Flash_(?:fwd|bwd)_kernel_traits<(?P<d>\d+), (?P<m>\d+), (?P<n>\d+), (?P<w>\d+)")
FLASH3 = re.compile(r"flash::(?:\w+<flash::)?FlashAttn(?P<way>Fwd|Bwd)(?P<what>Combine|Sm(?P<cc>\d+))")
CUDNN = re.compile(
    r"cudnn_generated_(?:fort_native|oss)_sdpa_(?P<arch>sm\d+)_flash_(?P<way>fprop|bprop)(?P<mma>_[whi]?g?mma)?"
    r"_(?P<type>f16|fp8|e4m3|bf16)(?:_knob_\d+)?(?:_(?P<tile>\d+x\d+x\d+))?(?:_\d+x\d+x\d+)?(?:_cga(?P<cga>\d+x\d+x\d+))?"
)
TRT = re.compile(r"fmha_v2_flash_attention_(?P<type>[a-z0-9]+?)(?:_fp32)?_(?P<m>\d+)_(?P<n>\d+)_S_")
TRT_GEN = re.compile(
    r"fmhaSm(?P<cc>\d+)[a-z]?Kernel_Qk?v?(?P<type>[A-Z][A-Za-z0-9]*?)(?:Kv[A-Z]\w*?)?O[A-Z].*?(?:Q(?P<q>\d+)Kv(?P<kv>\d+)|$)"
)
FORWARD = {"F": True, "B": False, "fwd": True, "bwd": False, "Fwd": True, "Bwd": False, "fprop": True, "bprop": False}


def parse(text: str) -> KernelName | None:
    """The fields of an attention kernel's name, or None if it follows none of the schemes above."""
    for read in (_efficient, _cudnn, _flash3, _flash2, _tensorrt, _tensorrt_gen, _plain):
        found = read(text)
        if found:
            return found
    return None


def _what(way: str, extra: str = "") -> str:
    return f"fused attention{extra}" if FORWARD[way] else f"fused attention, backward{extra}"


def _efficient(text: str) -> KernelName | None:
    found = EFFICIENT.search(text)
    if not found:
        return None
    kind = element(found["type"])
    arch = re.search(r"_(sm\d+)", text)
    half = kind in ("fp16", "bf16") and arch is not None and arch.group(1) != "sm50"
    return KernelName(
        name="",
        library="memory-efficient attention",
        family="attention",
        element_type=kind,
        tensor_cores="yes" if half else "no" if arch and arch.group(1) == "sm50" else UNKNOWN,
        tile=found["tile"],
        architecture=arch.group(1) if arch else None,
        generated=False,
        what=_what(found["way"]),
    )


def _cudnn(text: str) -> KernelName | None:
    found = CUDNN.search(text)
    if not found:
        return None
    return KernelName(
        name="",
        library="cuDNN",
        family="attention",
        element_type="16-bit" if found["type"] == "f16" else element(found["type"]),
        tensor_cores="yes" if found["mma"] else UNKNOWN,
        tile=found["tile"],
        cluster=found["cga"],
        architecture=found["arch"],
        generated=True,
        what=_what(found["way"]),
    )


def _flash3(text: str) -> KernelName | None:
    found = FLASH3.search(text)
    if not found:
        return None
    tile = re.search(r"cute::tuple<cute::C<(\d+)>, cute::C<(\d+)>, cute::C<(\d+)> >, \d+, cutlass", text)
    kind = re.search(r"cutlass::(?:bfloat16_t|half_t|float_e4m3_t)", text)
    combine = found["what"] == "Combine"
    return KernelName(
        name="",
        library="flash-attention",
        family="attention",
        element_type=("fp8" if "e4m3" in kind.group(0) else element(kind.group(0))) if kind else UNKNOWN,
        tensor_cores=UNKNOWN if combine else "yes",
        tile="x".join(tile.groups()[:2]) if tile else None,
        architecture=f"sm{found['cc']}" if found["cc"] else None,
        generated=False,
        what=_what(found["way"], ", joining split keys" if combine else ""),
    )


def _flash2(text: str) -> KernelName | None:
    found = FLASH2.search(text)
    if not found or "flash_fwd_mla" in text:
        return None
    traits = TRAITS.search(text)
    kind = re.search(r"cutlass::(?:bfloat16_t|half_t)", text)
    joins = "combine" in found["what"] or "dot_do_o" in found["what"] or "convert" in found["what"]
    split = ", keys split" if "splitkv" in found["what"] and not joins else ", joining partial results" if joins else ""
    return KernelName(
        name="",
        library="flash-attention",
        family="attention",
        element_type=element(kind.group(0)) if kind else UNKNOWN,
        tensor_cores=UNKNOWN if joins else "yes",
        tile=f"{traits['m']}x{traits['n']}" if traits else None,
        generated=False,
        what=_what(found["way"], split),
    )


def _tensorrt(text: str) -> KernelName | None:
    found = TRT.search(text)
    if not found:
        return None
    return KernelName(
        name="",
        library="TensorRT-LLM",
        family="attention",
        element_type=element(found["type"]),
        tensor_cores="yes",
        tile=f"{found['m']}x{found['n']}",
        architecture=architecture(text.replace("_sm", " sm")),
        generated=False,
        what="fused attention",
    )


def _tensorrt_gen(text: str) -> KernelName | None:
    found = TRT_GEN.match(text)
    if not found:
        return None
    return KernelName(
        name="",
        library="TensorRT-LLM",
        family="attention",
        element_type=element(found["type"]),
        tensor_cores="yes" if element(found["type"]) in HALF_OR_LESS else UNKNOWN,
        tile=f"{found['q']}x{found['kv']}" if found["q"] else None,
        architecture=f"sm{found['cc']}",
        generated=False,
        what="fused attention",
    )


def _plain(text: str) -> KernelName | None:
    """Hand-written attention kernels (vLLM and Triton's tutorial) whose names say no more than that."""
    if not re.match(r"(?:kernel_unified_attention_[23]d|_?attn_fwd|_attn_bwd\w*|_fwd_kernel_stage\d)$", text):
        return None
    way = "Bwd" if "bwd" in text else "Fwd"
    return KernelName(name="", library="Triton", family="attention", generated=False, what=_what(way))
