"""A trace as Arrow tables, and one forward of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kernelbook.api.strip import strip_text
from kernelbook.text.suggestions import near_miss
from kernelbook.trace import Totals, TraceError, TraceReading, TraceWarning, read_trace

if TYPE_CHECKING:
    import pyarrow as pa

    from kernelbook.cases import CaseFacts


@dataclass(frozen=True)
class Forward:
    """The representative forward of an annotation: of the forwards that did the same work, the one of median time.

    annotation: name of its range. forwards: number of them in the trace.
    kernels, memcpys, memsets, launches: counts of one forward; None if the trace has no device activity.
    cpu_time_us, device_time_us: medians over the forwards.
    activities: Arrow table of its kernels, memcpys and memsets in order of start, with op, grid, block, bytes ...
    calls: Arrow table of its CPU ops and runtime calls in order of start.
    """

    annotation: str | None
    forwards: int
    kernels: int | None
    memcpys: int | None
    memsets: int | None
    launches: int | None
    cpu_time_us: float | None
    device_time_us: float | None
    activities: pa.Table = field(repr=False)
    calls: pa.Table = field(repr=False)
    facts: CaseFacts = field(repr=False)

    def __str__(self) -> str:
        return strip_text(self.facts)


class Trace:
    """One trace. Times are in µs since the earliest event of the file; a value that the file lacks is null."""

    def __init__(self, reading: TraceReading) -> None:
        self._reading = reading
        self._forwards: dict[str | None, Forward] = {}

    def __repr__(self) -> str:
        return f"<Trace {self.source}: {self.totals.kernels} kernels, {self._reading.frames['ranges'].size} ranges>"

    @property
    def source(self) -> str:
        """The path as it was given."""
        return self._reading.source

    @property
    def device(self) -> str | None:
        """Name of the first device."""
        return self._reading.device

    @property
    def truncated(self) -> bool:
        """Whether the file ends too early."""
        return self._reading.truncated

    @property
    def totals(self) -> Totals:
        """Counts and times of the whole file."""
        return self._reading.totals

    @property
    def warnings(self) -> tuple[TraceWarning, ...]:
        """Defects of the file that make figures unreliable: code, count and message."""
        return self._reading.warnings

    @cached_property
    def notes(self) -> tuple[TraceWarning, ...]:
        """What is unusual about the file, as warnings: graph launches, several streams, no ops ..."""
        from kernelbook.extraction.trace_notes import trace_notes

        return tuple(trace_notes(self._reading))

    @property
    def kernels(self) -> pa.Table:
        """Kernels, memcpys and memsets of the whole file: a row for each name and category."""
        return self._reading.kernels

    @property
    def ops(self) -> pa.Table:
        """CPU ops of the whole file: a row for each name."""
        return self._reading.ops

    @property
    def ranges(self) -> pa.Table:
        """`record_function` ranges: a row for each, in order of start, with counts and times."""
        return self._reading.ranges

    @property
    def activities(self) -> pa.Table:
        """Every kernel, memcpy and memset of the file, in order of start."""
        return self._reading.activities

    def forward(self, annotation: str | None = None) -> Forward:
        """The representative forward of an annotation, by default that of the longest range.

        annotation: a name or a glob. Raises TraceError if no range has that name.
        """
        if annotation not in self._forwards:
            self._forwards[annotation] = _forward(self._reading, annotation)
        return self._forwards[annotation]


def read(path: str | os.PathLike[str], annotation: str | None = None) -> Trace:
    """Read a torch.profiler trace, plain or gzipped.

    annotation: name or glob of the ranges that `forward` uses by default.
    Raises TraceError (a ValueError) if the file cannot be read or is not a trace.
    """
    return Trace(read_trace(Path(path), annotation))


def facts_of_trace(path: Path, annotation: str | None) -> tuple[CaseFacts, dict[str, pa.Table]]:
    """A trace as a case, and its tables; `facts.status` is failed if it cannot be read."""
    from kernelbook.cases import case_facts
    from kernelbook.config.loading import trace_case
    from kernelbook.extraction.process_tables import Origin, tables_of

    spec = trace_case("trace", annotation).measurement
    tables = tables_of(Origin("trace", "trace", 1, {}), spec, path)
    tables["cases"] = tables.pop("case")
    (facts,) = case_facts(tables).values()
    return facts, tables


def _forward(reading: TraceReading, annotation: str | None) -> Forward:
    import pyarrow.compute as pc

    facts, tables = facts_of_trace(Path(reading.source), annotation or reading.annotation)
    if facts.status != "ok":
        raise TraceError(facts.reason or f"{reading.source}: cannot be read")
    if facts.chosen is None:
        names = set(reading.frames["ranges"]["annotation"].to_list())
        wanted = "no record_function range" if annotation is None else f"no range named {annotation!r}"
        raise TraceError(f"{reading.source}: {wanted}: {near_miss(annotation or '', names)}")
    keys = ("run", "case", "process", "rank", "index")
    parts = {}
    for name in ("activities", "calls"):
        table = tables[name]
        if table.num_rows:
            table = table.filter(pc.equal(table["index"], facts.chosen[1]))
        parts[name] = table.drop_columns([key for key in keys if key in table.column_names])
    return Forward(
        annotation=facts.annotation,
        forwards=len(facts.forwards),
        kernels=facts.kernels,
        memcpys=facts.memcpys,
        memsets=facts.memsets,
        launches=facts.launches,
        cpu_time_us=facts.cpu_time_us,
        device_time_us=facts.device_time_us,
        activities=parts["activities"],
        calls=parts["calls"],
        facts=facts,
    )
