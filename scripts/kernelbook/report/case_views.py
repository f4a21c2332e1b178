"""The edition arranged for reading: workloads, their cases, their runs, with an anchor for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernelbook.cases import CaseFacts
from kernelbook.charts.drawing import Chart
from kernelbook.edition.model import ConfiguredCase, Edition, Run
from kernelbook.judge.clock import Clock
from kernelbook.judge.cost_model import ForwardCost, GemmCost
from kernelbook.judge.expectations import Judgement, vocabulary
from kernelbook.judge.findings import Finding
from kernelbook.judge.sdpa_backends import Answer
from kernelbook.report import forward_times, phrases, rank_lanes, strips, sweeps
from kernelbook.report.findings_section import FindingLine, over_runs, ranked
from kernelbook.report.forward_times import Spread
from kernelbook.report.ranges import RangeLine, WholeFile, range_lines, whole_files
from kernelbook.report.sweeps import Sweep
from kernelbook.text.formatting import slug, titles


class Anchors:
    """Gives each name a unique id; if the id is taken, a number is appended."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The id of a name, always the same."""
        if name not in self._ids:
            base = anchor = slug(name)
            number = 2
            while anchor in self._ids.values():
                anchor, number = f"{base}-{number}", number + 1
            self._ids[name] = anchor
        return self._ids[name]


@dataclass(frozen=True)
class GuessLine:
    """A guess and the observation, with the runs that have the same."""

    case: str
    word: str
    expected: str
    observed: str
    verdict: str
    evidence: str
    runs: tuple[str, ...]

    @property
    def title(self) -> str:
        """The guess word for reading: `kernel families`."""
        return self.word.replace("_", " ")

    @property
    def guessed(self) -> str:
        """The expected value, after `no` if the word forbids it: `no aten::linear`."""
        word = vocabulary().get(self.word)
        return f"no {self.expected}" if word and word.forbids else self.expected


@dataclass(frozen=True)
class CellView:
    """One case on one run. number: of its data block."""

    row: CaseFacts
    run: Run
    number: int
    anchor: str
    same_as: int | None  # number of the kernel sequence: equal numbers, equal kernels in equal order


@dataclass(frozen=True)
class CaseView:
    """A case with all its runs, guesses, findings, costs and ranges."""

    spec: ConfiguredCase
    anchor: str
    cells: tuple[CellView | None, ...]  # in the order of the edition's runs; None if the run has no such case
    guesses: tuple[GuessLine, ...]
    findings: tuple[Finding, ...] = ()
    costs: tuple[ForwardCost, ...] = ()
    products: tuple[GemmCost, ...] = ()
    clocks: tuple[Clock, ...] = ()
    ranges: tuple[RangeLine, ...] = ()
    files: tuple[WholeFile, ...] = ()

    @property
    def present(self) -> tuple[CellView, ...]:
        """Its runs, published ones included."""
        return tuple(cell for cell in self.cells if cell)

    @property
    def measured(self) -> tuple[CellView, ...]:
        """Its runs without the published ones."""
        return tuple(cell for cell in self.present if cell.run.kind != "published")

    def whole(self, cell: CellView) -> WholeFile | None:
        """The first file with device activities of a cell that has no forward."""
        files = (file for file in self.files if file.run == cell.run.run and file.kernels is not None)
        return next(files, None) if cell.row.kernels is None else None

    @property
    def lead(self) -> CellView | None:
        """The cell that represents the case in lists: the first with device activities, else the first that is ok."""
        cells = self.measured
        return next((c for c in cells if c.row.activities), next((c for c in cells if c.row.status == "ok"), None))

    @property
    def masked(self) -> bool:
        """Whether its useful FLOPs exclude what a mask discards."""
        return any((c.row.useful_flops or 0) < (c.row.flops or 0) for c in self.measured if c.row.useful_flops)

    @property
    def finding_lines(self) -> tuple[FindingLine, ...]:
        """Its findings, merged over runs."""
        return over_runs(self.findings)

    @property
    def conditions(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """(runs, conditions), one entry for each set of conditions under which the case was measured."""
        runs_by_text: dict[str, list[str]] = {}
        for cell in self.measured:
            if not cell.run.took(cell.row) and (text := phrases.conditions(cell.row)):
                runs_by_text.setdefault(text, []).append(cell.run.run)
        return tuple((tuple(runs), text) for text, runs in runs_by_text.items())

    @property
    def judged(self) -> tuple[GuessLine, ...]:
        """The guesses that held or broke."""
        return tuple(line for line in self.guesses if line.verdict in ("confirmed", "broken"))

    @property
    def unjudged(self) -> tuple[tuple[str, str, str], ...]:
        """(guesses, runs, reason) of guesses that could not be judged, one entry for each reason and set of runs."""
        merged: dict[tuple[tuple[str, ...], str], list[str]] = {}
        lost = {cell.run.run for cell in self.present if cell.run.took(cell.row)}
        for line in self.guesses:
            if line.verdict not in ("confirmed", "broken"):
                why = "the run was lost" if lost.issuperset(line.runs) else line.evidence
                merged.setdefault((line.runs, why), []).append(line.title)
        return tuple((", ".join(titles), ", ".join(runs), why) for (runs, why), titles in merged.items())


@dataclass(frozen=True)
class WorkloadView:
    """A workload with its charts and cases."""

    name: str
    title: str
    strips: tuple[strips.Strip, ...]
    spreads: tuple[Spread, ...]
    sweeps: tuple[Sweep, ...]
    cases: tuple[CaseView, ...]
    backends: tuple[Answer, ...] = ()
    ranks: tuple[Chart, ...] = ()

    def charts(self, anchors: Mapping[str, str]) -> tuple[Chart, ...]:
        """Its charts in the order of the page: strips, ranks, forward times, sweeps."""
        charts = (
            strips.chart(self.strips, self.title, anchors),
            *self.ranks,
            forward_times.chart(self.spreads, self.title, anchors),
            *map(sweeps.chart, self.sweeps),
        )
        return tuple(chart for chart in charts if chart)


def guess_lines(judged: Iterable[Judgement]) -> tuple[GuessLine, ...]:
    """The judgements, merged if they differ only in the run, in the order of the first of each."""
    runs_by_line: dict[tuple[str, str, str, str, str, str], list[str]] = {}
    for row in judged:
        key = (row.case, row.word, row.expected, row.observed, row.verdict, row.evidence)
        runs_by_line.setdefault(key, []).append(row.run)
    return tuple(GuessLine(*key, tuple(runs)) for key, runs in runs_by_line.items())


def workloads(edition: Edition) -> tuple[WorkloadView, ...]:
    """Every workload of the edition, with all its cases and runs."""
    cases = case_views(edition)
    return tuple(
        WorkloadView(
            name,
            title,
            strips.strips(edition, name),
            forward_times.spreads(edition, name),
            sweeps.sweeps(edition, name),
            tuple(case for case in cases if case.spec.workload == name),
            tuple(row for row in edition.backends if row.workload == name),
            rank_lanes.charts(edition, name),
        )
        for name, title in titles(edition.workloads()).items()
    )


def case_views(edition: Edition) -> tuple[CaseView, ...]:
    """Every case of the edition, in config order."""
    cases, runs = Anchors(), Anchors()
    sequences: dict[tuple[str, ...], int] = {}
    numbers = {row.key: number for number, row in enumerate(edition.case_runs)}
    judged: dict[str, list[Judgement]] = {}
    for row in edition.judged:
        judged.setdefault(row.case, []).append(row)
    faster = {(each.run, each.case, each.process, each.rank)
              for row in edition.case_runs for each in row.ranks if not each.merged}  # fmt: skip
    parts: dict[str, tuple[Any, ...]] = {
        "ranges": range_lines(edition.tables, faster),
        "files": whole_files(edition.tables),
    }
    parts |= {"costs": edition.costs, "products": edition.products, "clocks": edition.clocks}

    def cell(spec: ConfiguredCase, run: Run) -> CellView | None:
        number = numbers.get((run.run, spec.case))
        if number is None:
            return None
        row = edition.case_runs[number]
        names = tuple(kernel.name for kernel in row.kernels_of())
        same = sequences.setdefault(names, len(sequences)) if row.activities else None
        return CellView(row, run, number, f"case-{cases.of(spec.case)}~{runs.of(run.run)}", same)

    return tuple(
        CaseView(
            spec,
            f"case-{cases.of(spec.case)}",
            tuple(cell(spec, run) for run in edition.runs),
            guess_lines(judged.get(spec.case, ())),
            tuple(
                _in_case(row, spec.case) for row in ranked(row for row in edition.findings if _is_about(row, spec.case))
            ),
            **{name: tuple(row for row in rows if row.case == spec.case) for name, rows in parts.items()},
        )
        for spec in edition.cases
    )


def _is_about(finding: Finding, case: str) -> bool:
    """Whether the case lists the finding: its own, and those that it shares with other cases unless they are notes."""
    shared = finding.severity != "info" and case in finding.cases
    return finding.case == case or shared


def _in_case(finding: Finding, case: str) -> Finding:
    """The finding, without time and share if they are those of another case."""
    return finding if finding.case == case else replace(finding, time_us=None, share=None, of=None)


#: Facts of a run with a separate row, in this order.
RUN_FACTS = (
    *("description", "kind", "device", "capability", "driver", "torch", "cuda", "cudnn", "image", "image_digest"),
    *("recorded_utc", "source"),
)


def environment_rows(runs: Iterable[Run]) -> list[tuple[str, tuple[str, ...], bool]]:
    """(label, one value for each run, whether the values differ) for all recorded facts on hardware and software."""
    runs = tuple(runs)
    rows = [(key.replace("_", " "), [_text(getattr(run, key)) for run in runs]) for key in RUN_FACTS]
    rows.append(("recorded in", [_text(run.where) if run.kind == "recorded" else "" for run in runs]))
    for key in dict.fromkeys(
        key for run in runs for key in run.environment if key not in (*RUN_FACTS[:10], "container")
    ):
        values = [run.environment.get(key) for run in runs]
        if any(isinstance(value, dict) for value in values):
            maps = [value if isinstance(value, dict) else {} for value in values]
            names = dict.fromkeys(name for each in maps for name in each)
            rows += [(name, [_text(each.get(name)) for each in maps]) for name in names]
        else:
            rows.append((key.replace("_", " "), [_text(value) for value in values]))
    merged: dict[str, tuple[str, ...]] = {}
    for label, texts in rows:  # a package may also be recorded by itself: the first value counts
        merged[label] = tuple(a or b for a, b in zip(merged.get(label, texts), texts, strict=True))
    return [(label, texts, len(set(filter(None, texts))) > 1) for label, texts in merged.items() if any(texts)]


def _text(value: Any) -> str:
    return "" if value is None else str(value)
