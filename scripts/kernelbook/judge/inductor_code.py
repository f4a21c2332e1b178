"""Which ops a kernel of torch.compile computes, and why two kernels were not fused, from Inductor's output code.

Above each kernel Inductor writes a comment (``torch/_inductor/utils.py``, ``get_kernel_metadata``):
``# Topologically Sorted Source Nodes: [gelu, mul], Original ATen: [aten.gelu, aten.mul]``, then its part of the graph.
The name of the kernel has them in alphabetical order, joined by the ``_`` that is also in names of ops.

Before the code of each graph the measurement keeps what Inductor logged about fusing (``TORCH_LOGS=fusion``):
``# cannot fuse op0_op1 with op4: <reason>``. Operation n writes buffer n, so the kernel of ``op4`` is the first one
that is called with ``buf4``.
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

GRAPH = re.compile(r"^# graph \d+ of \d+$", re.MULTILINE)
REFUSAL = re.compile(r"^# cannot fuse (?P<one>\S+) with (?P<other>\S+): (?P<reason>.+)$", re.MULTILINE)
#: A line of a graph's function `call` that writes buffers: a call of a generated kernel, or of another function.
WRITES = re.compile(
    r"^ +(?:(?P<name>(?:triton|cpp)_\w+)(?:\.run)?\((?P<arguments>.*)\)"
    r"|(?:.*\bout=)?(?P<result>buf\d+)(?: = (?:torch|extern_kernels)\b|\)).*)$",
    re.MULTILINE,
)
RENAMES = re.compile(r"^ +(buf\d+) = (buf\d+);", re.MULTILINE)
Pair = tuple[str, str]


def source_ops(facts: CaseFacts) -> dict[int, tuple[str, ...]]:
    """Position -> ops of the kernels of the representative forward that the output code of the case defines."""
    by_kernel = _read(facts.output_code) if facts.output_code else {}
    return {k.position: by_kernel[k.name] for k in facts.kernels_of() if k.name in by_kernel}


def ops_by_kernel(code: str) -> dict[str, tuple[str, ...]]:
    """Name of a kernel -> the ATen ops that it computes (``aten::gelu``), in the order of the graph.

    Graphs number their kernels alike: names that stand for different ops are left out.
    """
    ops: dict[str, set[tuple[str, ...]]] = {}
    for match in KERNEL.finditer(code):
        names = (name.strip() for name in match["ops"].split(","))
        ops.setdefault(match["name"], set()).add(tuple(name.replace(".", "::", 1) for name in names if name))
    return {name: next(iter(variants)) for name, variants in ops.items() if len(variants) == 1}


def unfused_kernels(facts: CaseFacts) -> Mapping[Pair, tuple[str, ...]]:
    """(name, name) of two generated kernels -> why Inductor did not fuse them; empty where its log was not kept."""
    return reasons_by_pair(read_code(facts.output_code)) if facts.output_code else {}


@lru_cache(maxsize=64)
def reasons_by_pair(code: str) -> Mapping[Pair, tuple[str, ...]]:
    """(name, name), in both orders -> the reasons that Inductor logged for nodes of the two kernels."""
    pairs: dict[Pair, dict[str, None]] = {}
    for graph in GRAPH.split(code):
        refusals = list(REFUSAL.finditer(graph))
        writers = _writers(graph) if refusals else {}
        for refusal in refusals:
            ones, others = ({writers.get(f"buf{number}") for number in _numbers(refusal[side])} for side in (1, 2))
            for one in ones - others - {None}:
                for other in others - ones - {None}:
                    for pair in ((one or "", other or ""), (other or "", one or "")):
                        pairs.setdefault(pair, {})[refusal["reason"]] = None
    return {pair: tuple(reasons) for pair, reasons in pairs.items()}


def _numbers(nodes: str) -> list[str]:
    """The numbers of the operations in the name of a node: ``op0_op12`` -> 0, 12."""
    return re.findall(r"(?:^|_)op(\d+)", nodes)


def _writers(graph: str) -> dict[str, str | None]:
    """Buffer -> the generated kernel that is called with it first; None for one that another function writes.

    A buffer that is renamed before any call (``buf5 = buf4; del buf4  # reuse``) lives in the kernel of the new one.
    """
    writers: dict[str, str | None] = {}
    start = graph.rfind("def call(")
    for line in WRITES.finditer(graph, start):
        for buffer in [line["result"]] if line["result"] else re.findall(r"\bbuf\d+\b", line["arguments"] or ""):
            writers.setdefault(buffer, line["name"])
    for new, old in reversed(RENAMES.findall(graph, start)):
        writers.setdefault(old, writers.get(new))
    return writers


@lru_cache(maxsize=256)
def _read(path: str) -> Mapping[str, tuple[str, ...]]:
    """The kernels of a file of output code."""
    return ops_by_kernel(read_code(path))


@lru_cache(maxsize=64)
def read_code(path: str) -> str:
    """The text of a file of output code; empty if it is missing or damaged."""
    if not Path(path).is_file():
        return ""
    try:
        with gzip.open(path) as packed:
            code = packed.read(MOST_BYTES)
    except (OSError, EOFError, zlib.error):
        return ""
    return code.decode("utf-8", "replace")
