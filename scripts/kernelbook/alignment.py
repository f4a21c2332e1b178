"""Two sequences of device activities, or of CPU ops, laid side by side: what was added, removed, replaced, fused."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelbook.case_facts import Activity, Call

#: Matched activities whose time differs by this share and this much are shown as changed.
CHANGED_FROM = 0.1
CHANGED_FROM_US = 1.0
Pair = tuple[int | None, int | None]
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
    pairs = _pairs(a, b)
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


def _pairs(a: Sequence[Activity], b: Sequence[Activity]) -> list[Pair]:
    """Needleman and Wunsch (1970) with the costs above; beyond a million cells, longest matching runs instead."""
    if len(a) * len(b) > 1_000_000:
        return _pairs_by_runs([x.name for x in a], [x.name for x in b])
    return _least_cost(len(a), len(b), lambda i, j: _cost(a[i], b[j]))


def _cost(a: Activity, b: Activity) -> float | None:
    if a.name == b.name:
        return 0.0
    if a.category != b.category or a.family != b.family:
        return None
    return 0.8 if a.family in ("GEMM", "attention", "softmax") or a.decoded.fused_ops == b.decoded.fused_ops else 1.0


def _least_cost(n: int, m: int, cost: Callable[[int, int], float | None]) -> list[Pair]:
    best = [[GAP * (i + j) if not i or not j else 0.0 for j in range(m + 1)] for i in range(n + 1)]
    costs = [[cost(i, j) for j in range(m)] for i in range(n)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            gap = min(best[i - 1][j], best[i][j - 1]) + GAP
            match = costs[i - 1][j - 1]
            best[i][j] = gap if match is None else min(gap, best[i - 1][j - 1] + match)
    pairs: list[Pair] = []
    i, j = n, m
    while i or j:
        match = costs[i - 1][j - 1] if i and j else None
        if match is not None and best[i][j] == best[i - 1][j - 1] + match:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and best[i][j] == best[i - 1][j] + GAP:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


def _pairs_by_runs(a: Sequence[str], b: Sequence[str]) -> list[Pair]:
    pairs: list[Pair] = []
    for tag, a0, a1, b0, b1 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(range(a0, a1), range(b0, b1), strict=True)
        else:
            pairs += [(i, None) for i in range(a0, a1)] + [(None, j) for j in range(b0, b1)]
    return pairs
