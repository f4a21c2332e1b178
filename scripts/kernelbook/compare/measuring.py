"""One process of one case on one side: the command that the workflow's rule profile_case runs."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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
from kernelbook.extraction.measurement import Measurement, load_measurement


@dataclass(frozen=True)
class Place:
    """Where things are. folder: the working folder. home: the checkout. output: of this comparison, absolute."""

    folder: Path
    home: Path
    output: Path
    images: str = "images"

    def of_side(self, side: str) -> Path:
        """Folder of the measurements of A or B: CASE/PROCESS/measurement.json."""
        return self.output / side


@dataclass(frozen=True)
class Measured:
    """One process: status ok, failed or unsupported; median of its forwards in µs, None without any."""

    status: str
    median_us: float | None
    reason: str | None
    seconds: float


@dataclass(frozen=True)
class Side:
    """A subject that can be measured: its folder, the start of its container, its image's name, its environment."""

    subject: Subject
    place: Place
    folder: Path
    cases: Mapping[str, Mapping[str, Any]]
    device: str
    threads: int
    start: str = ""
    image: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def command(self, case_file: Path, output: Path) -> str:
        """The shell command that measures a case, as in workflow/rules/profile.smk."""
        limits = thread_limits(self.threads, reaching(os.environ, self.image is not None))
        words = [self.place.home / "scripts" / "profile_case.py", "--case-file", case_file, "--device", self.device]
        words += ["--output", output, "--cache-dir", self.place.of_side(self.subject.side) / "cache"]
        words += ["--require-container", self.image] if self.image else []
        return f"{self.start} {limits} {python_words(self.subject)} {shlex.join(map(str, words))}".strip()

    def measure(self, case: str, process: int) -> Measured:
        """Measure one process of a case. Raises KeyboardInterrupt where the process was stopped from outside."""
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
        return _measured(load_measurement(output / "measurement.json"), time.monotonic() - began)


def _measured(measurement: Measurement, seconds: float) -> Measured:
    times = measurement.forward_times_us
    return Measured(measurement.status, statistics.median(times) if times else None, measurement.reason, seconds)


def side_of(
    subject: Subject, place: Place, cases: Mapping[str, Mapping[str, Any]], device: str, threads: int, users: str = ""
) -> Side:
    """A subject made ready: its image pulled and started once, the files of its commit unpacked.

    users: further arguments of apptainer. Raises SubjectError where it cannot be measured, ImageError where nothing is
    installed that starts containers.
    """
    folder = files_of(subject, place.folder, place.output / "commits")
    side = Side(subject, place, folder, cases, device, threads)
    return _in_container(side, users) if subject.kind == IMAGE else side


def _in_container(side: Side, users: str) -> Side:
    subject, place = side.subject, side.place
    store = os.environ.get("KERNELBOOK_IMAGES") or place.images
    source = place.folder / subject.text
    image = image_of(subject.text, place.folder / store, source)
    link = place.of_side(subject.side) / "image" / image.name
    workloads = (spec["workload"].partition(":")[0] for spec in side.cases.values())
    own = [(place.folder / file).absolute().parent for file in workloads if file.endswith(".py")]
    outside = (path for path in (place.home / "scripts", *own) if not path.is_relative_to(place.folder))
    arguments = start_arguments(outside)
    run = {"run": subject.side, "kind": "container", "where": subject.text, "description": ""}
    container = {"store": store, "source": str(source), "link": str(link), "python": "python3", "arguments": arguments}
    facts = probe(run | {"container": container | {"visible_devices": "", "seen": None}}, place.folder)
    if facts["status"] != "ok":
        raise SubjectError(f"{subject.side}: {facts['reason']}")
    prepare_environment(os.environ, "")
    start = f"{start_command(arguments, users)} {shlex.quote(str(link))}"
    return Side(subject, place, side.folder, side.cases, side.device, side.threads, start, image.name, facts)
