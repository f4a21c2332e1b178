"""Words about device activities: number, family, name, tensor cores, element type, launch call."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernelbook.cases import Activity, CaseFacts
from kernelbook.config.spans import span
from kernelbook.judge.expectations.vocabulary import (
    COUNT,
    FORWARDS_DIFFER,
    NAMES,
    YES_NO,
    Look,
    Observation,
    RunFacts,
    activity_notes,
    agreed,
    counts_of,
    names,
    word,
)
from kernelbook.kernel_names import FAMILIES, built_for
from kernelbook.text.formatting import plural, tally


def listed(activities: Iterable[Activity], limit: int = 12) -> str:
    """Labels with their counts, in order of first occurrence."""
    return tally((activity.label for activity in activities), limit) or "none"


def judge_counts(counts: Sequence[int], expected: Any, one: str, many: str, evidence: str) -> Observation:
    """Judge a number of each forward: confirmed if it is in the range in all forwards, broken if in none.

    counts: one per forward. Undecided if forwards differ.
    """
    held = agreed(span(expected).holds(count) for count in counts)
    if len(set(counts)) == 1:
        return Observation(held, str(counts[0]), f"{plural(counts[0], one, many)} in a forward: {evidence}")
    times = "; ".join(
        f"{plural(count, one, many)} in {plural(number, 'forward')}" for count, number in Counter(counts).items()
    )
    observed = FORWARDS_DIFFER if held is None else " or ".join(str(count) for count in sorted(set(counts)))
    return Observation(held, observed, f"{times}; in the one that stands for the case: {evidence}")


def _counted(category: str, many: str) -> Look:
    def look(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
        counts = [sum(a.category == category for a in forward.activities) for forward in facts.forwards]
        return judge_counts(
            counts, value, category, many, listed(a for a in facts.activities if a.category == category)
        )

    return look


for _category, _plural in (("kernel", "kernels"), ("memcpy", "memcpys"), ("memset", "memsets")):
    word(_plural, f"How many {_plural} one forward runs.", COUNT)(_counted(_category, _plural))


@word("launches", "How many runtime or driver calls of one forward started work on the device.", COUNT)
def launches(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    apis = Counter(activity.launch_api or "unknown" for activity in facts.activities)
    counts = [facts.launches or 0 if f.launches is None else f.launches for f in facts.forwards]
    return judge_counts(counts, value, "launch", "launches", _tally(apis))


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in counts.items()) or "none"


@word(
    "kernel_families",
    f"How many kernels of each family one forward runs; families: {', '.join(FAMILIES)}.",
    {**counts_of("kernel families"), "propertyNames": {"enum": list(FAMILIES)}},
)
def kernel_families(value: Mapping[str, Any], facts: CaseFacts, _: RunFacts) -> Observation:
    """Confirmed if every listed family has the expected number of kernels; other families are ignored."""
    kernels = facts.kernels_of()
    present = dict.fromkeys(kernel.family for kernel in kernels)
    asked = [family for family in present if family in value] or list(present)
    evidence = "; ".join(f"{family}: {listed(k for k in kernels if k.family == family)}" for family in asked)
    return judge_count_map([Counter(k.family for k in f.kernels) for f in facts.forwards], value, evidence)


def judge_count_map(forwards: Sequence[Mapping[str, int]], value: Mapping[str, Any], evidence: str) -> Observation:
    """Judge several numbers of each forward: all must be in their ranges, in all forwards or in none."""
    counts = [tuple(counts.get(name, 0) for name in value) for counts in forwards]
    held = agreed(all(span(w).holds(n) for w, n in zip(value.values(), each, strict=True)) for each in counts)
    texts = [", ".join(f"{name}: {n}" for name, n in zip(value, each, strict=True)) for each in dict.fromkeys(counts)]
    observed = " or ".join(texts)
    return Observation(held, *((FORWARDS_DIFFER, f"{observed}; {evidence}") if held is None else (observed, evidence)))


@word("tensor_cores", "Whether every GEMM and fused attention kernel runs on tensor cores, by its name.", YES_NO)
def tensor_cores(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if a kernel name does not state it."""
    products = facts.kernels_of("GEMM", "attention")
    if not products:
        return Observation(None, "no GEMM and no attention kernel", "nothing here could run on tensor cores")
    stated = {a.decoded.tensor_cores for a in products}
    evidence = _stated_by_names(products, facts, "tensor_cores")
    return _by_name(stated, "yes" if value in (True, "yes") else "no", evidence)


def _stated_by_names(activities: Sequence[Activity], facts: CaseFacts, field: str) -> str:
    """``name: yes``, with the architecture that the kernel was built for if it is older than the device's."""
    texts = []
    for activity in activities:
        older = built_for(activity.decoded, facts.capability)
        suffix = f", built for {older}" if older else ""
        texts.append(f"{activity.label}: {getattr(activity.decoded, field)}{suffix}")
    return "; ".join(dict.fromkeys(texts))


def _by_name(stated: set[str], expected: str, evidence: str) -> Observation:
    """Judge what the names state: another value breaks the guess, a name without a value leaves it undecided."""
    held = None if "unknown" in stated and stated <= {expected, "unknown"} else stated == {expected}
    return Observation(held, ", ".join(sorted(stated)), evidence)


@word(
    "gemm_type",
    "Element type in which every GEMM kernel computes, by its name.",
    {
        "enum": ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"],
        "must": "fp64, fp32, tf32, fp16, bf16, fp8 or int8",
    },
)
def gemm_type(value: str, facts: CaseFacts, _: RunFacts) -> Observation:
    """Undecided if a kernel name does not state it."""
    gemms = facts.kernels_of("GEMM")
    if not gemms:
        return Observation(None, "no GEMM kernel", "nothing here is a matrix product by its name")
    evidence = _stated_by_names(gemms, facts, "element_type")
    return _by_name({a.decoded.element_type for a in gemms}, value, evidence)


@word("different_gemms", "How many different GEMM kernels (by name) one forward uses.", COUNT)
def different_gemms(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    counts = [len({a.name for a in forward.of_family("GEMM")}) for forward in facts.forwards]
    return judge_counts(counts, value, "different GEMM", "different GEMMs", listed(facts.kernels_of("GEMM")))


@word(
    "activity_names",
    "Patterns (* and ?), each of which must match the name of a kernel, memcpy or memset of one forward.",
    NAMES,
)
def activity_names(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    matches = {p: [a for a in facts.activities if fnmatch.fnmatchcase(a.name, p)] for p in names(value)}
    missing = [p for p, matched in matches.items() if not matched]
    observed = f"nothing matches {', '.join(missing)}" if missing else "all match"
    evidence = [f"{pattern}: {listed(matched)}" for pattern, matched in matches.items() if matched]
    if missing:
        evidence.append(f"there is: {listed(facts.activities)}")
    return Observation(not missing, observed, "; ".join(evidence))


@word(
    "kernels_in_order",
    "Patterns (* and ?) of kernel names in the order in which one forward runs them; others may come between.",
    NAMES,
)
def kernels_in_order(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    """Confirmed if the kernels run in this order in all forwards, broken if in none; by start on the device."""
    missing = [_first_missing(names(value), forward.kernels) for forward in facts.forwards]
    held = agreed(pattern is None for pattern in missing)
    first = next((pattern for pattern in missing if pattern is not None), None)
    observed = "in this order" if first is None else f"{first} not found after what comes before it"
    evidence = f"{observed}; {listed(facts.kernels_of())}"
    return Observation(held, FORWARDS_DIFFER if held is None else observed, evidence)


def _first_missing(patterns: Sequence[str], kernels: Sequence[Activity]) -> str | None:
    """The first pattern that no kernel after those of the earlier patterns matches; None if all are in order."""
    following = iter(kernels)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(kernel.name, pattern) for kernel in following):
            return pattern
    return None


@word(
    "activity_names_absent",
    "Patterns (* and ?) of which none may match a device activity of one forward.",
    NAMES,
    forbids=True,
)
def activity_names_absent(value: Any, facts: CaseFacts, run: RunFacts) -> Observation:
    """Confirmed if no pattern matches; a name that occurs nowhere in the run gets a note."""
    hits = [a for a in facts.activities if any(fnmatch.fnmatchcase(a.name, p) for p in names(value))]
    looked = f"none of {plural(len(facts.activities), 'device activity', 'device activities')}"
    evidence = "; ".join([listed(hits) if hits else looked, *activity_notes(names(value), facts, run)])
    return Observation(not hits, listed(hits), evidence)


@word("launch_api", "The call, or calls, by which every kernel of one forward is launched.", NAMES)
def launch_api(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    apis = Counter(kernel.launch_api or "unknown" for kernel in facts.kernels_of())
    return Observation(bool(apis) and set(apis) <= set(names(value)), ", ".join(apis) or "none", _tally(apis))
