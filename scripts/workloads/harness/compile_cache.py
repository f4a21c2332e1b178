"""Whether torch.compile had to compile, or took a kernel that an earlier process left in the cache folder."""

from __future__ import annotations

import getpass
import os
import sys
import tempfile


def before_compiling() -> str:
    """`cold` if torch.compile's cache folder is empty; else `unknown`: what it holds may be other cases' kernels."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if folder is None:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = str(os.getuid())
        folder = os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")
    return "unknown" if os.path.isdir(folder) and any(os.scandir(folder)) else "cold"


def after_compiling(before: str) -> str:
    """`shared` if every graph so far came from the cache, `cold` if one was compiled, by Inductor's own counters.

    A torch without these counters, and a backend that is not Inductor, leave what `before_compiling` said.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {}).get("inductor", {})
    hits, misses = counters.get("fxgraph_cache_hit", 0), counters.get("fxgraph_cache_miss", 0)
    if hits + misses == 0:
        return before
    return "cold" if misses else "shared"
