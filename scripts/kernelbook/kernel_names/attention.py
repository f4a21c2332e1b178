"""Fused attention: FlashAttention 2 to 4, FlashInfer, PyTorch's, cuDNN's and TensorRT-LLM's kernels, AMD's.

Sources:
* ``fmha_cutlassF_<type>_aligned_<queries>x<keys>_<rf|gmem>_sm<cc>``: PyTorch's ``generate_kernels.py``; F forward, B
  backward. From sm80 on it multiplies fp32 on tensor cores too.
* ``flash_fwd_kernel<Flash_fwd_kernel_traits<head_dim, queries, keys, warps, ..., type>>``: FlashAttention 2's
  ``kernel_traits.h``; it is built for fp16 and bf16, on tensor cores.
* ``FlashAttnFwdSm90``: FlashAttention 3, cluster shape, then tile of queries, keys and head dimension.
* ``kernel_cutlass_kernel_<module><Class>_object_at__<tensors>``: CuTe's Python kernels, FlashAttention 4 among them.
* ``cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64``: cuDNN's run-time fusion. ``f16``
  stands there for bf16 data too, so it says 16 bits and no more.
* ``fmhaSm100fKernel_Qkv<type>O<type>H<head_dim>...Q<queries>Kv<keys>`` and ``fmha_v2_flash_attention_<type>_<queries>_
  <keys>_S_...``: TensorRT-LLM.
"""

from __future__ import annotations

from kernelbook.kernel_names.model import ELEMENT_TYPES, Scheme

FUSED = "fused attention"
JOINS = "fused attention, joining partial results"
TRAITS = r"""
    Flash_(?:fwd|bwd)_kernel_traits\w*<\d+, (?P<m>\d+), (?P<n>\d+)
    (?P<backward>_bwd_)
"""
CUDNN_TYPES = ELEMENT_TYPES | {"f16": "16-bit"}

SCHEMES = (
    Scheme("memory-efficient attention", "attention", FUSED, "fmha_cutlass", r"""
        fmha_cutlass(?:F|(?P<backward>B))_(?P<type>[a-z0-9]+)_(?:not)?aligned_(?P<tile>\d+x\d+)
        (?P<simt>_f32_\w*_sm(?:50|60|70|75)|_sm50)
        (?P<tensor>_sm(?:[7-9]|1\d)\d)"""),
    Scheme("cuDNN", "attention", FUSED, "cudnn_generated_", r"""
        cudnn_generated_\w*?sdpa_(?P<architecture>sm\d+)_flash_(?:f|(?P<backward>b))prop
        (?P<tensor>prop_w?g?mma_)
        prop_(?:w?g?mma_)?(?P<type>[a-z]+\d+\w*?)(?=_|$)
        _knob_\d+_(?P<tile>\d+x\d+x\d+)
        _cga(?P<cluster>\d+x\d+x\d+)""", types=CUDNN_TYPES, generated=True),
    Scheme("flash-attention", "attention", JOINS, "FlashAttn", r"""
        FlashAttn(?:Fwd|Bwd)\w*?Combine|FlashAttnBwd(?:Pre|Post)process
        (?P<backward>AttnBwd)""", None),
    Scheme("flash-attention", "attention", FUSED, "FlashAttn", r"""
        FlashAttn(?:Fwd|(?P<backward>Bwd))Sm(?P<architecture>\d+)
        <(?:cute::)?C?<(?P<m>\d{2,})>, ?(?:cute::)?C?<(?P<n>\d+)>""", None, "yes"),
    Scheme("FlashMLA", "attention", FUSED, "sm", r"""
        \b(?P<architecture>sm\d+)::(?:\w+::)*(?:flash_fwd|sparse_attn_fwd)\w*kernel""", None, "yes"),
    Scheme("flash-attention", "attention", JOINS, "flash_", r"""
        flash_(?:fwd|bwd)_(?:\w*combine|dot_do_o|convert_dq|\w*clear)
    """ + TRAITS, None),
    Scheme("flash-attention", "attention", FUSED, "flash_", r"flash_(?:fwd|bwd)_\w*kernel" + TRAITS, None, "yes"),
    Scheme("flash-attention", "attention", FUSED, "kernel_cutlass_", r"""
        ^kernel_cutlass_\w*FlashAttention(?:Forward|Decode|(?P<backward>Backward))Sm(?P<architecture>\d+)
        tensorptr(?P<type>bf16|f16|f8\w*?)gmem""", cores="yes", generated=True),
    Scheme("TensorRT-LLM", "attention", FUSED, "fmha_v2_", r"""
        fmha_v2_\w*?(?P<type>bf16|fp16|e4m3)(?:_fp32)?\w*?_(?P<m>\d+)_(?P<n>\d+)_S_""", cores="yes"),
    Scheme("TensorRT-LLM", "attention", FUSED, "fmhaSm", r"""
        fmhaSm(?P<architecture>\d+)[a-z]?Kernel_Qk?v?(?P<type>(?:Mx)?E\dm\d|Bfloat16|Fp16|Int8)
        Q(?P<m>\d+)Kv(?P<n>\d+)""", cores="yes"),
    Scheme("FlashInfer", "attention", FUSED, "flashinfer::", r"""
        flashinfer::(?:\w+::)*(?:Batch|Single)\w*Decode\w*Kernel""", None, "no"),
    Scheme("FlashInfer", "attention", FUSED, "flashinfer::", r"""
        flashinfer::(?:\w+::)*\w*(?:Prefill|Attention|MLA)\w*Kernel""", None, "yes"),
    Scheme("Triton", "attention", FUSED, "_", r"""
        ^(?:kernel_unified_attention_[23]d|_?attn_fwd|_attn_bwd\w*|_fwd_kernel_stage\d)$"""),
    Scheme("vLLM", "attention", FUSED, "paged_attention", r"paged_attention_ll4mi_QKV_(?P<tensor>mfma)?", None),
)  # fmt: skip
