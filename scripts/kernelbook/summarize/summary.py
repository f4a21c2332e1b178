"""One trace in short: the object that `summarize_trace.py --json` prints, and figures per annotation for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kernelbook.trace.annotations import AnnotationSummary
from kernelbook.trace.reading import TraceReading
from kernelbook.trace.types import TraceWarning

SCHEMA = 1
_RANGE_COLUMNS = (
    "annotation", "index", "kernels", "memcpys", "memsets", "launches", "cpu_time_us", "device_time_us",
    "device_busy_us", "inferred",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """What is shown of one trace; small, whatever the trace's size.

    distributed: torch's distributedInfo. rank, and a warning about the other traces of its job: see `among`.
    notes: what is peculiar about the file (`trace_notes`), each with code, count and message.
    annotation: the name or glob by which ranges were chosen. ranges, annotations, range_kernels and range_ops are of
    those ranges alone, the last two None without it; totals, kernels and ops are of the whole file.
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
    distributed: dict[str, Any] | None
    rank: int | None = None
    notes: Sequence[Mapping[str, Any]] = ()
    annotation: str | None = None
    range_kernels: list[dict[str, Any]] | None = None
    range_ops: list[dict[str, Any]] | None = None

    def among(self, rank: int | None, more: Sequence[TraceWarning], notes: Sequence[Mapping[str, Any]]) -> Summary:
        """With its rank among the other traces, and what is to be said of it among them."""
        return replace(self, rank=rank, warnings=(*self.warnings, *more), notes=(*self.notes, *notes))

    def to_json(self) -> str:
        """One line of strict JSON, after the schema of `--json`."""
        chosen = {"range_kernels": self.range_kernels, "range_ops": self.range_ops}
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
                **(chosen if self.annotation is not None else {}),
            },
            allow_nan=False,
        )


def summarize(reading: TraceReading, notes: Sequence[Mapping[str, Any]] = ()) -> Summary:
    """Summarize a reading; `notes` are about its file. With an annotation, only the selected ranges are kept."""
    frames = reading.frames
    ranges = frames["ranges"]
    rows = {name: frame.to_rows() for name, frame in frames.items() if name != "ranges"}
    return Summary(
        source=reading.source,
        device=reading.device,
        truncated=reading.truncated,
        warnings=reading.warnings,
        totals=asdict(reading.totals),
        ranges=(ranges if reading.annotation is None else ranges.take(reading.groups.selected)).to_rows(_RANGE_COLUMNS),
        annotations=reading.annotations(),
        distributed=reading.distributed,
        notes=notes,
        annotation=reading.annotation,
        kernels=rows["kernels"],
        ops=rows["ops"],
        range_kernels=rows.get("range_kernels"),
        range_ops=rows.get("range_ops"),
    )
