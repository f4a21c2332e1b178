"""Collect the tables of all runs and cases of an edition, and judge the guesses about them.

Example:
  python scripts/collect_edition.py --plan results/latest/plan.json --results results/latest \\
      --output results/latest/edition
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.edition.collect import collect


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of the edition")
    parser.add_argument("--results", type=Path, required=True, help="folder of the edition's results")
    parser.add_argument("--output", type=Path, required=True, help="folder for edition.json and the tables")
    args = parser.parse_args(argv)
    collect(json.loads(args.plan.read_text(encoding="utf-8")), args.results).write(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
