"""Say where the report of an edition lies and what became of it; the exit status tells whether a whole run was lost.

Example: python scripts/edition_status.py --edition-dir results/latest/edition --report reports/latest/index.html
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run

RUN_LOST = 4


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edition-dir", type=Path, required=True, help="folder of edition.json")
    parser.add_argument("--report", type=Path, required=True, help="the page to name")
    args = parser.parse_args(argv)
    facts_file = args.edition_dir / "edition.json"
    if not facts_file.is_file():
        return 0
    facts = json.loads(facts_file.read_text(encoding="utf-8"))
    for left in facts["left_out"]:
        print(f"left out: {left['run']}: {left['reason']}")
    lost = [run for run in facts["runs"] if run["status"] == "lost"]
    for each in lost:
        print(f"lost: {each['run']}: {each['reason']}")
    print(f"report: {args.report}")
    return RUN_LOST if lost else 0


if __name__ == "__main__":
    sys.exit(run(main))
