"""Which ops a kernel of torch.compile computes, from the code that Inductor generated.

Above each kernel Inductor writes a comment (``torch/_inductor/utils.py``, ``get_kernel_metadata``):
``# Topologically Sorted Source Nodes: [gelu, mul], Original ATen: [aten.gelu, aten.mul]``, then its part of the graph.
The name of the kernel has them in alphabetical order, joined by the ``_`` that is also in names of ops.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from kernelbook.cases import CaseFacts

MOST_BYTES = 1 << 20
KERNEL = re.compile(
    r"^# (?:[\w ]+ )?Source Nodes: \[[^\]\n]*\], Original ATen: \[(?P<ops>[^\]\n]*)\]\n"
    r"(?:#.*\n)*"
    r"(?P<name>\w+) = async_compile\.\w+\(",
    re.MULTILINE,
)


def source_ops(facts: CaseFacts) -> dict[int, tuple[str, ...]]:
    """Position -> ops of the kernels of the representative forward that the output code of the case defines."""
    by_kernel = _read(facts.output_code) if facts.output_code else {}
    return {a.position: by_kernel[a.name] for a in facts.activities if a.category == "kernel" and a.name in by_kernel}


def ops_by_kernel(code: str) -> dict[str, tuple[str, ...]]:
    """Name of a kernel -> the ATen ops that it computes (``aten::gelu``), in the order of the graph.

    Graphs number their kernels alike: names that stand for different ops are left out.
    """
    ops: dict[str, set[tuple[str, ...]]] = {}
    for match in KERNEL.finditer(code):
        names = (name.strip() for name in match["ops"].split(","))
        ops.setdefault(match["name"], set()).add(tuple(name.replace(".", "::", 1) for name in names if name))
    return {name: next(iter(variants)) for name, variants in ops.items() if len(variants) == 1}


@lru_cache(maxsize=256)
def _read(path: str) -> Mapping[str, tuple[str, ...]]:
    """The kernels of a file of output code; none if it is missing or damaged."""
    if not Path(path).is_file():
        return {}
    try:
        with gzip.open(path) as packed:
            code = packed.read(MOST_BYTES)
    except (OSError, EOFError, zlib.error):
        return {}
    return ops_by_kernel(code.decode("utf-8", "replace"))
