"""The places of an alignment, and what may be said of several of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelbook.cases import Activity
from kernelbook.judge.fusions import base_op

MOVED = ("elementwise", "softmax", "reduction")
MOST_MOVED = 2
#: Epilogues of a product's kernel that add something to it; "relu" in a name is no sign that one is applied.
ADDING = {"beta add", "bias"}


@dataclass(frozen=True)
class Step:
    """One place of the alignment: activities of a, of b, and what became of them. Times in µs.

    kind: same, changed (the same name, another time), replaced (also two by one of the same work, or one by two), fused
    (several of a are one of b; or several, where it cannot be said which of a went into which), split (the other way
    round), added, removed. ``words_a``, ``words_b``: what each is called in a sentence, where that was asked for.
    """

    kind: str
    a: tuple[Activity, ...]
    b: tuple[Activity, ...]
    words_a: tuple[str, ...] = ()
    words_b: tuple[str, ...] = ()

    @property
    def time_a_us(self) -> float:
        """Time of the activities of a."""
        return sum(activity.duration_us for activity in self.a)

    @property
    def time_b_us(self) -> float:
        """Time of the activities of b."""
        return sum(activity.duration_us for activity in self.b)

    @property
    def delta_us(self) -> float:
        """What b takes more than a here."""
        return self.time_b_us - self.time_a_us


def rest_us(whole_us: float, steps: Sequence[Step]) -> float:
    """What a difference of device times has beside the steps that are told, so that all of it adds up.

    It is of the activities that are the same, and of medians: that of a sum is not the sum of those of its parts.
    """
    return whole_us - sum(step.delta_us for step in steps if step.kind != "same")


def moved(steps: Sequence[Step]) -> list[Step]:
    """A pointwise op, softmax or reduction that is gone in one place and new in another: told as replaced.

    Only of one for one, or one for two (the scores are scaled, or both factors of them): of more it cannot be said.
    """
    loose: dict[str, dict[str, list[Step]]] = {}
    for step in steps:
        if step.kind in ("removed", "added") and (step.a or step.b)[0].family in MOVED:
            word = _op_of((step.a or step.b)[0])
            loose.setdefault(word, {"removed": [], "added": []})[step.kind].append(step)
    found: dict[int, Step] = {}
    dropped: set[int] = set()
    for word, sides in loose.items():
        numbers = sorted(map(len, sides.values()))
        if word and numbers[0] == 1 and numbers[1] <= MOST_MOVED:
            mine, theirs = (tuple(x for s in sides[kind] for x in (s.a or s.b)) for kind in ("removed", "added"))
            found[id(sides["removed"][0])] = Step("replaced", mine, theirs)
            dropped |= {id(step) for several in sides.values() for step in several}
    return [found.get(id(step), step) for step in steps if id(step) in found or id(step) not in dropped]


def _op_of(activity: Activity) -> str:
    """The one op of an ATen kernel, by its name, else by the op that launched it."""
    if activity.decoded.library != "ATen":
        return ""
    named = activity.decoded.fused_ops
    return base_op(named[0]) if named else base_op(activity.op or "")


def in_epilogues(steps: Sequence[Step]) -> list[Step]:
    """A product and the add behind it, replaced by a product whose epilogue adds."""
    kept: list[Step] = []
    for step in steps:
        before = kept[-1] if kept else None
        if before and step.kind == "removed" and _op_of(step.a[0]) == "add" and _adds_instead(before):
            kept[-1] = Step("replaced", (*before.a, *step.a), before.b)
        else:
            kept.append(step)
    return kept


def _adds_instead(step: Step) -> bool:
    """Whether the kernel of b has an epilogue that adds, and that of a has none."""
    if step.kind != "replaced" or len(step.a) != 1 or len(step.b) != 1 or step.b[0].family != "GEMM":
        return False
    had, has = (ADDING & set((side[0].decoded.epilogue or "").split(", ")) for side in (step.a, step.b))
    return bool(has - had)
