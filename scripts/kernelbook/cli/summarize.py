"""Summarize torch.profiler traces: what ran on the device, launched by what, per annotation.

Needs no GPU and no torch. TRACE is a file (plain or gzipped, also a damaged or cut one) or a folder, of which every
*.json and *.json.gz is read. Ranks of one job are recognised by their names (job_rank0.json, rank_0/, 0/, torch's own
HOST_PID.TIME.pt.trace.json) and by what the files say inside; ranks that are missing or there twice are reported.

Ranges are those of record_function. --annotation chooses some by name, or by a glob if no range has that exact name.
ProfilerStep#N spans are the profiler's own: they are ranges only if --annotation chooses them and no other range.
The text has a line for each name: of nested ranges only the outermost, with names that differ only in numbers
together (* stands for the numbers), and a line for each kind of work if ranges of a name ran different kernels.

--json prints one object per line for each trace. Times are in microseconds; null is what the file does not have, as is
every device figure of a file without device activities. Its schema is trace/trace.schema.json in the package. Its
keys, in this order:
  schema     1; keys are only ever added at the end
  source     the file, as named on the command line
  device     name of the first device
  truncated  whether the file ends too early
  warnings   what to know before trusting the figures: code, count (of events or ranges), message
  totals     of the whole file: kernels, memcpys, memsets, launches (calls that started any), attributed, unattributed
             (activities whose launch is in the file, and the others), device_time_us (sum), device_busy_us (union),
             implausible_us (the part of device_time_us that cannot be right)
  ranges     the chosen ranges, else all, nested work included: annotation, index (of those of its name), kernels,
             memcpys, memsets, launches, cpu_time_us, device_time_us, device_busy_us, inferred (some work was launched
             by another thread)
  kernels    of the whole file, one per name and category: name, category, count, total_us, median_us, min_us, max_us
  ops        of the whole file, one per name: name, count, cpu_time_us, self_cpu_time_us (without what it calls),
             device_time_us, self_device_time_us (what it launched itself), kernels
  rank       of a distributed job; null if nothing says so
  notes      what is odd about the file, as warnings: graph launches, several streams, no ops, an old schema ...
  range_kernels, range_ops  with --annotation: as kernels and ops, of the chosen ranges alone
  job        only of a rank whose job is read as a whole, the same on the line of each rank: ranks, world_size,
             clock_error_us, refused (why ranks are not compared), sentence, straggler, warnings, and remarks, each with
             rule, text, remedy, rank, time_us and share
  ranks      with job, of this rank: the whole file (index is null), then its forwards: rank, index, start_us,
             cpu_time_us, span_us, compute_us, communication_us, hidden_us, exposed_us, copies_us, idle_us,
             device_time_us, communication_kernels, communication_time_us, launch_delay_us, bubble_us, waiting_us,
             clock_us
  collectives  with job, of this rank: rank, index, operation, group, sequence, stream, start_us, duration_us, ranks,
             bytes, launch_us, last_rank, wait_us, late_us, unqueued_us, transfer_us, algorithm_gb_s, bus_gb_s,
             link_gb_s, measured_gb_s

Examples:
  %(prog)s trace.json.gz
  %(prog)s runs/ --annotation 'mlp_*' --output tables/
  %(prog)s rank0.json rank1.json --json | jq .totals

Exit status: 0 all were read; 2 a named file cannot be read (the others are printed all the same), or bad arguments.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

_OUTPUT = (
    "write each trace's tables there as Parquet and CSV; in the CSV, a name that a spreadsheet would take for a "
    "formula gets a leading apostrophe"
)
#: Names that an error lists.
MOST_NAMES = 5
_OF_NAMES = "the whole name is matched, case included"
_CHOSEN = "only ranges of that name, or else those whose name matches; also 'ProfilerStep#*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, nargs="+", metavar="TRACE", help="trace files or folders of them")
    parser.add_argument("--annotation", metavar="GLOB", help=_CHOSEN)
    parser.add_argument("--json", action="store_true", help="one JSON object per line for each trace")
    parser.add_argument("--output", type=Path, metavar="DIR", help=_OUTPUT)


def run(args: argparse.Namespace) -> int:
    """Print a summary of each trace, and return the exit status of the module's text."""
    from kernelbook.cli.traces import print_error, read_summaries

    summaries, status = read_summaries(args.trace, args.annotation, args.output)
    if summaries and args.annotation is not None and not any(summary.ranges for summary in summaries):
        names = {name for summary in summaries for name in summary.names}
        print_error(
            f"no range matches --annotation {args.annotation!r} ({_OF_NAMES}): {_remedy(args.annotation, names)}"
        )
    if args.json:
        for summary in summaries:
            print(summary.to_json())
    elif summaries:
        from kernelbook.summarize.terminal import output_console, show

        console = output_console()
        jobs = {id(summary.job): summary.job for summary in summaries if summary.job is not None}
        if jobs:
            from kernelbook.summarize.terminal import show_job

            for job in sorted(jobs.values(), key=lambda each: each.job.refused is not None):
                show_job(console, job)
        for summary in summaries:
            show(console, summary)
    return status


def _remedy(annotation: str, names: Collection[str]) -> str:
    """The most similar name, or the first of the existing names."""
    from kernelbook.text.suggestions import closest, near_miss

    if len(names) <= MOST_NAMES or closest(annotation, names):
        return near_miss(annotation, names)
    return f"{near_miss(annotation, sorted(names)[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
