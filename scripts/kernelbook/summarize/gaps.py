"""The figures that a trace cannot give, why, and how to record a trace that can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernelbook.summarize.summary import Summary
from kernelbook.text.formatting import plural
from kernelbook.trace.ranks import missing_ranks
from kernelbook.trace.types import Gap

if TYPE_CHECKING:  # imported only for traces of ranks
    from kernelbook.collectives.job import JobReading


def gaps(summary: Summary) -> Iterator[Gap]:
    """All gaps of a trace, the one that hides most first."""
    messages = {warning.code: warning.message for warning in (*summary.warnings, *summary.notes)}
    totals = summary.totals
    if totals["kernels"] is None:
        failed = messages.get("launches_without_activities")
        why = failed or messages.get("no_launches") or "the file has no device activity"
        remedy = "allow profiling (permissions), and end other profilers, then record again"
        yield Gap("every device figure", why,
                  remedy if failed else "record with ProfilerActivity.CUDA on a machine with a GPU")  # fmt: skip
    if not summary.ranges:
        if "steps_alone" in messages:
            yield Gap("figures per forward", "the file has steps of the profiler and no range",
                      "choose the steps: --annotation 'ProfilerStep#*'")  # fmt: skip
        else:
            yield Gap("figures per forward", "the file has no record_function range",
                      "wrap the forward: with torch.profiler.record_function('forward'): ...")  # fmt: skip
    if not summary.ops:
        yield Gap("ops, and which op launched a kernel", "the file has no CPU ops",
                  "record with ProfilerActivity.CPU too")  # fmt: skip
    if totals["unattributed"]:
        what = plural(totals["unattributed"], "device activity", "device activities")
        yield Gap(f"op and range of {what}", "their launches are not in the file",
                  "give the profiler's schedule a warm-up step, and synchronize before the window opens")  # fmt: skip
    if summary.truncated:
        yield Gap("what ran after the end of the file", "the file ends too early",
                  "let the profiler finish writing: leave its with block before the process ends")  # fmt: skip
    if summary.job is not None:
        yield from _of_job(summary.job.job)
    if summary.device is None and totals["kernels"] is not None:
        yield Gap("the name of the device", "the file has no deviceProperties that name one",
                  "record with a torch of 1.9 or later on NVIDIA or AMD")  # fmt: skip


def _of_job(job: JobReading) -> Iterator[Gap]:
    remedy = "record all ranks in the same steps, and name their traces together"
    if job.refused:
        yield Gap("waiting for other ranks", job.refused, remedy)
    for warning in missing_ranks(job.ranks, job.world_size) if not job.refused else ():
        yield Gap("transfer times of collectives", warning.message, remedy)
