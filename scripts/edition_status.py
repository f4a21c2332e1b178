"""Print the verdict of an edition, what failed or was lost, and the path of its report.

Exit status: 4 if a whole run was lost, else 0. For a night (--night): 3 a change was found, 4 something failed,
5 both, else 0.

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
    parser.add_argument("--night", type=Path, help="what was judged of the night: its changes.json")
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
    for line in _verdict(args.report.with_name("summary.json")):
        print(line)
    print(f"report: {args.report}")
    if args.night:
        return int(json.loads(args.night.read_text(encoding="utf-8"))["exit_status"])
    return RUN_LOST if lost else 0


def _verdict(summary: Path) -> list[str]:
    """The sentence about the guesses; empty if the report has no summary, or an older one without it."""
    verdict = json.loads(summary.read_text(encoding="utf-8"))["verdict"] if summary.is_file() else {}
    return [verdict["sentence"]] if "sentence" in verdict else []


if __name__ == "__main__":
    sys.exit(run(main))
