"""Two cases, or one case in two runs, compared: which device work differs, and what that costs.

The ratio is that of median unprofiled forward times. Its interval is a percentile bootstrap (Efron and Tibshirani,
1993) over processes, and over forwards within each process. The test is that of Mann and Whitney over the medians of
processes, because forwards of one process are not independent. A change counts with p < 0.002 and a size of 3 % or
more; if the whole interval is within 3 %, the times are about equal. Too few processes for the test vote (`votes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelbook.cases import Activity, Call, CaseFacts, comparability
from kernelbook.judge.alignment import OpStep, Step, align, align_ops, rest_us
from kernelbook.judge.fusions import base_op
from kernelbook.judge.tensor_sizes import conversions, tensor_sizes
from kernelbook.judge.votes import (
    ABOUT_EQUAL,
    ABOUT_EQUAL_BELOW,
    FASTER,
    PROCESSES_DIFFER,
    SLOWER,
    by_process,
    vote,
)
from kernelbook.kernel_names import UNKNOWN, same_type
from kernelbook.text.units import at_border, duration, plural

MIN_PROCESSES = 7
P_BELOW = 0.002
BOOTSTRAPS = 2000
NO_DIFFERENCE, NOT_TESTED = "no difference shown", "not tested"


@dataclass(frozen=True)
class Ratio:
    """Forward time of b over that of a: ratio of medians, 95 % interval, and the result of the test.

    verdict: slower, faster, about equal, processes differ, no difference shown, or not tested (one process on a side).
    ``split``: how the processes vote if they differ.
    """

    ratio: float
    low: float | None
    high: float | None
    p_value: float | None
    verdict: str
    split: str = ""


def ratio_of(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> Ratio | None:
    """Ratio of medians with interval and test; None if a side has no forward times.

    a, b: unprofiled forward times (n,) in µs for each process.
    """
    if not a or not b:
        return None
    centre = _median_of(b) / _median_of(a)
    low, high = _interval(a, b)
    medians = [float(np.median(x)) for x in a], [float(np.median(x)) for x in b]
    if min(len(a), len(b)) < MIN_PROCESSES:
        voted = vote(medians[1], medians[0]) if min(len(a), len(b)) > 1 else None
        return Ratio(centre, low, high, None, voted.verdict if voted else NOT_TESTED, voted.split if voted else "")
    from scipy import stats  # takes a second to import; few editions have enough processes

    p_value = float(stats.mannwhitneyu(*medians, alternative="two-sided").pvalue)
    if low is not None and high is not None and max(abs(low - 1), abs(high - 1)) < ABOUT_EQUAL_BELOW:
        verdict = ABOUT_EQUAL
    elif p_value < P_BELOW and abs(centre - 1) >= ABOUT_EQUAL_BELOW:
        verdict = SLOWER if centre > 1 else FASTER
    else:
        verdict = NO_DIFFERENCE
    return Ratio(centre, low, high, p_value, verdict)


def _median_of(processes: Sequence[np.ndarray]) -> float:
    return float(np.median([np.median(times) for times in processes]))


def _interval(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> tuple[float | None, float | None]:
    """95 % interval of the ratios of resampled medians; None if a side has a single forward."""
    if min(sum(map(len, a)), sum(map(len, b))) < 2:
        return None, None
    random = np.random.default_rng(0)
    ratios = _resampled(b, random) / _resampled(a, random)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def _resampled(processes: Sequence[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """BOOTSTRAPS medians: processes drawn with replacement, and forwards within each."""
    chosen = random.integers(len(processes), size=(BOOTSTRAPS, len(processes)))
    medians = np.empty(chosen.shape)
    for which, times in enumerate(processes):
        places = np.argwhere(chosen == which)
        draws = times[random.integers(len(times), size=(len(places), len(times)))]
        medians[places[:, 0], places[:, 1]] = np.median(draws, axis=1)
    return np.median(medians, axis=1)


def ratio_text(ratio: Ratio) -> str:
    """A sentence with the ratio and the conclusion; it has an interval only if both sides have enough processes."""
    text = f"Unprofiled forward time: {ratio.ratio:.3f} x"
    if ratio.verdict == NOT_TESTED:
        return f"{text}; not tested: one process on a side."
    if ratio.p_value is None:
        by_vote = {ABOUT_EQUAL: ABOUT_EQUAL, PROCESSES_DIFFER: f"{PROCESSES_DIFFER}, {ratio.split}"}
        return f"{text}, {by_vote.get(ratio.verdict, f'{ratio.verdict} in all pairs of processes')}."
    if ratio.low is not None:
        text += f" (95 % interval {ratio.low:.3f} to {ratio.high:.3f})"
    return f"{text}: {ratio.verdict} (p = {ratio.p_value:.2g})."


MOST_STEPS = 6
#: Differences of device time below this, in µs, are not reported.
LEAST_DIFFERENCE_US = 0.05
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Comparison:
    """b against a.

    ``refused``: why times cannot be compared, None if they can. ``sentences``: the differences in words. ``rest_us``:
    see `rest_us`, None if times cannot be compared.
    """

    a: CaseFacts
    b: CaseFacts
    refused: str | None
    steps: tuple[Step, ...]
    op_steps: tuple[OpStep, ...]
    ratio: Ratio | None
    sentences: tuple[str, ...]
    rest_us: float | None = None

    @property
    def title(self) -> str:
        """`mlp-compile against mlp-eager`, with the runs if they differ."""
        if self.a.case == self.b.case:
            return f"{self.b.case}: {self.b.run} against {self.a.run}"
        runs = "" if self.a.run == self.b.run else f" ({self.b.run} against {self.a.run})"
        return f"{self.b.case} against {self.a.case}{runs}"


def compare(a: CaseFacts, b: CaseFacts) -> Comparison:
    """The comparison of b with a; kernels are compared even if times cannot be."""
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
    return Comparison(a, b, refused, steps, op_steps, ratio, sentences, rest)


def refusal(a: CaseFacts, b: CaseFacts) -> str | None:
    """Why the times of the two cannot be compared; None if they can."""
    for facts in (a, b):
        if facts.status != "ok":
            return f"{facts.case} of {facts.run} {facts.status}: {facts.reason or 'no reason given'}"
    return comparability.refusal(a.setting, b.setting)


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
    return f", {ratio:.2f} x the device time{apart}{verdict.get(voted.verdict, '')}"


def _longer_us(a: CaseFacts, b: CaseFacts) -> float:
    """Device time of b minus that of a."""
    return (b.device_time_us or 0.0) - (a.device_time_us or 0.0)


def rest_text(rest: float, steps: Sequence[Step]) -> str:
    """A sentence for the rest in µs; empty below LEAST_DIFFERENCE_US."""
    same = "what stays the same and of " if any(step.kind == "same" for step in steps) else ""
    return f"The rest, of {same}summing medians: {_signed(rest)}." if abs(rest) >= LEAST_DIFFERENCE_US else ""


def _identity(a: CaseFacts, b: CaseFacts) -> list[str]:
    mine, theirs = (Counter(k.name for k in f.activities if k.category == "kernel") for f in (a, b))
    if mine and mine == theirs:
        return [f"The same {_many(sum(mine.values()), 'kernel')} by name."]
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
    share = f", {abs(step.delta_us) / whole_us:.1%}".replace("%", " %") if whole_us else ""
    mine, theirs = _labels(step.words_a or _briefs(step.a)), _labels(step.words_b or _briefs(step.b))
    if step.kind in ("removed", "added"):
        return f"{step.kind.capitalize()}: {mine or theirs}, {duration(abs(step.delta_us))}{share}."
    saved = f"{_apart(step.delta_us)}{share}"
    if step.kind in ("fused", "split"):
        whole, parts = _together(step.a, mine), _together(step.b, theirs)
        return f"{step.kind.capitalize()}: {whole} into {parts}, {saved}."
    if step.kind == "changed":
        return f"Changed: {mine}, {duration(step.time_a_us)} to {duration(step.time_b_us)}{share}."
    return f"Replaced: {mine} by {theirs}{_other_type(step)}, {saved}."


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


def _labels(words: Sequence[str]) -> str:
    """``2 x fill, tril``: each label once with its count, in order of first occurrence."""
    return ", ".join(word if count == 1 else f"{count} x {word}" for word, count in Counter(words).items())


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
