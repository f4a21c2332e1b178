"""Print the kernels that take most time over all traces of files and folders: by name, and by family.

TRACE is a file or a folder, as for `kernelbook summarize`. Times are sums over all traces, and shares are of the device
time of all files together. Each file has a line, which shows the ones that weigh most.

--json prints one object; its schema is cli/top.schema.json in the package. Times are in microseconds.

Examples:
  %(prog)s traces/
  %(prog)s traces/ --limit 30
  %(prog)s traces/ --json | jq '.families[0]'

Exit status: 0 all were read; 2 a named file cannot be read (the others count all the same), or bad arguments.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelbook.text.meaning import object_of, plain

if TYPE_CHECKING:
    from rich.console import Console

    from kernelbook.cli.json_types import TopJson
    from kernelbook.kernel_names.top_kernels import TopRow
    from kernelbook.summarize.summary import Summary

SCHEMA: Literal[1] = 1
LIMIT = 15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, nargs="+", metavar="TRACE", help="trace files or folders of them")
    limit = f"rows of each table ({LIMIT}); 0: all"
    parser.add_argument("--limit", type=_count, default=LIMIT, metavar="N", help=limit)
    parser.add_argument("--json", action="store_true", help="one JSON object with all rows")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, got {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Print the tables, or the JSON object."""
    from kernelbook.cli.traces import read_summaries
    from kernelbook.kernel_names.top_kernels import top_kernels

    summaries, status = read_summaries(args.trace)
    if not summaries:
        return status
    by_name, by_family = top_kernels((each.source, row) for each in summaries for row in each.kernels)
    if args.json:
        print(json.dumps(plain(_as_json(summaries, by_name, by_family)), allow_nan=False))
        return status
    from kernelbook.summarize.terminal import output_console

    _show(output_console(), summaries, by_name, by_family, args.limit or None)
    return status


def _as_json(summaries: Sequence[Summary], by_name: Sequence[TopRow], by_family: Sequence[TopRow]) -> TopJson:
    from kernelbook.cli.json_types import FileJson

    files = [object_of(FileJson, each, **each.totals) for each in summaries]
    return {"schema": SCHEMA, "files": files, "families": [*by_family], "kernels": [*by_name]}


def _show(
    console: Console,
    summaries: Sequence[Summary],
    by_name: Sequence[TopRow],
    by_family: Sequence[TopRow],
    limit: int | None,
) -> None:
    from rich.text import Text

    from kernelbook.summarize.terminal import file_table, top_table
    from kernelbook.text.formatting import duration, plural

    total_us = sum(row.total_us for row in by_name)
    silent = sum(each.totals["kernels"] is None for each in summaries)
    line = f"{plural(len(summaries), 'trace')}, {duration(total_us)} of device time"
    line += f"; {plural(silent, 'trace')} without device activities" if silent else ""
    impossible = sum(each.totals["implausible_us"] or 0.0 for each in summaries)
    line += f"; {duration(impossible)} of it is impossible: see kernelbook check" if impossible else ""
    console.print(Text(line), soft_wrap=True)
    if by_name:
        console.print(top_table("families", by_family, total_us, None, console.width))
        console.print(top_table("kernels, memcpys, memsets", by_name, total_us, limit, console.width))
    console.print(file_table(summaries, limit, console.width))
