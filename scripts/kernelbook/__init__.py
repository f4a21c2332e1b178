"""Reads from torch.profiler traces what ran on the GPU, and checks guesses about it.

For programs: `read`, `diff`, `expect` and the exceptions below (docs/reference/python.md), each imported at first use.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from kernelbook.api.expectation import BrokenGuess, NotJudged, expect
    from kernelbook.api.trace import Forward, Trace, read
    from kernelbook.diffs.model import Diff, diff
    from kernelbook.trace.types import TraceError

__all__ = ["BrokenGuess", "Diff", "Forward", "NotJudged", "Trace", "TraceError", "diff", "expect", "read"]

_MODULES = {
    "BrokenGuess": "kernelbook.api.expectation",
    "Diff": "kernelbook.diffs.model",
    "Forward": "kernelbook.api.trace",
    "NotJudged": "kernelbook.api.expectation",
    "Trace": "kernelbook.api.trace",
    "TraceError": "kernelbook.trace.types",
    "diff": "kernelbook.diffs.model",
    "expect": "kernelbook.api.expectation",
    "read": "kernelbook.api.trace",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
