"""Words that compare a case with another case of the run, and words about time, bound and error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelbook.cases import CaseFacts, label
from kernelbook.cases.comparability import refusal
from kernelbook.config.spans import span
from kernelbook.judge.clock import bound_of, bounds_by_process
from kernelbook.judge.expectations.kernel_guesses import listed
from kernelbook.judge.expectations.ops import call_numbers
from kernelbook.judge.expectations.vocabulary import (
    FACTOR,
    FORWARDS_DIFFER,
    NAMES,
    Observation,
    RunFacts,
    agreed,
    names,
    ordered,
    word,
)
from kernelbook.judge.ratios import ABOUT_EQUAL, PROCESSES_DIFFER, Vote, by_process, counted, vote
from kernelbook.text.formatting import duration

NOTHING = "nothing to compare with"


def _other(name: str, facts: CaseFacts, run: RunFacts, needs_device: bool = True) -> CaseFacts | Observation:
    """The facts of the other case, or an observation with the reason why it cannot be compared."""
    other = run.cases.get(name)
    if name == facts.case:  # a sweep that names one of its own cases
        return Observation(None, NOTHING, f"{name} is this case itself")
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


def _same(value: Any, facts: CaseFacts, run: RunFacts, family: str | None) -> Observation:
    """Confirmed if one of the named cases runs kernels of the same names, equally often.

    Broken if none does. Undecided if none does and some could not be compared.
    """
    families = (family,) if family else ()
    mine = facts.kernels_of(*families)
    own = Counter(activity.name for activity in mine)
    if not mine:
        return Observation(None, f"no {family} kernel" if family else "no kernel", "there is nothing to compare here")
    reasons, missing = [], False
    for name in names(value):
        other = _other(name, facts, run)
        if isinstance(other, Observation):
            reasons.append(other.evidence)
            missing = True
            continue
        theirs = Counter(kernel.name for kernel in other.kernels_of(*families))
        if own == theirs:
            return Observation(True, f"the same as {name}", listed(mine))
        only_own, only_other = list((own - theirs).elements()), list((theirs - own).elements())
        reasons.append(f"{name}: only here {_labels(only_own)}, only there {_labels(only_other)}")
    return Observation(None if missing else False, NOTHING if missing else "different", "; ".join(reasons))


def _labels(kernels: list[str]) -> str:
    return ", ".join(label("kernel", name) for name in kernels[:6]) or "nothing"


@word("same_kernels_as", "Another case that runs the same kernels; of a list, one of them.", NAMES)
def same_kernels_as(value: Any, facts: CaseFacts, run: RunFacts) -> Observation:
    """By full name and count; order and times may differ."""
    return _same(value, facts, run, None)


@word("same_gemms_as", "Another case that runs the same GEMM kernels; of a list, one of them.", NAMES)
def same_gemms_as(value: Any, facts: CaseFacts, run: RunFacts) -> Observation:
    """By full name and count; order and times may differ."""
    return _same(value, facts, run, "GEMM")


def _count(name: str, facts: CaseFacts, run: RunFacts, what: str, sign: int) -> Observation:
    other = _other(name, facts, run, needs_device=what == "kernels")
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
    return sorted({sum(counts.values()) for counts in call_numbers(facts)})


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


@dataclass(frozen=True)
class Quantity:
    """A figure in which cases are compared.

    ``column``: its name in the facts. ``text``: a value in words. ``condition``: how it was measured.
    """

    name: str
    column: str
    text: Callable[[float], str]
    needs_device: bool = True
    condition: str = ""
    is_time: bool = True


def mebibytes(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


DEVICE_TIME = Quantity("device time", "device_time_us", duration)
CPU_TIME = Quantity("CPU time", "cpu_time_us", duration, needs_device=False, condition=" under the profiler")
FORWARD_TIME = Quantity("unprofiled forward time", "forward_time_us", duration, needs_device=False)
PEAK_MEMORY = Quantity("peak memory", "peak_memory_bytes", mebibytes, is_time=False)


def _factor(name: str, factor: Any, facts: CaseFacts, run: RunFacts, quantity: Quantity, above: bool) -> Observation:
    """Judged by all pairs of processes: confirmed if the factor holds for each, broken if for none or about equal."""
    limit = span(factor, open_ended=True)
    votes = _vote(name, facts, run, quantity)
    if isinstance(votes, Observation):
        return votes
    voted, evidence = votes
    ratios = voted.ratios if above else tuple(1 / ratio for ratio in voted.ratios)
    if above or not quantity.is_time:
        text = f"{voted.ratio:.2f}× the {quantity.name}"
    else:
        text = f"{1 / voted.ratio:.2f}× as fast"
    if voted.verdict == ABOUT_EQUAL:
        return Observation(False, f"{ABOUT_EQUAL} ({text})", f"{ABOUT_EQUAL}, {text}: {evidence}")
    holds = [limit.holds(ratio) and ratio > 1 for ratio in ratios]
    held = agreed(holds)
    if held is None:
        split = f"the guess holds in {sum(holds)} of {len(holds)} pairs of processes ({voted.split})"
        return Observation(None, PROCESSES_DIFFER, f"{text}: {evidence}; {split}")
    return Observation(held, text, f"{text}: {evidence}")


def _vote(name: str, facts: CaseFacts, run: RunFacts, quantity: Quantity) -> tuple[Vote, str] | Observation:
    """The vote of the processes and the two figures in words, or why they cannot be compared."""
    other = _other(name, facts, run, quantity.needs_device)
    if isinstance(other, Observation):
        return other
    mine, theirs = (by_process(f, quantity.column) for f in (facts, other))
    voted = vote(mine, theirs)
    if voted is None:
        where = f"of {name}" if mine else "here"
        kind = "time" if quantity.is_time else "figure"
        return Observation(None, f"no {kind} to compare", f"there is no {quantity.name} {where}")
    refused = refusal(facts.conditions, other.conditions)
    if refused:
        return Observation(None, "not comparable", f"{name}: {refused}")
    mine_text, theirs_text = (quantity.text(median(figures)) for figures in (mine, theirs))
    return voted, f"{quantity.name}{quantity.condition} {mine_text} here, {theirs_text} in {name}"


@word("as_fast_as", "Another case that takes about the same device time (within 3 %); of a list, each of them.", NAMES)
def as_fast_as(value: Any, facts: CaseFacts, run: RunFacts) -> Observation:
    """Not judged if the processes differ."""
    return _all_of([_as_fast(name, facts, run) for name in names(value)])


def _as_fast(name: str, facts: CaseFacts, run: RunFacts) -> Observation:
    votes = _vote(name, facts, run, DEVICE_TIME)
    if isinstance(votes, Observation):
        return votes
    voted, evidence = votes
    if voted.verdict == PROCESSES_DIFFER:
        return Observation(None, PROCESSES_DIFFER, f"{evidence}; {voted.split}")
    return Observation(voted.verdict == ABOUT_EQUAL, f"{voted.verdict} ({voted.ratio:.2f}×)", evidence)


def _register_orders() -> None:
    """Register the words by which a case has more or less of a quantity than another."""
    for name, quantity, above, means in (
        ("slower_than", DEVICE_TIME, True, "takes more device time"),
        ("faster_than", DEVICE_TIME, False, "takes less device time"),
        ("more_cpu_time_than", CPU_TIME, True, "takes more CPU time under the profiler"),
        ("slower_forward_than", FORWARD_TIME, True, "takes longer without the profiler"),
        ("faster_forward_than", FORWARD_TIME, False, "takes less time without the profiler"),
        ("more_memory_than", PEAK_MEMORY, True, "without the profiler has a higher peak of device memory"),
        ("less_memory_than", PEAK_MEMORY, False, "without the profiler has a lower peak of device memory"),
    ):

        def factor(
            value: Any, facts: CaseFacts, run: RunFacts, quantity: Quantity = quantity, above: bool = above
        ) -> Observation:
            factors = {value: 1} if isinstance(value, str) else value
            return _all_of([_factor(name, factor, facts, run, quantity, above) for name, factor in factors.items()])

        schema = ordered(FACTOR, quantity.name, above)
        meaning = f"A forward {means} than in the named case, by the factor if one is given."
        word(name, meaning, schema, quantity.needs_device)(factor)
    for what, needs_device in (("kernels", True), ("CPU ops", False)):
        for more, above in (("more", True), ("fewer", False)):

            def count(
                value: Any, facts: CaseFacts, run: RunFacts, what: str = what, sign: int = 2 * above - 1
            ) -> Observation:
                return _all_of([_count(name, facts, run, what, sign) for name in names(value)])

            name = f"{more}_{what.lower().replace(' ', '_')}_than"
            schema = ordered(NAMES, what, above)
            word(name, f"A forward has {more} {what} than in the named case.", schema, needs_device)(count)


_register_orders()


@word(
    "bound_by",
    "What limits an unprofiled forward: launches (the CPU cannot queue work fast enough) or gpu.",
    {"enum": ["launches", "gpu"], "must": "launches or gpu"},
)
def bound_by(value: str, facts: CaseFacts, _: RunFacts) -> Observation:
    """Not judged between the two limits, without an unprofiled forward time, or if the processes differ."""
    verdict, why = bound_of(facts)
    bounds = [bound for bound in bounds_by_process(facts).values() if bound != "unknown"]
    if len(set(bounds)) > 1:
        return Observation(None, PROCESSES_DIFFER, f"{why}; {counted(bounds, 'processes')}")
    return Observation(None if verdict in ("unclear", "unknown") else verdict == value, verdict, why)


@word(
    "error_below",
    "Bound of the relative error against a float64 reference.",
    {"type": "number", "exclusiveMinimum": 0, "must": "a number above 0"},
    needs_device=False,
)
def error_below(value: float, facts: CaseFacts, _: RunFacts) -> Observation:
    """Not judged if no error was measured."""
    error = facts.relative_error
    if error is None:
        return Observation(None, "not measured", "no relative error was measured")
    return Observation(error < value, f"{error:.3g}", f"relative error {error:.3g} against a float64 reference")
