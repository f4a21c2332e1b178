"""The first screen: the verdict in one sentence, the headline, at most five concerns, and the runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelbook.cases import FAILED_PROCESSES, CaseFacts
from kernelbook.cases.comparability import refusal
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.expectations.other_cases import NOTHING
from kernelbook.judge.expectations.vocabulary import FORWARDS_DIFFER
from kernelbook.judge.ratios import PROCESSES_DIFFER
from kernelbook.kernel_names import labels
from kernelbook.report import findings_section, openings
from kernelbook.report.phrases import cost, inside, on_runs
from kernelbook.text import formatting
from kernelbook.text.remedies import fact_and_remedy

#: Observation of a guess that was not judged -> the reason in words; other observations are shown unchanged.
WHY_NOT = {
    PROCESSES_DIFFER: "the processes of their case disagree",
    FORWARDS_DIFFER: "the forwards of their case disagree",
    NOTHING: "the other case of the comparison has no figures",
    "not measured": "the figure was not measured",
    "not recorded": "the trace does not record it",
    "not known": "the trace does not show it",
    "not comparable": "the two cases were measured under different conditions",
    "no forward": "the trace has no forward of their case",
    "unclear": "it is unclear what limits the forward",
}
LOST = "the run was lost"
#: If more than this share of the guesses could not be judged, the sentence gives the number that was judged.
MANY = 0.25
#: Lines of the first screen.
CONCERNS = 5


@dataclass(frozen=True)
class Verdict:
    """The result over all guesses and cases. judged: guesses that held or broke.

    reasons: why the others could not be judged, with their number, the most frequent first. lost_runs: runs that could
    not be started. lost_cases: their cases. failed: cases that failed in other runs. in_part: cases of which only some
    processes failed. opening: the part of the sentence before the guesses (`openings.opening`). cases: rows of cases on
    runs.
    """

    held: int
    judged: int
    not_applicable: int
    broken: tuple[Judgement, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    failed: int = 0
    in_part: int = 0
    lost_runs: int = 0
    lost_cases: int = 0
    opening: str = ""
    cases: int = 0

    @property
    def bad(self) -> bool:
        """Whether a guess broke, a case failed or a run was lost."""
        return bool(self.broken or self.failed or self.in_part or self.lost_runs)

    @property
    def parts(self) -> tuple[tuple[str, bool], ...]:
        """(part of the sentence, whether it is bad): the opening, losses and failures, the result of the guesses."""
        losses = (
            (self.lost_runs, "run", "lost"),
            (self.failed, "case", "failed"),
            (self.in_part, "case", "failed in part"),
        )
        bad = ", ".join(f"{formatting.plural(number, what)} {how}" for number, what, how in losses if number)
        texts = ((self.opening, False), (bad, True), (self._guesses, bool(self.broken)))
        first, *others = [part for part in texts if part[0]]
        return (first, *((text[0].lower() + text[1:], bad) for text, bad in others))

    @property
    def sentence(self) -> str:
        """The verdict: losses and failures, then the number of broken guesses or that all held."""
        return f"{'; '.join(text for text, _ in self.parts)}."

    @property
    def _guesses(self) -> str:
        if not self.judged and self.not_applicable:
            return "" if self.opening else "No guess could be judged"
        if not self.judged:
            what = f"{formatting.plural(self.cases, 'case')}, and no guess" if self.cases else "Nothing was measured"
            return "" if self.opening or self.bad else what
        if self.not_applicable > MANY * (self.judged + self.not_applicable):
            all_guesses = f"{self.judged} of {self.judged + self.not_applicable} guesses"
            fared = f"{len(self.broken)} broke" if self.broken else "and held" if self.judged == 1 else "all held"
            return f"{all_guesses} {'was' if self.judged == 1 else 'were'} judged, {fared}"
        if self.judged == 1:
            return f"The one guess {'broke' if self.broken else 'held'}"
        guesses = formatting.plural(self.judged, "guess", "guesses")
        return f"{len(self.broken)} of {guesses} broke" if self.broken else f"All {guesses} held"

    @property
    def why_not(self) -> str:
        """Why the others could not be judged: `nothing ran on a GPU (8), the forwards of their case disagree (2)`."""
        return ", ".join(f"{WHY_NOT.get(reason, reason)} ({number})" for reason, number in self.reasons)


@dataclass(frozen=True)
class Headline:
    """The faster of the two headline cases against the slower on one run; times are device time of a forward.

    ``fastest``: the fastest case of their workload on that run that is comparable with the slower one; None if it is
    the faster of the two.
    """

    run: Run
    fast_us: float
    slow_us: float
    fast: CaseFacts
    slow: CaseFacts
    fastest: CaseFacts | None = None

    @property
    def ratio(self) -> float:
        return self.slow_us / self.fast_us

    @property
    def fastest_ratio(self) -> float | None:
        """Device time of the slower case over that of the fastest one."""
        return self.slow_us / self.fastest.device_time_us if self.fastest and self.fastest.device_time_us else None

    @property
    def notes(self) -> tuple[str, str]:
        """The addition to each name, the faster case first: ` (fp32 inside)` if it computes in another precision."""
        return inside(self.fast), inside(self.slow)


def subject(edition: Edition, created_utc: str) -> str:
    """The measured runs in one line: GPUs, versions of torch, and dates."""
    measured = [run for run in edition.runs if run.kind != "published" and run.status != "lost"]
    devices = _some(name for run in measured for name in (run.device or "").split(", "))
    torches = _some(run.torch for run in measured)
    days = sorted({(run.recorded_utc or created_utc)[:10] for run in measured})
    return " · ".join(part for part in (devices, torches and f"torch {torches}", formatting.ends(days)) if part)


def _some(names: Iterable[str | None]) -> str:
    """Each name once, the first few by name: `A, B, C and 2 more`."""
    return formatting.tally(list(dict.fromkeys(name for name in names if name)), 3)


def verdict(edition: Edition) -> Verdict:
    """The verdict over all cases and runs."""
    judged = edition.judged
    held = sum(row.held for row in judged)
    broken = tuple(row for row in judged if row.broken)
    gone = {run.run for run in lost(edition)}
    why = Counter(LOST if row.run in gone else row.observed for row in judged if not (row.held or row.broken))
    failed = Counter(row.run in gone for row in edition.case_runs if row.status == "failed")
    return Verdict(
        held,
        held + len(broken),
        len(judged) - held - len(broken),
        broken,
        tuple(why.most_common()),
        failed=failed[False],
        in_part=sum(row.status == "ok" and bool(row.bad_processes) for row in edition.case_runs),
        lost_runs=len(gone),
        lost_cases=failed[True],
        opening=openings.opening(edition),
        cases=len(edition.case_runs),
    )


def headlines(edition: Edition) -> tuple[Headline, ...]:
    """One for each run that has comparable times of both cases, measured runs before published ones."""
    made = [
        Headline(run, fast.device_time_us, slow.device_time_us, fast, slow, _fastest(edition, fast, slow))
        for run, fast, slow in _headline_rows(edition)
        if fast.device_time_us and slow.device_time_us and not refusal(fast.conditions, slow.conditions)
    ]
    return tuple(sorted(made, key=lambda headline: headline.run.kind == "published"))


def _fastest(edition: Edition, fast: CaseFacts, slow: CaseFacts) -> CaseFacts | None:
    same = (row for row in edition.case_runs if (row.run, row.workload) == (fast.run, fast.workload))
    timed = [
        (row.device_time_us, row) for row in same if row.device_time_us and not refusal(row.conditions, slow.conditions)
    ]
    best = min(timed, key=lambda pair: pair[0])[1] if timed else fast
    return None if best.case == fast.case else best


def headline_refusals(edition: Edition) -> tuple[tuple[Run, str], ...]:
    """(run, reason) of each run whose times of both headline cases are not comparable."""
    rows = ((run, refusal(fast.conditions, slow.conditions)) for run, fast, slow in _headline_rows(edition))
    return tuple((run, why) for run, why in rows if why)


def has_headline_case(edition: Edition) -> bool:
    """Whether a run has at least one of the headline's two cases."""
    return any(row.case in (edition.headline or ()) for row in edition.case_runs)


def _headline_rows(edition: Edition) -> Iterator[tuple[Run, CaseFacts, CaseFacts]]:
    rows = edition.by_key()
    for run in edition.runs if edition.headline else ():
        fast, slow = (rows.get((run.run, case)) for case in reversed(edition.headline or ()))
        if fast and slow and fast.device_time_us and slow.device_time_us:
            yield run, fast, slow


@dataclass(frozen=True)
class Concern:
    """One line of the first screen: a run or case, its problem, and the remedy.

    bad: whether something broke, failed or was lost. case: whether the subject is a case. time: `could save 128 µs`.
    others: further cases with the same problem.
    """

    subject: str
    text: str
    remedy: str = ""
    bad: bool = False
    case: bool = True
    time: str = ""
    others: tuple[str, ...] = ()


def concerns(edition: Edition, limit: int = CONCERNS) -> tuple[Concern, ...]:
    """At most `limit`, worst first: lost runs, failed cases by reason, broken guesses by case, findings that cost time.

    If there are none of these, the longest kernels.
    """
    every = [*_lost(edition), *_failed(edition), *_broken(edition), *_costly(edition, 4 * limit)] or _longest(edition)
    worst = {concern.subject: concern for concern in reversed(every)}  # one line for each case
    return tuple(concern for concern in every if worst[concern.subject] is concern)[:limit]


def concerns_title(edition: Edition) -> str:
    """The heading of the concerns."""
    bad = [concern.bad for concern in concerns(edition)]
    if any(bad):
        return "What went wrong" if all(bad) else "What went wrong, and what is slow"
    return "What is slow, and what to do" if not bad or any(_costly(edition, 1)) else "No findings: the longest kernels"


def _lost(edition: Edition) -> Iterator[Concern]:
    for run in lost(edition):
        fact, remedy = fact_and_remedy(run.reason or "no reason given")
        cases = sum(row.run == run.run for row in edition.case_runs)
        what = f"the run was lost with its {formatting.plural(cases, 'case')}" if cases else "the run was lost"
        yield Concern(run.run, f"{what}: {fact}.", remedy, bad=True, case=False)


def _failed(edition: Edition) -> Iterator[Concern]:
    groups: dict[tuple[str, str], list[Trouble]] = {}
    gone = {run.run for run in lost(edition)}
    for row in troubles(edition):
        if row.bad and row.run not in gone:
            groups.setdefault((row.run, row.reason or "no reason given"), []).append(row)
    for (run, reason), rows in groups.items():
        first, *others = (row.case for row in rows)
        fact, remedy = fact_and_remedy(reason)
        remedy = remedy or "The last lines of its output, in the case below, may show why."
        text = f"{_and_more(others)}{rows[0].status} on {run}: {fact.rstrip('.')}."
        yield Concern(first, text, remedy, bad=True, others=tuple(others))


def _broken(edition: Edition) -> Iterator[Concern]:
    groups: dict[str, list[Judgement]] = {}
    for row in verdict(edition).broken:
        groups.setdefault(row.case, []).append(row)
    alike: dict[str, list[str]] = {}
    for case, rows in groups.items():
        one, others = rows[0], len({row.word for row in rows}) - 1
        runs = [row.run for row in rows if row.word == one.word]
        more = f" The case broke {formatting.plural(others, 'other guess', 'other guesses')} too." if others else ""
        text = f"{one.word.replace('_', ' ')} guessed {formatting.clip(one.expected, 40)}, seen"
        text += f" {formatting.clip(one.observed, 40)} on {on_runs(runs)}.{more}"
        alike.setdefault(text, []).append(case)
    for text, (first, *more_cases) in alike.items():
        remedy = "Correct the guess in config.yaml, or look below at which kernels ran instead."
        yield Concern(first, f"{_and_more(more_cases)}{text}", remedy, bad=True, others=tuple(more_cases))


def _and_more(cases: list[str]) -> str:
    """`and 2 more cases: `, behind the first."""
    return f"and {formatting.plural(len(cases), 'more case')}: " if cases else ""


def more_broken(edition: Edition) -> int:
    """Number of cases with broken guesses that have no line among the concerns."""
    listed = {case for concern in concerns(edition) for case in (concern.subject, *concern.others)}
    return len({row.case for row in verdict(edition).broken} - listed)


def _costly(edition: Edition, limit: int) -> Iterator[Concern]:
    for finding in findings_section.costliest(findings_section.own_findings(edition), limit):
        words = {"recoverable": "could save ", "spent": "spends "}
        time = "" if finding.time_us is None else words.get(finding.kind, "") + cost(finding)
        text = re.sub(rf"^{re.escape(finding.case)} ", "It ", finding.text or finding.rule)
        yield Concern(finding.case, text, finding.remedy, time=time)


def _longest(edition: Edition, limit: int = 3) -> list[Concern]:
    """The longest device activity of each case of the first run that has any, the longest first."""
    rows = [row for row in edition.case_runs if row.activities and not row.ceiling]
    longest = [(max(row.activities, key=lambda each: each.duration_us), row) for row in rows if row.run == rows[0].run]
    longest.sort(key=lambda pair: -pair[0].duration_us)
    made = []
    for activity, row in longest[:limit]:
        label = labels.activity_label(activity)
        what = f"{label.short}: {label.what}" if label.what else label.short
        text = f"Its longest is {what}, launched by {formatting.clip(activity.op or 'an unknown op', 60)}."
        made.append(Concern(row.case, text, time=formatting.duration(activity.duration_us)))
    return made


@dataclass(frozen=True)
class RunTally:
    """The numbers of cases of a run by status."""

    run: Run
    ok: int
    unsupported: int
    failed: int

    @property
    def text(self) -> str:
        """`4 cases`, `2 of 4 cases failed`, `2 of 5 cases failed, 1 unsupported`."""
        cases = formatting.plural(self.ok + self.unsupported + self.failed, "case")
        bad = [(n, word) for n, word in ((self.failed, "failed"), (self.unsupported, "unsupported")) if n]
        return ", ".join(f"{n} {word}" if i else f"{n} of {cases} {word}" for i, (n, word) in enumerate(bad)) or cases


def tallies(edition: Edition) -> tuple[RunTally, ...]:
    """One for each run, in the edition's order."""

    def tally(run: Run) -> RunTally:
        states = [row.status for row in edition.case_runs if row.run == run.run]
        ok, unsupported = states.count("ok"), states.count("unsupported")
        return RunTally(run, ok, unsupported, len(states) - ok - unsupported)

    return tuple(tally(run) for run in edition.runs)


def lost(edition: Edition) -> tuple[Run, ...]:
    """The runs that could not be started."""
    return tuple(run for run in edition.runs if run.status == "lost")


@dataclass(frozen=True)
class Trouble:
    """A case of a run that did not run in all its processes. bad: whether that is a failure."""

    run: str
    case: str
    status: str
    reason: str | None
    bad: bool


def troubles(edition: Edition) -> tuple[Trouble, ...]:
    """Cases that did not run in all their processes, each with its reason; without those lost with their run."""
    rows, gone = [], {run.run: run for run in lost(edition)}
    for row in edition.case_runs:
        if row.run in gone and gone[row.run].took(row):
            continue
        if row.status != "ok":
            rows.append(Trouble(row.run, row.case, row.status, row.reason, row.status == "failed"))
        elif row.bad_processes:
            message = next(note.message for note in row.notes if note.code == FAILED_PROCESSES)
            status, _, reason = message.partition(": ")
            rows.append(Trouble(row.run, row.case, status, reason, bad=True))
    return tuple(rows)
