"""Words that compare a case with another case of the run, and words about time, bound and error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kernelbook.cases import CaseFacts, label
from kernelbook.cases.comparability import refusal
from kernelbook.config.spans import span
from kernelbook.judge.clock import bound_of
from kernelbook.judge.expectations.kernel_guesses import listed
from kernelbook.judge.expectations.ops import op_numbers
from kernelbook.judge.expectations.vocabulary import FACTOR, FORWARDS_DIFFER, NAMES, Observation, agreed, names, word
from kernelbook.text.units import duration

Others = Mapping[str, CaseFacts]


NOTHING = "nothing to compare with"


def _other(name: str, facts: CaseFacts, others: Others, needs_device: bool = True) -> CaseFacts | Observation:
    """The facts of the other case, or an observation with the reason why it cannot be compared."""
    other = others.get(name)
    if name == facts.case:  # a sweep that names one of its own cases
        return Observation(None, NOTHING, f"{name} is this very case")
    if other is None:
        return Observation(None, NOTHING, f"{name} is not in this run")
    if other.status != "ok":
        state = "is unsupported" if other.status == "unsupported" else other.status
        return Observation(None, NOTHING, f"{name} {state}: {other.reason or 'no reason given'}")
    if needs_device and not other.on_device:
        return Observation(None, NOTHING, f"{name} has no device activities")
    if other.representative is None:
        return Observation(None, NOTHING, f"the trace of {name} has no forward of it")
    return other


def _all_of(observations: Sequence[Observation]) -> Observation:
    """Several comparisons as one: broken if one is, undecided if one could not be made, otherwise confirmed."""
    verdicts = {each.held for each in observations}
    held = False if False in verdicts else None if None in verdicts else True
    decisive = [each for each in observations if held or each.held is held]
    observed = "; ".join(dict.fromkeys(each.observed for each in decisive))
    return Observation(held, observed, "; ".join(dict.fromkeys(each.evidence for each in observations)))


def _sequence(facts: CaseFacts, family: str | None) -> list[str]:
    return [a.name for a in facts.activities if a.category == "kernel" and family in (None, a.family)]


def _same(value: Any, facts: CaseFacts, others: Others, family: str | None) -> Observation:
    """Confirmed if one of the named cases runs kernels of the same names, equally often.

    Broken if none does. Undecided if none does and some could not be compared.
    """
    mine = [a for a in facts.activities if a.category == "kernel" and family in (None, a.family)]
    own = Counter(activity.name for activity in mine)
    if not mine:
        return Observation(None, f"no {family} kernel" if family else "no kernel", "there is nothing to compare here")
    reasons, missing = [], False
    for name in names(value):
        other = _other(name, facts, others)
        if isinstance(other, Observation):
            reasons.append(other.evidence)
            missing = True
            continue
        theirs = Counter(_sequence(other, family))
        if own == theirs:
            return Observation(True, f"the same as {name}", listed(mine))
        only_own, only_other = list((own - theirs).elements()), list((theirs - own).elements())
        reasons.append(f"{name}: only here {_labels(only_own)}, only there {_labels(only_other)}")
    return Observation(None if missing else False, NOTHING if missing else "different", "; ".join(reasons))


def _labels(kernels: list[str]) -> str:
    return ", ".join(label("kernel", name) for name in kernels[:6]) or "nothing"


@word("same_kernels_as", "Another case that runs the very same kernels; of a list, one of them.", NAMES)
def same_kernels_as(value: Any, facts: CaseFacts, others: Others) -> Observation:
    """By full name and count; order and times may differ."""
    return _same(value, facts, others, None)


@word("same_gemms_as", "Another case that runs the very same GEMM kernels; of a list, one of them.", NAMES)
def same_gemms_as(value: Any, facts: CaseFacts, others: Others) -> Observation:
    """By full name and count; order and times may differ."""
    return _same(value, facts, others, "GEMM")


def _counts(value: Any, facts: CaseFacts, others: Others, what: str, sign: int) -> Observation:
    return _all_of([_count(name, facts, others, what, sign) for name in names(value)])


def _count(name: str, facts: CaseFacts, others: Others, what: str, sign: int) -> Observation:
    other = _other(name, facts, others, needs_device=what == "kernels")
    if isinstance(other, Observation):
        return other
    mine, theirs = (_numbers(f, what) for f in (facts, other))
    held = agreed({(a - b) * sign > 0 for a in mine for b in theirs})
    text = f"{_either(mine)} {what if mine != [1] else what[:-1]} here, {_either(theirs)} in {name}"
    return Observation(held, FORWARDS_DIFFER if held is None else text, text)


def _numbers(facts: CaseFacts, what: str) -> list[int]:
    """Numbers of kernels or CPU ops of the forwards, without duplicates."""
    if what == "kernels":
        return sorted({len(forward.kernels) for forward in facts.forwards})
    return sorted({sum(counts.values()) for counts in op_numbers(facts)})


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _register_counts() -> None:
    for what, needs_device in (("kernels", True), ("CPU ops", False)):
        for more, sign in (("more", 1), ("fewer", -1)):

            def look(value: Any, facts: CaseFacts, others: Others, what: str = what, sign: int = sign) -> Observation:
                return _counts(value, facts, others, what, sign)

            name = f"{more}_{what.lower().replace(' ', '_')}_than"
            word(name, f"Another case than which one forward has {more} {what}.", NAMES, needs_device)(look)


_register_counts()


#: Figure -> its name, and the condition under which it was measured.
FIGURES = {"device_time_us": ("device time", ""), "cpu_time_us": ("CPU time", " under the profiler")}


def _times(value: Any, facts: CaseFacts, others: Others, figure: str, slower: bool) -> Observation:
    factors = {value: 1} if isinstance(value, str) else value
    return _all_of([_time(name, factor, facts, others, figure, slower) for name, factor in factors.items()])


def _time(name: str, factor: Any, facts: CaseFacts, others: Others, figure: str, slower: bool) -> Observation:
    limit = span(factor, open_ended=True)
    other = _other(name, facts, others, needs_device=figure == "device_time_us")
    if isinstance(other, Observation):
        return other
    what, how = FIGURES[figure]
    mine, theirs = getattr(facts, figure), getattr(other, figure)
    if not mine or not theirs:
        return Observation(None, "no time to compare", f"there is no {what} {'of ' + name if mine else 'here'}")
    refused = refusal(facts.setting, other.setting)
    if refused:
        return Observation(None, "not comparable", f"{name}: {refused}")
    ratio = mine / theirs if slower else theirs / mine
    text = f"{ratio:.2f} x the {what}" if slower else f"{ratio:.2f} x as fast"
    evidence = f"{text}: {what}{how} {duration(mine)} here, {duration(theirs)} in {name}"
    return Observation(limit.holds(ratio) and ratio > 1, text, evidence)


@word("slower_than", "Another case than which this one takes more device time, and by which factor.", FACTOR)
def slower_than(value: Any, facts: CaseFacts, others: Others) -> Observation:
    """Device time per forward; a single factor is a minimum."""
    return _times(value, facts, others, "device_time_us", slower=True)


@word("faster_than", "Another case than which this one takes less device time, and by which factor.", FACTOR)
def faster_than(value: Any, facts: CaseFacts, others: Others) -> Observation:
    """Device time per forward; a single factor is a minimum."""
    return _times(value, facts, others, "device_time_us", slower=False)


@word(
    "more_cpu_time_than",
    "Another case than which one forward takes more CPU time under the profiler, and by which factor.",
    FACTOR,
    needs_device=False,
)
def more_cpu_time_than(value: Any, facts: CaseFacts, others: Others) -> Observation:
    """CPU time per profiled forward; a single factor is a minimum."""
    return _times(value, facts, others, "cpu_time_us", slower=True)


@word(
    "bound_by",
    "What limits an unprofiled forward: launches (the CPU cannot queue work fast enough) or gpu.",
    {"enum": ["launches", "gpu"], "must": "launches or gpu"},
)
def bound_by(value: str, facts: CaseFacts, _: Others) -> Observation:
    """Undecided between the two limits, or without an unprofiled forward time."""
    verdict, why = bound_of(facts)
    return Observation(None if verdict in ("unclear", "unknown") else verdict == value, verdict, why)


@word(
    "error_below",
    "Bound of the relative error against a float64 reference.",
    {"type": "number", "exclusiveMinimum": 0, "must": "a number above 0"},
    needs_device=False,
)
def error_below(value: float, facts: CaseFacts, _: Others) -> Observation:
    """Undecided if no error was measured."""
    error = facts.relative_error
    if error is None:
        return Observation(None, "not measured", "no relative error was measured")
    return Observation(error < value, f"{error:.3g}", f"relative error {error:.3g} against a float64 reference")
