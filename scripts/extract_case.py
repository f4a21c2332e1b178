"""Read the measurement and the trace of one process of one case and write its tables.

Example:
  python scripts/extract_case.py --run-file results/latest/host/run.json --case-spec '{"case": "linear-eager"}' \\
      --process 1 --measurement results/latest/host/linear-eager/1/measurement.json --output /tmp/tables
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.extraction.lost_processes import STOPPED, reason_of
from kernelbook.extraction.process_tables import Origin, failed_tables, tables_of, write_tables

_MEASUREMENT = "measurement.json, or a bare trace and further windows of its process; nothing where the run was lost"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-file", type=Path, required=True, help="run.json of the run")
    parser.add_argument("--case-spec", type=json.loads, required=True, help="the case as configured, as JSON")
    parser.add_argument("--process", type=int, required=True, help="number of the process, from 1")
    parser.add_argument("--measurement", type=Path, nargs="*", help=_MEASUREMENT, default=[])
    parser.add_argument("--output", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--ended", type=int, help="exit status of a failed try: write the failed row of the process")
    parser.add_argument("--log", type=Path, help="log of that try")
    args = parser.parse_args(argv)
    if args.ended in STOPPED:
        return args.ended
    status = json.loads(args.run_file.read_text(encoding="utf-8"))
    origin = Origin(status["run"], args.case_spec["case"], args.process, status)
    if args.ended is None:
        first, *windows = args.measurement or [None]
        tables = tables_of(origin, args.case_spec, first, windows)
    else:
        tables = failed_tables(origin, args.case_spec, reason_of("reading the measurement", args.ended, args.log))
    write_tables(tables, args.output)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
