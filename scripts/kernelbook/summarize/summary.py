"""One trace in short: the object that `summarize_trace.py --json` prints, and figures per annotation for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
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
    """The reading in short, with `notes` on its file; where ranges were chosen, those are kept."""
    ranges, chosen = reading.ranges.select(_RANGE_COLUMNS).to_pylist(), {}
    if reading.annotation is not None:
        ranges = list(compress(ranges, reading.groups.chosen.tolist()))
        chosen = {name: getattr(reading, name).to_pylist() for name in ("range_kernels", "range_ops")}
    return Summary(
        source=reading.source,
        device=reading.device,
        truncated=reading.truncated,
        warnings=reading.warnings,
        totals=asdict(reading.totals),
        ranges=ranges,
        kernels=reading.kernels.to_pylist(),
        ops=reading.ops.to_pylist(),
        annotations=reading.annotations(),
        distributed=reading.distributed,
        notes=notes,
        annotation=reading.annotation,
        **chosen,
    )
