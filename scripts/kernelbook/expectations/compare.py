"""Words that compare a case with another of the same run, and words about time, balance and error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kernelbook.case_facts import CaseFacts, label
from kernelbook.clock import bound_of
from kernelbook.comparability import refusal
from kernelbook.expectations.kernels import listed
from kernelbook.expectations.ops import op_numbers
from kernelbook.expectations.vocabulary import FACTOR, FORWARDS_DIFFER, NAMES, Seen, agreed, names, span, word
from kernelbook.units import duration

Others = Mapping[str, CaseFacts]


def _other(name: str, others: Others, needs_device: bool = True) -> CaseFacts | Seen:
    """The facts to compare with, or why there are none."""
    other = others.get(name)
    if other is None:
        return Seen(None, "nothing to compare with", f"{name} is not in this run")
    if other.status != "ok":
        return Seen(None, "nothing to compare with", f"{name} {other.status}: {other.reason or 'no reason given'}")
    if needs_device and not other.on_device:
        return Seen(None, "nothing to compare with", f"{name} has no device activities")
    return other


def _sequence(facts: CaseFacts, family: str | None) -> list[str]:
    return [a.name for a in facts.activities if a.category == "kernel" and family in (None, a.family)]


def _same(value: Any, facts: CaseFacts, others: Others, family: str | None) -> Seen:
    """Held when one of the cases named runs kernels of the same names, equally often."""
    own = Counter(_sequence(facts, family))
    reasons, compared = [], False
    for name in names(value):
        other = _other(name, others)
        if isinstance(other, Seen):
            reasons.append(other.evidence)
            continue
        compared = True
        theirs = Counter(_sequence(other, family))
        if own == theirs:
            mine = [a for a in facts.activities if a.category == "kernel" and family in (None, a.family)]
            return Seen(bool(own) or None, f"the same as {name}", listed(mine))
        only, missing = list((own - theirs).elements()), list((theirs - own).elements())
        reasons.append(f"{name}: only here {_shown(only)}, only there {_shown(missing)}")
    return Seen(False if compared else None, "different" if compared else "nothing to compare with", "; ".join(reasons))


def _shown(kernels: list[str]) -> str:
    return ", ".join(label("kernel", name) for name in kernels[:6]) or "nothing"


@word("same_kernels_as", "Another case that runs the very same kernels; of a list, one of them.", NAMES)
def same_kernels_as(value: Any, facts: CaseFacts, others: Others) -> Seen:
    """By full name and number; order and times may differ."""
    return _same(value, facts, others, None)


@word("same_gemms_as", "Another case that runs the very same GEMM kernels; of a list, one of them.", NAMES)
def same_gemms_as(value: Any, facts: CaseFacts, others: Others) -> Seen:
    """By full name and number; order and times may differ."""
    return _same(value, facts, others, "GEMM")


def _counts(value: Any, facts: CaseFacts, others: Others, what: str, sign: int) -> Seen:
    found = []
    verdicts: set[bool | None] = set()
    for name in names(value):
        other = _other(name, others, needs_device=what == "kernels")
        if isinstance(other, Seen):
            return other
        mine, theirs = (_numbers(f, what) for f in (facts, other))
        verdicts.add(agreed({(a - b) * sign > 0 for a in mine for b in theirs}))
        found.append(f"{_either(mine)} {what} here, {_either(theirs)} in {name}")
    told = "; ".join(found)
    held = False if False in verdicts else None if None in verdicts else True
    return Seen(held, FORWARDS_DIFFER if held is None else told, told)


def _numbers(facts: CaseFacts, what: str) -> list[int]:
    """How many kernels or CPU ops the forwards have: each number once."""
    if what == "kernels":
        return sorted({len(forward.kernels) for forward in facts.forwards})
    return sorted({sum(counts.values()) for counts in op_numbers(facts)})


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _register_counts() -> None:
    for what, needs_device in (("kernels", True), ("CPU ops", False)):
        for more, sign in (("more", 1), ("fewer", -1)):

            def look(value: Any, facts: CaseFacts, others: Others, what: str = what, sign: int = sign) -> Seen:
                return _counts(value, facts, others, what, sign)

            name = f"{more}_{what.lower().replace(' ', '_')}_than"
            word(name, f"Another case than which one forward has {more} {what}.", NAMES, needs_device)(look)


_register_counts()


#: What a figure is called, and under which condition it was measured.
FIGURES = {"device_time_us": ("device time", ""), "cpu_time_us": ("CPU time", " under the profiler")}


def _times(value: Any, facts: CaseFacts, others: Others, figure: str, slower: bool) -> Seen:
    wanted = {value: 1} if isinstance(value, str) else value
    found, held = [], True
    for name, factor in wanted.items():
        other = _other(name, others, needs_device=figure == "device_time_us")
        if isinstance(other, Seen):
            return other
        mine, theirs = getattr(facts, figure), getattr(other, figure)
        if not mine or not theirs:
            return Seen(None, "no time to compare", f"{figure} is missing here or in {name}")
        refused = refusal(facts.setting, other.setting)
        if refused:
            return Seen(None, "not comparable", f"{name}: {refused}")
        ratio = mine / theirs if slower else theirs / mine
        limit = span(factor, open_ended=True)
        held = held and limit.holds(ratio) and ratio > 1
        what, how = FIGURES[figure]
        told = f"{ratio:.2f} x the {what}" if slower else f"{ratio:.2f} x as fast"
        found.append(f"{told}: {what}{how} {duration(mine)} here, {duration(theirs)} in {name}")
    return Seen(held, "; ".join(text.partition(":")[0] for text in found), "; ".join(found))


@word("slower_than", "Another case than which this one takes more device time, and by which factor.", FACTOR)
def slower_than(value: Any, facts: CaseFacts, others: Others) -> Seen:
    """Device time per forward; a single factor is the least."""
    return _times(value, facts, others, "device_time_us", slower=True)


@word("faster_than", "Another case than which this one takes less device time, and by which factor.", FACTOR)
def faster_than(value: Any, facts: CaseFacts, others: Others) -> Seen:
    """Device time per forward; a single factor is the least."""
    return _times(value, facts, others, "device_time_us", slower=False)


@word(
    "more_cpu_time_than",
    "Another case than which one forward takes more CPU time under the profiler, and by which factor.",
    FACTOR,
    needs_device=False,
)
def more_cpu_time_than(value: Any, facts: CaseFacts, others: Others) -> Seen:
    """CPU time per profiled forward; a single factor is the least."""
    return _times(value, facts, others, "cpu_time_us", slower=True)


@word(
    "bound_by",
    "What limits an unprofiled forward: launches (the CPU cannot queue work fast enough) or gpu.",
    {"enum": ["launches", "gpu"], "must": "launches or gpu"},
)
def bound_by(value: str, facts: CaseFacts, _: Others) -> Seen:
    """Cannot be said between the two limits, or without an unprofiled forward time."""
    verdict, why = bound_of(facts)
    return Seen(None if verdict in ("unclear", "unknown") else verdict == value, verdict, why)


@word(
    "error_below",
    "Bound of the relative error against a float64 reference.",
    {"type": "number", "exclusiveMinimum": 0, "must": "a number above 0"},
    needs_device=False,
)
def error_below(value: float, facts: CaseFacts, _: Others) -> Seen:
    """Cannot be said where no error was measured."""
    error = facts.relative_error
    if error is None:
        return Seen(None, "not measured", "no relative error was measured")
    return Seen(error < value, f"{error:.3g}", f"relative error {error:.3g} against a float64 reference")
