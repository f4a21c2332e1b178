"""What this measurement ran on: device, versions, threads. Nothing identifies the machine: a GPU's UUID is hashed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Any

import torch

from workloads.harness import gpu
from workloads.harness.files import MachineScrubber

PACKAGES = ("numpy", "triton", "pytorch-triton", "liger-kernel", "kernels", "flash-attn", "nvidia-cudnn-cu12",
            "nvidia-nccl-cu12", "nvidia-nccl-cu13")  # fmt: skip
# Variables that torch, CUDA, cuBLAS, cuDNN, Inductor, Triton and the CPU libraries read; the same as in
# scripts/kernelbook/plan/surroundings.py, where a change of one makes a figure stale.
READ = re.compile(
    r"(AOT|ATEN|C10|CUBLAS|CUBLASLT|CUDA|CUDNN|DISABLE_ADDMM|DNNL|FI|FLASH|GLOO|GOMP|HIP|HIPBLASLT|HSA|INDUCTOR|KMP"
    r"|LIGER|MALLOC|MIOPEN|MKL|MKLDNN|NCCL|NVIDIA|NVRTC|NVSHMEM|OMP|ONEDNN|OPENBLAS|PYTORCH|RCCL|ROCBLAS|TORCH"
    r"|TORCHDYNAMO|TORCHINDUCTOR|TRITON|UCX)_\w+|LD_LIBRARY_PATH|LD_PRELOAD|TMPDIR"
)
SECRET = re.compile(r"TOKEN|SECRET|KEY|PASS|CREDENTIAL|AUTH")
PRIVATE_PATH = re.compile(r"(?<![\w>/.])/(?!(usr|opt|lib|lib64|bin|etc|\.singularity\.d)/)[^\s:,;]+")
LONGEST_VALUE = 500


def choose_device(asked: str) -> torch.device:
    """The device for `auto`, `cuda` or `cpu`. `auto` takes a GPU if torch can use one.

    Raises RuntimeError with torch's message if a GPU was asked for, or is there with a CUDA build of torch, and cannot
    be used.
    """
    if asked == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    built_for_gpu = bool(torch.version.cuda or torch.version.hip)
    if asked == "auto" and not (built_for_gpu and gpu.visible_gpu()):
        return torch.device("cpu")
    if not built_for_gpu:
        raise RuntimeError("this torch is built without CUDA")
    torch.cuda.init()  # says why in torch's own words
    raise RuntimeError("No CUDA GPUs are available")


def describe_device(device: torch.device) -> dict[str, Any]:
    """Type, name and size of the device."""
    if device.type == "cpu":
        return {"type": "cpu", "name": _cpu_name(), "capability": None, "index": 0, "total_memory_bytes": None,
                "multi_processors": os.cpu_count()}  # fmt: skip
    properties = torch.cuda.get_device_properties(device)
    return {
        "type": "cuda",
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "index": device.index,
        "total_memory_bytes": properties.total_memory,
        "multi_processors": properties.multi_processor_count,
        "l2_bytes": getattr(properties, "L2_cache_size", None),
    }


def describe_environment(device: torch.device | None) -> dict[str, Any]:
    """Versions of everything that a time depends on."""
    on_gpu = device is not None and device.type == "cuda"
    cudnn = torch.backends.cudnn.version() if on_gpu else None
    libc = "".join(platform.libc_ver())
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "cuda": torch.version.cuda or torch.version.hip,
        "cudnn": str(cudnn) if cudnn else None,
        "driver": gpu.driver_version() if on_gpu or device is None else None,
        "gpu_id": _gpu_id(device) if device is not None and on_gpu else None,
        "triton": _version("triton") or _version("pytorch-triton"),
        "platform": " ".join(filter(None, [platform.system(), platform.machine(), libc])),
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "container": gpu.container(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "variables": _variables(),
    }


def _variables() -> dict[str, str]:
    """Environment variables that can change a figure or name a cache.

    Secrets are left out, folders of users become `<path>`, and the UUID of a GPU becomes its `gpu_id`.
    """
    scrub = MachineScrubber()
    return {
        name: PRIVATE_PATH.sub("<path>", gpu.without_uuids(scrub(value)))[:LONGEST_VALUE]
        for name, value in sorted(os.environ.items())
        if READ.fullmatch(name) and not SECRET.search(name)
    }


def _gpu_id(device: torch.device) -> str | None:
    """The id of the GPU that torch computes on, by its UUID from torch, or from nvidia-smi if torch has none."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return gpu.gpu_id(str(uuid or "")) or gpu.gpu_id(gpu.visible_gpu())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        model = None
    return model[1].strip() if model else platform.machine()
