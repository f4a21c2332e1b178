"""The line that `kernelbook summarize --json` prints for a trace; its schema and docs/reference are made from it."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from kernelbook.collectives.model import Collective, RankForward
from kernelbook.collectives.remarks import Remark
from kernelbook.collectives.stragglers import Straggler
from kernelbook.text.meaning import codes, doc
from kernelbook.trace.rows import KernelRow, OpRow, RangeJson
from kernelbook.trace.types import Totals, TraceWarning

WARNING_CODES = {
    "truncated": "the file ends too early",
    "damaged": (
        "events, and other parts of the file, that are not valid JSON or too long to read; checks of a gzip file that "
        "failed"
    ),
    "malformed": "events without a valid time or length; they are left out",
    "unknown_category": "events of categories that are not known; they are left out",
    "implausible": (
        "events with times that cannot be right: an activity that ends after one that began later on its stream, that "
        "takes longer than all that the CPU did, or that begins before its launch; an event hours from the others"
    ),
    "overlapping_rows": "CPU rows that overlap another of the same thread without nesting",
    "no_launches": "nothing was launched on a device",
    "launches_without_activities": "calls to launch or copy, but no device activity: collecting it failed",
    "unattributed": "activities whose launch is not in the file, or not known",
    "several_processes": (
        "unattributed activities whose correlation id has calls in several processes, if the device does not tell which"
    ),
    "before_window": "unattributed activities that were launched before the profiler started",
    "slow_first": (
        "annotations whose first range takes more than twice the median of the others that did the same work"
    ),
    "duplicate_rank": "processes of one job that say they are the same rank, or copies of a trace",
    "rank_mismatch": "the name and the content of a file state different ranks; the content is followed",
    "missing_rank": "ranks of the job that have no trace here",
}
NOTE_CODES = {
    "rank": "the trace is of one rank of a distributed job",
    "window": "the trace is one of several windows of a process",
    "old_schema": "the events have categories of early versions of torch",
    "no_ops": "no CPU op was recorded, although no graph was replayed",
    "graph_launches": "launches that started several activities",
    "driver_launches": "kernels launched through the driver",
    "several_streams": "pairs of a device and a stream that were used",
    "steps_alone": "ProfilerStep#N spans in a trace without an annotated range",
    "numbered_names": "names of ranges that differ only in numbers and are taken together",
    "numbered_apart": (
        "names of ranges that differ only in numbers and are kept apart: each runs other kernels, or one lies inside "
        "another"
    ),
    "ranges_beside": (
        "ranges that the user opened on other threads inside a forward, whose kernels are not counted for the forward"
    ),
}


class WarningLine(TypedDict):
    """A `TraceWarning` that is one of `WARNING_CODES`."""

    code: Annotated[str, codes(WARNING_CODES)]
    count: Annotated[int, doc("Number of events, ranges or ranks concerned.")]
    message: str


class NoteLine(TypedDict):
    """A `TraceWarning` that is one of `NOTE_CODES`."""

    code: Annotated[str, codes(NOTE_CODES)]
    count: int
    message: str


class JobLine(TypedDict):
    """The job of a rank."""

    ranks: Annotated[list[int], doc("Ranks that have a trace here.")]
    world_size: Annotated[int, doc("Ranks of the job.")]
    clock_error_us: Annotated[
        float | None,
        doc("How far apart ranks still leave one collective, for 95 % of them; null if the clocks cannot be aligned."),
    ]
    refused: Annotated[str | None, doc("Why there are no figures across ranks; null if there are.")]
    sentence: Annotated[str, doc("The most important fact, in a sentence.")]
    straggler: Annotated[Straggler | None, doc("The rank that comes last most often, and why; null if there is none.")]
    remarks: Annotated[list[Remark], doc("Remarks, the most important first.")]
    warnings: Annotated[
        list[TraceWarning],
        doc(
            "What to know before trusting figures across ranks: ranks_not_compared, missing_rank, "
            "unmatched_collectives, clocks_moved."
        ),
    ]


class TraceLine(TypedDict):
    """One trace."""

    schema: Literal[1]
    source: Annotated[str, doc("The file as it was named on the command line.")]
    device: Annotated[str | None, doc("Name of the first device.")]
    truncated: Annotated[bool, doc("Whether the file ends too early.")]
    warnings: Annotated[list[WarningLine], doc("What to know before trusting the figures.")]
    totals: Annotated[Totals, doc("Figures of the whole file.")]
    ranges: Annotated[
        list[RangeJson],
        doc("Every annotated range or, with --annotation, the chosen ones, in order of start; with nested ranges."),
    ]
    kernels: Annotated[
        list[KernelRow], doc("Activities of the whole file by name and category, the longest total first.")
    ]
    ops: Annotated[list[OpRow], doc("Ops of the whole file by name, the longest CPU time first.")]
    rank: Annotated[int | None, doc("Rank in a distributed job; null if nothing says so.")]
    notes: Annotated[list[NoteLine], doc("What is unusual about the file and no reason to distrust its figures.")]
    range_kernels: NotRequired[
        Annotated[list[KernelRow], doc("As kernels, of the chosen ranges alone; only with --annotation.")]
    ]
    range_ops: NotRequired[Annotated[list[OpRow], doc("As ops, of the chosen ranges alone; only with --annotation.")]]
    job: NotRequired[
        Annotated[
            JobLine,
            doc("The job of this rank, read as a whole; the same on the line of each rank, and absent elsewhere."),
        ]
    ]
    ranks: NotRequired[Annotated[list[RankForward], doc("With job: rows of the table ranks for this rank.")]]
    collectives: NotRequired[Annotated[list[Collective], doc("With job: rows of the table collectives for this rank.")]]
