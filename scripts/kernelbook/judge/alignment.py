"""Aligns two sequences of device activities, or of CPU ops: finds what was added, removed, replaced or fused."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kernelbook.cases import Activity, Call
from kernelbook.judge.cost_model.traffic import Sizes
from kernelbook.judge.fusions import Placed, base_op, fusions

MOVED = ("elementwise", "softmax", "reduction")
MOST_MOVED = 2
#: Epilogues of a product's kernel that add a term; "relu" in a name does not mean that one is applied.
ADDING = {"beta add", "bias"}


@dataclass(frozen=True)
class Step:
    """One step of an alignment: activities of a, activities of b, and the kind of difference. Times in µs.

    ``kind``: same; changed (same name, another time); replaced (one by one, or one by two of the same work); fused
    (several of a into one of b, or into several if the assignment is ambiguous); split (the reverse); added; removed.
    ``words_a``, ``words_b``: short names for sentences, set by `comparisons.compare`.
    """

    kind: str
    a: tuple[Activity, ...]
    b: tuple[Activity, ...]
    words_a: tuple[str, ...] = ()
    words_b: tuple[str, ...] = ()

    @property
    def time_a_us(self) -> float:
        return sum(activity.duration_us for activity in self.a)

    @property
    def time_b_us(self) -> float:
        return sum(activity.duration_us for activity in self.b)

    @property
    def delta_us(self) -> float:
        return self.time_b_us - self.time_a_us


def rest_us(whole_us: float, steps: Sequence[Step]) -> float:
    """The part of the difference in device time that no step other than `same` explains.

    It comes from activities of kind same and from medians: the median of a sum is not the sum of the medians.
    """
    return whole_us - sum(step.delta_us for step in steps if step.kind != "same")


def moved(steps: Sequence[Step]) -> list[Step]:
    """Merge a pointwise op, softmax or reduction that is removed in one place and added in another into `replaced`.

    Only one for one, or one for two (for example both factors scaled instead of the scores); otherwise it is ambiguous.
    """
    loose: dict[str, dict[str, list[Step]]] = {}
    for step in steps:
        if step.kind in ("removed", "added") and (step.a or step.b)[0].family in MOVED:
            word = _op_of((step.a or step.b)[0])
            loose.setdefault(word, {"removed": [], "added": []})[step.kind].append(step)
    replaced: dict[int, Step] = {}
    dropped: set[int] = set()
    for word, sides in loose.items():
        numbers = sorted(map(len, sides.values()))
        if word and numbers[0] == 1 and numbers[1] <= MOST_MOVED:
            mine, theirs = (tuple(x for s in sides[kind] for x in (s.a or s.b)) for kind in ("removed", "added"))
            replaced[id(sides["removed"][0])] = Step("replaced", mine, theirs)
            dropped |= {id(step) for several in sides.values() for step in several}
    return [replaced.get(id(step), step) for step in steps if id(step) in replaced or id(step) not in dropped]


def _op_of(activity: Activity) -> str:
    """The single op of an ATen kernel, from its name or from the op that launched it; empty for other libraries."""
    if activity.decoded.library != "ATen":
        return ""
    fused_ops = activity.decoded.fused_ops
    return base_op(fused_ops[0]) if fused_ops else base_op(activity.op or "")


def in_epilogues(steps: Sequence[Step]) -> list[Step]:
    """Merge a product followed by a removed add into `replaced` if the new product adds in its epilogue."""
    kept: list[Step] = []
    for step in steps:
        before = kept[-1] if kept else None
        if before and step.kind == "removed" and _op_of(step.a[0]) == "add" and _adds_instead(before):
            kept[-1] = Step("replaced", (*before.a, *step.a), before.b)
        else:
            kept.append(step)
    return kept


def _adds_instead(step: Step) -> bool:
    """Whether the kernel of b adds in its epilogue and the kernel of a does not."""
    if step.kind != "replaced" or len(step.a) != 1 or len(step.b) != 1 or step.b[0].family != "GEMM":
        return False
    had, has = (ADDING & set((side[0].decoded.epilogue or "").split(", ")) for side in (step.a, step.b))
    return bool(has - had)


#: Matched activities are `changed` if their times differ by this share and by this time.
CHANGED_FROM = 0.1
CHANGED_FROM_US = 1.0
#: With more ops on a side, they are counted by name and not aligned, because difflib takes quadratic time.
MOST_ALIGNED = 2000
T = TypeVar("T")
Run = tuple[str, Sequence[T]]
Pair = tuple[int | None, int | None]
Floats = npt.NDArray[np.float64]
SizesOf = Mapping[int, Sizes]  # position of an activity -> sizes of its op's tensors
Key = tuple[str, str, str, tuple[str, ...], tuple[str, ...], Sizes]  # name, category, family, ops, op path, sizes
INFINITE = float("inf")
FULL_CELLS = 1_000_000
BAND = 200
#: Costs are whole numbers, so that sums are exact. A match costs 0; a replacement costs less than a removal and an
#: addition if the two activities have something in common.
GAP = 75
ALIKE, RELATED = 80, 100
OTHER_PATH, OTHER_SIZES = 5, 10  # of two of one name
SAME_PATH, SAME_SIZE, SAME_SIZES = -10, -10, -30  # of two of different names; one tensor, several
FAR_SIZES, FAR = 60, 4  # the largest tensors differ by that factor
ONE_THING = ("GEMM", "attention", "softmax")
POINTWISE = {"elementwise", "fill/mask"}


class _Costs(NamedTuple):
    """table[rows[i], columns[j]]: the cost of pairing place i of a with place j of b."""

    table: Floats
    rows: list[int]
    columns: npt.NDArray[np.int64]


@dataclass(frozen=True)
class OpStep:
    """Consecutive ops that only one side calls; ``kind``: added or removed."""

    kind: str
    names: tuple[str, ...]
    self_us: float


def align(
    a: Sequence[Activity], b: Sequence[Activity], sizes_a: SizesOf | None = None, sizes_b: SizesOf | None = None
) -> list[Step]:
    """The alignment of least cost: equal names match, activities of one family may replace each other.

    A Triton kernel absorbs every removed activity of the ops that its name lists (see `fusions`). Pairs that match a
    Triton kernel only by family are first tried as such fusions. sizes_a, sizes_b: from `tensor_sizes`.
    """
    if _fused(a) and not _fused(b):
        return [_mirrored(step) for step in align(b, a, sizes_b, sizes_a)]
    pairs = paired(a, b, sizes_a, sizes_b)
    undone = {pair for pair in pairs if _by_triton(a, b, pair)}
    loose = [part for pair in pairs for part in (((pair[0], None), (None, pair[1])) if pair in undone else (pair,))]
    before, interval = [], 0
    for i, j in loose:
        before.append(interval)
        interval += i is not None and j is not None
    gone = [(i, n) for (i, j), n in zip(loose, before, strict=True) if i is not None and j is None]
    new = [(j, n) for (i, j), n in zip(loose, before, strict=True) if j is not None and i is None]
    groups = fusions(
        [Placed(a[i], n, (sizes_a or {}).get(a[i].position)) for i, n in gone],
        [Placed(b[j], n, (sizes_b or {}).get(b[j].position)) for j, n in new],
    )
    positions = [(tuple(gone[x][0] for x in mine), tuple(new[y][0] for y in theirs)) for mine, theirs in groups]
    return in_epilogues(moved(_steps(a, b, pairs, undone, positions)))


def align_names(a: Sequence[str], b: Sequence[str]) -> list[Step]:
    """The alignment of kernels from their names alone, in the order of their start; times are 0."""
    one, other = ([Activity(place, "kernel", name, None, 0.0) for place, name in enumerate(names)] for names in (a, b))
    return align(one, other)


def _fused(activities: Sequence[Activity]) -> bool:
    """Whether some kernels combine several ops."""
    return any(activity.decoded.library == "Triton" or activity.family == "attention" for activity in activities)


def _mirrored(step: Step) -> Step:
    kinds = {"added": "removed", "removed": "added", "fused": "split"}
    kind = _same_or_changed(step.b[0], step.a[0]) if step.kind in ("same", "changed") else step.kind
    return Step(kinds.get(kind, kind), step.b, step.a)


def _by_triton(a: Sequence[Activity], b: Sequence[Activity], pair: Pair) -> bool:
    """Whether the pair replaces a kernel of another library by a Triton kernel."""
    i, j = pair
    if i is None or j is None or a[i].name == b[j].name:
        return False
    return b[j].decoded.library == "Triton" and a[i].decoded.library != "Triton"


def _steps(
    a: Sequence[Activity],
    b: Sequence[Activity],
    pairs: Sequence[Pair],
    undone: set[Pair],
    groups: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> list[Step]:
    """The pairs as steps; a group is placed at its first activity of b."""
    taken = {i for mine, _ in groups for i in mine}
    group_at = {theirs[0]: (mine, theirs) for mine, theirs in groups}
    made = {j for _, theirs in groups for j in theirs}
    steps = []
    for i, j in pairs:
        mine, theirs = (i if i not in taken else None), (j if j not in made else None)
        if (i, j) in undone and (mine is None or theirs is None):
            steps += [_step(a, b, i, None)] if mine is not None else []
            steps += [_step(a, b, None, j)] if theirs is not None else []
        elif mine is not None or theirs is not None:
            steps.append(_step(a, b, mine, theirs))
        if j in group_at:
            parts, whole = (tuple(side[x] for x in at) for side, at in zip((a, b), group_at[j], strict=True))
            steps.append(Step("fused" if max(len(parts), len(whole)) > 1 else "replaced", parts, whole))
    return steps


def align_ops(a: Sequence[Call], b: Sequence[Call]) -> list[OpStep]:
    """Runs of ops that only one side calls, by name, in order of start."""
    return [_op_step(kind, calls) for kind, calls in _one_sided(a, b, [c.name for c in a], [c.name for c in b])]


def align_op_names(a: Sequence[str], b: Sequence[str]) -> list[OpStep]:
    """As `align_ops`, from the names of ops alone; times are 0."""
    return [OpStep(kind, tuple(names), 0.0) for kind, names in _one_sided(a, b, a, b)]


def _one_sided(a: Sequence[T], b: Sequence[T], names_a: Sequence[str], names_b: Sequence[str]) -> list[Run[T]]:
    """(removed or added, its items) for each run of items that only one side has; see MOST_ALIGNED."""
    if max(len(a), len(b)) > MOST_ALIGNED:
        surplus = _surplus(a, names_a, names_b), _surplus(b, names_b, names_a)
        return [(kind, items) for kind, groups in zip(("removed", "added"), surplus, strict=True) for items in groups]
    matcher = difflib.SequenceMatcher(None, names_a, names_b, autojunk=False)
    runs: list[Run[T]] = []
    for _, a0, a1, b0, b1 in (code for code in matcher.get_opcodes() if code[0] != "equal"):
        runs += [(kind, items) for kind, items in (("removed", a[a0:a1]), ("added", b[b0:b1])) if items]
    return runs


def _surplus(items: Sequence[T], names: Sequence[str], others: Sequence[str]) -> list[list[T]]:
    """For each name that is more frequent in `names` than in `others`, the surplus: its last items."""
    groups: dict[str, list[T]] = {}
    for item, name in zip(items, names, strict=True):
        groups.setdefault(name, []).append(item)
    return [groups[name][-count:] for name, count in (Counter(names) - Counter(others)).items()]


def _op_step(kind: str, calls: Sequence[Call]) -> OpStep:
    return OpStep(kind, tuple(call.name for call in calls), sum(call.self_us for call in calls))


def _same_or_changed(a: Activity, b: Activity) -> str:
    difference = abs(a.duration_us - b.duration_us)
    return "changed" if difference >= max(CHANGED_FROM * a.duration_us, CHANGED_FROM_US) else "same"


def _step(a: Sequence[Activity], b: Sequence[Activity], i: int | None, j: int | None) -> Step:
    if i is None:
        return Step("added", (), (b[j],))  # type: ignore[index]
    if j is None:
        return Step("removed", (a[i],), ())
    return Step(_same_or_changed(a[i], b[j]) if a[i].name == b[j].name else "replaced", (a[i],), (b[j],))


def paired(
    a: Sequence[Activity], b: Sequence[Activity], sizes_a: SizesOf | None = None, sizes_b: SizesOf | None = None
) -> list[Pair]:
    """Alignment by Needleman and Wunsch (1970) with the costs above, in a band around the diagonal if both are long.

    Returns (place in a, place in b) of each pair, None for a side without a counterpart. ``align.js`` of the page does
    the same; a test compares the two.
    """
    costs = _costs([_key(x, sizes_a or {}) for x in a], [_key(x, sizes_b or {}) for x in b])
    band = max(len(a), len(b)) if len(a) * len(b) <= FULL_CELLS else abs(len(a) - len(b)) + BAND
    best = _table(costs, band)
    pairs: list[Pair] = []
    i, j = len(a), len(b)
    while i or j:
        at = j - i + band
        if i and j and best[i, at] == best[i - 1, at] + costs.table[costs.rows[i - 1], costs.columns[j - 1]]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and best[i, at] == best[i - 1, at + 1] + GAP:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


def _key(activity: Activity, sizes: SizesOf) -> Key:
    """The properties that determine the cost of pairing two activities."""
    path = tuple(op for op in activity.op_path if re.match(r"\w+::\w", op))  # without annotations and compiled regions
    ops, own = activity.decoded.fused_ops, sizes.get(activity.position, ())
    return activity.name, activity.category, activity.family, ops, path, own


def _cost(a: Key, b: Key) -> float:
    (name_a, category_a, family_a, ops_a, path_a, sizes_a), (name_b, category_b, family_b, ops_b, path_b, sizes_b) = (
        a,
        b,
    )
    if category_a != category_b:
        return INFINITE
    if name_a == name_b:
        return OTHER_PATH * (path_a != path_b) + OTHER_SIZES * bool(sizes_a and sizes_b and sizes_a != sizes_b)
    equal = bool(sizes_a) and sizes_a == sizes_b
    if family_a == family_b:
        base = ALIKE if family_a in ONE_THING or ops_a == ops_b else RELATED
    elif {family_a, family_b} <= POINTWISE and equal and len(sizes_a) > 1:
        base = RELATED  # such as a mask filled in and a mask added: several tensors of equal sizes
    else:
        return INFINITE
    base += SAME_PATH * bool(path_a and path_a == path_b)
    if equal:
        return base + (SAME_SIZES if len(sizes_a) > 1 else SAME_SIZE)
    far = sizes_a and sizes_b and max(sizes_a[0], sizes_b[0]) >= FAR * min(sizes_a[0], sizes_b[0])
    return base + FAR_SIZES * bool(far)


def _costs(a: Sequence[Key], b: Sequence[Key]) -> _Costs:
    """The costs of pairing each place of a with each of b; equal keys are compared once."""
    kinds_a, kinds_b = list(dict.fromkeys(a)), list(dict.fromkeys(b))
    table = np.empty((len(kinds_a), len(kinds_b)))
    for row, key_a in enumerate(kinds_a):
        table[row] = [_cost(key_a, key_b) for key_b in kinds_b]
    numbers_a, numbers_b = ({key: number for number, key in enumerate(kinds)} for kinds in (kinds_a, kinds_b))
    return _Costs(table, [numbers_a[key] for key in a], np.array([numbers_b[key] for key in b], dtype=np.int64))


def _table(costs: _Costs, band: int) -> Floats:
    """best[i, j - i + band]: the least cost of aligning the first i of a with the first j of b; infinite outside.

    Row by row: the best of a pair and of a gap in b, then gaps in a by a running minimum of the cost minus GAP a place.
    """
    length_a, length_b = len(costs.rows), len(costs.columns)
    best = np.full((length_a + 1, 2 * band + 2), INFINITE)
    first = np.arange(min(band, length_b) + 1)
    best[0, first + band] = GAP * first
    for i in range(1, length_a + 1):
        low, high = max(0, i - band), min(length_b, i + band)
        at = slice(low - i + band, high - i + band + 1)
        paired_with = np.full(high - low + 1, INFINITE)
        paired_with[int(low == 0) :] = costs.table[costs.rows[i - 1], costs.columns[max(low, 1) - 1 : high]]
        above = best[i - 1, at.start + 1 : at.stop + 1] + GAP
        least = np.minimum(best[i - 1, at] + paired_with, above)
        gaps = GAP * np.arange(low, high + 1)
        best[i, at] = np.minimum.accumulate(least - gaps) + gaps
    return best
