"""Names that are known by library and purpose only: NCCL, CUB, cuDNN's convolutions, vLLM, FBGEMM, AMD's libraries.

Source of NCCL's scheme: its ``generate.py``: ``ncclDevKernel_<Function>_<RedOp>_<type>_<Algorithm>_<Protocol>``.
"""

from __future__ import annotations

import re

from kernelbook.kernel_names.model import UNKNOWN, KernelName, architecture, element

NCCL = re.compile(
    r"nccl(?:Dev)?Kernel_(?P<function>[A-Za-z]+)(?:_(?P<a>[A-Za-z0-9_]+?))?(?=\(|$)",
)
CONVOLUTION = re.compile(
    r"scudnn|h?gemm_conv|convolve|_conv[123]?d|(?:f|d|w)grad|fprop|winograd|im2col|igemm_(?:fwd|bwd|wrw)|cask_cudnn"
)
#: (pattern, library, family, what)
TABLE: tuple[tuple[str, str, str, str], ...] = (
    (r"splitKreduce_kernel", "cuBLAS", "reduction", "adds up the parts of a split-K product"),
    (r"cublasLt::\w*[eE]pilogue", "cuBLAS", "elementwise", "epilogue"),
    (r"(?:nchwToNhwc|nhwcToNchw|nchwAddPadding)Kernel", "cuDNN", "copy/cast", "changes the layout of an image tensor"),
    (r"cudnn::bn_|cudnn::ops::\w*norm|bn_(?:fw|bw)_", "cuDNN", "reduction", "batch norm"),
    (r"cudnn::ops::scale", "cuDNN", "elementwise", "scales"),
    (r"cub::Device(?:Segmented)?Reduce(?!ByKey)", "CUB", "reduction", "reduces"),
    (r"cub::(?:\w+::)*Device\w+", "CUB", "other", "sort, scan or compaction"),
    (r"at_cuda_detail::cub::Device(?:Segmented)?Reduce", "CUB", "reduction", "reduces"),
    (r"vllm::rotary_embedding_kernel", "vLLM", "elementwise", "rotary embedding"),
    (r"vllm::(?:fused_add_)?rms_norm_kernel", "vLLM", "reduction", "RMS norm"),
    (r"vllm::act_and_mul_kernel", "vLLM", "elementwise", "activation of gate, times up"),
    (r"vllm::\w+", "vLLM", "other", "vLLM kernel"),
    (r"fbgemm_gpu::|split_embedding|permute_pooled_embs|bounds_check_indices|linearize_index",
     "FBGEMM", "other", "embedding tables"),
    (r"ck_tile.*[Rr]msnorm", "Composable Kernel", "reduction", "RMS norm"),
    (r"ck_tile", "Composable Kernel", UNKNOWN, "AMD kernel"),
    (r"^batched_transpose_", "MIOpen", "copy/cast", "transposes"),
    (r"^SubTensorOpWith(?:Cast|Scalar)", "MIOpen", "elementwise", "tensor op"),
)  # fmt: skip


def parse(text: str) -> KernelName | None:
    """The fields of a name of one of these libraries, or None."""
    found = NCCL.search(text)
    if found:
        return _nccl(found)
    for pattern, library, family, what in TABLE:
        if re.search(pattern, text):
            return KernelName(name="", library=library, family=family, generated=False, what=what)
    if CONVOLUTION.search(text):
        return _convolution(text)
    return None


def _nccl(found: re.Match[str]) -> KernelName:
    rest = [part for part in (found["a"] or "").split("_") if part]
    kinds = [element(part.replace("int8", "i8").replace("int32", "i32")) for part in rest]
    words = " ".join(
        part for part in rest if part in {"RING", "TREE", "NVLS", "COLLNET", "PAT", "LL", "LL128", "SIMPLE"}
    )
    return KernelName(
        name="",
        library="NCCL",
        family="communication",
        element_type=next((k for k in kinds if k != UNKNOWN), UNKNOWN),
        generated=False,
        what=f"{found['function']} {words}".strip(),
    )


def _convolution(text: str) -> KernelName:
    tensor = re.search(r"_tensor(\d+x\d+x\d+)", text)
    named = re.search(r"_s(1688|16816|884)(?:fprop|dgrad|wgrad)", text)
    tile = re.search(r"tilesize(\d+x\d+x\d+)", text)
    math = re.search(r"xmma_\w+?_(?:implicit_gemm_(?:indexed_)?)[a-z]+\d+?f32_([a-z]+\d+?)f32_", text)
    amd = text.startswith("igemm_")
    simt = re.search(r"_ffma|scudnn|convolve_sgemm", text)
    return KernelName(
        name="",
        library="MIOpen" if amd else "cuDNN",
        family="other",
        element_type=element(math.group(1)) if math else ("bf16" if amd and "_bf16_" in text else UNKNOWN),
        tensor_cores="yes" if tensor or named else "no" if simt else UNKNOWN,
        tile=tile.group(1) if tile else None,
        instruction_shape=tensor.group(1) if tensor else None,
        architecture=architecture(text),
        generated=False,
        what="convolution",
    )
