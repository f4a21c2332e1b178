"""Compare two traces, folders of traces, cases, runs or editions: B against A.

Needs no GPU and no torch. A and B are each one of
  a trace of torch.profiler                       eager against compiled, torch against torch, rank against rank
  a folder of traces                              jobs of one name are compared; the ranks of a job are taken together
  RUN/CASE or RUN/CASE/PROCESS, a measured case   results/latest/host/mlp-eager
  RUN, all its measured cases                     results/latest/host
  an edition                                      results/latest
Two traces, or two cases, are compared whatever their names are; several are paired by name.

Of a trace, the outermost annotated ranges are compared (record_function; at most six, those with the most
device time), or those that --annotation chooses; without ranges the profiler's steps, without steps the whole file.
For each: device activities that are more, less or other (replaced, fused, split), aligned by name, op path and sizes;
CPU ops that only one side calls; figures side by side; the time by cause. Times on different GPUs, drivers or element
types have no ratio, and the reason is given.

--json prints one object; its schema is diffs/diff.schema.json in the package. Times are in microseconds.
--output writes index.html, diff.md, diff.json and tables/ (Parquet and CSV).

Examples:
  %(prog)s eager.json.gz compiled.json.gz
  %(prog)s rank0.json rank1.json --annotation 'ProfilerStep#*'
  %(prog)s results/torch-2.10 results/torch-2.11 --output difference/
  %(prog)s old.json.gz new.json.gz --exit-status > /dev/null && echo 'the same kernels'

Exit status: 0 compared, whatever was found; with --exit-status 3 if they differ: other activities (without device
activities, other ops), another case, or a time that is slower or faster by the test over processes; 2 A or B cannot be
read, nothing of one fits the other, or bad arguments.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

DIFFERENT = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="A", help="what B is compared with")
    parser.add_argument("b", type=Path, metavar="B", help="what is compared")
    parser.add_argument("--annotation", metavar="GLOB", help="ranges of bare traces: a name, or else a glob")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write a page, Markdown, JSON and tables there")
    parser.add_argument("--exit-status", action="store_true", help="exit with 3 if A and B differ")


def run(args: argparse.Namespace) -> int:
    """Print the diff, and return the exit status of the module's text."""
    from kernelbook.cli.traces import output_problem, print_error, writing
    from kernelbook.diffs import SideError, diff
    from kernelbook.diffs.as_json import as_json
    from kernelbook.edition.paths import EditionError
    from kernelbook.trace import TraceError

    problem = output_problem(args.output, "diff", "diff.json", "--output") if args.output else None
    if problem:
        print_error(f"kernelbook diff: {problem}")
        return 2
    try:
        result = diff(args.a, args.b, args.annotation)
    except (EditionError, SideError, TraceError) as error:
        print_error(str(error))
        return 2
    if args.output:
        from kernelbook.diffs.as_files import write

        with writing(args.output, "--output"):
            write(result, args.output)
    if args.json:
        print(json.dumps(as_json(result), allow_nan=False))
    else:
        from kernelbook.diffs.as_text import show
        from kernelbook.summarize.terminal import output_console

        show(output_console(), result)
    return DIFFERENT if args.exit_status and not result.equal else 0
