"""How a child starts: a cheaper import of torch, paths without spaces, environment variables."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from workloads.harness.files import SCRIPTS


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Import with the garbage collector off, and let it skip what was imported from then on.

    Imports leave hardly any garbage, but the collector scans all modules again and again: a quarter of the time of
    `import torch`, and 0.3 s for each full collection once torch.compile is loaded.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def bytecode_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that make Python keep the bytecode of torch, if it would not do so otherwise.

    Some images come without bytecode and are read-only, or forbid Python to write it (PYTHONDONTWRITEBYTECODE): then
    each process compiles up to 2,500 files, two thirds of the time of its imports. The bytecode goes to a folder of
    this user in the temporary folder, one for each set of installed packages. {} if this is not needed, or if such a
    folder cannot be made.
    """
    packages = packages_of_torch()
    if packages is None or "PYTHONPYCACHEPREFIX" in environ:
        return {}
    torch = packages / "torch"
    beside = Path(importlib.util.cache_from_source(str(torch / "__init__.py")))
    if beside.is_file() or (os.access(torch, os.W_OK) and not environ.get("PYTHONDONTWRITEBYTECODE")):
        return {}
    folder = Path(tempfile.gettempdir()) / f"kernelbook-{os.getuid()}-bytecode-{_packages_digest(packages)}"
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""} if _is_private(folder) else {}


def _packages_digest(packages: Path) -> str:
    """A digest that changes with Python and with the version of any package beside torch.

    Python itself checks only the size and time of each file, which two builds of an image may share.
    """
    digest = hashlib.sha256(sys.version.encode())
    with contextlib.suppress(OSError):
        digest.update("\n".join(sorted(os.listdir(packages))).encode("utf-8", "surrogateescape"))
        digest.update((packages / "torch" / "version.py").read_bytes())
    return digest.hexdigest()[:12]


def _is_private(folder: Path) -> bool:
    """Make the folder; whether only this user can write to it, since Python runs the code in it."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


# --- paths with spaces -----------------------------------------------------------------------------------------------


def without_spaces(path: Path) -> Path:
    """The path itself, or, if it contains white space, a link to it that does not.

    The name of the link follows from the path, so that caches under it are found again. It is not removed, since
    another process may use it. The path itself if no link can be made.
    """
    if not any(letter.isspace() for letter in str(path)):
        return path
    name = f"kernelbook-{os.getuid()}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        link = Path(folder) / name
        if not any(letter.isspace() for letter in folder) and _linked(link, path):
            return link
    return path


def _linked(link: Path, path: Path) -> bool:
    try:
        if not link.is_symlink():
            link.symlink_to(path, target_is_directory=True)
        return os.readlink(link) == str(path)
    except OSError:
        return False


def packages_of_torch() -> Path | None:
    """The folder that torch is imported from, found without importing it; None if there is none."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parents[1] if spec and spec.origin else None


# --- the environment of a child --------------------------------------------------------------------------------------


def child_environment(cache: Path | None, compiled: bool, gpus: str | None = None) -> dict[str, str]:
    """The variables of this process with those of the child.

    cache: folder of Inductor's and Triton's caches. gpus: UUIDs of the GPUs that the child is to see, with commas; None
    leaves CUDA_VISIBLE_DEVICES as it is.
    """
    environment = {**os.environ, **bytecode_variables(os.environ)}
    paths = [str(SCRIPTS)]
    packages = packages_of_torch() if compiled else None
    if packages is not None and (linked := without_spaces(packages)) != packages:
        paths.append(str(linked))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, environment.get("PYTHONPATH")]))
    environment["PYTHONUNBUFFERED"] = "1"
    # A case compiles a kernel or two: a pool of workers costs more than it saves, and disturbs the timing.
    environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # Precompiling torch's headers costs more than it saves too, and puts 100 MB into TMPDIR.
    environment.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)  # a link needs a target
        folder = without_spaces(cache.resolve()) if compiled else cache.resolve()
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        environment["TRITON_CACHE_DIR"] = str(folder / "triton")
    return environment
