"""Check that a measuring process left its measurement.json; if not, write one that says why its case failed.

Exit status: 0 once measurement.json is there; 130 or 143 if the process was stopped by Ctrl-C or SIGTERM.

Example:
  python scripts/finish_measurement.py --case-spec '{"case": "linear-eager"}' --status 137 --log profile.log \\
      --output results/latest/host/linear-eager/1
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.extraction.lost_processes import finish_measurement
from kernelbook.history.nights import DEADLINE_VARIABLE


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case-spec", type=json.loads, required=True, help="the case as configured, as JSON")
    parser.add_argument("--status", type=int, help="exit status of the process; left out if its job was lost")
    parser.add_argument("--log", type=Path, required=True, help="log of the process")
    parser.add_argument("--output", type=Path, required=True, help="folder of measurement.json")
    args = parser.parse_args(argv)
    deadline = os.environ.get(DEADLINE_VARIABLE)
    return finish_measurement(args.case_spec, args.output, args.status, args.log, deadline_hours=deadline)


if __name__ == "__main__":
    sys.exit(run(main))
