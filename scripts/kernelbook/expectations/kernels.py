"""Words about device activities: how many, of which family, by which name, on which cores, launched how."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kernelbook.case_facts import Activity, CaseFacts
from kernelbook.expectations.vocabulary import COUNT, NAMES, YES_NO, Look, Seen, counts_of, names, span, word
from kernelbook.kernel_names import FAMILIES

Others = Mapping[str, CaseFacts]


def listed(activities: Iterable[Activity], limit: int = 12) -> str:
    """Names with how often each came, in the order of their first coming."""
    counts = Counter(activity.label for activity in activities)
    parts = [label if count == 1 else f"{count} x {label}" for label, count in counts.items()]
    more = f" and {len(parts) - limit} more" if len(parts) > limit else ""
    return ", ".join(parts[:limit]) + more or "none"


def _counted(category: str, plural: str) -> Look:
    def look(value: Any, facts: CaseFacts, _: Others) -> Seen:
        count = getattr(facts, plural)
        of_it = [a for a in facts.activities if a.category == category]
        return Seen(span(value).holds(count), str(count), f"{count} {plural} in a forward: {listed(of_it)}")

    return look


for _category, _plural in (("kernel", "kernels"), ("memcpy", "memcpys"), ("memset", "memsets")):
    word(_plural, f"How many {_plural} one forward runs.", COUNT)(_counted(_category, _plural))


@word("launches", "How many runtime or driver calls of one forward started something on the device.", COUNT)
def launches(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when the number of launches lies in the range."""
    apis = Counter(activity.launch_api or "unknown" for activity in facts.activities)
    return Seen(span(value).holds(facts.launches), str(facts.launches), _tally(apis))


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none"


@word(
    "kernel_families",
    f"How many kernels of each family one forward runs; families: {', '.join(FAMILIES)}.",
    {**counts_of("kernel families"), "propertyNames": {"enum": list(FAMILIES)}},
)
def kernel_families(value: Mapping[str, Any], facts: CaseFacts, _: Others) -> Seen:
    """Held when every family named has as many kernels as said; other families may be there."""
    kernels = [a for a in facts.activities if a.category == "kernel"]
    counts = Counter(kernel.family for kernel in kernels)
    held = all(span(wanted).holds(counts[family]) for family, wanted in value.items())
    evidence = "; ".join(f"{family}: {listed(k for k in kernels if k.family == family)}" for family in counts)
    return Seen(held, ", ".join(f"{family}: {counts[family]}" for family in value), evidence)


@word("tensor_cores", "Whether every GEMM and fused attention kernel runs on tensor cores, by its name.", YES_NO)
def tensor_cores(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Cannot be said where a kernel's name does not tell."""
    products = [a for a in facts.activities if a.category == "kernel" and a.family in ("GEMM", "attention")]
    if not products:
        return Seen(None, "no GEMM and no attention kernel", "nothing here could run on tensor cores")
    found = {a.decoded.tensor_cores for a in products}
    observed = found.pop() if len(found) == 1 else "mixed"
    evidence = "; ".join(dict.fromkeys(f"{a.label}: {a.decoded.tensor_cores}" for a in products))
    wanted = "yes" if value in (True, "yes") else "no"
    return Seen(None if observed == "unknown" else observed == wanted, observed, evidence)


@word(
    "gemm_type",
    "Element type in which every GEMM kernel computes, by its name.",
    {"enum": ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"], "must": "an element type"},
)
def gemm_type(value: str, facts: CaseFacts, _: Others) -> Seen:
    """Cannot be said where a name does not tell."""
    gemms = [a for a in facts.activities if a.category == "kernel" and a.family == "GEMM"]
    found = sorted({a.decoded.element_type for a in gemms})
    evidence = "; ".join(dict.fromkeys(f"{a.label}: {a.decoded.element_type}" for a in gemms)) or "no GEMM kernel"
    unsure = not gemms or (set(found) <= {value, "unknown"} and "unknown" in found)
    return Seen(None if unsure else found == [value], ", ".join(found) or "no GEMM kernel", evidence)


@word("different_gemms", "How many different GEMM kernels (by name) one forward uses.", COUNT)
def different_gemms(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when the number of distinct names lies in the range."""
    gemms = [a for a in facts.activities if a.category == "kernel" and a.family == "GEMM"]
    count = len({a.name for a in gemms})
    return Seen(span(value).holds(count), str(count), listed(gemms))


@word(
    "activity_names",
    "Patterns (* and ?), each of which must match the name of a kernel, memcpy or memset of one forward.",
    NAMES,
)
def activity_names(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when every pattern matches something."""
    missing = [p for p in names(value) if not any(fnmatch.fnmatchcase(a.name, p) for a in facts.activities)]
    observed = f"nothing matches {', '.join(missing)}" if missing else "all match"
    return Seen(not missing, observed, listed(facts.activities))


@word("activity_names_absent", "Patterns (* and ?) of which none may match a device activity of one forward.", NAMES)
def activity_names_absent(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when no pattern matches anything."""
    hits = [a for a in facts.activities if any(fnmatch.fnmatchcase(a.name, p) for p in names(value))]
    return Seen(not hits, listed(hits), listed(facts.activities))


@word("launch_api", "The call, or calls, by which every kernel of one forward is launched.", NAMES)
def launch_api(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when no kernel was launched by another call."""
    apis = Counter(a.launch_api or "unknown" for a in facts.activities if a.category == "kernel")
    return Seen(bool(apis) and set(apis) <= set(names(value)), ", ".join(apis) or "none", _tally(apis))
