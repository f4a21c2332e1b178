"""The code that Inductor generated for a compiled forward, kept as text beside the trace.

Inductor writes above each Triton kernel which nodes of its graph the kernel computes, so the text holds the graph too.
Before the code of a graph stands why nodes of it were not fused (see `fusion_log`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workloads.harness.files import write_gzip

MOST_CHARACTERS = 200_000  # of all graphs together
CACHE_OF_USER = re.compile(r"torchinductor_[\w.-]+")  # its name ends in that of the user


def keep(target: Path, scrub: Callable[[str], str], unfused: Sequence[Sequence[str]] = ()) -> str | None:
    """Write the code of all compiled graphs to a .py.gz file; its name, None if Inductor compiled nothing.

    unfused: for each graph why nodes were not fused; left out where they are not as many as the graphs.
    """
    sources = [file.read_text(encoding="utf-8", errors="replace") for file in _files() if file.is_file()]
    if not sources:
        return None
    if len(unfused) == len(sources):
        logs = ["".join(f"# {reason}\n" for reason in reasons) for reasons in unfused]
        sources = [logs[place] + source for place, source in enumerate(sources)]
    text = "\n".join(f"# graph {place} of {len(sources)}\n{each}" for place, each in enumerate(sources, 1))
    write_gzip(target, _bounded(CACHE_OF_USER.sub("torchinductor_<user>", scrub(text))))
    return target.name


def _bounded(text: str) -> str:
    """The text up to the last whole line within MOST_CHARACTERS, and a line that says what was cut off."""
    if len(text) <= MOST_CHARACTERS:
        return text
    kept = text[:MOST_CHARACTERS].rpartition("\n")[0]
    return f"{kept}\n# cut off here: the code has {len(text)} characters\n"


def _files() -> list[Path]:
    """The modules that Inductor generated in this process or took from its cache, one a graph, in order of loading.

    `PyCodeCache` keeps loaded modules: the list `modules` from torch 2.6 on, the dict `cache` before. Both are private;
    a torch without them has no output code here. Modules of single kernels have no function `call`.
    """
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    loaded: Any = getattr(cache, "modules", None) or getattr(cache, "cache", None) or []
    modules = list(loaded.values()) if isinstance(loaded, dict) else list(loaded)
    return list(dict.fromkeys(Path(module.__file__) for module in modules if hasattr(module, "call")))
