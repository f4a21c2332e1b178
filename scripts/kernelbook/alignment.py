"""Two sequences of device activities, or of CPU ops, laid side by side: what was added, removed, replaced, fused."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernelbook.case_facts import Activity, Call

#: Matched activities whose time differs by this share and this much are shown as changed.
CHANGED_FROM = 0.1
CHANGED_FROM_US = 1.0
Pair = tuple[int | None, int | None]
Key = tuple[str, str, str, tuple[str, ...]]  # name, category, family, ops
INFINITE = float("inf")
FULL_CELLS = 1_000_000
BAND = 200
GAP = 0.75  # so that a replacement (0.8, 1.0) is cheaper than a removal and an addition, and dearer than a match (0)


@dataclass(frozen=True)
class Step:
    """One place of the alignment: activities of a, of b, and what became of them. Times in µs.

    kind: same, changed (the same name, another time), replaced, fused (several of a are one of b), added, removed.
    """

    kind: str
    a: tuple[Activity, ...]
    b: tuple[Activity, ...]

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


@dataclass(frozen=True)
class OpStep:
    """Ops that only one of the two calls, in a row; ``kind``: added or removed."""

    kind: str
    names: tuple[str, ...]
    self_us: float


def align(a: Sequence[Activity], b: Sequence[Activity]) -> list[Step]:
    """The alignment of least cost: equal names match, activities of one family may replace each other."""
    pairs = paired(a, b)
    steps: list[Step] = []
    segment: list[Pair] = []
    for i, j in [*pairs, (-1, -1)]:
        anchor = i == -1 or (i is not None and j is not None and a[i].name == b[j].name)
        if not anchor:
            segment.append((i, j))
            continue
        steps += _segment(a, b, segment)
        segment = []
        if i != -1:
            steps.append(Step(_same_or_changed(a[i], b[j]), (a[i],), (b[j],)))  # type: ignore[index]
    return _gathered(steps)


def _gathered(steps: Sequence[Step]) -> list[Step]:
    """A Triton kernel takes in what was removed before it, since the last such kernel, where its name says the op.

    Only an op that was removed once there: of several it cannot be said which one it was.
    """
    kept: list[Step] = []
    since = 0
    for step in steps:
        made = step.b[0].decoded if len(step.b) == 1 and step.kind in ("replaced", "fused") else None
        if made is None or made.library != "Triton":
            kept.append(step)
            continue
        removed = [
            s for s in kept[since:] if s.kind == "removed" and set(s.a[0].decoded.fused_ops) & set(made.fused_ops)
        ]
        ops = Counter(s.a[0].decoded.fused_ops for s in removed)
        taken = [s for s in removed if ops[s.a[0].decoded.fused_ops] == 1]
        kept = [s for s in kept if s not in taken]
        mine = (*(activity for s in taken for activity in s.a), *step.a)
        kept.append(Step("fused" if len(mine) > 1 else step.kind, mine, step.b))
        since = len(kept)
    return kept


def align_ops(a: Sequence[Call], b: Sequence[Call]) -> list[OpStep]:
    """Runs of ops that only one of the two calls, by name in the order of their start."""
    matcher = difflib.SequenceMatcher(None, [c.name for c in a], [c.name for c in b], autojunk=False)
    steps = []
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag in ("delete", "replace"):
            steps.append(_op_step("removed", a[a0:a1]))
        if tag in ("insert", "replace"):
            steps.append(_op_step("added", b[b0:b1]))
    return steps


def _op_step(kind: str, calls: Sequence[Call]) -> OpStep:
    return OpStep(kind, tuple(call.name for call in calls), sum(call.self_us for call in calls))


def _same_or_changed(a: Activity, b: Activity) -> str:
    difference = abs(a.duration_us - b.duration_us)
    return "changed" if difference >= max(CHANGED_FROM * a.duration_us, CHANGED_FROM_US) else "same"


def _segment(a: Sequence[Activity], b: Sequence[Activity], pairs: Sequence[Pair]) -> list[Step]:
    """What lies between two exact matches: one Triton kernel for several activities is a fusion."""
    mine = [a[i] for i, _ in pairs if i is not None]
    theirs = [b[j] for _, j in pairs if j is not None]
    kernels = [activity for activity in theirs if activity.category == "kernel"]
    if len(mine) > 1 and len(kernels) == len(theirs) == 1 and kernels[0].decoded.library == "Triton":
        return [Step("fused", tuple(mine), tuple(theirs))]
    return [_step(a, b, i, j) for i, j in pairs]


def _step(a: Sequence[Activity], b: Sequence[Activity], i: int | None, j: int | None) -> Step:
    if i is None:
        return Step("added", (), (b[j],))  # type: ignore[index]
    if j is None:
        return Step("removed", (a[i],), ())
    return Step("replaced", (a[i],), (b[j],))


def paired(a: Sequence[Activity], b: Sequence[Activity]) -> list[Pair]:
    """Needleman and Wunsch (1970) with the costs above, within a band around the diagonal where both are long.

    (place in a, place in b) of each pair, None for the side that has nothing there. The page's ``align.js`` does the
    same; a test holds the two together.
    """
    keys_a, keys_b = [_key(x) for x in a], [_key(x) for x in b]
    costs: dict[tuple[Key, Key], float] = {}
    for key_a in set(keys_a):
        for key_b in set(keys_b):
            costs[key_a, key_b] = _cost(key_a, key_b)
    band = max(len(a), len(b)) if len(a) * len(b) <= FULL_CELLS else abs(len(a) - len(b)) + BAND
    best = _table(keys_a, keys_b, costs, band)
    pairs: list[Pair] = []
    i, j = len(a), len(b)
    while i or j:
        here = best[i][j]
        if i and j and here == best[i - 1].get(j - 1, INFINITE) + costs[keys_a[i - 1], keys_b[j - 1]]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and here == best[i - 1].get(j, INFINITE) + GAP:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


def _key(activity: Activity) -> Key:
    """What decides whether two activities may stand for each other."""
    return activity.name, activity.category, activity.family, activity.decoded.fused_ops


def _cost(a: Key, b: Key) -> float:
    if a == b:
        return 0.0
    if a[1:3] != b[1:3]:
        return INFINITE
    return 0.8 if a[2] in ("GEMM", "attention", "softmax") or a[3] == b[3] else 1.0


def _table(
    a: Sequence[Key], b: Sequence[Key], costs: dict[tuple[Key, Key], float], band: int
) -> list[dict[int, float]]:
    """best[i][j]: the least cost of aligning the first i of a with the first j of b, for j within the band."""
    best = [{j: GAP * j for j in range(min(band, len(b)) + 1)}]
    for i in range(1, len(a) + 1):
        above, row, key = best[-1], {}, a[i - 1]
        left = INFINITE
        for j in range(max(0, i - band), min(len(b), i + band) + 1):
            left = min(above.get(j, INFINITE), left) + GAP
            if j:
                match = above.get(j - 1, INFINITE) + costs[key, b[j - 1]]
                left = min(left, match)
            row[j] = left
        best.append(row)
    return best
