"""The JSON that the subcommands print, from which their schemas are made.

The commands import it for type checks only, so that `kernelbook COMMAND --help` imports little.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from kernelbook.kernel_names.top_kernels import TopRow
from kernelbook.text.meaning import doc
from kernelbook.trace.types import Gap, TraceWarning


class CheckedTrace(TypedDict):
    """The JSON line of a trace."""

    schema: Literal[1]
    kind: Literal["trace"]
    source: str
    odd: Annotated[
        list[TraceWarning],
        doc("What to know before using the figures; the codes are those of kernelbook summarize --json."),
    ]
    not_known: Annotated[list[Gap], doc("What the file cannot tell.")]


class CheckedConfig(TypedDict):
    """The JSON line of a configuration."""

    schema: Literal[1]
    kind: Literal["configuration"]
    source: str
    mistakes: Annotated[list[str], doc("File, fact and remedy, one each.")]
    plan: Annotated[list[str], doc("What would run and what is left out; empty if there are mistakes.")]


class StatedName(TypedDict):
    """The JSON line of a name."""

    name: Annotated[str, doc("Unchanged.")]
    family: Annotated[str, doc("unknown where the name does not say it.")]
    dtype: str | None
    tensor_cores: Annotated[str | None, doc("", "yes", "no", None)]
    arch: Annotated[str | None, doc("The architecture that it was built for.")]
    tile: str | None
    layout: str | None


class FailedCase(TypedDict):
    """A case without figures."""

    run: str
    case: str
    reason: str | None


class ReportLine(TypedDict):
    """The JSON object about a report."""

    schema: Literal[1]
    page: Annotated[str, doc("Path of index.html.")]
    summary: Annotated[str, doc("Path of summary.json, whose schema is report/summary.schema.json.")]
    headline: Annotated[str, doc("First sentence of the report.")]
    cases: Annotated[int, doc("Rows of the report.")]
    failed: Annotated[list[FailedCase], doc("Cases without figures, with the reason.")]


class FileJson(TypedDict):
    """A trace, with figures of the whole file."""

    source: Annotated[str, doc("As found below the path on the command line.")]
    device: Annotated[str | None, doc("Name of the first device.")]
    rank: Annotated[int | None, doc("Rank of a distributed job.")]
    kernels: int | None
    device_time_us: Annotated[float | None, doc("Sum over kernels, memcpys and memsets.")]
    device_busy_us: Annotated[float | None, doc("Union of their intervals over the streams of each device.")]
    implausible_us: Annotated[float | None, doc("The part of device_time_us that cannot be right.")]


class TopJson(TypedDict):
    """The JSON object."""

    schema: Literal[1]
    files: Annotated[list[FileJson], doc("The traces, in the order of the command line.")]
    families: Annotated[list[TopRow], doc("By total_us, the longest first.")]
    kernels: Annotated[list[TopRow], doc("One for each name and category, by total_us.")]
