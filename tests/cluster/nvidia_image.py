"""An image made like NVIDIA's: entry point, environment, layers and whiteouts as theirs; Debian's torch is in it.

After nvcr.io/nvidia/pytorch: `docker inspect` of its configuration, and the files of its last layers.
"""

from __future__ import annotations

from pathlib import Path

from tests.cluster.oci_registry import Layer, layer_of

BANNER = "== PyTorch =="
TORCH = ("usr/lib/python3/dist-packages/torch", "usr/lib/x86_64-linux-gnu/libtorch")
UNUSED = ("usr/lib/python3/dist-packages/torch/bin/test", "usr/share", "var/cache", "var/lib/apt")
UNUSED += (".singularity.d", "singularity", ".exec", ".run", ".shell", ".test", "environment")  # Apptainer's own
ENTRY_POINT = f"""#!/bin/bash
echo
echo "============="
echo "{BANNER}"
echo "============="
cat /opt/nvidia/entrypoint.d/*.txt
exec "$@"
"""
TRAP = "raise SystemExit('a file that a later layer deletes is still there')\n"
ENVIRONMENT = {
    "PATH": "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH": "/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    "LIBRARY_PATH": "/usr/local/cuda/lib64/stubs:",
    "CUDA_VERSION": "13.0.1.012",
    "CUDA_DRIVER_VERSION": "580.82.07",
    "CUDNN_VERSION": "9.13.0.50",
    "_CUDA_COMPAT_PATH": "/usr/local/cuda/compat",
    "ENV": "/etc/shinit_v2",
    "BASH_ENV": "/etc/bash.bashrc",
    "SHELL": "/bin/bash",
    "NVIDIA_REQUIRE_CUDA": "cuda>=9.0",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,video",
    "NVIDIA_PRODUCT_NAME": "PyTorch",
    "NVIDIA_PYTORCH_VERSION": "26.09",
    "PYTORCH_VERSION": "2.13.0a0+nv26.09",
    "PYTORCH_BUILD_NUMBER": "0",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONPATH": "/opt/nvidia/python",
    "LC_ALL": "C.UTF-8",
}
SETTINGS = {
    "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
    "Entrypoint": ["/opt/nvidia/nvidia_entrypoint.sh"],
    "Cmd": ["/bin/bash"],
    "WorkingDir": "/workspace",
    "Labels": {"com.nvidia.pytorch.version": "2.13.0a0+nv26.09", "com.nvidia.volumes.needed": "nvidia_driver"},
}


def base(root: Path, folder: Path) -> list[Layer]:
    """The system, torch, and what a later layer deletes: a file, and the content of a folder."""
    deleted = {
        "usr/lib/python3/dist-packages/sitecustomize.py": TRAP,
        "opt/nvidia/python/torch/__init__.py": TRAP,
        "opt/nvidia/python/numpy/__init__.py": TRAP,
        "usr/local/cuda/compat/lib.real/libcuda.so.1": "no library\n",
    }
    return [
        layer_of(folder / "system.tar", root, keep=lambda name: not name.startswith((*TORCH, *UNUSED))),
        layer_of(
            folder / "torch.tar",
            root,
            deleted,
            keep=lambda name: f"{name}/" in PARENTS or (name.startswith(TORCH) and not name.startswith(UNUSED)),
        ),
    ]


PARENTS = {"/", "./", *(path[: place + 1] for path in TORCH for place, sign in enumerate(path) if sign == "/")}


def last(folder: Path, release: str) -> Layer:
    """NVIDIA's own files, and the whiteouts."""
    texts = {
        "opt/nvidia/nvidia_entrypoint.sh": ENTRY_POINT,
        "opt/nvidia/entrypoint.d/10-banner.txt": f"NVIDIA Release {release}\n",
        "opt/nvidia/python/.wh..wh..opq": "",
        "opt/nvidia/python/nvidia_release.py": f"release = {release!r}\n",
        "usr/lib/python3/dist-packages/.wh.sitecustomize.py": "",
        "etc/shinit_v2": f"echo '{BANNER} of a shell'\n",
        "etc/bash.bashrc": f"echo '{BANNER} of a shell'\n[ -e /etc/shinit_v2 ] && . /etc/shinit_v2\n",
        "workspace/README.md": "examples\n",
    }
    return layer_of(folder / f"nvidia-{release}.tar.gz", texts=texts)
