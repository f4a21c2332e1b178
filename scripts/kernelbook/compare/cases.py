"""The cases of a comparison: of the configuration, or the two workloads themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelbook.compare.subjects import COMMIT, WORKLOAD, Subject, SubjectError
from kernelbook.config.loading import CaseSpec, Config, load_config
from kernelbook.config.origins import ConfigSource
from kernelbook.config.yaml_text import read_yaml
from kernelbook.sources.workload_source import Places
from kernelbook.text.formatting import slug

#: Keys of a configuration that a comparison uses.
KEPT = ("measure", "cases", "device", "threads", "images")
Specs = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Wish:
    """What the user asks for: cases of the configuration; of two workloads, mode, variant and parameters."""

    only_cases: tuple[str, ...] = ()
    mode: str = "eager"
    variant: str = "plain"
    params: Mapping[str, Any] | None = None
    measure: Mapping[str, Any] | None = None


def read_settings(file: Path | None) -> dict[str, Any]:
    """The keys of a configuration that a comparison uses; none without a file. Raises YamlError or OSError."""
    raw = read_yaml(file.read_text(encoding="utf-8")) if file else {}
    return {key: raw[key] for key in KEPT if isinstance(raw, Mapping) and key in raw}


def cases_of(
    a: Subject, b: Subject, settings: Mapping[str, Any], wish: Wish, places: Places
) -> tuple[Config, Specs, Specs]:
    """The configuration, and what each side measures: name of the case -> case file.

    Raises ConfigError for mistakes of the configuration or of a workload, SubjectError where no case is left.
    """
    settings = {**settings, "runs": {"host": {"host": True}}}
    settings["measure"] = {**settings.get("measure", {}), **(wish.measure or {})}
    if a.kind == WORKLOAD:
        name = _shared_name(a.text, b.text)
        own = [{**settings, "cases": {name: _workload_case(each.text, wish)}} for each in (a, b)]
        sources = [(ConfigSource(side.side, each, each),) for side, each in zip((a, b), own, strict=True)]
        configs = [_load(each, places, source) for each, source in zip(own, sources, strict=True)]
        return configs[0], _specs(configs[0].cases), _specs(configs[1].cases)
    config = _load({**settings, "only_cases": list(wish.only_cases)} if wish.only_cases else settings, places)
    cases: Sequence[CaseSpec] = config.cases
    if COMMIT in (a.kind, b.kind):
        cases = [case for case in cases if ":" in case.measurement["workload"]]
        if not cases:
            raise SubjectError(
                "no chosen case has a workload of your own (file.py:function or package.module:function), so none "
                "differs between commits: add one to config.yaml, or choose it: --cases NAME"
            )
    if not cases:
        raise SubjectError("no case is chosen: enable one in config.yaml, or name one: --cases NAME")
    specs = _specs(cases)
    return config, specs, specs


def _load(settings: Mapping[str, Any], places: Places, sources: Sequence[ConfigSource] = ()) -> Config:
    return load_config(settings, places.home / "workflow" / "schemas", sources, places)


def _workload_case(workload: str, wish: Wish) -> dict[str, Any]:
    return {
        "workload": workload,
        "mode": wish.mode,
        "variant": wish.variant,
        "params": dict(wish.params or {}),
        "annotation": "compare_fwd",
    }


def _shared_name(a: str, b: str) -> str:
    """The name of the function or file if both have one, else `workload`."""
    for part in (lambda text: text.rpartition(":")[2], lambda text: Path(text.partition(":")[0]).stem):
        if part(a) == part(b):
            name = slug(part(a).replace("_", "-"))
            return name if name[0].isalpha() else f"case-{name}"
    return "workload"


def _specs(cases: Sequence[CaseSpec]) -> Specs:
    return {case.name: dict(case.measurement) for case in cases}
