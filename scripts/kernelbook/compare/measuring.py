"""One process of one case on one side: the command that the workflow's rule profile_case runs."""

from __future__ import annotations

import json
import os
import random
import shlex
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelbook.compare.subjects import IMAGE, Subject, SubjectError, environment_of, files_of, python_words
from kernelbook.containers.images import image_of
from kernelbook.containers.launching import (
    prepare_environment,
    reaching,
    start_arguments,
    start_command,
    thread_limits,
)
from kernelbook.containers.probe import probe
from kernelbook.extraction.lost_processes import STOPPED, finish_measurement
from kernelbook.extraction.measurement import load_measurement
from kernelbook.judge.paired import PairedRatio, Precision, paired_ratio
from kernelbook.trace.recorded import MEASUREMENT


@dataclass(frozen=True)
class Place:
    """The folders of a comparison. folder: the working folder. home: the checkout. output: its results, absolute."""

    folder: Path
    home: Path
    output: Path
    images: str = "images"

    def of_side(self, side: str) -> Path:
        """Folder of the measurements of A or B: CASE/PROCESS/measurement.json."""
        return self.output / side


@dataclass(frozen=True)
class MeasuredProcess:
    """One process: status ok, failed or unsupported; median of its forwards in µs, None without any."""

    status: str
    median_us: float | None
    reason: str | None
    seconds: float


@dataclass(frozen=True)
class ComparedSide:
    """A subject and what it measures. folder: where its processes run. cases: name -> case file.

    start: the shell command that starts its container, up to the image. image: name of the image's file. `side_of` sets
    both. image_python: the Python inside an image.
    """

    subject: Subject
    place: Place
    folder: Path
    cases: Mapping[str, Mapping[str, Any]]
    device: str
    threads: int
    start: str = ""
    image: str | None = None
    image_python: str = "python3"

    def command(self, case_file: Path, output: Path) -> str:
        """The shell command that measures a case, as in workflow/rules/profile.smk."""
        limits = thread_limits(self.threads, reaching(os.environ, self.image is not None))
        words = [self.place.home / "scripts" / "profile_case.py", "--case-file", case_file, "--device", self.device]
        words += ["--output", output, "--cache-dir", self.place.of_side(self.subject.side) / "cache"]
        words += ["--require-container", self.image] if self.image else []
        python = python_words(self.subject, self.image_python)
        return f"{self.start} {limits} {python} {shlex.join(map(str, words))}".strip()

    def measure(self, case: str, process: int) -> MeasuredProcess:
        """Measure one process of a case. Raises KeyboardInterrupt if the process was stopped from outside."""
        spec = self.cases[case]
        output = self.place.of_side(self.subject.side) / case / str(process)
        output.mkdir(parents=True, exist_ok=True)
        case_file, log = output / "case.json", output.parent / f"{process}.log"
        case_file.write_text(json.dumps(spec), encoding="utf-8")
        began = time.monotonic()
        with log.open("wb") as stderr:
            done = subprocess.run(
                self.command(case_file, output),
                shell=True,
                cwd=self.folder,
                env=environment_of(self.subject, os.environ),
                stdout=stderr,
                stderr=stderr,
                check=False,
            )
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        if status in STOPPED:
            raise KeyboardInterrupt
        finish_measurement(spec, output, status, log)
        return measured_in(output, time.monotonic() - began)


def measured_in(folder: Path, seconds: float) -> MeasuredProcess:
    """The measurement in a folder; for a job with ranks, with the time of its slowest rank."""
    measurement = load_measurement(folder / MEASUREMENT)
    count = measurement.ranks if measurement.ranks is not None and measurement.status == "ok" else 0
    ranks = [load_measurement(folder / f"rank-{rank}" / MEASUREMENT) for rank in range(count)]
    medians = [statistics.median(each.forward_times_us) for each in ranks or [measurement] if each.forward_times_us]
    return MeasuredProcess(measurement.status, max(medians, default=None), measurement.reason, seconds)


def side_of(side: ComparedSide, apptainer_args: str = "") -> ComparedSide:
    """Prepare a side: pull and start its image once, unpack the files of its commit.

    apptainer_args: further arguments of `apptainer exec`, for the shell. Raises SubjectError if it cannot be measured,
    ImageError if no program that starts containers is installed.
    """
    folder = files_of(side.subject, side.place.folder, side.place.output / "commits")
    ready = replace(side, folder=folder)
    return _in_container(ready, apptainer_args) if side.subject.kind == IMAGE else ready


def _in_container(side: ComparedSide, apptainer_args: str) -> ComparedSide:
    subject, place = side.subject, side.place
    store = os.environ.get("KERNELBOOK_IMAGES") or place.images
    source = place.folder / subject.text
    image = image_of(subject.text, place.folder / store, source)
    link = place.of_side(subject.side) / "image" / image.name
    workloads = (spec["workload"].partition(":")[0] for spec in side.cases.values())
    own = [(place.folder / file).absolute().parent for file in workloads if file.endswith(".py")]
    arguments = start_arguments(
        path for path in (place.home / "scripts", *own) if not path.is_relative_to(place.folder)
    )
    container = {
        "store": store,
        "source": str(source),
        "link": str(link),
        "python": side.image_python,
        "arguments": arguments,
        "visible_devices": "",
        "seen": None,
    }
    run = {"run": subject.side, "kind": "container", "where": subject.text, "description": "", "container": container}
    status = probe(run, place.folder)
    if status["status"] != "ok":
        raise SubjectError(f"{subject.side}: {status['reason']}")
    prepare_environment(os.environ, "")
    start = f"{start_command(arguments, apptainer_args)} {shlex.quote(str(link))}"
    return replace(side, start=start, image=image.name)


# --- in turns --------------------------------------------------------------------------------------------------------


MOST_ROUNDS = 200
#: Measures one process: (side, case, number of the process).
Measure = Callable[[str, str, int], MeasuredProcess]
Report = Callable[[str], None]


@dataclass
class Turns:
    """The rounds of one case: medians of the processes of A and B in µs, and the process that ended it early."""

    case: str
    medians: dict[str, list[float]] = field(default_factory=lambda: {"A": [], "B": []})
    ended: dict[str, MeasuredProcess] = field(default_factory=dict)

    def ratio(self, precision: Precision) -> PairedRatio | None:
        return paired_ratio(self.medians["A"], self.medians["B"], precision.confidence)

    def done(self, precision: Precision) -> bool:
        """Whether no further round is needed: the interval is narrow, or a side cannot be measured."""
        ratio = self.ratio(precision)
        return bool(self.ended) or (ratio is not None and ratio.narrow(precision))


def take_turns(
    cases: Sequence[str],
    measure: Measure,
    precision: Precision,
    budget_s: float,
    seed: int = 0,
    report: Report = lambda line: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Turns]:
    """Measure all cases round by round, in random order of cases and sides, and return their rounds.

    budget_s: a round begins only if it would probably end within this time; the first round always runs. seed: of the
    random order. A process that fails, or has no forward time, ends its case.
    """
    order = random.Random(seed)
    turns = {case: Turns(case) for case in cases}
    began, longest = clock(), dict.fromkeys(cases, 0.0)
    for number in range(1, MOST_ROUNDS + 1):
        waiting = [case for case in cases if not turns[case].done(precision)]
        order.shuffle(waiting)
        afforded = [case for case in waiting if number == 1 or clock() - began + longest[case] <= budget_s]
        for case in afforded:
            if number > 1 and clock() - began + longest[case] > budget_s:
                continue
            round_began = clock()
            _round(turns[case], measure, number, order)
            longest[case] = max(longest[case], clock() - round_began)
            report(progress(turns[case], precision))
        if not afforded:
            break
    return [turns[case] for case in cases]


def _round(turns: Turns, measure: Measure, number: int, order: random.Random) -> None:
    """Measure one process of each side; the pair counts only if both have a time."""
    sides = ["A", "B"]
    order.shuffle(sides)
    measured: dict[str, MeasuredProcess] = {side: measure(side, turns.case, number) for side in sides}
    for side, each in measured.items():
        if each.status != "ok":
            turns.ended[side] = each
    times = {side: each.median_us for side, each in measured.items()}
    if not turns.ended and all(times.values()):
        for side, median in times.items():
            turns.medians[side].append(median or 0.0)
    elif not turns.ended:
        turns.ended.update({side: each for side, each in measured.items() if not each.median_us})


def progress(turns: Turns, precision: Precision) -> str:
    """The progress of a case in one line."""
    ratio = turns.ratio(precision)
    if turns.ended:
        return f"{turns.case}: {'; '.join(ends(turns))}"
    if ratio is None:
        return f"{turns.case}: no round yet"
    if ratio.low is None or ratio.high is None:
        return f"{turns.case}: round {ratio.rounds}, B / A {ratio.ratio:.3f}, {precision.fewest_rounds} rounds at least"
    return f"{turns.case}: round {ratio.rounds}, B / A {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def ends(turns: Turns) -> Iterator[str]:
    """Why the sides of a case could not be measured, a sentence each."""
    for side, each in turns.ended.items():
        yield f"{side} {each.status}: {each.reason}" if each.status != "ok" else f"{side} has no forward time"
