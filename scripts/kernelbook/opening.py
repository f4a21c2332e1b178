"""The first paragraph of a report: what held, what broke, the headline, what costs most, what was seen beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelbook.case_facts import YARDSTICK, CaseFacts
from kernelbook.comparisons import Comparison, refusal, step_text
from kernelbook.expectations import BROKEN, CONFIRMED, NOT_APPLICABLE, Judgement
from kernelbook.findings import Finding
from kernelbook.units import duration, plural

Key = tuple[str, str]
MOST_BROKEN = 3
COSTLIEST = 3


@dataclass(frozen=True)
class Said:
    """What the words are made of. ``runs``: run -> case -> facts."""

    runs: Mapping[str, Mapping[str, CaseFacts]]
    expectations: Sequence[tuple[Key, Judgement]]
    findings: Sequence[tuple[Key, Finding]]
    comparisons: Sequence[Comparison]
    headline: tuple[str, ...]


def opening_words(said: Said) -> list[str]:
    """Sentences, in order; numbers in them are those of the run with most device activities."""
    main = _main_run(said)
    lines = [_verdicts(said, run) for run in said.runs]
    lines += _broken(said)
    if main:
        costly = _costliest(said, main)
        lines += _headline(said, main)
        lines += [f"{duration(f.time_us or 0.0)} a forward in {case} ({f.of}): {f.text}" for (_, case), f in costly]
        lines += _beside(said, main, costly)
        lines += _compared(said, main)
        lines += _hidden(said, main)
    return [line for line in lines if line]


def _main_run(said: Said) -> str | None:
    with_device = {run: sum(f.on_device for f in cases.values()) for run, cases in said.runs.items()}
    best = max(with_device, key=lambda run: with_device[run], default=None)
    return best if best and with_device[best] else None


def _verdicts(said: Said, run: str) -> str:
    counts = Counter(j.verdict for (of, _), j in said.expectations if of == run)
    states = Counter(facts.status for facts in said.runs[run].values())
    parts = [f"{counts[CONFIRMED]} held", f"{counts[BROKEN]} broke"]
    if counts[NOT_APPLICABLE]:
        why = Counter(j.observed for (of, _), j in said.expectations if of == run and j.verdict == NOT_APPLICABLE)
        parts.append(f"{counts[NOT_APPLICABLE]} could not be judged ({reasons(why)})")
    guesses = plural(sum(counts.values()), "guess", "guesses")
    failed = f" {plural(states['failed'], 'case')} failed." if states["failed"] else ""
    return f"{run}: of {guesses} about {plural(sum(states.values()), 'case')}, {', '.join(parts)}.{failed}"


def reasons(why: Mapping[str, int]) -> str:
    """How often each reason was why a guess could not be judged: ``8 no device activities, 2 forwards differ``."""
    return ", ".join(f"{number} {reason}" for reason, number in sorted(why.items(), key=lambda item: -item[1]))


def _broken(said: Said) -> list[str]:
    broken = [(key, j) for key, j in said.expectations if j.verdict == BROKEN]
    lines = [
        f"Broken: {case} on {run}, {j.word}: expected {j.expected}, observed {j.observed} ({_cut(j.evidence)})."
        for (run, case), j in broken[:MOST_BROKEN]
    ]
    return [*lines, f"And {plural(len(broken) - MOST_BROKEN, 'more', 'more')}."] if len(broken) > MOST_BROKEN else lines


def _cut(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _headline(said: Said, run: str) -> list[str]:
    if len(said.headline) != 2:
        return []
    b, a = (said.runs[run].get(case) for case in said.headline)
    if not a or not b or not (a.on_device and b.on_device) or not a.device_time_us or not b.device_time_us:
        return []
    refused = refusal(a, b)
    if refused:
        return [f"On {run}, {b.case} and {a.case} are not compared: {refused}."]
    ratio = b.device_time_us / a.device_time_us
    return [
        f"On {run}, {b.case} runs {plural(b.kernels or 0, 'kernel')} a forward against {a.kernels} of {a.case}, "
        f"and takes {ratio:.2f} x its device time ({duration(b.device_time_us)} against {duration(a.device_time_us)})."
    ]


def _costliest(said: Said, run: str) -> list[tuple[Key, Finding]]:
    """The weightiest findings that cost time, one a case and one a rule."""
    own = [item for item in said.findings if item[0][0] == run and said.runs[run][item[0][1]].workload != YARDSTICK]
    ranked = sorted(
        (item for item in own if item[1].severity != "info" and item[1].time_us),
        key=lambda item: item[1].rank,
    )
    kept: list[tuple[Key, Finding]] = []
    for (of, case), finding in ranked:
        again = any(finding.rule == other.rule or case == other_case for (_, other_case), other in kept)
        if not again and len(kept) < COSTLIEST:
            kept.append(((of, case), finding))
    return kept


def _beside(said: Said, run: str, costly: Sequence[tuple[Key, Finding]]) -> list[str]:
    """What else was found in the case that the headline puts first, notes aside."""
    told = {id(finding) for _, finding in costly}
    first = said.headline[0] if said.headline else None
    return [
        f"Also in {case}: {f.text}"
        for (of, case), f in said.findings
        if of == run and case == first and f.severity != "info" and id(f) not in told
    ]


def _compared(said: Said, run: str) -> list[str]:
    """What the aligned comparisons of this run show: copies removed, kernels fused, kernels left as they were."""
    removed, fused, same = [], [], []
    for c in said.comparisons:
        if c.a.run != run or c.b.run != run:
            continue
        for step in c.steps:
            text = step_text(step, c.a.device_time_us)
            if step.kind == "removed" and step.a[0].category == "memcpy":
                removed.append(f"{c.b.case} against {c.a.case}: {_lower(text)}")
            elif step.kind == "fused":
                fused.append(f"{c.b.case} against {c.a.case}: {_lower(text)}")
        identical = c.steps and all(step.kind in ("same", "changed") for step in c.steps)
        if identical and c.b.mode == "compile" and c.a.mode == "eager":
            same.append(f"{c.b.case} leaves {_the_kernels(c.b.kernels)} of {c.a.case} as {_it_is(c.b.kernels)}.")
    return [*removed[:1], *fused[:2], *same[:1]]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _the_kernels(count: int | None) -> str:
    return "the kernel" if count == 1 else f"the {count} kernels"


def _it_is(count: int | None) -> str:
    return "it is" if count == 1 else "they are"


def _hidden(said: Said, run: str) -> list[str]:
    """A case that is launch-bound though its kernels are the fastest of its workload."""
    found = [
        f"{case}: {f.text}"
        for (of, case), f in said.findings
        if of == run and f.rule == "overhead-bound" and "Yet " in f.text
    ]
    return found[:2]
