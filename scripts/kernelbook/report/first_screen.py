"""The first screen: the verdict, the headline ratio, the runs, and what did not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelbook.cases import FAILED_PROCESSES, Activity, CaseFacts
from kernelbook.cases.comparability import refusal
from kernelbook.edition.model import Edition, Run
from kernelbook.judge.expectations import Judgement
from kernelbook.report import openings
from kernelbook.report.phrases import inside
from kernelbook.text import formatting


@dataclass(frozen=True)
class Verdict:
    """How the guesses fared. Guesses that could not be judged are not in `judged`.

    `reasons`: why they could not, and how many each, the commonest first. `failed`: cases of runs that failed;
    `in_part`: those of which some processes did. `opening`: what comes before the guesses (`openings.opening`).
    """

    held: int
    judged: int
    not_applicable: int
    broken: tuple[Judgement, ...]
    reasons: tuple[tuple[str, int], ...] = ()
    failed: int = 0
    in_part: int = 0
    opening: str = ""

    @property
    def sentence(self) -> str:
        """How many guesses broke or that all held, and how many cases failed."""
        parts = [self.opening[:1].upper() + self.opening[1:]] if self.opening else []
        parts += [self._guesses] if self.judged or not self.opening else []
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
        """Why the others could not be judged: `no device activities (8), forwards differ (2)`."""
        return ", ".join(f"{reason} ({number})" for reason, number in self.reasons)


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
        """What follows each name, the faster case first: ` (fp32 inside)` where it computes in another precision."""
        return inside(self.fast), inside(self.slow)

    @property
    def has_price(self) -> bool:
        """Whether the accuracy or the memory of both cases was measured."""
        names = ("relative_error", "peak_memory_bytes")
        return any(all(getattr(row, name) is not None for row in (self.fast, self.slow)) for name in names)


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


def verdict(edition: Edition) -> Verdict:
    """The verdict over all cases and runs."""
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
        opening=openings.opening(edition),
    )


def headlines(edition: Edition) -> tuple[Headline, ...]:
    """One for each run that has comparable times of both cases, measured runs before published ones."""
    made = [
        Headline(run, fast.device_time_us, slow.device_time_us, fast, slow)
        for run, fast, slow in _headline_rows(edition)
        if fast.device_time_us and slow.device_time_us and not refusal(fast.setting, slow.setting)
    ]
    return tuple(sorted(made, key=lambda headline: headline.run.kind == "published"))


def headline_refusals(edition: Edition) -> tuple[tuple[Run, str], ...]:
    """(run, reason) of each run whose times of both headline cases are not comparable."""
    rows = ((run, refusal(fast.setting, slow.setting)) for run, fast, slow in _headline_rows(edition))
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
class LongKernel:
    """A device activity that takes much of its forward."""

    row: CaseFacts
    activity: Activity
    share: float


def longest(edition: Edition, limit: int = 3) -> tuple[LongKernel, ...]:
    """The longest device activity of each case of the first run that has any, the longest first."""
    rows = [row for row in edition.case_runs if row.activities and not row.ceiling]
    kernels = []
    for row in rows:
        if row.run == rows[0].run:
            total = sum(activity.duration_us for activity in row.activities)
            activity = max(row.activities, key=lambda activity: activity.duration_us)
            kernels.append(LongKernel(row, activity, activity.duration_us / total if total else 0.0))
    kernels.sort(key=lambda kernel: -kernel.activity.duration_us)
    return tuple(kernels[:limit])


@dataclass(frozen=True)
class RunTally:
    """How many cases of a run have each status."""

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
    """A case of a run that did not run, or not in all its processes; `bad` where that is a failure."""

    run: str
    case: str
    status: str
    reason: str | None
    bad: bool


def troubles(edition: Edition) -> tuple[Trouble, ...]:
    """Cases that did not run or not in all their processes, each with its reason."""
    rows = []
    for row in edition.case_runs:
        if row.status != "ok":
            rows.append(Trouble(row.run, row.case, row.status, row.reason, row.status == "failed"))
        elif row.bad_processes:
            message = next(note.message for note in row.notes if note.code == FAILED_PROCESSES)
            status, _, reason = message.partition(": ")
            rows.append(Trouble(row.run, row.case, status, reason, bad=True))
    return tuple(rows)
