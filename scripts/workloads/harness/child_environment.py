"""The environment variables of the child: where modules and caches lie, and which GPU it sees."""

from __future__ import annotations

import os
from pathlib import Path

from workloads.harness import startup
from workloads.harness.files import SCRIPTS


def child_environment(cache: Path | None, compiled: bool, gpus: str | None = None) -> dict[str, str]:
    """The variables of this process with those of the child.

    cache: folder of Inductor's and Triton's caches. gpus: UUIDs of the GPUs that the child is to see, with commas; None
    leaves CUDA_VISIBLE_DEVICES as it is.
    """
    environment = {**os.environ, **startup.bytecode_variables(os.environ)}
    paths = [str(SCRIPTS)]
    packages = startup.packages_of_torch() if compiled else None
    if packages is not None and (linked := startup.without_spaces(packages)) != packages:
        paths.append(str(linked))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, environment.get("PYTHONPATH")]))
    environment["PYTHONUNBUFFERED"] = "1"
    # A case compiles a kernel or two: a pool of workers costs more than it saves, and sits beside the timing.
    environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # So does compiling torch's headers ahead, and the result (100 MB) lies outside the cache folder, in TMPDIR.
    environment.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)  # nothing can be made behind a link to nowhere
        folder = startup.without_spaces(cache.resolve()) if compiled else cache.resolve()
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        environment["TRITON_CACHE_DIR"] = str(folder / "triton")
    return environment
