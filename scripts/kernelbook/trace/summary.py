"""One trace in short: the object that `summarize_trace.py --json` prints, and figures per annotation for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from kernelbook.trace.annotations import AnnotationSummary
from kernelbook.trace.events import integer
from kernelbook.trace.model import TraceWarning
from kernelbook.trace.reading import TraceReading

SCHEMA = 1
_RANGE_COLUMNS = (
    "annotation", "index", "kernels", "memcpys", "memsets", "launches", "cpu_time_us", "device_time_us",
    "device_busy_us", "inferred",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """What is shown of one trace; small, whatever the trace's size.

    rank: from distributedInfo, None if not there; whoever knows the file's fellows may set a better one.
    notes: what is peculiar about the file (`trace_notes`), each with code, count and message.
    """

    source: str
    device: str | None
    truncated: bool
    warnings: tuple[TraceWarning, ...]
    totals: dict[str, Any]
    ranges: list[dict[str, Any]]
    kernels: list[dict[str, Any]]
    ops: list[dict[str, Any]]
    annotations: list[AnnotationSummary]
    rank: int | None
    world_size: int | None
    notes: Sequence[Mapping[str, Any]] = ()

    def among(self, rank: int | None, more: Sequence[TraceWarning]) -> Summary:
        """With its rank among the other traces and the warnings about their set."""
        return replace(self, rank=rank, warnings=(*self.warnings, *more))

    def to_json(self) -> str:
        """One line of strict JSON, after the schema of `--json`."""
        return json.dumps(
            {
                "schema": SCHEMA,
                "source": self.source,
                "device": self.device,
                "truncated": self.truncated,
                "warnings": [asdict(warning) for warning in self.warnings],
                "totals": self.totals,
                "ranges": self.ranges,
                "kernels": self.kernels,
                "ops": self.ops,
                "rank": self.rank,
                "notes": list(self.notes),
            },
            allow_nan=False,
        )


def summarize(reading: TraceReading, annotation: str = "*", notes: Sequence[Mapping[str, Any]] = ()) -> Summary:
    """The reading in short, with `notes` on its file; only ranges whose name matches the glob `annotation` are kept."""

    def kept(name: str) -> bool:
        return fnmatchcase(name, annotation)

    distributed = reading.distributed or {}
    return Summary(
        source=reading.source,
        device=reading.device,
        truncated=reading.truncated,
        warnings=reading.warnings,
        totals=asdict(reading.totals),
        ranges=[row for row in reading.ranges.select(_RANGE_COLUMNS).to_pylist() if kept(row["annotation"])],
        kernels=reading.kernels.to_pylist(),
        ops=reading.ops.to_pylist(),
        annotations=[each for each in reading.annotations() if kept(each.annotation)],
        rank=_whole(distributed.get("rank")),
        world_size=_whole(distributed.get("world_size")),
        notes=notes,
    )


def _whole(value: Any) -> int | None:
    found = integer(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    return None if found is None or found < 0 else found
