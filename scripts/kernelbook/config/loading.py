"""Checks config.yaml and turns it into typed runs and cases.

All mistakes are reported at once, each as path, fact and remedy. Unknown keys are mistakes.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from kernelbook.config.defaults import MEASURE_DEFAULTS
from kernelbook.config.errors import ConfigError, schema_errors
from kernelbook.config.name_checks import all_cases, guess_errors, name_errors, sweep_name
from kernelbook.config.origins import ConfigSource, misread_names, source_of
from kernelbook.config.yaml_text import value_errors
from kernelbook.sources.workload_source import Places, workload_errors
from kernelbook.trace.recorded import recorded_cases

RUN_KINDS = ("host", "container", "recorded", "published")
MEASURE_KEYS = (
    *("dtype", "warmup", "schedule", "samples", "timeout_s", "seed", "retries", "flush_l2", "tf32"),
    "max_relative_error",
)
#: Top-level keys whose values need no conversion.
AS_WRITTEN = (
    *("edition", "repeats", "device", "threads", "counters", "visible_devices", "retry_failed", "images", "compare"),
)
# Keys of a case that have no effect on its figures.
NO_FIGURE = ("timeout_s", "retries", "max_relative_error")


@dataclass(frozen=True)
class RunSpec:
    """One PyTorch build on one machine. `where`: the image, folder or file; empty for the host."""

    name: str
    kind: str
    where: str
    description: str = ""
    cases: tuple[str, ...] = ("*",)
    enabled: bool = True
    annotation: str | None = None
    python: str = "python3"
    counters: bool | None = None
    ncu: str | None = None


@dataclass(frozen=True)
class CaseSpec:
    """One case as configured. `measurement`: content of the case file for profile_case.py."""

    name: str
    measurement: Mapping[str, Any]
    expect: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    enabled: bool = True
    label: str = ""
    sweep: Mapping[str, Any] | None = None
    files: tuple[str, ...] = ()
    counters: bool | None = None

    @property
    def gpus(self) -> int:
        """GPUs that a measurement of the case takes."""
        return int(self.measurement.get("ranks", 1))


@dataclass(frozen=True)
class Config:
    """The checked content of config.yaml.

    cases: those that are selected or enabled. case_names: names of all cases.
    source: function from a problem to the name of the file that it is in.
    """

    runs: tuple[RunSpec, ...]
    cases: tuple[CaseSpec, ...]
    report: Mapping[str, Any]
    edition: str = "latest"
    repeats: int = 1
    device: str = "auto"
    threads: int = 0
    counters: bool = False
    visible_devices: str = ""
    retry_failed: bool = False
    images: str = "images"
    compare: Mapping[str, Any] = field(default_factory=dict)
    nights: Mapping[str, Any] = field(default_factory=dict)
    only_cases: tuple[str, ...] = ()
    case_names: frozenset[str] = frozenset()
    source: Callable[[str], str] = field(default=str, repr=False, compare=False)

    def run(self, name: str) -> RunSpec:
        """The run with this name. Raises KeyError."""
        return _by_name(self.runs, name)

    def case(self, name: str) -> CaseSpec:
        """The case with this name. Raises KeyError."""
        return _by_name(self.cases, name)


def _by_name(specs: Sequence[Any], name: str) -> Any:
    for spec in specs:
        if spec.name == name:
            return spec
    raise KeyError(name)


def load_config(
    raw: Mapping[str, Any], schemas: Path, sources: Sequence[ConfigSource] = (), places: Places | None = None
) -> Config:
    """Check `raw` against the schemas in the folder `schemas`, apply the selections and return it typed.

    sources: the files that `raw` was merged from, so that a mistake names its own file.
    places: where recorded folders and workloads are looked up; without it, neither is checked.
    `only_runs` and `only_cases` may be comma-separated names, as on the command line.

    Raises ConfigError with all mistakes.
    """
    first = {"otherwise": sources[0].name} if sources else {}
    source = partial(source_of, sources=sources, **first)
    misread, settings = misread_names(raw, sources)
    unusable = value_errors(settings)
    if unusable:
        raise ConfigError(source, [*misread, *unusable])
    if type(settings.get("visible_devices")) is int:
        settings["visible_devices"] = str(settings["visible_devices"])
    for name in ("retry_failed", "counters"):
        if isinstance(word := settings.get(name), str):
            settings[name] = {"true": True, "false": False}.get(word.lower(), word)
    problems = [*misread, *schema_errors(settings, schemas, sources), *guess_errors(settings, schemas)]
    problems += name_errors(settings, _recorded_names(settings, places))
    if places is not None:
        runs, cases = _measured(settings)
        problems += workload_errors(cases, places, any("container" in run for run in runs))
    if problems:
        raise ConfigError(source, problems)
    config = replace(_typed(settings), source=source)
    if not config.runs:
        raise ConfigError(
            source, ["runs: none is on: set `enabled: true` on one, or name one: --config only_runs=NAME"]
        )
    return config


def _measured(settings: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], dict[str, Mapping[str, Any]]]:
    """The settings of the runs that would be measured, and of their cases."""
    only_runs, only_cases = settings.get("only_runs", []), settings.get("only_cases", [])
    runs = [
        spec
        for name, spec in _specs(settings, "runs")
        if {"host", "container"} & set(spec) and (matches(name, only_runs) if only_runs else spec.get("enabled", True))
    ]
    patterns = [run.get("cases", ["*"]) for run in runs]
    cases = {}
    for name, spec in _specs(settings, "cases"):
        names = [name, *all_cases({name: spec})]
        chosen = any(matches(one, only_cases) for one in names) if only_cases else spec.get("enabled", True)
        if chosen and any(matches(one, some) for one in names for some in patterns if isinstance(some, list)):
            cases[name] = spec
    return runs, cases


def _specs(settings: Mapping[str, Any], section: str) -> list[tuple[str, Mapping[str, Any]]]:
    specs = settings.get(section)
    pairs = specs.items() if isinstance(specs, Mapping) else ()
    return [(name, spec) for name, spec in pairs if isinstance(spec, Mapping)]


def _recorded_names(settings: Mapping[str, Any], places: Places | None) -> list[str]:
    """Names of the cases in the recorded folders of all runs."""
    runs = settings.get("runs")
    if places is None or not isinstance(runs, Mapping):
        return []
    sources = [spec.get("recorded") for spec in runs.values() if isinstance(spec, Mapping)]
    folders = [places.root / places.locate(folder) for folder in sources if isinstance(folder, str)]
    return [name for folder in folders if os.path.isdir(folder) for name in recorded_cases(folder)]


def _typed(settings: Mapping[str, Any]) -> Config:
    base = {**MEASURE_DEFAULTS, **settings.get("measure", {})}
    runs = tuple(_run(name, spec) for name, spec in settings["runs"].items())
    entries = settings.get("cases", {}).items()
    only_runs = settings.get("only_runs", [])
    only = tuple(settings.get("only_cases", []))
    cases = tuple(case for name, spec in entries for case in _swept(_case(name, spec, base), spec))
    return Config(
        **{key: settings[key] for key in AS_WRITTEN if key in settings},
        runs=tuple(run for run in runs if (matches(run.name, only_runs) if only_runs else run.enabled)),
        cases=tuple(case for case in cases if (is_taken(case, only) if only else case.enabled)),
        report={"title": "Kernelbook", "headline": [], "baseline_run": ""} | settings.get("report", {}),
        only_cases=only,
        case_names=frozenset(case.name for case in cases),
        nights={key: settings[key] for key in ("history", "schedule", "publish") if key in settings},
    )


def is_taken(case: CaseSpec, patterns: Sequence[str]) -> bool:
    """Whether one of the globs matches the case or the sweep that it belongs to."""
    return matches(case.name, patterns) or (case.sweep is not None and matches(case.sweep["of"], patterns))


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(isinstance(pattern, str) and fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _run(name: str, spec: Mapping[str, Any]) -> RunSpec:
    kind = next(kind for kind in RUN_KINDS if kind in spec)
    where = "" if kind == "host" else spec[kind]
    return msgspec.convert({**spec, "name": name, "kind": kind, "where": where}, RunSpec)


def _swept(case: CaseSpec, spec: Mapping[str, Any]) -> list[CaseSpec]:
    """The case, or one case per value of the parameter that it sweeps, with the same values on a CPU."""
    if "sweep" not in spec:
        return [case]
    ((parameter, values),) = spec["sweep"].items()
    cases = []
    for value in values:
        changed = {key: {**case.measurement[key], parameter: value} for key in ("params", "cpu_params")}
        name = sweep_name(case.name, parameter, value)
        sweep = {"of": case.name, "parameter": parameter, "value": value}
        cases.append(replace(case, name=name, measurement={**case.measurement, "case": name, **changed}, sweep=sweep))
    return cases


def trace_case(name: str, annotation: str | None) -> CaseSpec:
    """A bare trace as a case. `annotation`: name of its forwards, if configured."""
    unknown: dict[str, Any] = dict.fromkeys(("variant", "mode", "dtype"))
    spec = {"case": name, "workload": "trace", "params": {}, "annotation": annotation, **unknown}
    return CaseSpec(name, spec)


def recorded_case(name: str) -> CaseSpec:
    """A case of a recorded folder that is not in the configuration; its measurement.json describes it."""
    return CaseSpec(name, {"case": name, "workload": None})


def _case(name: str, spec: Mapping[str, Any], base: Mapping[str, Any]) -> CaseSpec:
    measure = {**base, **{key: spec[key] for key in MEASURE_KEYS if key in spec}}
    measure["schedule"] = {**MEASURE_DEFAULTS["schedule"], **measure["schedule"]}
    workload = spec["workload"]
    default_annotation = Path(workload.partition(":")[0]).stem.replace("-", "_") + "_fwd"
    measurement = {
        "case": name,
        "workload": workload,
        "variant": spec.get("variant", "plain"),
        "mode": spec.get("mode", "eager"),
        "compile_options": spec.get("compile_options", {}),
        "params": spec.get("params", {}),
        "cpu_params": spec.get("cpu_params", {}),
        "annotation": spec.get("annotation", default_annotation),
        **measure,
        **_ranks(spec),
    }
    own = {key: value for key, value in spec.items() if key != "sweep"}
    return msgspec.convert({**own, "name": name, "measurement": measurement}, CaseSpec)


def _ranks(spec: Mapping[str, Any]) -> dict[str, int]:
    """{"ranks": number} from either of the keys `ranks` and `torchrun`; empty if the case has neither."""
    if "torchrun" in spec:
        return {"ranks": spec["torchrun"]["nproc_per_node"]}
    return {"ranks": spec["ranks"]} if "ranks" in spec else {}
