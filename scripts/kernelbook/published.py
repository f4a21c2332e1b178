"""Published figures: facts with their source, shown beside what was measured and never mixed with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# the columns of the case table that a published figure may fill; other figures stand in the published table alone
CASE_COLUMNS = ("kernels", "memcpys", "memsets", "launches", "device_time_us", "device_busy_us", "cpu_time_us")


class PublishedError(ValueError):
    """A file of published figures that cannot be used; the message names file, fact and remedy."""


@dataclass(frozen=True)
class Published:
    """One file of published figures: where they come from, on which device, and the figures of each case."""

    source: Mapping[str, Any]
    device: Mapping[str, str | None]
    cases: Mapping[str, Mapping[str, Any]]

    def source_text(self) -> str:
        """The source in one line."""
        parts = [self.source.get("publisher"), self.source.get("title"), self.source.get("year")]
        return ", ".join(str(part) for part in parts if part)


def load_published(path: Path) -> Published:
    """Read a file of published figures; raises PublishedError with the reason where it is not one."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise PublishedError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(found, Mapping) or not isinstance(found.get("cases"), Mapping):
        raise PublishedError(f"{path}: has no map `cases` of case: {{figure: value}}: add it")
    if not found.get("source"):
        raise PublishedError(f"{path}: names no `source`: a figure without a source is not shown")
    device = {"device": found.get("device"), "device_type": found.get("device_type")}
    return Published(found["source"], device | {"capability": found.get("capability")}, found["cases"])


def case_rows(run: str, published: Published) -> list[dict[str, Any]]:
    """Rows for the case table, in which only what was published is filled."""
    rows = []
    for case, figures in published.cases.items():
        known = {name: figures.get(name) for name in CASE_COLUMNS}
        rows.append({"run": run, "case": case, "process": 1, "status": "ok", **published.device, **known})
    return rows


def figure_rows(run: str, published: Published) -> list[dict[str, Any]]:
    """One row a figure: run, case, figure, value, unit, source."""
    rows = []
    for case, figures in published.cases.items():
        for figure, value in figures.items():
            if isinstance(value, int | float):
                unit = "us" if figure.endswith("_us") else "count"
                key = {"run": run, "case": case, "figure": figure}
                rows.append({**key, "value": float(value), "unit": unit, "source": published.source_text()})
    return rows
