"""The edition arranged for reading: workloads, their cases, their runs, with an anchor for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kernelbook.cases import Activity, CaseFacts
from kernelbook.edition.model import ConfiguredCase, Edition, Run
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import ForwardCost, GemmCost
from kernelbook.judge.expectations import Judgement
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.report import story, strips
from kernelbook.report.ranges import RangeLine, WholeFile, range_lines, whole_files
from kernelbook.report.spreads import Spread, spreads
from kernelbook.report.sweeps import Sweep, sweeps
from kernelbook.text.formatting import slug, titles


class Anchors:
    """Gives each name an id of its own; two names that would share one get a number."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._given:
            wanted = found = slug(name)
            number = 2
            while found in self._taken:
                found, number = f"{wanted}-{number}", number + 1
            self._taken.add(found)
            self._given[name] = found
        return self._given[name]


@dataclass(frozen=True)
class GuessLine:
    """One guess and what was seen, with the runs that saw the same."""

    case: str
    word: str
    expected: str
    observed: str
    verdict: str
    evidence: str
    runs: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.word.replace("_", " ")

    @property
    def guessed(self) -> str:
        """What was expected, so that it reads by itself beside what was seen: `no aten::linear`."""
        return f"no {self.expected}" if self.word.endswith("_absent") else self.expected


@dataclass(frozen=True)
class Seen:
    """A broken guess with what ran instead: the first run that saw it and has device activities, None where none has.

    ``kernels``: the first of them; ``more``: how many are not among these.
    """

    line: GuessLine
    strip: strips.Strip | None = None
    kernels: tuple[Activity, ...] = ()
    more: int = 0


@dataclass(frozen=True)
class CellView:
    """One case on one run. `number` is that of its data block."""

    row: CaseFacts
    run: Run
    number: int
    anchor: str
    same_as: int | None  # number of the kernel sequence: equal numbers, equal kernels in equal order


@dataclass(frozen=True)
class CaseView:
    spec: ConfiguredCase
    anchor: str
    cells: tuple[CellView | None, ...]  # in the order of the edition's runs; None where the run has no such case
    guesses: tuple[GuessLine, ...]
    findings: tuple[Finding, ...] = ()
    costs: tuple[ForwardCost, ...] = ()
    products: tuple[GemmCost, ...] = ()
    clocks: tuple[Clock, ...] = ()
    ranges: tuple[RangeLine, ...] = ()
    files: tuple[WholeFile, ...] = ()

    @property
    def present(self) -> tuple[CellView, ...]:
        return tuple(cell for cell in self.cells if cell)

    @property
    def measured(self) -> tuple[CellView, ...]:
        return tuple(cell for cell in self.present if cell.run.kind != "published")

    def whole(self, cell: CellView) -> WholeFile | None:
        """The first file of a cell that has no forward, where something in it ran on a device."""
        files = (file for file in self.files if file.run == cell.run.run and file.kernels is not None)
        return next(files, None) if cell.row.kernels is None else None

    @property
    def lead(self) -> CellView | None:
        """The cell that stands for the case in lists: the first with device activities, else the first measured."""
        cells = self.measured
        return next((c for c in cells if c.row.activities), next((c for c in cells if c.row.status == "ok"), None))

    @property
    def masked(self) -> bool:
        """Whether its useful FLOPs leave out what a mask discards."""
        return any((c.row.useful_flops or 0) < (c.row.flops or 0) for c in self.measured if c.row.useful_flops)

    @property
    def conditions(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """(runs, what they measured the case with), runs that measured alike together."""
        found: dict[str, list[str]] = {}
        for cell in self.measured:
            if words := story.conditions(cell.row):
                found.setdefault(words, []).append(cell.run.run)
        return tuple((tuple(runs), words) for words, runs in found.items())

    @property
    def judged(self) -> tuple[GuessLine, ...]:
        return tuple(line for line in self.guesses if line.verdict in ("confirmed", "broken"))

    @property
    def unjudged(self) -> tuple[tuple[str, str, str], ...]:
        """(guesses, runs, why) of what could not be judged, one entry a reason and set of runs."""
        merged: dict[tuple[tuple[str, ...], str], list[str]] = {}
        for line in self.guesses:
            if line.verdict not in ("confirmed", "broken"):
                merged.setdefault((line.runs, line.evidence), []).append(line.title)
        return tuple((", ".join(titles), ", ".join(runs), why) for (runs, why), titles in merged.items())

    @property
    def held(self) -> int:
        return sum(len(line.runs) for line in self.guesses if line.verdict == "confirmed")

    @property
    def broken(self) -> int:
        return sum(len(line.runs) for line in self.guesses if line.verdict == "broken")

    @property
    def trouble(self) -> tuple[tuple[str, bool], ...]:
        """(`failed on h200`, whether that is bad) for each state that is not ok."""
        states: dict[str, list[str]] = {}
        for cell in self.present:
            if cell.row.status != "ok":
                states.setdefault(cell.row.status, []).append(cell.run.run)
        return tuple(
            (f"{state} on {names[0] if len(names) == 1 else f'{len(names)} runs'}", state == "failed")
            for state, names in states.items()
        )


@dataclass(frozen=True)
class WorkloadView:
    name: str
    title: str
    anchor: str
    figure: strips.Figure | None
    spreads: tuple[Spread, ...]
    sweeps: tuple[Sweep, ...]
    cases: tuple[CaseView, ...]
    backends: tuple[Answer, ...] = ()

    @property
    def published(self) -> tuple[tuple[CaseView, tuple[CellView, ...], tuple[CellView, ...]], ...]:
        """(case, measured cells with kernels, published cells) of every case that has both."""
        found = []
        for case in self.cases:
            told = tuple(cell for cell in case.present if cell.run.kind == "published")
            counted = tuple(cell for cell in case.measured if cell.row.kernels is not None)
            if told and counted:
                found.append((case, counted, told))
        return tuple(found)


def guess_lines(judged: Iterable[Judgement]) -> tuple[GuessLine, ...]:
    """Judgements that say the same of several runs become one line; the order of the first of each is kept."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for row in judged:
        key = (row.case, row.word, row.expected, row.observed, row.verdict, row.evidence)
        merged.setdefault(key, []).append(row.run)
    return tuple(GuessLine(*key, runs=tuple(runs)) for key, runs in merged.items())


def seen(edition: Edition, lines: Iterable[GuessLine], limit: int = 8) -> tuple[Seen, ...]:
    """Each guess with at most `limit` of the activities that were seen in its stead; equal cases show theirs once."""
    rows, shown, found = edition.by_key(), set(), []
    for line in lines:
        pairs = ((rows.get((run.run, line.case)), run) for run in edition.runs if run.run in line.runs)
        row, run = next(((row, run) for row, run in pairs if row and row.activities), (None, None))
        if row is None or run is None or row.key in shown:
            found.append(Seen(line))
            continue
        shown.add(row.key)
        more = max(len(row.activities) - limit, 0)
        found.append(Seen(line, strips.alone(row, run), row.activities[:limit], more))
    return tuple(found)


def workloads(edition: Edition) -> tuple[WorkloadView, ...]:
    """Every workload that the edition has, with all its cases and runs."""
    cases = case_views(edition)
    anchors = Anchors()
    return tuple(
        WorkloadView(
            name,
            title,
            f"w-{anchors.of(name)}",
            strips.figure(edition, name),
            spreads(edition, name),
            sweeps(edition, name),
            tuple(case for case in cases if case.spec.workload == name),
            tuple(row for row in edition.backends if row.workload == name),
        )
        for name, title in titles(edition.workloads()).items()
    )


def case_views(edition: Edition) -> tuple[CaseView, ...]:
    cases, runs = Anchors(), Anchors()
    sequences: dict[tuple[str, ...], int] = {}
    numbers = {row.key: number for number, row in enumerate(edition.case_runs)}
    judged: dict[str, list[Judgement]] = {}
    for row in edition.judged:
        judged.setdefault(row.case, []).append(row)
    beside: dict[str, tuple[Any, ...]] = {"ranges": range_lines(edition.tables), "files": whole_files(edition.tables)}
    beside |= {"costs": edition.costs, "products": edition.products, "clocks": edition.clocks}

    def cell(spec: ConfiguredCase, run: Run) -> CellView | None:
        number = numbers.get((run.run, spec.case))
        if number is None:
            return None
        row = edition.case_runs[number]
        names = tuple(act.name for act in row.activities if act.category == "kernel")
        same = sequences.setdefault(names, len(sequences)) if row.activities else None
        return CellView(row, run, number, f"case-{cases.of(spec.case)}~{runs.of(run.run)}", same)

    return tuple(
        CaseView(
            spec,
            f"case-{cases.of(spec.case)}",
            tuple(cell(spec, run) for run in edition.runs),
            guess_lines(judged.get(spec.case, ())),
            tuple(
                _beside(row, spec.case)
                for row in story.ranked(row for row in edition.findings if _is_about(row, spec.case))
            ),
            **{name: tuple(row for row in rows if row.case == spec.case) for name, rows in beside.items()},
        )
        for spec in edition.cases
    )


def _is_about(finding: Finding, case: str) -> bool:
    """Whether it stands beside the case: its own, and what it shares with other cases but notes."""
    shared = finding.severity != "info" and case in (finding.cases or "").split(", ")
    return finding.case == case or shared


def _beside(finding: Finding, case: str) -> Finding:
    """A finding as it stands beside a case: without time and share where they are those of another case."""
    return finding if finding.case == case else replace(finding, time_us=None, share=None, of=None)


def environment_rows(runs: Iterable[Run]) -> list[tuple[str, tuple[str, ...], bool]]:
    """(label, one value a run, whether the values differ): what each run ran on and with."""
    runs = tuple(runs)
    plain = ("description", "kind", "device", "capability", "driver", "torch", "cuda", "cudnn", "image", "image_digest")
    rows = [
        (key.replace("_", " "), [_told(getattr(run, key)) for run in runs])
        for key in (*plain, "recorded_utc", "source")
    ]
    rows.append(("recorded in", [_told(run.where) if run.kind == "recorded" else "" for run in runs]))
    more = dict.fromkeys(key for run in runs for key in run.environment if key not in plain and key != "container")
    for key in more:
        values = [run.environment.get(key) for run in runs]
        if any(isinstance(value, dict) for value in values):
            maps = [value if isinstance(value, dict) else {} for value in values]
            nested = dict.fromkeys(name for each in maps for name in each)
            rows += [(name, [_told(each.get(name)) for each in maps]) for name in nested]
        else:
            rows.append((key.replace("_", " "), [_told(value) for value in values]))
    told: dict[str, tuple[str, ...]] = {}
    for label, values in rows:  # a package may also be told of by itself: once is enough
        told[label] = tuple(a or b for a, b in zip(told.get(label, values), values, strict=True))
    return [(label, values, len(set(filter(None, values))) > 1) for label, values in told.items() if any(values)]


def _told(value: object) -> str:
    return "" if value is None else str(value)
