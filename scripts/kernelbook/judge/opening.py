"""The opening sentences of a report: conclusions from several cases.

The first screen above them has the verdict, the headline and the largest costs, the tables below them the cases. These
sentences say which implementation takes the least device time, and what a change of code or mode removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelbook.cases import CaseFacts
from kernelbook.cases.comparability import refusal
from kernelbook.judge.alignment import Step
from kernelbook.judge.clock import bounds_by_process
from kernelbook.judge.comparisons import Comparison, both_sides, whole_into_parts
from kernelbook.judge.expectations import BROKEN, CONFIRMED, NOT_APPLICABLE, Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.findings.rules import DEVICE
from kernelbook.text.formatting import at_border, duration, plural

MOST_LINES = 6
MOST_RUN_PAIRS = 2
MOST_OF_RUNS = 3  # sentences for each comparison of two runs
#: Least number of implementations of a workload for a ranking.
CHOICE_FROM = 3
#: Most characters of a kernel name, and most kinds of fused kernels in a sentence.
LONGEST_NAME = 40
MOST_KINDS = 4


@dataclass(frozen=True)
class OpeningMaterial:
    """Input of the sentences. ``runs``: run -> case -> facts."""

    runs: Mapping[str, Mapping[str, CaseFacts]]
    expectations: Sequence[Judgement]
    findings: Sequence[Finding]
    comparisons: Sequence[Comparison]
    headline: tuple[str, ...]


def opening_words(material: OpeningMaterial) -> list[str]:
    """At most ``MOST_LINES`` sentences, mainly about the run with most cases on a device."""
    main = _main_run(material)
    cases = material.runs[main] if main else {}
    lines = [*_of_ranks(cases), *_quickest(cases)]
    lines += [*_compared(material, main), *_beside(material, main)] if main else []
    lines += _between_runs(material)
    tally = _tally(material)
    return [*lines[: MOST_LINES - len(tally)], *tally]


def _main_run(material: OpeningMaterial) -> str | None:
    with_device = {run: sum(f.on_device for f in cases.values()) for run, cases in material.runs.items()}
    best = max(with_device, key=lambda run: with_device[run], default=None)
    return best if best and with_device[best] else None


def _of_ranks(cases: Mapping[str, CaseFacts]) -> list[str]:
    """The lead sentence of each case with ranks, those with a straggler first."""
    leads = {
        case: facts.jobs[0].lead for case, facts in cases.items() if facts.jobs and len(facts.jobs[0].job.ranks) > 1
    }
    late = {case for case in leads if cases[case].jobs[0].job.straggler is not None}
    return [f"{case}: {lead}" for case, lead in sorted(leads.items(), key=lambda each: each[0] not in late)]


# --- which implementation -------------------------------------------------------------------------------------------


def _quickest(cases: Mapping[str, CaseFacts]) -> list[str]:
    """For each workload with several implementations: the one with the least device time, and the next ones.

    Bare traces may do different work and are left out.
    """
    groups: dict[str, list[list[CaseFacts]]] = {}
    for facts in cases.values():
        if facts.workload and not facts.bare and not facts.ceiling and facts.device_time_us and facts.kernels:
            alike = groups.setdefault(facts.workload, [])
            group = next((each for each in alike if refusal(each[0].conditions, facts.conditions) is None), None)
            if group is None:
                alike.append([facts])
            else:
                group.append(facts)
    largest = (max(alike, key=len) for alike in groups.values())
    return [_ranking(group) for group in largest if len(group) >= CHOICE_FROM]


def _ranking(group: Sequence[CaseFacts]) -> str:
    ordered = sorted(group, key=lambda facts: facts.device_time_us or 0.0)
    best, others = ordered[0], ordered[1:]
    twins = [facts.case for facts in others if _order(facts) == _order(best)]
    rest = [facts for facts in others if facts.case not in twins]
    kernels = "kernel" if best.kernels == 1 else "kernels"
    also = f" ({' and '.join(twins)} {'runs' if len(twins) == 1 else 'run'} the same {kernels})" if twins else ""
    name = (best.workload or "").rpartition("/")[2]
    parts = [f"{name}: {best.case} takes the least device time of {len(group)} cases, {_time(best)}{also}"]
    parts += [f"{rest[0].case} follows with {_time(rest[0])}"] if rest else []
    parts += [f"{rest[-1].case} takes the most, {_time(rest[-1])}"] if len(rest) > 1 else []
    return "; ".join(parts) + f".{_waits_for_cpu(best, others)}"


def _time(facts: CaseFacts) -> str:
    return duration(facts.device_time_us)


def _order(facts: CaseFacts) -> list[str]:
    return [kernel.name for kernel in facts.kernels_of()]


def _waits_for_cpu(facts: CaseFacts, others: Sequence[CaseFacts]) -> str:
    """A sentence if most processes of the fastest case wait for the CPU, so that its device time has no effect.

    It names the case with the shortest unprofiled forward if all processes of that case are faster.
    """
    bounds = bounds_by_process(facts)
    waiting = sum(bound == "launches" for bound in bounds.values())
    if waiting * 2 <= len(bounds) or facts.forward_time_us is None:
        return ""
    where = "" if waiting == len(bounds) else f" in {waiting} of {plural(len(bounds), 'process', 'processes')}"
    least = min(_forward_times(facts), default=0.0)
    quicker = [other for other in others if max(_forward_times(other), default=least) < least]
    first = min(quicker, key=lambda other: other.forward_time_us or 0.0, default=None)
    if first is None:
        takes = f"a forward of it takes {duration(facts.forward_time_us)} unprofiled"
        return f" In {facts.case} the device waits for the CPU{where}: {takes}."
    times = f"{duration(facts.forward_time_us)} against {duration(first.forward_time_us)}"
    takes = f"a forward of {facts.case} takes longer than one of {first.case}, {times}"
    return f" Unprofiled, {takes}, because its device waits for the CPU{where}."


def _forward_times(facts: CaseFacts) -> list[float]:
    """The median unprofiled forward of each merged process, in µs."""
    times = (process.forward_time_us for process in facts.processes if process.merged)
    return [time for time in times if time is not None]


# --- what changed from case to case ---------------------------------------------------------------------------------


def _compared(material: OpeningMaterial, run: str) -> list[str]:
    """Sentences from the comparisons within this run: copies removed, kernels fused, kernels unchanged."""
    removed: list[str] = []
    compiled: list[str] = []
    fused: list[str] = []
    same: list[str] = []
    for c in material.comparisons:
        if c.a.run != run or c.b.run != run:
            continue
        by_compile = c.b.mode == "compile" and c.a.mode == "eager"
        gone = [step for step in c.steps if step.kind == "removed" and step.a[0].category == "memcpy"]
        removed += [
            f"{c.b.case} does without the {both_sides(step)[0]} of {c.a.case} and {_saves(step, c)}." for step in gone
        ]
        largest = min((step for step in c.steps if step.kind == "fused"), key=lambda step: step.delta_us, default=None)
        if largest:
            where = "" if by_compile else f" of {c.a.case}"
            text = f"{c.b.case} fuses {whole_into_parts(_shortened(largest))} and {_saves(largest, c)}{where}."
            (compiled if by_compile else fused).append(text)
        if by_compile and c.steps and all(step.kind in ("same", "changed") for step in c.steps):
            same.append(f"{c.b.case} runs the same {'kernel' if c.b.kernels == 1 else 'kernels'} as {c.a.case}.")
    together = [f"torch.compile fuses kernels. {' '.join(compiled)}"] if compiled else []
    return [*removed[:1], *together, *fused[:1], *same[:1]]


def _between_runs(material: OpeningMaterial) -> list[str]:
    """The cases that ran other kernels on another run of the same GPU, those of most device time first."""
    pairs = (c for c in material.comparisons if c.a.case == c.b.case and c.a.device == c.b.device)
    other = [c for c in pairs if c.same_work is False]
    other.sort(key=lambda c: -abs((c.b.device_time_us or 0.0) - (c.a.device_time_us or 0.0)))
    return [f"{c.title}: {' '.join(c.sentences[:MOST_OF_RUNS])}" for c in other[:MOST_RUN_PAIRS]]


def _shortened(step: Step) -> Step:
    """The step with names short enough for one line."""
    after = tuple(at_border(word, LONGEST_NAME) for word in step.words_b)
    return replace(step, words_a=_few(step.words_a), words_b=_few(after))


def _saves(step: Step, comparison: Comparison) -> str:
    """``saves 128 µs (11.9 %)``, or ``costs 3.0 µs (0.3 %)`` if the step takes more time than before."""
    whole = comparison.a.device_time_us
    share = f" ({abs(step.delta_us) / whole * 100:.1f} %)" if whole else ""
    return f"{'saves' if step.delta_us < 0 else 'costs'} {duration(abs(step.delta_us))}{share}"


def _few(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the first few kinds, and the number of other kinds."""
    kinds = list(dict.fromkeys(words))
    if len(kinds) <= MOST_KINDS:
        return words
    kept = kinds[: MOST_KINDS - 1]
    return (*(word for word in words if word in kept), f"{len(kinds) - len(kept)} more kinds")


def _beside(material: OpeningMaterial, run: str) -> list[str]:
    """Other findings that cost device time in the first case of the headline, without its most expensive one."""
    first = material.headline[0] if material.headline else None
    of_case = (f for f in material.findings if (f.run, f.case) == (run, first))
    own = [finding for finding in of_case if finding.of == DEVICE and finding.severity != "info"]
    return [f"Also in {first}: {finding.text}" for finding in sorted(own, key=lambda f: f.rank)[1:]]


# --- guesses ---------------------------------------------------------------------------------------------------------


def _tally(material: OpeningMaterial) -> list[str]:
    """Confirmed guesses by run, if several runs were judged."""
    judged = [run for run in material.runs if any(j.run == run for j in material.expectations)]
    if len(judged) < 2:
        return []
    return [f"Guesses that held: {'; '.join(_fared(material, run) for run in judged)}."]


def _fared(material: OpeningMaterial, run: str) -> str:
    counts = Counter(j.verdict for j in material.expectations if j.run == run)
    judged = counts[CONFIRMED] + counts[BROKEN]
    if not judged:
        return f"none was judged on {run}"
    rest = f" ({counts[NOT_APPLICABLE]} could not be judged)" if counts[NOT_APPLICABLE] else ""
    return f"{counts[CONFIRMED]} of {judged} on {run}{rest}"
