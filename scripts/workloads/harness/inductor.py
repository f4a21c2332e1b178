"""What is known of Inductor's work: whether it compiled, why it did not fuse nodes, and the code it generated."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workloads.harness.files import write_gzip


def before_compiling() -> str:
    """`cold` if torch.compile's cache folder is empty; else `unknown`, since it may hold kernels of other cases."""
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

    The result of `before_compiling` if there are no such counters: in an older torch, or with another backend.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {}).get("inductor", {})
    hits, misses = counters.get("fxgraph_cache_hit", 0), counters.get("fxgraph_cache_miss", 0)
    if hits + misses == 0:
        return before
    return "cold" if misses else "shared"


# --- why nodes were not fused ----------------------------------------------------------------------------------------
# Inductor's log `fusion` (TORCH_LOGS=fusion) is read while it compiles. Its logger neither prints nor propagates unless
# TORCH_LOGS asks for it, so this changes no output. Graphs from Inductor's cache are not scheduled again and log
# nothing.


LOGGER = "torch._inductor.scheduler.__fusion"
#: Inductor's class of these messages, and the start of the message before each graph, in torch 2.2 to 2.13.
REFUSAL, NEXT_GRAPH = "WhyNoFuse", "===== attempting fusion (1/"
#: A reason that is not kept: fusing such nodes would save no traffic.
UNRELATED = "no shared data"
MOST_REASONS, LONGEST = 200, 300


class _FusionListener(logging.Handler):
    """Keeps the distinct reasons of each graph: one list for each graph, in the order of compiling."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.graphs: list[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if type(record.msg).__name__ == REFUSAL:
            self._keep(record.getMessage())
        elif isinstance(record.msg, str) and record.getMessage().startswith(NEXT_GRAPH):
            self.graphs.append([])

    def _keep(self, message: str) -> None:
        reason = " ".join(message.split())[:LONGEST]
        if not self.graphs:
            self.graphs.append([])
        kept = self.graphs[-1]
        if len(kept) < MOST_REASONS and not reason.endswith(UNRELATED) and reason not in kept:
            kept.append(reason)


@contextlib.contextmanager
def listening() -> Iterator[list[list[str]]]:
    """Collect, for each graph that Inductor schedules in this context, why it did not fuse nodes."""
    listener, logger = _FusionListener(), logging.getLogger(LOGGER)
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        yield listener.graphs
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)


# --- the code that it generated --------------------------------------------------------------------------------------
# Inductor writes above each Triton kernel which nodes of its graph the kernel computes, so the text holds the graph
# too. The reasons why nodes of a graph were not fused precede its code.


MOST_CHARACTERS = 200_000  # of all graphs together
CACHE_OF_USER = re.compile(r"torchinductor_[\w.-]+")  # the name ends in that of the user


def keep_output_code(target: Path, scrub: Callable[[str], str], unfused: Sequence[Sequence[str]] = ()) -> str | None:
    """Write the code of all compiled graphs to a .py.gz file. Returns its name, or None if Inductor compiled nothing.

    unfused: for each graph why nodes were not fused; ignored if its length is not the number of graphs.
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
    """The modules that Inductor generated or loaded from its cache, one for each graph, in order of loading.

    `PyCodeCache` keeps loaded modules: the list `modules` from torch 2.6 on, the dict `cache` before. Both are private;
    a torch without them has no output code here. Modules of single kernels have no function `call`.
    """
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    loaded: Any = getattr(cache, "modules", None) or getattr(cache, "cache", None) or []
    modules = list(loaded.values()) if isinstance(loaded, dict) else list(loaded)
    return list(dict.fromkeys(Path(module.__file__) for module in modules if hasattr(module, "call")))
