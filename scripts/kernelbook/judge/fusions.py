"""Which of the activities that are gone went into which fused kernel.

Inductor writes into a kernel's name the ops that it computes (``torch/_inductor/codegen/triton.py``), and a trace says
under which ops an activity was launched. What was launched under an op that a new kernel names, on tensors no larger
than that kernel's, went into it. Nothing here knows what flows into what: where two kernels name the op and it cannot
be said which of them took it, they are told as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelbook.cases import Activity
from kernelbook.judge.tensor_sizes import Sizes
from kernelbook.kernel_names.triton import VIEW_OPS

#: What an ATen copy kernel is called among the ops of a compiled graph, where no op path tells.
COPIES = ("copy", "to_copy", "clone")
PRODUCTS = ("GEMM", "attention")
Group = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Placed:
    """An activity that only one side has; ``interval``: how many matched pairs come before it; its tensors' sizes."""

    activity: Activity
    interval: int
    sizes: Sizes | None = None


def fusions(removed: Sequence[Placed], added: Sequence[Placed]) -> list[Group]:
    """(places in removed, places in added) of what belongs together, by the first place in added."""
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
    """The op without namespace, and without the underscores of in-place and of inner ops: ``aten::add_`` -> add."""
    return name.rpartition("::")[2].strip("_")


def own_words(activity: Activity) -> tuple[str, ...]:
    """The ops under which it was launched, innermost first, then what its name says."""
    path = [base_op(op) for op in reversed(activity.ops) if "::" in op]
    named = [base_op(op) for op in activity.decoded.fused_ops]
    if not path and named == ["copy"]:
        named = list(COPIES)
    return tuple(dict.fromkeys([*path, *named]))


def named_ops(activity: Activity) -> frozenset[str]:
    """The ops that the name of a Triton kernel lists, views aside; nothing of other kernels."""
    if activity.decoded.library != "Triton":
        return frozenset()
    return frozenset(base_op(op) for op in activity.decoded.fused_ops if op not in VIEW_OPS)


# --- by the ops that a name lists ------------------------------------------------------------------------------------


def _by_word(removed: Sequence[Placed], added: Sequence[Placed]) -> Iterable[tuple[list[int], list[int]]]:
    """For each op: what was launched under it and is gone, and the new kernels that name it."""
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
    """Whether it may have gone in: no larger tensor, and a matrix product only into a kernel that computes one."""
    families = gone.activity.family, maker.activity.family
    if families[0] in PRODUCTS and families[0] != families[1]:
        return False
    return not gone.sizes or not maker.sizes or gone.sizes[0] <= maker.sizes[0]


def _in_order(
    gone: Sequence[int],
    makers: Sequence[int],
    removed: Sequence[Placed],
    added: Sequence[Placed],
    links: dict[int, int],
) -> bool:
    """As many kernels that name an op as there were of it: the n-th went into the n-th, if none went backwards."""
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
    """Into the kernels between the same two matched pairs, else into the next one; of several, into all as one."""
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


# --- by its place alone -------------------------------------------------------------------------------------------


def _lone(removed: Sequence[Placed], added: Sequence[Placed], links: dict[int, int]) -> None:
    """A kernel whose name lists no ops, alone between two matched pairs, took what lay between them.

    A fused attention kernel takes the products too, any other Triton kernel all but them.
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
            links.update((i, here[0]) for i in gone if removed[i].activity.family not in PRODUCTS)
