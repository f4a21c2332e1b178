"""Words about CPU ops: which, in which order and nesting, how often, which of them launch nothing."""

from __future__ import annotations

import difflib
import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kernelbook.cases import Call, CaseFacts
from kernelbook.judge.expectations.kernel_guesses import many_seen
from kernelbook.judge.expectations.vocabulary import NAMES, Observation, counts_of, names, word
from kernelbook.text.units import plural

Others = Mapping[str, CaseFacts]


MOST_SHOWN = 12


def seen_ops(calls: Sequence[Call], facts: CaseFacts, limit: int = MOST_SHOWN) -> str:
    """The calls that matched and no others, by name with how often: ``3 x aten::linear, aten::gelu``.

    Without any: how many ops were looked through.
    """
    if not calls:
        return f"none of {plural(len(facts.ops), 'op')}"
    counts = Counter(call.name for call in calls)
    parts = [name if count == 1 else f"{count} x {name}" for name, count in counts.items()]
    more = f" and {plural(len(parts) - limit, 'other', 'others')}" if len(parts) > limit else ""
    return ", ".join(parts[:limit]) + more


def nearest(pattern: str, facts: CaseFacts) -> str:
    """What a pattern that matched nothing might have meant: an op of the forward that is spelled alike, or nothing."""
    close = difflib.get_close_matches(pattern, dict.fromkeys(call.name for call in facts.ops), n=1)
    return f" (there is {close[0]})" if close else ""


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
def ops_present(value: Any, facts: CaseFacts, _: Others) -> Observation:
    """Held when each is there."""
    found = {pattern: matching(facts.ops, pattern) for pattern in names(value)}
    missing = [pattern for pattern, calls in found.items() if not calls]
    observed = f"missing: {', '.join(missing)}" if missing else "all there"
    evidence = seen_ops(_each_once(found), facts)
    return Observation(not missing, observed, "; ".join([evidence, *(f"no {p}{nearest(p, facts)}" for p in missing)]))


def _each_once(found: Mapping[str, Sequence[Call]]) -> list[Call]:
    """The calls of all patterns in start order."""
    return sorted({call.position: call for calls in found.values() for call in calls}.values(), key=_position)


def _position(call: Call) -> int:
    return call.position


@word("ops_absent", "Ops (or patterns) that one forward does not call.", NAMES, needs_device=False)
def ops_absent(value: Any, facts: CaseFacts, _: Others) -> Observation:
    """Held when none is there."""
    hits = _each_once({pattern: matching(facts.ops, pattern) for pattern in names(value)})
    return Observation(not hits, ", ".join(sorted({call.name for call in hits})) or "none there", seen_ops(hits, facts))


@word(
    "ops_in_order",
    'Ops in the order in which one forward calls them, others may come between; "a > b" is b somewhere inside a.',
    NAMES,
    needs_device=False,
)
def ops_in_order(value: Any, facts: CaseFacts, _: Others) -> Observation:
    """Held when the list is found from front to back."""
    at = 0
    told: list[str] = []
    for step in names(value):
        found = _find(facts, _path(step), at)
        if found is None:
            before = _find(facts, _path(step), 0) is not None
            there = f"{step} not found" + (" after what comes before it" if told else "")
            where = f"{step} only before" if before and told else f"no {step}{nearest(_path(step)[-1], facts)}"
            return Observation(False, there, "; ".join([*([", then ".join(told)] if told else []), where]))
        at = found + 1
        told.append(step)
    return Observation(True, "in this order", ", then ".join(told))


def _path(step: str) -> list[str]:
    """``a > b`` as its parts. Raises ValueError where one is empty."""
    parts = [part.strip() for part in step.split(">")]
    if not all(parts):
        raise ValueError(f'must be an op, or "a > b" for b inside a, got {step!r}')
    return parts


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
def op_counts(value: Mapping[str, Any], facts: CaseFacts, _: Others) -> Observation:
    """Held when each count lies in its range."""
    forwards = [
        {p: sum(count for name, count in counts.items() if fnmatch.fnmatchcase(name, p)) for p in value}
        for counts in op_numbers(facts)
    ]
    return many_seen(forwards, value, seen_ops(_each_once({p: matching(facts.ops, p) for p in value}), facts))


@word("ops_without_kernels", "Ops (or patterns) that are called and start nothing on the device.", NAMES)
def ops_without_kernels(value: Any, facts: CaseFacts, _: Others) -> Observation:
    """Held when each is there and no activity of the forward was launched inside it."""
    found = {p: matching(facts.ops, p) for p in names(value)}
    missing = [p for p, calls in found.items() if not calls]
    called = {call.name for calls in found.values() for call in calls}
    launched = [(a, [name for name in a.ops if name in called]) for a in facts.activities]
    guilty = sorted({name for _, inside in launched for name in inside})
    parts = [f"not called: {', '.join(missing)}"] * bool(missing) + [f"launches: {', '.join(guilty)}"] * bool(guilty)
    evidence = [seen_ops(_each_once(found), facts), *(f"no {p}{nearest(p, facts)}" for p in missing)]
    if guilty:
        counts = Counter((a.label, inside[0]) for a, inside in launched if inside)
        evidence.append(", ".join(f"{n} x {label} inside {name}" for (label, name), n in counts.items()))
    return Observation(not missing and not guilty, "; ".join(parts) or "all called, none launches", "; ".join(evidence))
