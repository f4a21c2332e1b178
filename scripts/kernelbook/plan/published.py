"""Published figures with their source, which are shown beside measured ones and never mixed with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from kernelbook.config.yaml_text import YamlError, read_yaml, value_errors
from kernelbook.text.meaning import doc
from kernelbook.trace.types import COUNTS

# the columns of the table `cases` that published figures may fill; others are only in the table `published`
CASE_COLUMNS = (*COUNTS, "device_time_us", "device_busy_us", "cpu_time_us")
DEVICE = ("device", "device_type", "capability")


class PublishedError(ValueError):
    """A file of published figures that cannot be used; the message names file, fact and remedy."""


@dataclass(frozen=True)
class Published:
    """One file of published figures: their source, their device, and the figures of each case."""

    source: Mapping[str, Any]
    device: Mapping[str, str | None]
    cases: Mapping[str, Mapping[str, Any]]

    def source_text(self) -> str:
        """The source in one line."""
        parts = [self.source.get("publisher"), self.source.get("title"), self.source.get("year")]
        return ", ".join(str(part) for part in parts if part)


def load_published(path: Path) -> Published:
    """Read a file of published figures. Raises PublishedError with all mistakes in it."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except YamlError as error:
        raise PublishedError("; ".join(f"{path}: {problem}" for problem in error.problems)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise PublishedError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(content, Mapping) or not isinstance(content.get("cases"), Mapping):
        raise PublishedError(f"{path}: has no map `cases` of case: {{figure: value}}: add it")
    problems = value_errors(content) or [*_source_errors(content.get("source")), *_figure_errors(content)]
    if problems:
        raise PublishedError("; ".join(f"{path}: {problem}" for problem in problems))
    return Published(content["source"], {key: content.get(key) for key in DEVICE}, content["cases"])


def published_error(path: Path) -> str | None:
    """The mistakes that `load_published` finds in a file, or None."""
    try:
        load_published(path)
    except PublishedError as error:
        return str(error)
    return None


def _source_errors(source: Any) -> Iterator[str]:
    if not source or not isinstance(source, Mapping):
        yield "names no `source` with publisher, title, year: a figure without a source is not shown"
        return
    for key, value in source.items():
        for word in value if isinstance(value, list) else [value]:
            if word is not None and not isinstance(word, str | int | float):
                yield f"source.{key}: must be a text, a number or a list of them, got {word}: quote it"


def _figure_errors(content: Mapping[str, Any]) -> Iterator[str]:
    for key in DEVICE:
        if not isinstance(content.get(key), str | None):
            yield f"{key}: must be a text, got {content[key]}: quote it"
    for case, figures in content["cases"].items():
        if not isinstance(figures, Mapping):
            yield f"cases.{case}: must be a map of figure: value, got {figures}"
            continue
        for figure, value in figures.items():
            kinds: tuple[type, ...] = (int, float)
            what = "a number"
            if figure in COUNTS:
                kinds, what = (int,), "a whole number"
            elif figure not in CASE_COLUMNS:
                kinds, what = (str, int, float), "a text or a number"
            fits = isinstance(value, kinds) and not isinstance(value, bool)
            if value is not None and not (fits and (isinstance(value, str) or value >= 0)):
                yield f"cases.{case}.{figure}: must be {what}, at least 0, got {value}"


def case_rows(run: str, published: Published) -> list[dict[str, Any]]:
    """Rows for the table `cases`, in which only the published columns are filled."""
    rows = []
    for case, figures in published.cases.items():
        columns = {name: figures.get(name) for name in CASE_COLUMNS}
        rows.append({"run": run, "case": case, "process": 1, "status": "ok", **published.device, **columns})
    return rows


@dataclass(frozen=True)
class PublishedFigure:
    """A row of the table `published`."""

    run: str
    case: str
    figure: Annotated[str, doc("Which figure.")]
    value: Annotated[float, doc("Its value.")]
    unit: Annotated[str, doc("Its unit.")]
    source: Annotated[str, doc("Where it was published.")]


def figure_rows(run: str, published: Published) -> list[PublishedFigure]:
    """The published figures that are numbers."""
    return [
        PublishedFigure(
            run, case, figure, float(value), "us" if figure.endswith("_us") else "count", published.source_text()
        )
        for case, figures in published.cases.items()
        for figure, value in figures.items()
        if isinstance(value, int | float)
    ]
