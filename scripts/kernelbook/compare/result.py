"""A whole comparison and its verdicts: on times by the paired ratio, on the rest as in `kernelbook diff`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelbook.compare.measuring import ComparedSide, Place, Report, Turns, ends, side_of, take_turns
from kernelbook.compare.subjects import Subject, Wish, cases_of, check_pair, read_settings, subject_of
from kernelbook.diffs.model import Diff, diff
from kernelbook.diffs.sides import SideError
from kernelbook.judge.comparisons import Comparison
from kernelbook.judge.paired import PairedRatio, Precision
from kernelbook.judge.ratios import FASTER, SLOWER, ratio_text
from kernelbook.sources.workload_source import Places

KERNELS, MEMORY, OPS = "kernels", "memory", "ops"
CHANGES = (SLOWER, FASTER, KERNELS, MEMORY, OPS)
#: Changes that end a comparison with status 3 by default; ops are not among them: they differ between torch versions.
DEFAULT_CHANGES = (SLOWER, FASTER, KERNELS, MEMORY)
FAILED, UNSUPPORTED = "failed", "unsupported"
#: Least relative change of peak memory that counts, since allocators round.
MEMORY_FROM = 0.01
NO_CHANGE, CHANGED, FAILURE, BOTH = 0, 3, 4, 5


@dataclass(frozen=True)
class CaseResult:
    """One case. verdict: slower, faster, no difference or undecided, of b against a; failed or unsupported.

    reasons: why it could not be measured. changes: CHANGES that were found. comparison: None if a side has no
    measurement.
    """

    case: str
    verdict: str
    ratio: PairedRatio | None
    changes: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    comparison: Comparison | None = None

    @property
    def text(self) -> str:
        """The verdict in one line: `1.052× (1.031 to 1.070): slower; kernels`."""
        more = "".join(f"; other {change}" for change in self.changes if change not in (SLOWER, FASTER))
        if self.reasons:
            return f"{'; '.join(self.reasons)}{more}"
        if self.ratio is None or self.ratio.low is None or self.ratio.high is None:
            ratio = f"{self.ratio.ratio:.3f}×, " if self.ratio else ""
            return f"{ratio}too few rounds for an interval: {self.verdict}{more}"
        span = f"{self.ratio.low:.3f} to {self.ratio.high:.3f}"
        return f"{self.ratio.ratio:.3f}× ({span}): {self.verdict}{more}"


@dataclass(frozen=True)
class ComparisonResult:
    """The whole comparison. fail_on: the changes that set the exit status. seconds: how long it took."""

    a: Subject
    b: Subject
    cases: tuple[CaseResult, ...]
    diff: Diff | None
    precision: Precision
    fail_on: tuple[str, ...] = DEFAULT_CHANGES
    seconds: float = 0.0
    seed: int = 0

    @property
    def exit_status(self) -> int:
        """0 no change, 3 a change of `fail_on`, 4 a case failed, 5 both."""
        changed = any(set(case.changes) & set(self.fail_on) for case in self.cases)
        failed = any(case.verdict == FAILED for case in self.cases)
        return {(False, False): NO_CHANGE, (True, False): CHANGED, (False, True): FAILURE, (True, True): BOTH}[
            changed, failed
        ]


def results(turns: Iterable[Turns], comparisons: Sequence[Comparison], precision: Precision) -> tuple[CaseResult, ...]:
    """A result for each case, in the order of the rounds."""
    by_case = {comparison.a.case: comparison for comparison in comparisons}
    return tuple(_result(each, by_case.get(each.case), precision) for each in turns)


def _result(turns: Turns, comparison: Comparison | None, precision: Precision) -> CaseResult:
    ratio = turns.ratio(precision)
    verdict = ratio.verdict(precision) if ratio else FAILED
    changes = [verdict] if verdict in (SLOWER, FASTER) else []
    if turns.ended:
        states = {each.status for each in turns.ended.values()}
        verdict = UNSUPPORTED if states == {UNSUPPORTED} else FAILED
        changes = []
    if comparison is not None and not turns.ended:
        changes += exact_changes(comparison)
    return CaseResult(turns.case, verdict, ratio, tuple(changes), tuple(ends(turns)), comparison)


def exact_changes(comparison: Comparison) -> list[str]:
    """Which of kernels (all device activities), memory and ops differ."""
    memory = next((each for each in comparison.figures if each.name == "peak_memory_bytes"), None)
    changes = {
        KERNELS: comparison.same_work is False,
        MEMORY: memory is not None and memory.ratio is not None and abs(memory.ratio - 1) >= MEMORY_FROM,
        OPS: bool(comparison.op_steps),
    }
    return [change for change, differs in changes.items() if differs]


# --- the whole comparison --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """The user's request. config: the configuration file, if any. device: None for the configured one."""

    a: str
    b: str
    place: Place
    config: Path | None = None
    wish: Wish = field(default_factory=Wish)
    precision: Precision = field(default_factory=Precision)
    fail_on: tuple[str, ...] = DEFAULT_CHANGES
    budget_s: float = 600.0
    seed: int = 0
    device: str | None = None
    apptainer_args: str = ""
    image_python: str = "python3"


def compare(request: Request, report: Report = lambda line: None) -> ComparisonResult:
    """Measure and judge. Raises SubjectError, ConfigError, YamlError or ImageError before anything is measured."""
    began, place = time.monotonic(), request.place
    a, b = (subject_of(side, text, place.folder) for side, text in (("A", request.a), ("B", request.b)))
    check_pair(a, b)
    places = Places(place.folder, place.home)
    config, *specs = cases_of(a, b, read_settings(request.config), request.wish, places)
    place = Place(place.folder, place.home, place.output, config.images)
    device = request.device or config.device
    wanted = (
        ComparedSide(subject, place, place.folder, spec, device, config.threads, image_python=request.image_python)
        for subject, spec in zip((a, b), specs, strict=True)
    )
    sides = {side.subject.side: side_of(side, request.apptainer_args) for side in wanted}
    turns = take_turns(
        list(specs[0]),
        lambda side, case, number: sides[side].measure(case, number),
        request.precision,
        request.budget_s,
        request.seed,
        report,
    )
    compared = _diff(place)
    return ComparisonResult(
        a,
        b,
        results(turns, compared.comparisons if compared else (), request.precision),
        compared,
        request.precision,
        request.fail_on,
        time.monotonic() - began,
        request.seed,
    )


def _diff(place: Place) -> Diff | None:
    """The diff of the measurements; None if a side has none.

    Its ratio of forward times is removed, because it takes the processes of a side as independent; the ratio of the
    pairs counts instead.
    """
    try:
        whole = diff(place.of_side("A"), place.of_side("B"))
    except SideError:
        return None
    return replace(whole, comparisons=tuple(_without_ratio(comparison) for comparison in whole.comparisons))


def _without_ratio(comparison: Comparison) -> Comparison:
    if comparison.ratio is None:
        return comparison
    sentences = tuple(each for each in comparison.sentences if each != ratio_text(comparison.ratio))
    return replace(comparison, ratio=None, sentences=sentences)
