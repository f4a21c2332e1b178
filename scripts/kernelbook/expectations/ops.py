"""Words about CPU ops: which, in which order and nesting, how often, which of them launch nothing."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kernelbook.case_facts import Call, CaseFacts
from kernelbook.expectations.kernels import many_seen
from kernelbook.expectations.vocabulary import NAMES, Seen, counts_of, names, word

Others = Mapping[str, CaseFacts]


def outline(calls: Sequence[Call], limit: int = 14) -> str:
    """The ops as nested text: a > (b, c), d."""
    shown = calls[:limit]
    parts = [f"{'> ' * call.depth}{call.name}" for call in shown]
    return ", ".join(parts) + (f" and {len(calls) - limit} more" if len(calls) > limit else "")


def op_numbers(facts: CaseFacts) -> list[Counter[str]]:
    """How often each forward calls each op, by name; of the representative one alone where no other is known."""
    forwards: dict[tuple[int, int], Counter[str]] = {(f.process, f.index): Counter() for f in facts.forwards}
    if not facts.call_totals:
        return [Counter(call.name for call in facts.ops)]
    for total in facts.call_totals:
        if total.category == "op" and (total.process, total.index) in forwards:
            forwards[total.process, total.index][total.name] += total.count
    return list(forwards.values())


def matching(calls: Sequence[Call], pattern: str) -> list[Call]:
    """The calls whose name fits the pattern (* and ?)."""
    return [call for call in calls if fnmatch.fnmatchcase(call.name, pattern)]


@word("ops_present", "Ops (or patterns) that one forward calls, each at least once.", NAMES, needs_device=False)
def ops_present(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when each is there."""
    missing = [p for p in names(value) if not matching(facts.ops, p)]
    observed = f"missing: {', '.join(missing)}" if missing else "all there"
    return Seen(not missing, observed, outline(facts.ops))


@word("ops_absent", "Ops (or patterns) that one forward does not call.", NAMES, needs_device=False)
def ops_absent(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when none is there."""
    hits = {call.name for p in names(value) for call in matching(facts.ops, p)}
    return Seen(not hits, ", ".join(sorted(hits)) or "none there", outline(facts.ops))


@word(
    "ops_in_order",
    'Ops in the order in which one forward calls them, others may come between; "a > b" is b somewhere inside a.',
    NAMES,
    needs_device=False,
)
def ops_in_order(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when the list is found from front to back."""
    at = 0
    for step in names(value):
        found = _find(facts, [part.strip() for part in step.split(">")], at)
        if found is None:
            there = f"{step} not found" + (" after what comes before it" if at else "")
            return Seen(False, there, outline(facts.ops))
        at = found + 1
    return Seen(True, "in this order", outline(facts.ops))


def _find(facts: CaseFacts, path: Sequence[str], at: int) -> int | None:
    """The position of the first call at or after ``at`` that ends this path."""
    by_position = {call.position: call for call in facts.calls}
    for call in facts.ops:
        if call.position >= at and fnmatch.fnmatchcase(call.name, path[-1]):
            above = ancestors(call, by_position)
            wanted = list(path[:-1])
            for name in above:  # outermost first
                if wanted and fnmatch.fnmatchcase(name, wanted[0]):
                    wanted.pop(0)
            if not wanted:
                return call.position
    return None


def ancestors(call: Call, by_position: Mapping[int, Call]) -> list[str]:
    """Names of the calls around it, outermost first."""
    found = []
    parent = call.parent
    while parent is not None and parent in by_position:
        found.append(by_position[parent].name)
        parent = by_position[parent].parent
    return found[::-1]


@word("op_counts", "How often one forward calls each op.", counts_of("ops"), needs_device=False)
def op_counts(value: Mapping[str, Any], facts: CaseFacts, _: Others) -> Seen:
    """Held when each count lies in its range."""
    forwards = [
        {p: sum(count for name, count in counts.items() if fnmatch.fnmatchcase(name, p)) for p in value}
        for counts in op_numbers(facts)
    ]
    return many_seen(forwards, value, outline(facts.ops))


@word("ops_without_kernels", "Ops (or patterns) that are called and start nothing on the device.", NAMES)
def ops_without_kernels(value: Any, facts: CaseFacts, _: Others) -> Seen:
    """Held when each is there and no activity of the forward was launched inside it."""
    launching = {name for activity in facts.activities for name in activity.ops}
    found = {p: matching(facts.ops, p) for p in names(value)}
    missing = [p for p, calls in found.items() if not calls]
    guilty = sorted({call.name for calls in found.values() for call in calls} & launching)
    observed = "; ".join(
        text
        for text in (
            f"not called: {', '.join(missing)}" if missing else "",
            f"launches: {', '.join(guilty)}" if guilty else "",
        )
        if text
    )
    evidence = "; ".join(f"{a.label} launched by {a.op_path or 'no op'}" for a in facts.activities)
    return Seen(not missing and not guilty, observed or "all called, none launches", evidence)
