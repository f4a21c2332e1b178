"""Render the report of an edition: index.html, summary.md, report.md with details.md and figures, summary.json, tables.

Example: python scripts/render_report.py --edition-dir results/latest/edition --output reports/latest
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.edition.paths import EditionError
from kernelbook.report.rendering import render_report


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edition-dir", type=Path, required=True, help="folder that collect_edition.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="folder of the report; replaced as a whole")
    parser.add_argument("--created-utc", help="time to print instead of the edition's, for the same bytes every time")
    args = parser.parse_args(argv)
    try:
        render_report(args.edition_dir, args.output, args.created_utc)
    except EditionError as error:
        print(f"render_report: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
