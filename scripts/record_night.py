"""Add an edition to the history of nights: one folder per night, one Parquet file per run, written whole or not at all.

The edition has to be named by its UTC date. A night that is in the history already is replaced whole.

Example:
  python scripts/record_night.py --edition-dir results/2026-11-29/edition --history history
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelbook.command import run
from kernelbook.history.record import night_tables, read_kept_edition
from kernelbook.history.store import Store, write_json


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 once the night is in the history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edition-dir", type=Path, required=True, help="folder of edition.json and its tables")
    parser.add_argument("--history", type=Path, required=True, help="folder of the history")
    parser.add_argument("--lines", type=json.loads, default={}, help="JSON: run -> name its series go on under")
    parser.add_argument("--receipt", type=Path, help="JSON file to write once the night is recorded")
    args = parser.parse_args(argv)
    edition = read_kept_edition(args.edition_dir)
    tables = night_tables(edition, args.lines)
    night = edition.about["edition"]
    Store(args.history).add_night(night, tables)
    rows = {name: len(table) for name, table in tables.items()}
    if args.receipt:
        write_json(args.receipt, {"night": night, "rows": rows})
    print(f"recorded {night}: " + ", ".join(f"{name} {count} rows" for name, count in sorted(rows.items())))
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
