"""Read the measurements and traces of one run and write the tables of each measured process.

Tables whose sources did not change stay as they are. What cannot be read becomes a failed row with its reason.

Example:
  python scripts/extract_run.py --inputs results/latest/host/inputs.json --run-file results/latest/host/run.json \\
      --output results/latest/host --logs logs/latest/host
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.extraction.run_tables import read_run, readings_of
from kernelbook.plan.earlier import STAMP


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=Path, required=True, help="inputs.json: processes with case and files")
    parser.add_argument("--run-file", type=Path, required=True, help="run.json of the run")
    parser.add_argument("--output", type=Path, required=True, help="folder of the run; its tables.json comes last")
    parser.add_argument("--logs", type=Path, required=True, help="folder of the run's logs")
    parser.add_argument("--code", default="", help="digest of the code: tables made by other code are made again")
    parser.add_argument("--workers", type=int, default=1, help="processes that are read at the same time")
    args = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, frame: sys.exit(128 + received))  # ends the workers too
    inputs, status = (json.loads(file.read_text(encoding="utf-8")) for file in (args.inputs, args.run_file))
    readings = list(readings_of(inputs, status, args.output, args.logs))
    made = read_run(readings, args.code, args.workers)
    facts = {"processes": len(readings), "made": made}
    (args.output / STAMP).write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
