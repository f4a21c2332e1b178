"""The subjects A and B of a comparison, and the cases that they are measured with.

| text | subject |
| --- | --- |
| `host` | this Python |
| a Python, or the folder of a virtual environment | that Python, with its torch |
| an image: an address (docker://), a .sif, a .def | Python in that container |
| file.py:function | that workload, in this Python |
| a commit of the repository in the working folder; `.` | the files of that commit, or as they are now |

A prefix resolves ambiguity: `python:`, `image:`, `workload:`, `commit:`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelbook.config.loading import CaseSpec, Config, load_config
from kernelbook.config.origins import ConfigSource
from kernelbook.config.yaml_text import read_yaml
from kernelbook.containers.images import ADDRESS
from kernelbook.sources.workload_source import Places
from kernelbook.text.formatting import slug

HOST, PYTHON, IMAGE, WORKLOAD, COMMIT = "host", "python", "image", "workload", "commit"
PREFIXES = (PYTHON, IMAGE, WORKLOAD, COMMIT)
#: Kinds that may be compared with each other.
ENVIRONMENTS = (HOST, PYTHON, IMAGE)
WORKING_TREE = "."


class SubjectError(ValueError):
    """A or B cannot be measured; the message names its kind, the fact and the remedy."""


@dataclass(frozen=True)
class Subject:
    """One side. side: A or B. text: as the user wrote it. commit: its full hash, None for the working tree."""

    side: str
    text: str
    kind: str
    commit: str | None = None


def subject_of(side: str, text: str, folder: Path) -> Subject:
    """The subject that a text names. side: A or B. folder: the working folder. Raises SubjectError if there is none."""
    prefix, colon, rest = text.partition(":")
    kind = prefix if colon and prefix in PREFIXES and rest else None
    value = rest if kind else text
    kind = kind or _guessed_kind(text, folder)
    if kind == PYTHON:
        return Subject(side, str(_python_of(side, folder / value)), PYTHON)
    if kind == COMMIT:
        return Subject(side, value, COMMIT, _commit_of(side, value, folder))
    if kind is None:
        raise SubjectError(
            f"{side}={text}: is no Python, environment, image, workload (file.py:function) or commit of {folder}: "
            f"correct it, or say which is meant: {', '.join(f'{each}:{text}' for each in PREFIXES)}"
        )
    return Subject(side, value, kind)


def _guessed_kind(text: str, folder: Path) -> str | None:
    path = folder / text
    if text == HOST:
        return HOST
    if ADDRESS.match(text) or text.endswith((".sif", ".def")):
        return IMAGE
    if text.partition(":")[0].endswith(".py"):
        return WORKLOAD
    if text != WORKING_TREE and ((path / "bin" / "python").exists() or (path.is_file() and os.access(path, os.X_OK))):
        return PYTHON
    if text == WORKING_TREE or _git(folder, "rev-parse", "--verify", "--quiet", f"{text}^{{commit}}") is not None:
        return COMMIT
    return None


def _python_of(side: str, path: Path) -> Path:
    """The Python that a path names. Links are kept, because Python finds its virtual environment by them."""
    python = path / "bin" / "python" if path.is_dir() else path
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise SubjectError(f"{side}={path}: has no Python: name an executable, or a folder with bin/python")
    return python.absolute()


def _commit_of(side: str, text: str, folder: Path) -> str | None:
    if text == WORKING_TREE:
        return None
    commit = _git(folder, "rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
    if commit is None:
        raise SubjectError(f"{side}={text}: is no commit of the repository in {folder}: see git log")
    return commit


def _git(folder: Path, *words: str) -> str | None:
    """The output of git; None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def check_pair(a: Subject, b: Subject) -> None:
    """Raise SubjectError if the kinds of the two cannot be compared."""
    if a.kind != b.kind and not {a.kind, b.kind} <= set(ENVIRONMENTS):
        raise SubjectError(
            f"A is a {a.kind} and B a {b.kind}: compare two environments (host, Python, image), two workloads, or two "
            "commits"
        )


def files_of(subject: Subject, folder: Path, store: Path) -> Path:
    """The folder that a side is measured in: the working folder, or the files of its commit, unpacked below `store`.

    For a subfolder of a repository it is the same subfolder. Raises SubjectError if git cannot archive the files.
    """
    if subject.commit is None:
        return folder
    unpacked = store / subject.commit
    inside = _git(folder, "rev-parse", "--show-prefix") or ""
    if not unpacked.is_dir():
        part = unpacked.with_suffix(f".{os.getpid()}")
        part.mkdir(parents=True)
        top = _git(folder, "rev-parse", "--show-toplevel")
        archive = subprocess.Popen(["git", "-C", str(top), "archive", subject.commit], stdout=subprocess.PIPE)
        try:
            with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
                files.extractall(part, filter="data")
        except tarfile.TarError as error:
            raise SubjectError(f"{subject.side}={subject.text}: git archive failed ({error}): look at git") from error
        finally:
            archive.communicate()
        part.rename(unpacked)
    return unpacked / inside


def python_words(subject: Subject, configured: str = "python3") -> str:
    """The command that starts Python on this side, for a shell. configured: the Python of images."""
    if subject.kind == IMAGE:
        return configured
    return shlex.quote(subject.text if subject.kind == PYTHON else sys.executable)


def environment_of(subject: Subject, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process of this side; for another Python without the variables of this one."""
    if subject.kind != PYTHON:
        return dict(environ)
    own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")
    return {name: value for name, value in environ.items() if name not in own}


# --- cases -----------------------------------------------------------------------------------------------------------


#: Keys of a configuration that a comparison uses.
KEPT = ("measure", "cases", "device", "threads", "images")
Specs = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Wish:
    """The user's options: cases of the configuration; mode, variant and parameters for two workloads."""

    only_cases: tuple[str, ...] = ()
    mode: str = "eager"
    variant: str = "plain"
    params: Mapping[str, Any] | None = None
    measure: Mapping[str, Any] | None = None


def read_settings(file: Path | None) -> dict[str, Any]:
    """The keys `KEPT` of a configuration; empty without a file. Raises YamlError or OSError if it cannot be read."""
    raw = read_yaml(file.read_text(encoding="utf-8")) if file else {}
    return {key: raw[key] for key in KEPT if isinstance(raw, Mapping) and key in raw}


def cases_of(
    a: Subject, b: Subject, settings: Mapping[str, Any], wish: Wish, places: Places
) -> tuple[Config, Specs, Specs]:
    """The configuration, and the cases of A and of B: name of the case -> content of its case file.

    Raises ConfigError for mistakes of the configuration or of a workload, SubjectError if no case is left.
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
