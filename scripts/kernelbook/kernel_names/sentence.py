"""One short sentence for a decoded kernel name."""

from __future__ import annotations

from kernelbook.kernel_names.model import UNKNOWN, KernelName


def sentence_of(kernel: KernelName) -> str:
    """For example: ``cuBLAS matrix product (nvjet) in bf16 on tensor cores, tile 64x8x64, 16 stages, operands TNT.``"""
    library = "" if kernel.library == UNKNOWN else f"{kernel.library}: "
    kind = "" if kernel.element_type == UNKNOWN or kernel.what.startswith("converts") else f" in {kernel.element_type}"
    if kernel.family in ("GEMM", "attention"):
        kind += {"yes": " on tensor cores", "no": " on CUDA cores"}.get(kernel.tensor_cores, "")
    parts = [library + (kernel.what or kernel.family) + kind]
    if kernel.fused_ops and kernel.library == "Triton":
        parts.append("fusing " + ", ".join(kernel.fused_ops))
    parts += [
        words.format(value)
        for words, value in (
            ("instruction {}", kernel.instruction_shape),
            ("tile {}", kernel.tile),
            ("{} stages", kernel.stages),
            ("cluster {}", kernel.cluster),
            ("operands {}", kernel.layout.upper() if kernel.layout else None),
            ("epilogue {}", kernel.epilogue),
            ("built for {}", kernel.architecture),
        )
        if value
    ]
    return ", ".join(parts) + "."
