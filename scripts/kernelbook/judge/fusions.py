"""Assigns removed activities to the fused kernels that replaced them.

Inductor writes the ops that a kernel computes into its name (``torch/_inductor/codegen/triton.py``), and a trace
records the ops under which an activity was launched. An activity is assigned to a new kernel that names its op and
whose tensors are at least as large. The data flow is unknown: if two kernels name the op and the assignment is
ambiguous, both form one group.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.cost_model.traffic import Sizes
from kernelbook.kernel_names.model import MULTIPLY
from kernelbook.kernel_names.triton import VIEW_OPS

#: Names of an ATen copy kernel in a compiled graph, used if the trace has no op path.
COPIES = ("copy", "to_copy", "clone")
Group = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Placed:
    """An activity that only one side has. ``interval``: number of matched pairs before it. ``sizes``: its tensors."""

    activity: Activity
    interval: int
    sizes: Sizes | None = None


def fusions(removed: Sequence[Placed], added: Sequence[Placed]) -> list[Group]:
    """Groups of (places in removed, places in added), in the order of the first place in added."""
    joined = list(range(len(added)))
    links: dict[int, int] = {}
    for gone, makers in _by_word(removed, added):
        if not _in_order(gone, makers, removed, added, links):
            _by_interval(gone, makers, removed, added, links, joined)
    _lone(removed, added, links)
    groups: dict[int, tuple[list[int], set[int]]] = defaultdict(lambda: ([], set()))
    for place in sorted(links):
        mine, theirs = groups[joined[links[place]]]
        mine.append(place)
        theirs.update(j for j, of in enumerate(joined) if of == joined[links[place]])
    return [(tuple(mine), tuple(sorted(theirs))) for _, (mine, theirs) in sorted(groups.items())]


def base_op(name: str) -> str:
    """The op without namespace and without leading and trailing underscores: ``aten::add_`` -> add."""
    return name.rpartition("::")[2].strip("_")


def own_words(activity: Activity) -> tuple[str, ...]:
    """Ops under which the activity was launched, innermost first, then the ops in its name."""
    path = [base_op(op) for op in reversed(activity.op_path) if "::" in op]
    name_ops = [base_op(op) for op in activity.decoded.fused_ops]
    if not path and name_ops == ["copy"]:
        name_ops = list(COPIES)
    return tuple(dict.fromkeys([*path, *name_ops]))


def named_ops(activity: Activity) -> frozenset[str]:
    """The ops in the name of a Triton kernel, without views; empty for other kernels."""
    if activity.decoded.library != "Triton":
        return frozenset()
    return frozenset(base_op(op) for op in activity.decoded.fused_ops if op not in VIEW_OPS)


# --- by the ops in a name ---------------------------------------------------------------------------------------


def _by_word(removed: Sequence[Placed], added: Sequence[Placed]) -> Iterable[tuple[list[int], list[int]]]:
    """For each op: the removed activities launched under it, and the new kernels that name it."""
    naming: dict[str, list[int]] = defaultdict(list)
    for j, maker in enumerate(added):
        for word in named_ops(maker.activity):
            naming[word].append(j)
    groups: dict[str, list[int]] = defaultdict(list)
    for i, gone in enumerate(removed):
        words = own_words(gone.activity) if gone.activity.category != "memset" else ()
        match = next((w for w in words if any(_fits(gone, added[j]) for j in naming.get(w, ()))), None)
        if match:
            groups[match].append(i)
    for word, places in groups.items():
        yield places, [j for j in naming[word] if any(_fits(removed[i], added[j]) for i in places)]


def _fits(gone: Placed, maker: Placed) -> bool:
    """Whether the removed activity may be in the kernel: no larger tensor, and products only in kernels of products."""
    families = gone.activity.family, maker.activity.family
    if families[0] in MULTIPLY and families[0] != families[1]:
        return False
    return not gone.sizes or not maker.sizes or gone.sizes[0] <= maker.sizes[0]


def _in_order(
    gone: Sequence[int],
    makers: Sequence[int],
    removed: Sequence[Placed],
    added: Sequence[Placed],
    links: dict[int, int],
) -> bool:
    """Pair the n-th removed activity with the n-th kernel if the numbers are equal and none goes backwards.

    Adds to ``links`` and returns whether it did.
    """
    pairs = list(zip(gone, makers, strict=False))
    if len(gone) != len(makers) or not all(
        _fits(removed[i], added[j]) and removed[i].interval <= added[j].interval for i, j in pairs
    ):
        return False
    links.update(pairs)
    return True


def _by_interval(
    gone: Sequence[int],
    makers: Sequence[int],
    removed: Sequence[Placed],
    added: Sequence[Placed],
    links: dict[int, int],
    joined: list[int],
) -> None:
    """Assign to the kernels of the same interval, otherwise to the next kernel; several kernels become one group."""
    for interval in dict.fromkeys(removed[i].interval for i in gone):
        mine = [i for i in gone if removed[i].interval == interval]
        here = [j for j in makers if added[j].interval == interval]
        if len(here) > 1 and _in_order(mine, here, removed, added, links):
            continue
        for i in mine:
            fitting = [j for j in here if _fits(removed[i], added[j])]
            later = [j for j in makers if added[j].interval > interval and _fits(removed[i], added[j])]
            for j in fitting[1:]:
                _join(joined, fitting[0], j)
            if fitting or later:
                links[i] = (fitting or later)[0]


def _join(joined: list[int], first: int, second: int) -> None:
    keep, drop = sorted((joined[first], joined[second]))
    joined[:] = [keep if of == drop else of for of in joined]


# --- by position ------------------------------------------------------------------------------------------------


def _lone(removed: Sequence[Placed], added: Sequence[Placed], links: dict[int, int]) -> None:
    """Assign activities to a kernel whose name lists no ops and that is alone between two matched pairs.

    A fused attention kernel includes the products; any other Triton kernel does not.
    """
    for interval in {maker.interval for maker in added}:
        here = [j for j, p in enumerate(added) if p.interval == interval and p.activity.category == "kernel"]
        gone = [i for i, p in enumerate(removed) if p.interval == interval and p.activity.category != "memset"]
        maker = added[here[0]].activity if len(here) == 1 else None
        if maker is None or any(i in links for i in gone) or here[0] in links.values():
            continue
        if maker.family == "attention":
            whole = {removed[i].activity.family for i in gone} & {"GEMM", "softmax"}
            links.update((i, here[0]) for i in gone if whole)
        elif maker.decoded.library == "Triton" and not named_ops(maker):
            links.update((i, here[0]) for i in gone if removed[i].activity.family not in MULTIPLY)


# --- kernels in Inductor's output code -------------------------------------------------------------------------------
# Above each kernel Inductor writes a comment (``torch/_inductor/utils.py``, ``get_kernel_metadata``): ``# Topologically
# Sorted Source Nodes: [gelu, mul], Original ATen: [aten.gelu, aten.mul]``, then its part of the graph. The name of the
# kernel has them in alphabetical order, joined by the ``_`` that is also in names of ops. Before the code of each graph
# the measurement keeps what Inductor logged about fusing (``TORCH_LOGS=fusion``): ``# cannot fuse op0_op1 with op4:
# <reason>``. Operation n writes buffer n, so the kernel of ``op4`` is the first one that is called with ``buf4``.


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

    Graphs number their kernels in the same way, so a name may stand for different ops; such names are left out.
    """
    ops: dict[str, set[tuple[str, ...]]] = {}
    for match in KERNEL.finditer(code):
        names = (name.strip() for name in match["ops"].split(","))
        ops.setdefault(match["name"], set()).add(tuple(name.replace(".", "::", 1) for name in names if name))
    return {name: next(iter(variants)) for name, variants in ops.items() if len(variants) == 1}


def unfused_kernels(facts: CaseFacts) -> Mapping[Pair, tuple[str, ...]]:
    """(name, name) of two generated kernels -> why Inductor did not fuse them; empty if its log was not kept."""
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

    A buffer that is renamed before any call (``buf5 = buf4; del buf4  # reuse``) belongs to the kernel of the new name.
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
