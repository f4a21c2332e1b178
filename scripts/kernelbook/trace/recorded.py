"""The content of a folder of recorded traces: cases measured by Kernelbook, or traces from any other source.

A run recorded by Kernelbook has CASE/PROCESS/measurement.json. In any other folder every *.json and *.json.gz is taken
for a trace. `ranks` finds the windows of one process and the processes of one job, and each job is a case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelbook.trace.files import read_origin, trace_files
from kernelbook.trace.ranks import Job, jobs_of
from kernelbook.trace.types import TraceWarning

MEASUREMENT = "measurement.json"
PROCESS = re.compile(r"[1-9][0-9]{0,8}")
LONGEST_NAME = 80


@dataclass(frozen=True)
class Recorded:
    """One process of a recorded case.

    files: its measurement.json or its bare traces, one per window in order of time, relative to the folder.
    warnings: about the process as a rank of its job. rank: of bare traces; None if it is unknown or not unique.
    """

    files: tuple[Path, ...]
    warnings: tuple[TraceWarning, ...] = ()
    rank: int | None = None

    @property
    def bare(self) -> bool:
        """Whether there are traces and no measurement.json."""
        return is_trace(self.files[0])


def recorded_cases(folder: Path) -> Mapping[str, Mapping[int, Recorded]]:
    """The processes of each case by number, sorted by name of the case."""
    measured: dict[str, dict[int, Recorded]] = {}
    for process in sorted(folder.glob("*/*")):
        file = process / MEASUREMENT
        broken_link = process.is_symlink() and not process.exists()
        # A measurement.json that cannot be read still makes a case, whose row gives the reason.
        if PROCESS.fullmatch(process.name) and (broken_link or os.path.lexists(file)):
            measured.setdefault(process.parent.name, {})[int(process.name)] = Recorded((file.relative_to(folder),))
    if measured:
        return {case: dict(sorted(processes.items())) for case, processes in measured.items()}
    cases: dict[str, Mapping[int, Recorded]] = {}
    files = [read_origin(folder, file.relative_to(folder)) for file in trace_files(folder)]
    jobs = [part for job in jobs_of(files) for part in job.split_if_one_rank()]
    for job in sorted(jobs, key=lambda job: job.order):
        cases[_unused_name(_case_name(job.key), cases)] = _processes(job)
    return cases


def is_trace(file: Path) -> bool:
    """Whether a file of a recorded process is a bare trace."""
    return file.name != MEASUREMENT


def _processes(job: Job) -> dict[int, Recorded]:
    """The processes by rank + 1, or by position where ranks are unknown or not unique."""
    ranks = [process.rank for process in job.processes if process.rank is not None]
    unique = len(set(ranks)) == len(job.processes)
    numbers: Iterable[int] = ranks if unique else range(len(job.processes))
    processes = {}
    for number, process in zip(numbers, job.processes, strict=True):
        files = tuple(window.file.path for window in process.windows)
        warnings = [*job.warnings(process), *(text for window in process.windows for text in window.warnings())]
        processes[number + 1] = Recorded(files, tuple(dict.fromkeys(warnings)), number if unique else None)
    return processes


def _case_name(key: str) -> str:
    """The key in the characters that a case name may have."""
    name = re.sub(r"[^a-z0-9.]+", "-", key)[:LONGEST_NAME].strip("-.") or "trace"
    name = re.sub(r"(.+?)\1{19,}", r"\1", name)  # Snakemake takes a repetitive name for an endless recursion
    name = re.sub(r"\.(?=(?:json|log)$)", "-", name)  # endings of the files next to the folders of cases
    return name if name[0].isalpha() else f"trace-{name}"


def _unused_name(name: str, used: Mapping[str, object]) -> str:
    number, unused = 1, name
    while unused in used:
        number += 1
        unused = f"{name}-{number}"
    return unused
