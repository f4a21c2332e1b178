"""The environment that figures depend on: torch's build, GPU, driver and environment variables.

Also the number of measurements at once: one for each GPU if there are enough cores.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kernelbook.containers.launching import THREAD_LIMITS, reaching

#: Most cores that a measurement on a GPU keeps busy: the forward, its backward, the driver and the profiler.
CORES_EACH = 4
# Variables that torch, CUDA, cuBLAS, cuDNN, Inductor, Triton and the CPU libraries read. The measuring side records the
# same ones (scripts/workloads/harness/environment.py); a test holds the two lists equal.
READ = re.compile(
    r"(AOT|ATEN|C10|CUBLAS|CUBLASLT|CUDA|CUDNN|DISABLE_ADDMM|DNNL|FI|FLASH|GLOO|GOMP|HIP|HIPBLASLT|HSA|INDUCTOR|KMP"
    r"|LIGER|MALLOC|MIOPEN|MKL|MKLDNN|NCCL|NVIDIA|NVRTC|NVSHMEM|OMP|ONEDNN|OPENBLAS|PYTORCH|RCCL|ROCBLAS|TORCH"
    r"|TORCHDYNAMO|TORCHINDUCTOR|TRITON|UCX)_\w+|LD_LIBRARY_PATH|LD_PRELOAD|TMPDIR"
)
# Those of `READ` that cannot change a figure: caches and folders, versions of an image, which of several GPUs is used.
HARMLESS = re.compile(
    r"\w+_(DIR|DIRS|HOME|ROOT|CACHE|CACHE_PATH)|TMPDIR|CUDA_PATH\w*|(CUDA|NVIDIA|HIP)_VISIBLE_DEVICES"
    r"|CUDA_VERSION|NVIDIA_\w*(VERSION|CAPABILITIES|BUILD\w*|PRODUCT\w*)"
)
SECRET = re.compile(r"TOKEN|SECRET|KEY|PASS|CREDENTIAL|AUTH")
# Folders of the metadata of installed packages whose version can change a figure.
PACKAGES = re.compile(
    r"(torch|triton|pytorch_triton|liger_kernel|kernels|flash_attn|numpy|nvidia_\w+)-[^-]+\.(dist|egg)-info"
)
NVIDIA = Path("/proc/driver/nvidia")
SMI_LIMIT_S = 20


def variables(environ: Mapping[str, str], container: bool) -> str:
    """The environment variables that reach a measurement and can change its figures, as `NAME=value ...`."""
    values = {
        name: value
        for name, value in reaching(environ, container).items()
        if READ.fullmatch(name)
        and not HARMLESS.fullmatch(name)
        and not SECRET.search(name)
        and name not in THREAD_LIMITS  # they are set as `threads` says, see containers.thread_limits
    }
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))


def host_build() -> str:
    """Versions of Python, torch and its libraries in the environment of Snakemake; torch is not imported."""
    names: set[str] = set()
    for folder in dict.fromkeys(path for path in sys.path if os.path.isdir(path)):
        names.update(name for name in os.listdir(folder) if PACKAGES.fullmatch(name))
    spec = importlib.util.find_spec("torch")
    version = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    digest = hashlib.sha256(version.read_bytes()).hexdigest()[:8] if version and version.is_file() else "none"
    packages = sorted(re.sub(r"\.(dist|egg)-info$", "", name) for name in names)
    return f"Python {platform.python_version()}, {', '.join(packages)}, version.py {digest}"


def driver_loaded() -> bool:
    """Whether this machine has NVIDIA's driver at all."""
    return NVIDIA.exists() or shutil.which("nvidia-smi") is not None


@cache
def gpu(visible: str | None) -> str | None:
    """Model and driver of the GPU that would be used, such as `NVIDIA H200, driver 580.159.04`; None without one.

    visible: CUDA_VISIBLE_DEVICES. If it has no number, all models of the machine are named.
    """
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        return None
    models, driver = models_and_driver()
    if not models:
        return None
    first = (visible or "").split(",")[0].strip()
    if first.isdigit() and int(first) < len(models):
        models = [models[int(first)]]
    return f"{', '.join(sorted(set(models)))}, driver {driver}"


def measurements_at_once(cores: int | None, device: str, visible: str | None) -> int:
    """The number of GPUs of the first visible one's model, limited to one for every 4 cores; at least 1.

    cores: those of ``--cores``, None if jobs are submitted to a cluster. device: as configured. visible:
    CUDA_VISIBLE_DEVICES. On a CPU measurements run one after the other.
    """
    if device == "cpu" or cores is None:
        return 1
    return max(1, min(_gpus_alike(visible), cores // CORES_EACH))


def _gpus_alike(visible: str | None) -> int:
    """Number of visible GPUs of the first one's model. One given by UUID counts as being of that model."""
    models, _ = models_and_driver()
    if visible is None:
        return models.count(models[0]) if models else 0
    words = [word.strip() for word in visible.split(",")]
    chosen = [models[int(word)] if word.isdigit() and int(word) < len(models) else word for word in words]
    first = chosen[0] if chosen[0] in models else None
    return sum(model == first or word.startswith("GPU-") for word, model in zip(words, chosen, strict=True))


def models_and_driver() -> tuple[list[str], str | None]:
    """The model of each GPU, in the order of their numbers, and the driver's version; nothing without a GPU."""
    models = [model for file in sorted(NVIDIA.glob("gpus/*/information")) if (model := _value(file, r"Model:\s*(.+)"))]
    driver = _value(NVIDIA / "version", r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s")
    return (models, driver) if models and driver else _by_smi()


def _value(file: Path, pattern: str) -> str | None:
    try:
        match = re.search(pattern, file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return match[1].strip() if match else None


def _by_smi() -> tuple[list[str], str | None]:
    """Models and driver from nvidia-smi; ([], None) if it is missing, fails or hangs."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SMI_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [], None
    lines = done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []
    rows = [line.rpartition(",") for line in lines if "," in line]
    return [model.strip() for model, _, _ in rows], rows[0][2].strip() if rows else None
