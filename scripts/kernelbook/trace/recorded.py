"""What a folder of recorded traces holds: measured cases, or nothing but traces from anywhere.

A recorded run of Kernelbook's own has <case>/<process>/measurement.json. In any other folder each *.json and *.json.gz
is taken for a trace, and `trace.ranks` says which of them are windows of one process and which processes are ranks of
one job: a job is a case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelbook.trace.files import read_origin, trace_files
from kernelbook.trace.ranks import Job, jobs_of
from kernelbook.trace.types import TraceWarning

MEASUREMENT = "measurement.json"
PROCESS = re.compile(r"[1-9][0-9]{0,8}")
MOST_LETTERS = 80  # of a file's name in the name of its case


@dataclass(frozen=True)
class Recorded:
    """One process of a recorded case, paths relative to the folder.

    files: its measurement.json, or its bare traces, one a window in the order of time. warnings: what is to be said of
    it among the other ranks of its job.
    """

    files: tuple[Path, ...]
    warnings: tuple[TraceWarning, ...] = ()

    @property
    def bare(self) -> bool:
        """Whether there are traces and no measurement.json."""
        return is_trace(self.files[0])


def recorded_cases(folder: Path) -> Mapping[str, Mapping[int, Recorded]]:
    """case -> number of the process -> what was recorded of it, in the order of names."""
    measured: dict[str, dict[int, Recorded]] = {}
    for process in sorted(folder.glob("*/*")):
        file = process / MEASUREMENT
        broken_link = process.is_symlink() and not process.exists()
        # a measurement.json that cannot be read still is a case, whose row says so
        if PROCESS.fullmatch(process.name) and (broken_link or os.path.lexists(file)):
            measured.setdefault(process.parent.name, {})[int(process.name)] = Recorded((file.relative_to(folder),))
    if measured:
        return {case: dict(sorted(processes.items())) for case, processes in measured.items()}
    cases: dict[str, Mapping[int, Recorded]] = {}
    files = [read_origin(folder, file.relative_to(folder)) for file in trace_files(folder)]
    parts = [part for job in jobs_of(files) for part in job.apart()]
    for part in sorted(parts, key=lambda part: part.order):
        cases[_free_name(_case_name(part.key), cases)] = _processes(part)
    return cases


def is_trace(file: Path) -> bool:
    """Whether a file of a recorded process is a bare trace."""
    return file.name != MEASUREMENT


def _processes(job: Job) -> dict[int, Recorded]:
    """The processes by rank, from 1; where a rank is not known or there twice, in their order."""
    ranks = [process.rank for process in job.processes]
    numbers = range(len(ranks)) if None in ranks or len(set(ranks)) < len(ranks) else ranks
    processes = {}
    for number, process in zip(numbers, job.processes, strict=True):
        files = tuple(window.file.path for window in process.windows)
        warnings = [*job.warnings(process), *(said for window in process.windows for said in window.warnings())]
        processes[number + 1] = Recorded(files, tuple(dict.fromkeys(warnings)))
    return processes


def _case_name(key: str) -> str:
    """The key in the letters that a case may have."""
    name = re.sub(r"[^a-z0-9.]+", "-", key)[:MOST_LETTERS].strip("-.") or "trace"
    name = re.sub(r"(.+?)\1{19,}", r"\1", name)  # Snakemake takes a name that repeats itself for an endless recursion
    name = re.sub(r"\.(?=(?:json|log)$)", "-", name)  # so end the files beside the folders of the cases
    return name if name[0].isalpha() else f"trace-{name}"


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
