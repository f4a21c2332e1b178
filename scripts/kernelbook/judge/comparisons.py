"""Compares two cases, or one case in two runs.

`kernelbook diff`, the report and the nights use this comparison: the device work that differs and its cost
(`alignment`), the figures side by side, the time by cause (`time_split`), and the ratio of forward times (`ratios`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelbook.cases import Activity, Call, CaseFacts, comparability
from kernelbook.judge.alignment import OpStep, Step, align, align_ops, rest_us
from kernelbook.judge.cost_model.traffic import conversions, tensor_sizes
from kernelbook.judge.fusions import base_op
from kernelbook.judge.ratios import ABOUT_EQUAL, PROCESSES_DIFFER, Ratio, by_process, ratio_of, ratio_text, vote
from kernelbook.judge.time_line import DEVICE_KINDS, IDLE_KINDS
from kernelbook.judge.time_split import TimeSplit
from kernelbook.kernel_names import UNKNOWN, same_type
from kernelbook.text.formatting import NOT_AVAILABLE, at_border, duration, error, percent, plural, size, tally

# --- figures side by side, and time by cause -------------------------------------------------------------------------


TIME, BYTES, COUNT, NUMBER = "µs", "bytes", "count", ""
#: Figures of both sides: column of the table `cases` -> unit.
FIGURES = {
    "kernels": COUNT,
    "memcpys": COUNT,
    "memsets": COUNT,
    "launches": COUNT,
    "device_time_us": TIME,
    "device_busy_us": TIME,
    "forward_time_us": TIME,
    "cpu_time_us": TIME,
    "first_call_us": TIME,
    "peak_memory_bytes": BYTES,
    "relative_error": NUMBER,
}
#: Figures that are equal for the same work, so that a difference needs no statistics.
EXACT = ("kernels", "memcpys", "memsets", "launches", "peak_memory_bytes")


@dataclass(frozen=True)
class FigureChange:
    """One figure of a and of b, by the name of its column; None if it was not measured."""

    name: str
    a: float | None
    b: float | None

    @property
    def unit(self) -> str:
        return FIGURES.get(self.name, NUMBER)

    @property
    def title(self) -> str:
        """The name in words: `device time`."""
        return self.name.removesuffix("_us").removesuffix("_bytes").replace("_", " ").replace("cpu", "CPU")

    @property
    def ratio(self) -> float | None:
        """b over a; None if one is missing or a is 0."""
        return self.b / self.a if self.a and self.b is not None else None

    @property
    def differs(self) -> bool:
        return self.a is not None and self.b is not None and self.a != self.b

    def texts(self) -> tuple[str, str]:
        return self._text(self.a), self._text(self.b)

    def _text(self, value: float | None) -> str:
        if value is None:
            return NOT_AVAILABLE
        if self.unit == TIME:
            return duration(value)
        if self.unit == BYTES:
            return size(value)
        return f"{value:,.0f}" if self.unit == COUNT else error(value)


def figure_changes(a: CaseFacts, b: CaseFacts) -> tuple[FigureChange, ...]:
    """The FIGURES that at least one side has."""
    changes = (FigureChange(name, getattr(a, name), getattr(b, name)) for name in FIGURES)
    return tuple(change for change in changes if change.a is not None or change.b is not None)


@dataclass(frozen=True)
class CauseChange:
    """The time of one kind of cause in a forward of a and of b, µs. idle: the device is idle meanwhile."""

    kind: str
    idle: bool
    time_a_us: float
    time_b_us: float

    @property
    def delta_us(self) -> float:
        return self.time_b_us - self.time_a_us


def cause_changes(a: TimeSplit | None, b: TimeSplit | None) -> tuple[CauseChange, ...]:
    """The time of each kind of cause on both sides, the largest difference first.

    The differences add up to that of the forwards. Empty if a side has no split, or if one is of unprofiled forwards
    and the other of a trace.
    """
    if a is None or b is None or a.source != b.source:
        return ()
    changes = [
        CauseChange(kind, kind in IDLE_KINDS, a.of_kind(kind), b.of_kind(kind)) for kind in (*DEVICE_KINDS, *IDLE_KINDS)
    ]
    used = [change for change in changes if change.time_a_us or change.time_b_us]
    return tuple(sorted(used, key=lambda change: -abs(change.delta_us)))


# --- comparisons -----------------------------------------------------------------------------------------------------


MOST_STEPS = 6
#: Differences of device time below this, in µs, are not reported.
LEAST_DIFFERENCE_US = 0.05
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class ActivityCounts:
    """Numbers of activities. same: of equal names on both sides, at any length. more: only in b. less: only in a.

    other: number of steps in which other kernels of b do the work of a (replaced, fused, split).
    """

    same: int
    more: int
    less: int
    other: int


@dataclass(frozen=True)
class Comparison:
    """b against a.

    refused: why times cannot be compared, None if they can. sentences: the differences in words. rest_us: see the
    function, None if times cannot be compared. causes: the time by cause; empty if unknown or refused.
    """

    a: CaseFacts
    b: CaseFacts
    refused: str | None
    steps: tuple[Step, ...]
    op_steps: tuple[OpStep, ...]
    ratio: Ratio | None
    sentences: tuple[str, ...]
    rest_us: float | None = None
    causes: tuple[CauseChange, ...] = ()

    @property
    def counts(self) -> ActivityCounts:
        return activity_counts(self.steps)

    @property
    def same_work(self) -> bool | None:
        """Whether both ran the same activities in one order; None if a side has none to compare."""
        if not self.a.on_device or not self.b.on_device:
            return None
        return all(step.kind in ("same", "changed") for step in self.steps)

    @property
    def figures(self) -> tuple[FigureChange, ...]:
        return figure_changes(self.a, self.b)

    @property
    def title(self) -> str:
        """`mlp-compile against mlp-eager`, with the runs if they differ."""
        if self.a.case == self.b.case:
            return f"{self.b.case}: {self.b.run} against {self.a.run}"
        runs = "" if self.a.run == self.b.run else f" ({self.b.run} against {self.a.run})"
        return f"{self.b.case} against {self.a.case}{runs}"


def activity_counts(steps: Sequence[Step]) -> ActivityCounts:
    kinds: Counter[str] = Counter()
    for step in steps:
        kinds[step.kind] += max(len(step.a), len(step.b)) if step.kind in ("added", "removed") else 1
    other = kinds["replaced"] + kinds["fused"] + kinds["split"]
    return ActivityCounts(kinds["same"] + kinds["changed"], kinds["added"], kinds["removed"], other)


def compare(
    a: CaseFacts, b: CaseFacts, split_a: TimeSplit | None = None, split_b: TimeSplit | None = None
) -> Comparison:
    """Compare b with a: kernels always, times only if they are comparable, causes only if both splits are passed."""
    refused = refusal(a, b)
    steps: tuple[Step, ...] = ()
    if a.on_device and b.on_device:
        aligned = align(a.activities, b.activities, tensor_sizes(a), tensor_sizes(b))
        casts = conversions(a), conversions(b)
        steps = tuple(replace(s, words_a=_briefs(s.a, casts[0]), words_b=_briefs(s.b, casts[1])) for s in aligned)
    op_steps = tuple(align_ops(_typical_ops(a), _typical_ops(b)))
    both = None if refused or not a.device_time_us or not b.device_time_us else b.device_time_us / a.device_time_us
    ratio = None if refused else ratio_of(_samples(a), _samples(b))
    sentences = tuple(_sentences(a, b, refused, steps, both, ratio))
    rest = rest_us(_longer_us(a, b), steps) if both else None
    causes = () if refused else cause_changes(split_a, split_b)
    return Comparison(a, b, refused, steps, op_steps, ratio, sentences, rest, causes)


def refusal(a: CaseFacts, b: CaseFacts) -> str | None:
    """Why the times of the two cannot be compared; None if they can."""
    for facts in (a, b):
        if facts.status != "ok":
            return f"{facts.case} of {facts.run} {facts.status}: {facts.reason or 'no reason given'}"
    refused = comparability.refusal(a.conditions, b.conditions)
    if refused and a.bare and b.bare and not comparability.refusal(a.conditions, replace(b.conditions, run=a.run)):
        return f"{refused} (no trace states it; kernelbook diff takes two traces as of one machine)"
    return refused


def _typical_ops(facts: CaseFacts) -> list[Call]:
    """The ops of the representative forward, each with the usual CPU time of its name."""
    return [replace(op, self_us=facts.usual_self_us.get((op.category, op.name), op.self_us)) for op in facts.ops]


# --- times -----------------------------------------------------------------------------------------------------------


def _samples(facts: CaseFacts) -> list[np.ndarray]:
    good = [p for p in facts.processes if p.merged and p.forward_times_us]
    return [np.asarray(process.forward_times_us, dtype=float) for process in good]


# --- words -----------------------------------------------------------------------------------------------------------


def _sentences(
    a: CaseFacts,
    b: CaseFacts,
    refused: str | None,
    steps: Sequence[Step],
    device_ratio: float | None,
    ratio: Ratio | None,
) -> list[str]:
    sentences = []
    if a.on_device and b.on_device:
        sentences.append(f"{plural(b.kernels or 0, 'kernel')} against {a.kernels}{_device_ratio(a, b, device_ratio)}.")
        sentences += _identity(a, b)
        sentences += _costliest(steps, a.device_time_us)
        if device_ratio is not None and any(step.kind != "same" for step in steps):
            sentences += filter(None, [rest_text(rest_us(_longer_us(a, b), steps), steps)])
    if refused:
        sentences.append(f"Times are not compared: {refused}.")
    elif ratio:
        sentences.append(ratio_text(ratio))
    return sentences


def _costliest(steps: Sequence[Step], whole_us: float | None) -> list[str]:
    """The steps with the largest differences, in order of position; the others as one sum."""
    different = [step for step in steps if step.kind != "same"]
    kept = sorted(different, key=lambda step: -abs(step.delta_us))[:MOST_STEPS]
    sentences = [step_text(step, whole_us) for step in different if step in kept]
    rest = [step for step in different if step not in kept]
    if rest:
        sentences.append(
            f"And {plural(len(rest), 'smaller difference')}, {_signed(sum(step.delta_us for step in rest))} in all."
        )
    return sentences


def _device_ratio(a: CaseFacts, b: CaseFacts, ratio: float | None) -> str:
    longer = _longer_us(a, b)
    apart = f" ({_apart(longer)})" if abs(longer) >= LEAST_DIFFERENCE_US else ""
    voted = vote(by_process(b, "device_time_us"), by_process(a, "device_time_us"))
    if ratio is None or voted is None:
        return ""
    verdict = {ABOUT_EQUAL: f", {ABOUT_EQUAL}", PROCESSES_DIFFER: f"; {PROCESSES_DIFFER}, {voted.split}"}
    return f", {ratio:.2f}× the device time{apart}{verdict.get(voted.verdict, '')}"


def _longer_us(a: CaseFacts, b: CaseFacts) -> float:
    return (b.device_time_us or 0.0) - (a.device_time_us or 0.0)


def rest_text(rest: float, steps: Sequence[Step]) -> str:
    """A sentence for the rest in µs; empty below LEAST_DIFFERENCE_US."""
    same = any(step.kind == "same" for step in steps)
    what = "The kernels that stay the same, and rounding of medians" if same else "Rounding of medians"
    return f"{what}: {_signed(rest)}." if abs(rest) >= LEAST_DIFFERENCE_US else ""


def _identity(a: CaseFacts, b: CaseFacts) -> list[str]:
    if a.kernel_names and a.kernel_names == b.kernel_names:
        return [f"The same {_many(a.kernel_names.total(), 'kernel')} by name."]
    gemms = [Counter(k.name for k in f.activities if k.family == "GEMM") for f in (a, b)]
    if gemms[0] and gemms[0] == gemms[1]:
        return [f"The same {_many(sum(gemms[0].values()), 'GEMM')} by name."]
    return []


def _apart(us: float) -> str:
    return f"{duration(abs(us))} {'less' if us < 0 else 'more'}"


def _signed(us: float) -> str:
    return f"{'-' if us < 0 else '+'}{duration(abs(us))}"


def _many(count: int, noun: str) -> str:
    return noun if count == 1 else _number(count, noun)


def _number(count: int, noun: str) -> str:
    if count == 1:
        return f"one {noun}"
    return f"{NUMBERS[count] if count < len(NUMBERS) else count} {noun}s"


def step_text(step: Step, whole_us: float | None) -> str:
    """``Removed: Memcpy DtoD, 127.6 µs, 11.9 %.``; empty for a step of kind same."""
    if step.kind == "same":
        return ""
    share = f", {percent(abs(step.delta_us) / whole_us, 1)}" if whole_us else ""
    mine, theirs = both_sides(step)
    if step.kind in ("removed", "added"):
        return f"{step.kind.capitalize()}: {mine or theirs}, {duration(abs(step.delta_us))}{share}."
    saved = f"{_apart(step.delta_us)}{share}"
    if step.kind in ("fused", "split"):
        return f"{step.kind.capitalize()}: {whole_into_parts(step)}, {saved}."
    if step.kind == "changed":
        return f"Changed: {mine}, {duration(step.time_a_us)} to {duration(step.time_b_us)}{share}."
    return f"Replaced: {mine} by {theirs}{_other_type(step)}, {saved}."


def both_sides(step: Step) -> tuple[str, str]:
    """The activities before and after: ``("gelu, mul", "triton_poi_fused_gelu_mul_0")``."""
    return tally(step.words_a or _briefs(step.a)), tally(step.words_b or _briefs(step.b))


def whole_into_parts(step: Step) -> str:
    """``two kernels (gelu, mul) into triton_poi_fused_gelu_mul_0``, for a step of kind fused or split."""
    mine, theirs = both_sides(step)
    return f"{_together(step.a, mine)} into {_together(step.b, theirs)}"


def _other_type(step: Step) -> str:
    """Note that a product computes in another element type, if both kernel names state it."""
    types = [{x.decoded.element_type for x in side if x.family in ("GEMM", "attention")} for side in (step.a, step.b)]
    if UNKNOWN in types[0] | types[1] or not all(len(kinds) == 1 for kinds in types):
        return ""
    before, now = (kinds.pop() for kinds in types)
    return "" if same_type(before, now) else f" ({now} instead of {before})"


def _together(activities: Sequence[Activity], words: str) -> str:
    return words if len(activities) == 1 else f"{_activities(activities)} ({words})"


def _activities(activities: Sequence[Activity]) -> str:
    kernels = sum(activity.category == "kernel" for activity in activities)
    others = Counter(activity.category for activity in activities if activity.category != "kernel")
    parts = [_number(kernels, "kernel"), *(_number(n, category) for category, n in others.items())]
    return " and ".join(parts[0 if kernels else 1 :])


def _briefs(activities: Sequence[Activity], casts: Mapping[int, tuple[str, str]] | None = None) -> tuple[str, ...]:
    return tuple(brief(activity, (casts or {}).get(activity.position)) for activity in activities)


def brief(activity: Activity, cast: tuple[str, str] | None = None) -> str:
    """The op of an ATen kernel (gelu, cast bf16 to fp32), otherwise its shortened label.

    cast: (type read, type written) from recorded shapes, if there are any.
    """
    decoded = activity.decoded
    if cast:
        return f"cast {cast[0]} to {cast[1]}"
    if decoded.what.startswith("converts "):
        return decoded.what.replace("converts", "cast", 1)
    if decoded.library == "ATen" and (activity.op or "").startswith("aten::"):
        return base_op(activity.op or "")
    if decoded.library == "ATen" and decoded.fused_ops:
        return decoded.fused_ops[0]
    return at_border(activity.label, 46)
