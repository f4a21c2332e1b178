"""What the first screen says: the verdict, the headline ratio, the costliest findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelbook.cases import FAILED_PROCESSES, Activity, CaseFacts, Note
from kernelbook.cases.comparability import refusal
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.cost_model.forward import computed_in
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.text import formatting


@dataclass(frozen=True)
class Verdict:
    """How the guesses fared. Guesses that could not be judged are not in `judged`.

    `reasons`: why they could not, and how many each, the commonest first. `failed`: cases of runs that failed;
    `in_part`: those of which some processes did.
    """

    held: int
    judged: int
    not_applicable: int
    broken: tuple[Judgement, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    failed: int = 0
    in_part: int = 0

    @property
    def sentence(self) -> str:
        """The guesses that broke, or that all held; never without the cases that failed."""
        parts = [self._guesses]
        parts += [f"{formatting.plural(self.failed, 'case')} failed"] if self.failed else []
        parts += [f"{formatting.plural(self.in_part, 'case')} failed in part"] if self.in_part else []
        return f"{'; '.join(parts)}."

    @property
    def _guesses(self) -> str:
        if not self.judged:
            return "No guess was judged"
        if self.judged == 1:
            return f"The one guess {'broke' if self.broken else 'held'}"
        guesses = formatting.plural(self.judged, "guess", "guesses")
        return f"{len(self.broken)} of {guesses} broke" if self.broken else f"All {guesses} held"

    @property
    def why_not(self) -> str:
        """Why the others could not be judged: `8 no device activities, 2 forwards differ`."""
        return ", ".join(f"{number} {reason}" for reason, number in self.reasons)


@dataclass(frozen=True)
class Headline:
    """The faster of the two headline cases against the slower on one run; times are device time of a forward."""

    run: Run
    fast_us: float
    slow_us: float
    fast: CaseFacts
    slow: CaseFacts

    @property
    def ratio(self) -> float:
        return self.slow_us / self.fast_us

    @property
    def notes(self) -> tuple[str, str]:
        """What stands behind either name, faster first: ` (fp32 inside)` where it computes in another precision."""
        return inside(self.fast), inside(self.slow)

    @property
    def pays(self) -> bool:
        """Whether the accuracy or the memory of both is known."""
        rows = self.fast, self.slow
        known = (
            all(getattr(row, name) is not None for row in rows) for name in ("relative_error", "peak_memory_bytes")
        )
        return any(known)


def inside(row: CaseFacts) -> str:
    """` (fp32 inside)` where most of the time of matrix products goes in another precision than the inputs have."""
    other = computed_in(row.setting.dtype, row.activities)
    return f" ({other} inside)" if other else ""


def subject(edition: Edition, created_utc: str) -> str:
    """What the figures are of, in one line: GPUs and torch of the measured runs, and when they were measured."""
    measured = [run for run in edition.runs if run.kind != "published" and run.status != "lost"]
    devices = _listed(name for run in measured for name in (run.device or "").split(", "))
    torches = _listed(run.torch for run in measured)
    days = sorted({(run.recorded_utc or created_utc)[:10] for run in measured})
    date = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    return " · ".join(part for part in (devices, torches and f"torch {torches}", date) if part)


def _listed(names: Iterable[str | None], limit: int = 3) -> str:
    """Each name once, the first few by name: `A, B, C and 2 more`."""
    distinct = list(dict.fromkeys(name for name in names if name))
    more = f" and {len(distinct) - limit} more" if len(distinct) > limit else ""
    return ", ".join(distinct[:limit]) + more


def conditions(row: CaseFacts) -> str:
    """What a case was measured with: `bfloat16, batch 8, seq 1024, eager, 3 warm-up calls`."""
    params = [f"{name} {value}" for name, value in row.params.items()]
    warmup = "no warm-up" if row.warmup == 0 else row.warmup and formatting.plural(row.warmup, "warm-up call")
    return ", ".join(part for part in (row.dtype, *params, row.mode, warmup) if part)


def verdict(edition: Edition) -> Verdict:
    judged = edition.judged
    held = sum(row.held for row in judged)
    broken = tuple(row for row in judged if row.broken)
    why = Counter(row.observed for row in judged if not (row.held or row.broken))
    return Verdict(
        held,
        held + len(broken),
        len(judged) - held - len(broken),
        broken,
        tuple(why.most_common()),
        failed=sum(row.status == "failed" for row in edition.case_runs),
        in_part=sum(row.status == "ok" and bool(row.bad_processes) for row in edition.case_runs),
    )


def headlines(edition: Edition) -> tuple[Headline, ...]:
    """One for each run that has both figures and may compare them, measured runs before published ones."""
    found = [
        Headline(run, fast.device_time_us, slow.device_time_us, fast, slow)
        for run, fast, slow in _headline_rows(edition)
        if fast.device_time_us and slow.device_time_us and not refusal(fast.setting, slow.setting)
    ]
    return tuple(sorted(found, key=lambda headline: headline.run.kind == "published"))


def headline_refusals(edition: Edition) -> tuple[tuple[Run, str], ...]:
    """(run, why) of each run that has both headline figures and may not compare them."""
    rows = ((run, refusal(fast.setting, slow.setting)) for run, fast, slow in _headline_rows(edition))
    return tuple((run, why) for run, why in rows if why)


def asks_headline(edition: Edition) -> bool:
    """Whether a run has a case of the headline's pair, so that there is something to say of it."""
    return any(row.case in (edition.headline or ()) for row in edition.case_runs)


def _headline_rows(edition: Edition) -> Iterator[tuple[Run, CaseFacts, CaseFacts]]:
    rows = edition.by_key()
    for run in edition.runs if edition.headline else ():
        fast, slow = (rows.get((run.run, case)) for case in reversed(edition.headline or ()))
        if fast and slow and fast.device_time_us and slow.device_time_us:
            yield run, fast, slow


def own_findings(edition: Edition) -> tuple[Finding, ...]:
    """Findings about what is profiled; those about the ceilings, by which it is measured, stand beside them alone."""
    yardsticks = edition.yardsticks()
    return tuple(finding for finding in edition.findings if finding.case not in yardsticks)


#: Warnings of a case that a finding of this rule tells once for all cases of the run.
TOLD_BY = {"slow_first": "slow-first"}


def warnings(edition: Edition, row: CaseFacts) -> tuple[Note, ...]:
    """The warnings of a case, without those that a finding about it tells."""
    rules = {f.rule for f in edition.findings if f.run == row.run and row.case in (f.case, *_names(f.cases))}
    return tuple(warned for warned in row.notes if TOLD_BY.get(warned.code) not in rules)


def _names(cases: str | None) -> list[str]:
    return cases.split(", ") if cases else []


COSTLY = ("high", "medium")  # the others take less than a twentieth of their forward, or claim no time


def costliest(findings: Iterable[Finding], limit: int = 3) -> tuple[Finding, ...]:
    """The weightiest findings that cost something, one of each case and one of each rule."""
    chosen: list[Finding] = []
    for finding in ranked(finding for finding in findings if finding.severity in COSTLY):
        if all(finding.case != other.case and finding.rule != other.rule for other in chosen):
            chosen.append(finding)
    return tuple(chosen[:limit])


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The weightiest first."""
    return tuple(sorted(findings, key=lambda finding: finding.rank))


#: What a weight means, of the forward's time of the kind that a finding costs.
WEIGHTS = {
    "high": "a fifth of the forward or more",
    "medium": "a twentieth of the forward or more",
    "low": "less than a twentieth of the forward",
    "info": "for information",
}


@dataclass(frozen=True)
class Weighed:
    """The findings of one weight, the dearest first; `more`: how many are not among them."""

    weight: str
    findings: tuple[Finding, ...]
    more: int

    @property
    def title(self) -> str:
        return f"{self.weight.capitalize()}: {WEIGHTS[self.weight]}"


def by_weight(findings: Iterable[Finding], limit: int) -> tuple[Weighed, ...]:
    """Those of each weight that occurs, the weightiest first, at most `limit` of each."""
    groups: dict[str, list[Finding]] = {}
    for finding in ranked(findings):
        groups.setdefault(finding.severity, []).append(finding)
    return tuple(
        Weighed(weight, tuple(listed[:limit]), max(len(listed) - limit, 0)) for weight, listed in groups.items()
    )


@dataclass(frozen=True)
class LongKernel:
    """A device activity that takes much of its forward."""

    row: CaseFacts
    activity: Activity
    share: float


def longest(edition: Edition, limit: int = 3) -> tuple[LongKernel, ...]:
    """The longest device activities of the first run that has any, one a case: what to look at without findings."""
    rows = [row for row in edition.case_runs if row.activities and row.case not in edition.yardsticks()]
    found = []
    for row in rows:
        if row.run == rows[0].run:
            total = sum(act.duration_us for act in row.activities)
            act = max(row.activities, key=lambda act: act.duration_us)
            found.append(LongKernel(row, act, act.duration_us / total if total else 0.0))
    found.sort(key=lambda long: -long.activity.duration_us)
    return tuple(found[:limit])


@dataclass(frozen=True)
class RunTally:
    run: Run
    ok: int
    unsupported: int
    failed: int

    @property
    def words(self) -> str:
        """`4 cases`, `2 of 4 cases failed`, `2 of 5 cases failed, 1 unsupported`."""
        cases = formatting.plural(self.ok + self.unsupported + self.failed, "case")
        bad = [(n, word) for n, word in ((self.failed, "failed"), (self.unsupported, "unsupported")) if n]
        return ", ".join(f"{n} {word}" if i else f"{n} of {cases} {word}" for i, (n, word) in enumerate(bad)) or cases


def tallies(edition: Edition) -> tuple[RunTally, ...]:
    def tally(run: Run) -> RunTally:
        states = [row.status for row in edition.case_runs if row.run == run.run]
        ok, unsupported = states.count("ok"), states.count("unsupported")
        return RunTally(run, ok, unsupported, len(states) - ok - unsupported)

    return tuple(tally(run) for run in edition.runs)


def lost(edition: Edition) -> tuple[Run, ...]:
    return tuple(run for run in edition.runs if run.status == "lost")


@dataclass(frozen=True)
class Trouble:
    """A case of a run that did not run, or not in all its processes; `bad` where that is a failure."""

    run: str
    case: str
    status: str
    reason: str | None
    bad: bool


def troubles(edition: Edition) -> tuple[Trouble, ...]:
    """What did not run, each with its reason."""
    found = []
    for row in edition.case_runs:
        if row.status != "ok":
            found.append(Trouble(row.run, row.case, row.status, row.reason, row.status == "failed"))
        elif row.bad_processes:
            said = next(warned.message for warned in row.notes if warned.code == FAILED_PROCESSES)
            status, _, reason = said.partition(": ")
            found.append(Trouble(row.run, row.case, status, reason, bad=True))
    return tuple(found)
