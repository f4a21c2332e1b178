"""One side of a diff: the cases that a path holds.

| path | cases |
| --- | --- |
| a trace | one for each annotated range of it, else its profiler steps, else the whole file |
| a folder of traces | the same for each job: its ranks are processes of one case |
| measurement.json, or a folder of PROCESS/measurement.json, of CASE/PROCESS/measurement.json | its measured cases |
| a folder with edition.json, or with edition/edition.json | all cases of the edition |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa

from kernelbook.cases import CaseFacts, case_facts
from kernelbook.diffs.ranges import WHOLE_FILE, RangeChoice, range_choices, whole_file
from kernelbook.extraction.process_tables import Origin, tables_of, tables_of_reading
from kernelbook.trace import TraceError, TraceReading, read_trace
from kernelbook.trace.files import unreadable_folders
from kernelbook.trace.recorded import MEASUREMENT, recorded_cases

EDITION = "edition.json"
#: Least number of processes that are read in parallel.
PARALLEL_FROM = 8


class SideError(ValueError):
    """A path has nothing to compare; the message names it, the fact and the remedy."""


@dataclass(frozen=True)
class Member:
    """A case of a side. Its facts are computed on demand: those of a range take longer than reading the trace."""

    run: str
    case: str
    make: Callable[[], CaseFacts]

    @cached_property
    def facts(self) -> CaseFacts:
        return self.make()


@dataclass(frozen=True)
class Side:
    """The cases of one path. skipped: files of a folder that cannot be read, a sentence each."""

    source: str
    members: tuple[Member, ...]
    skipped: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[CaseFacts, ...]:
        return tuple(member.facts for member in self.members)

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of the cases, each once."""
        return tuple(dict.fromkeys(member.run for member in self.members))


def read_side(path: Path, annotation: str | None = None) -> Side:
    """The cases at `path`. annotation: name or glob of the ranges of bare traces; measured cases state their own.

    Raises SideError if there is nothing to compare, TraceError or EditionError if a named file is damaged.
    """
    if not os.path.lexists(path):
        raise SideError(f"{path}: does not exist: name a trace, a folder of traces, a case, a run or an edition")
    try:
        side = _side(path, annotation)
    except PermissionError as error:
        remedy = "get the right to read it, or name another"
        raise SideError(f"{path}: cannot be read: {error.strerror}: {remedy}") from error
    if not side.members and (path / "summary.json").is_file():
        raise SideError(f"{path}: is a report: name its edition (results/{path.name}) or its traces")
    if not side.members:
        why = f" ({side.skipped[0]})" if side.skipped else ""
        if annotation is not None and not why:
            raise SideError(f"{path}: no range named {annotation!r}: kernelbook summarize {path} lists the names")
        raise SideError(f"{path}: no trace and no measurement{why}: name another file or folder")
    return side


def _side(path: Path, annotation: str | None) -> Side:
    if not path.is_dir() and path.name not in (MEASUREMENT, EDITION):
        return Side(str(path), tuple(_of_traces("", [[path]], annotation)))
    folder = path.parent if path.is_file() else path
    for edition in (folder, folder / "edition"):
        if (edition / EDITION).is_file():
            return Side(str(path), _made(_of_edition(edition)))
    measured = _measured(folder.absolute())
    if measured:
        return Side(str(path), _made(_of_measurements(measured)))
    return _of_folder(path, annotation)


def _of_edition(folder: Path) -> tuple[CaseFacts, ...]:
    from kernelbook.edition.model import read_edition  # this import takes as long as reading a large trace

    edition = read_edition(folder)
    published = {run.run for run in edition.runs if run.kind == "published"}
    return tuple(case for case in edition.case_runs if case.run not in published)


def _measured(folder: Path) -> list[tuple[str, str, int, Path]]:
    """(run, case, process, measurement.json) of a run, of one case of it, or of one process."""
    for levels, root in enumerate((folder, folder.parent, folder.parent.parent)):
        inside = "/".join(["*"] * (2 - levels) + [MEASUREMENT])
        if levels and not any(folder.glob(inside)):
            continue
        cases = recorded_cases(root) if levels or any(folder.glob(inside)) else {}
        sides = [
            (root.name, case, number, root / each.files[0])
            for case, processes in cases.items()
            for number, each in processes.items()
            if not each.bare and (root / each.files[0]).is_relative_to(folder)
        ]
        if sides:
            return sides
    return []


def _of_measurements(measured: Sequence[tuple[str, str, int, Path]]) -> tuple[CaseFacts, ...]:
    origins = [(Origin(run, case, number, {}), file) for run, case, number, file in measured]
    if len(origins) < PARALLEL_FROM:
        made = [_tables(*each) for each in origins]
    else:
        from kernelbook.summarize.batch import processes

        with processes() as pool:
            made = list(pool.map(_tables, *zip(*origins, strict=True)))
    return _facts(made)


def _tables(origin: Origin, measurement: Path) -> dict[str, pa.Table]:
    return tables_of(origin, {}, measurement)


def _of_folder(folder: Path, annotation: str | None) -> Side:
    cases: list[Member] = []
    skipped = list(unreadable_folders(folder).values())
    for job, members in recorded_cases(folder).items():
        files = [[folder / file for file in members[number].files] for number in sorted(members)]
        try:
            ranges = _of_traces(job, files, annotation)
            cases += _made(each.facts for each in ranges)  # computed now, to keep the readings of one job at a time
        except TraceError as error:
            skipped.append(str(error))
    return Side(str(folder), tuple(cases), tuple(skipped))


def _made(cases: Iterable[CaseFacts]) -> tuple[Member, ...]:
    return tuple(map(_member, cases))


def _member(case: CaseFacts) -> Member:
    return Member(case.run, case.case, lambda: case)


def _of_traces(job: str, processes: Sequence[Sequence[Path]], annotation: str | None) -> list[Member]:
    """The ranges of a job. processes: the windows of each. Raises TraceError for a file that is not a trace."""
    for file in (window for windows in processes for window in windows):
        try:
            os.fspath(file).encode()
        except UnicodeEncodeError as error:
            raise TraceError(f"{os.fspath(file)!a}: its name is no text: rename the file or folder") from error
    readings = [read_trace(windows[0], annotation, windows[1:]) for windows in processes]
    choices = range_choices(readings[0])
    if not choices:
        return [] if annotation is not None else [Member(job, WHOLE_FILE, partial(whole_file, job, readings[0]))]
    return [Member(job, choice.name, partial(_range, job, choice, readings)) for choice in choices]


def _range(job: str, choice: RangeChoice, readings: Sequence[TraceReading]) -> CaseFacts:
    made = [
        tables_of_reading(
            Origin(job, choice.name, number, {}), {"workload": "trace"}, reading.select(choice.annotation)
        )
        for number, reading in enumerate(readings, start=1)
    ]
    (case,) = _facts(made)
    return replace(case, annotation=choice.name)


def _facts(made: Iterable[Mapping[str, pa.Table]]) -> tuple[CaseFacts, ...]:
    parts: dict[str, list[pa.Table]] = {}
    for tables in made:
        for name, table in tables.items():
            parts.setdefault("cases" if name == "case" else name, []).append(table)
    joined = {name: pa.concat_tables(tables, promote_options="default") for name, tables in parts.items()}
    return tuple(case_facts(joined).values())
