"""The plan of an edition: the runs that can be measured here, their cases and processes, and all paths."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from kernelbook.config.errors import ConfigError
from kernelbook.config.loading import NO_FIGURE, CaseSpec, Config, RunSpec, is_taken, matches, recorded_case, trace_case
from kernelbook.config.name_checks import is_usable
from kernelbook.containers.images import Image, image_of, runtime, stamp_of
from kernelbook.containers.launching import start_arguments
from kernelbook.counters import counters_beside
from kernelbook.plan.earlier import previous, read_object
from kernelbook.plan.published import published_error
from kernelbook.plan.surroundings import driver_loaded, gpu, host_build, variables
from kernelbook.sources.fingerprint import files_digest
from kernelbook.sources.workload_source import Places, code_behind_workload
from kernelbook.text.suggestions import near_miss
from kernelbook.trace.recorded import MEASUREMENT, Recorded, recorded_cases


@dataclass(frozen=True)
class LeftOut:
    """A run that cannot be measured here, and why. This is not a failure."""

    run: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """An edition before anything is run: the runs that take part, those left out, and the paths of files."""

    config: Config
    runs: tuple[RunSpec, ...]
    left_out: tuple[LeftOut, ...]
    torch_version: str | None
    root: Path = Path()
    home: Path = Path()
    prefix: str = ""
    known_code: dict[Any, tuple[Path, ...]] = field(default_factory=dict, repr=False, compare=False)
    known_cases: dict[str, Mapping[str, CaseSpec]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def results(self) -> Path:
        """results/<edition>, below the prefix if the workflow is used as a module."""
        return Path(self.prefix, "results", self.config.edition)

    def ours(self, path: str) -> str:
        """Path of a file of the project: relative if the checkout is the working folder, else absolute."""
        return Places(self.root, self.home).ours(path)

    def source_of(self, run: RunSpec) -> Path:
        """The folder or file that `run.where` names: in the working folder, or else in the project."""
        return Places(self.root, self.home).locate(run.where)

    def runs_with_cases(self) -> tuple[RunSpec, ...]:
        """All runs except published ones."""
        return tuple(run for run in self.runs if run.kind != "published")

    def cases_of(self, run: RunSpec) -> tuple[CaseSpec, ...]:
        """The cases that this run takes, in the order of the configuration; then those that only its folder has."""
        return tuple(self._cases_by_name(run).values())

    def _cases_by_name(self, run: RunSpec) -> Mapping[str, CaseSpec]:
        if run.name not in self.known_cases:
            self.known_cases[run.name] = {case.name: case for case in self._find_cases(run)}
        return self.known_cases[run.name]

    def _find_cases(self, run: RunSpec) -> Iterator[CaseSpec]:
        wanted = (case for case in self.config.cases if is_taken(case, run.cases))
        if run.kind != "recorded":
            yield from wanted
            return
        recorded = self.recorded(run)
        traces = {name for name, processes in recorded.items() if any(each.bare for each in processes.values())}
        yield from (case for case in wanted if case.name in recorded and case.name not in traces)
        for name in recorded:
            case = trace_case(name, run.annotation if name in traces else None)
            new = name in traces or (name not in self.config.case_names and is_usable(name))
            if new and is_taken(case, run.cases) and is_taken(case, self.config.only_cases or ("*",)):
                yield case if name in traces else recorded_case(name)

    def skipped(self, run: RunSpec) -> Mapping[str, str]:
        """Cases of a recorded folder that are not taken although none were selected, and why."""
        if run.kind != "recorded" or self.config.only_cases:
            return {}
        left = [
            name for name in self.recorded(run) if name not in self._cases_by_name(run) and matches(name, run.cases)
        ]
        off = "switched off in the configuration"
        return {name: off if name in self.config.case_names else "not a name that a case can have" for name in left}

    def recorded(self, run: RunSpec) -> Mapping[str, Mapping[int, Recorded]]:
        """Case -> process -> files in the folder of a recorded run."""
        return _recorded_cases(self.root / self.source_of(run))

    def case_of(self, run: str, case: str) -> CaseSpec:
        """The case as configured, or the one made for a bare trace of a recorded run."""
        return self._cases_by_name(self.config.run(run))[case]

    def processes_of(self, run: RunSpec, case: CaseSpec) -> tuple[int, ...]:
        """Numbers of the processes of one case, from 1."""
        if run.kind != "recorded":
            return tuple(range(1, self.config.repeats + 1))
        return tuple(self.recorded(run)[case.name])

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Every (run, case, process) of the edition."""
        for run in self.runs_with_cases():
            for case in self.cases_of(run):
                for process in self.processes_of(run, case):
                    yield run.name, case.name, process

    def files_of(self, run: str, case: str, process: int | str) -> tuple[Path, ...]:
        """Path of measurement.json of one process, or the windows of a bare trace in a recorded run."""
        spec = self.config.run(run)
        if spec.kind == "recorded":
            return tuple(self.source_of(spec) / file for file in self._recorded(run, case, process).files)
        return (self.results / run / case / str(process) / MEASUREMENT,)

    def counters_of(self, run: str, case: str, process: int | str) -> tuple[Path, ...]:
        """Counters of Nsight Compute beside a recorded trace that no measurement.json names."""
        first = self.root / self.measurement_of(run, case, process)
        trace = first.with_name("trace.json.gz") if first.name == MEASUREMENT else first
        report = counters_beside(trace)
        return (self.measurement_of(run, case, process).with_name(report.name),) if report else ()

    def measurement_of(self, run: str, case: str, process: int | str) -> Path:
        """The first of `files_of`."""
        return self.files_of(run, case, process)[0]

    def _recorded(self, run: str, case: str, process: int | str) -> Recorded:
        return self.recorded(self.config.run(run))[case][int(process)]

    def case_json(self, run: str, case: str, process: int | str) -> str:
        """The case file for profile_case.py as JSON, with the time of the failed measurement that it repeats."""
        return json.dumps(self.spec(run, case, process) | self._retry(run, case, process), sort_keys=True)

    def spec(self, run: str, case: str, process: int | str) -> dict[str, Any]:
        """The case as configured; for a bare trace with its rank, and warnings about it."""
        spec = dict(self.case_of(run, case).measurement)
        if self.config.run(run).kind != "recorded":
            return spec | self._counters(run, case, process)
        recorded = self._recorded(run, case, process)
        warnings = [vars(warning) for warning in recorded.warnings]
        extra = {"warnings": warnings, "rank": recorded.rank}
        return spec | {name: value for name, value in extra.items() if value not in (None, [])}

    def _counters(self, run: str, case: str, process: int | str) -> dict[str, Any]:
        """The keys of the case file that request counters; only the first process of a case has them."""
        spec, of_case = self.config.run(run), self.case_of(run, case).counters
        of_run = self.config.counters if spec.counters is None else spec.counters
        if int(process) != 1 or not (of_run if of_case is None else of_case):
            return {}
        return {"counters": True} | ({"ncu": spec.ncu} if spec.ncu else {})

    def _retry(self, run: str, case: str, process: int | str) -> dict[str, str]:
        if self.config.run(run).kind == "recorded":
            return {}
        earlier = previous(self.root / self.measurement_of(run, case, process), "started_utc")
        retry_of = earlier.repeat_of(self.config.retry_failed)
        return {"retry_of": retry_of} if retry_of else {}

    def makes_stale(self, run: str, case: str, process: int | str) -> str:
        """Everything that can change a figure of a measured run, as JSON; if it differs, the measurement is repeated.

        Settings that cannot change a figure, such as the time limit of a case, are not in it.
        """
        spec = self.config.run(run)
        measured = {key: value for key, value in self.case_of(run, case).measurement.items() if key not in NO_FIGURE}
        causes = {
            "case": measured | self._retry(run, case, process) | self._counters(run, case, process),
            "files": self.code_digest(case),
            "device": self.device_of(run),
            "variables": variables(os.environ, spec.kind == "container"),
        }
        if spec.kind == "host":
            causes["build"] = host_build()
        return json.dumps(causes, sort_keys=True)

    def device_of(self, run: str) -> str:
        """Where the forwards of a run would be measured: `cpu`, or model and driver of the GPU.

        On a machine without a driver, such as the login node of a cluster, it is what it was when the run was last
        looked at.
        """
        if self.config.device == "cpu":
            return "cpu"
        device = gpu(self.config.visible_devices or os.environ.get("CUDA_VISIBLE_DEVICES"))
        if device is None and not driver_loaded():
            device = read_object(self.root / self.results / run / "run.json").get("device")
        return device or ("cpu" if self.config.device == "auto" else "no GPU here")

    def run_json(self, run: str) -> str:
        """What probe_run.py gets, as JSON; a lost run is always looked at again."""
        spec = self.config.run(run)
        retry_of = previous(self.root / self.results / run / "run.json", "probed_utc").repeat_of(again=True)
        entry: dict[str, Any] = {"run": run, "kind": spec.kind, "where": spec.where, "description": spec.description}
        if spec.kind in ("host", "container"):
            entry["device"] = self.device_of(run)
        if spec.kind == "recorded":
            entry["folder"] = self.source_of(spec).as_posix()
        if spec.kind == "container":
            entry["container"] = self._container_json(spec)
        return json.dumps(entry | ({"retry_of": retry_of} if retry_of else {}), sort_keys=True)

    def image_of(self, run: RunSpec) -> Image:
        """The image that a container run names, with the path where it is or will be."""
        store = self.root / (os.environ.get("KERNELBOOK_IMAGES") or self.config.images)
        return image_of(run.where, store, self.root / self.source_of(run))

    def container_of(self, run: str) -> str | None:
        """What Snakemake starts for a run: the link to its image among the run's results, or nothing."""
        spec = self.config.run(run)
        if spec.kind != "container":
            return None
        return (self.results / run / "image" / self.image_of(spec).name).as_posix()

    def start_arguments(self) -> list[str]:
        """Arguments of `apptainer exec` beside the working folder, which Snakemake binds itself."""
        workloads = [case.measurement["workload"].partition(":")[0] for case in self.config.cases]
        own = [Path(os.path.normpath(self.root / file)).parent for file in workloads if file.endswith(".py")]
        ncu = [Path(run.ncu) for run in self.config.runs if run.ncu and os.path.isdir(run.ncu)]
        needed = [self.home / "scripts", *own, *ncu]
        return start_arguments(path for path in needed if not path.is_relative_to(self.root))

    def _container_json(self, run: RunSpec) -> dict[str, Any]:
        status = read_object(self.root / self.results / run.name / "run.json")
        stamp = _stamp(self.image_of(run).file, run.python)
        # as passed before, as long as the image is the one that was started then: a change starts it again, and so does
        # a deleted file, which was absent before the first pull too
        changed = f"{stamp} after {status.get('image_stamp')}"
        seen = status.get("image_seen") if status.get("image_stamp") == stamp else changed
        return {
            "store": (os.environ.get("KERNELBOOK_IMAGES") or self.config.images),
            "source": self.source_of(run).as_posix(),
            "link": self.container_of(run.name),
            "python": run.python,
            "arguments": self.start_arguments(),
            "visible_devices": self.config.visible_devices,
            "seen": seen,
        }

    def code_digest(self, case: str) -> str:
        """Changes with the content of any of these files."""
        return files_digest(self.code_of(case), self.root)

    def code_of(self, case: str) -> tuple[Path, ...]:
        """The files whose change makes a measurement stale: the shared code, the workload, and the files behind it.

        Those are the modules that it imports and the data files that its source, its parameters or `files` name.
        """
        spec = self.config.case(case)
        values = [value for key in ("params", "cpu_params") for value in spec.measurement[key].values()]
        texts = frozenset(text for text in (*values, *spec.files) if isinstance(text, str))
        key = (spec.measurement["workload"], texts)
        if key not in self.known_code:
            self.known_code[key] = code_behind_workload(*key, self.root, self.root / self.ours("scripts"))
        return self.known_code[key]

    def digest_of_code(self, without: Collection[str] = ()) -> str:
        """Changes with any file of the package `kernelbook`. without: its packages that do not count."""
        package, digest = str(self.home / "scripts" / "kernelbook"), hashlib.sha256()
        for folder, folders, names in os.walk(package):
            folders[:] = sorted({*folders} - {"__pycache__", *(without if folder == package else ())})
            for name in sorted(names):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    digest.update(f"{os.path.relpath(path, package)}\0".encode() + file.read())
        return digest.hexdigest()[:16]


def printable(name: str) -> str:
    """The name, with characters that cannot be printed as escapes."""
    return name if name.isprintable() else ascii(name)


def make_plan(config: Config, root: Path, home: Path, containers_on: bool, prefix: str = "") -> Plan:
    """Sort the runs of `config` into those that take part and those left out, with the reason.

    root: the working folder; home: the project's checkout, often the same; prefix: see `prefix` of Snakemake's modules.
    containers_on: whether Snakemake runs rules in their containers (--use-singularity). Raises ImageError if it
    should, and nothing that starts containers is installed; ConfigError if no run takes any case.
    """
    if containers_on and any(run.kind == "container" for run in config.runs):
        runtime()
    plan = Plan(config, (), (), installed_torch(), root, home, prefix)
    kept, left_out = [], []
    for run in config.runs:
        reason = _obstacle(plan, run, containers_on)
        if reason is None:
            kept.append(run)
        else:
            left_out.append(LeftOut(run.name, reason))
    made = replace(plan, runs=tuple(kept), left_out=tuple(left_out))
    problem = _nothing_taken(made)
    if problem:
        raise ConfigError(config.source, [problem])
    return made


def _nothing_taken(plan: Plan) -> str | None:
    """The mistake if the runs that take part have no case; None if a run is left out, which has its own reason."""
    if not plan.runs or plan.left_out or next(plan.rows(), None) or any(run.kind == "published" for run in plan.runs):
        return None
    every = replace(plan, config=replace(plan.config, only_cases=()), known_cases={})
    names = {case.name for run in plan.runs for case in every.cases_of(run)}
    names |= {printable(name) for run in plan.runs for name in every.skipped(run)}
    if plan.config.only_cases:
        remedy = near_miss(plan.config.only_cases[0], names)
        return f"only_cases: the runs that are taken have none of these cases: {remedy}"
    if not names and all(run.kind == "recorded" for run in plan.runs):
        return "runs: no case is found: their folders hold no trace (*.json, *.json.gz) and no measurement.json"
    return f"cases: no run takes any: see runs.<name>.cases; {near_miss('', names)}"


def _obstacle(plan: Plan, run: RunSpec, containers_on: bool) -> str | None:
    source = plan.root / plan.source_of(run)
    if run.kind == "host" and plan.torch_version is None:
        return "no torch beside Snakemake: install one with make setup"
    if run.kind == "container" and not containers_on:
        return "needs its container: add --use-singularity"
    if run.kind == "recorded" and not os.path.isdir(source):
        return f"no folder {run.where}: correct runs.{run.name}.recorded"
    if run.kind == "published":  # read now, so that its errors are reported before hours of measuring
        there = os.path.isfile(source)
        return _published_error(source) if there else f"no file {run.where}: correct runs.{run.name}.published"
    return None


def installed_torch() -> str | None:
    """Version of the torch that a host run would measure, from its metadata; None without one."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def host_python() -> str:
    """The Python that runs the project's own scripts on the host."""
    return sys.executable


_recorded_cases = cache(recorded_cases)  # each folder is searched once
_published_error = cache(published_error)
_stamp = cache(stamp_of)
