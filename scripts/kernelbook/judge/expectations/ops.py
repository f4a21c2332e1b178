"""Words about CPU ops: presence, order and nesting, counts, and ops that launch nothing."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kernelbook.cases import Call, CaseFacts
from kernelbook.judge.expectations.kernel_guesses import judge_count_map
from kernelbook.judge.expectations.vocabulary import NAMES, Observation, RunFacts, counts_of, names, op_notes, word
from kernelbook.text.formatting import plural, tally
from kernelbook.text.suggestions import closest

MOST_LISTED = 12


def list_ops(calls: Sequence[Call], facts: CaseFacts) -> str:
    """Names of the matching calls with their counts: ``3 × aten::linear, aten::gelu``.

    Without a match: the number of ops that were searched.
    """
    if not calls:
        return f"none of {plural(len(facts.ops), 'op')}"
    return tally((call.name for call in calls), MOST_LISTED, "other", "others")


def nearest(pattern: str, facts: CaseFacts) -> str:
    """`` (did you mean aten::addmm?)`` for a pattern without a match; empty if no op of the forward is similar."""
    similar = closest(pattern, {call.name for call in facts.ops})
    return f" (did you mean {similar}?)" if similar else ""


def call_numbers(facts: CaseFacts, category: str = "op") -> list[Counter[str]]:
    """Name of a call -> count for each forward; for the representative forward alone if no other is recorded."""
    forwards: dict[tuple[int, int], Counter[str]] = {(f.process, f.index): Counter() for f in facts.forwards}
    if not facts.call_totals:
        return [Counter(call.name for call in facts.calls if call.category == category)]
    for total in facts.call_totals:
        if total.category == category and (total.process, total.index) in forwards:
            forwards[total.process, total.index][total.name] += total.count
    return list(forwards.values())


def matching(calls: Sequence[Call], pattern: str) -> list[Call]:
    return [call for call in calls if fnmatch.fnmatchcase(call.name, pattern)]


@word("ops_present", "Ops (or patterns) that one forward calls, each at least once.", NAMES, needs_device=False)
def ops_present(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    matches = {pattern: matching(facts.ops, pattern) for pattern in names(value)}
    missing = [pattern for pattern, calls in matches.items() if not calls]
    observed = f"missing: {', '.join(missing)}" if missing else "all there"
    evidence = list_ops(_each_once(matches), facts)
    return Observation(not missing, observed, "; ".join([evidence, *(f"no {p}{nearest(p, facts)}" for p in missing)]))


def _each_once(matches: Mapping[str, Sequence[Call]]) -> list[Call]:
    """The calls of all patterns in order of start."""
    return [call for _, call in sorted({call.position: call for calls in matches.values() for call in calls}.items())]


@word("ops_absent", "Ops (or patterns) that one forward does not call.", NAMES, needs_device=False, forbids=True)
def ops_absent(value: Any, facts: CaseFacts, run: RunFacts) -> Observation:
    """Confirmed if no op is called; a name that occurs nowhere in the run gets a note."""
    hits = _each_once({pattern: matching(facts.ops, pattern) for pattern in names(value)})
    evidence = "; ".join([list_ops(hits, facts), *op_notes(names(value), facts, run)])
    return Observation(not hits, ", ".join(sorted({call.name for call in hits})) or "none there", evidence)


@word(
    "ops_in_order",
    'Ops in the order in which one forward calls them, others may come between; "a > b" is b somewhere inside a.',
    NAMES,
    needs_device=False,
)
def ops_in_order(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    at = 0
    matched: list[str] = []
    for step in names(value):
        position = _find(facts, _path(step), at)
        if position is None:
            before = _find(facts, _path(step), 0) is not None
            observed = f"{step} not found" + (" after what comes before it" if matched else "")
            where = f"{step} only before" if before and matched else f"no {step}{nearest(_path(step)[-1], facts)}"
            return Observation(False, observed, "; ".join([*([", then ".join(matched)] if matched else []), where]))
        at = position + 1
        matched.append(step)
    return Observation(True, "in this order", ", then ".join(matched))


def _path(step: str) -> list[str]:
    """``a > b`` split into its parts. Raises ValueError for an empty part."""
    parts = [part.strip() for part in step.split(">")]
    if not all(parts):
        raise ValueError(f'must be an op, or "a > b" for b inside a, got {step!r}')
    return parts


def _find(facts: CaseFacts, path: Sequence[str], at: int) -> int | None:
    """The position of the first call at or after ``at`` that matches the path."""
    by_position = {call.position: call for call in facts.calls}
    for call in facts.ops:
        if call.position >= at and fnmatch.fnmatchcase(call.name, path[-1]):
            above = ancestors(call, by_position)
            outer = list(path[:-1])
            for name in above:  # outermost first
                if outer and fnmatch.fnmatchcase(name, outer[0]):
                    outer.pop(0)
            if not outer:
                return call.position
    return None


def ancestors(call: Call, by_position: Mapping[int, Call]) -> list[str]:
    """Names of the enclosing calls, outermost first."""
    ancestor_names = []
    parent = call.parent
    while parent is not None and parent in by_position:
        ancestor_names.append(by_position[parent].name)
        parent = by_position[parent].parent
    return ancestor_names[::-1]


@word("op_counts", "How often one forward calls each op.", counts_of("ops"), needs_device=False)
def op_counts(value: Mapping[str, Any], facts: CaseFacts, run: RunFacts) -> Observation:
    """Confirmed if each count is in its range; a name that occurs nowhere in the run gets a note."""
    forwards = [
        {p: sum(count for name, count in counts.items() if fnmatch.fnmatchcase(name, p)) for p in value}
        for counts in call_numbers(facts)
    ]
    calls = list_ops(_each_once({p: matching(facts.ops, p) for p in value}), facts)
    return judge_count_map(forwards, value, "; ".join([calls, *op_notes(value, facts, run)]))


@word("ops_without_kernels", "Ops (or patterns) that are called and start nothing on the device.", NAMES)
def ops_without_kernels(value: Any, facts: CaseFacts, _: RunFacts) -> Observation:
    matches = {p: matching(facts.ops, p) for p in names(value)}
    missing = [p for p, calls in matches.items() if not calls]
    called = {call.name for calls in matches.values() for call in calls}
    launched = [(a, [name for name in a.op_path if name in called]) for a in facts.activities]
    guilty = sorted({name for _, inside in launched for name in inside})
    parts = [f"not called: {', '.join(missing)}"] * bool(missing) + [f"launches: {', '.join(guilty)}"] * bool(guilty)
    evidence = [list_ops(_each_once(matches), facts), *(f"no {p}{nearest(p, facts)}" for p in missing)]
    if guilty:
        counts = Counter((a.label, inside[0]) for a, inside in launched if inside)
        evidence.append(", ".join(f"{n} × {label} inside {name}" for (label, name), n in counts.items()))
    return Observation(not missing and not guilty, "; ".join(parts) or "all called, none launches", "; ".join(evidence))
