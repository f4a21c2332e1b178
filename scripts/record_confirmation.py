"""Add the second measurements of a night's suspects to its history.

Example:
  python scripts/record_confirmation.py --edition-dir results/2026-11-29/edition --history history \\
      --suspects results/2026-11-29/night/suspects.json --processes 6 15
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelbook.cases import Process
from kernelbook.cases.merging import slowest_rank
from kernelbook.cases.records import records_of
from kernelbook.command import run
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.history.record import confirmation_tables, read_kept_edition
from kernelbook.history.store import Store, write_json


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 once the measurements are in the history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edition-dir", type=Path, required=True, help="folder of the edition; beside it lie its runs")
    parser.add_argument("--history", type=Path, required=True, help="folder of the history")
    parser.add_argument("--suspects", type=Path, required=True, help="suspects.json of detect_changes.py")
    parser.add_argument("--processes", type=int, nargs=2, required=True, metavar=("FIRST", "LAST"))
    parser.add_argument("--lines", type=json.loads, default={}, help="JSON: run -> name its series go on under")
    parser.add_argument("--receipt", type=Path, help="JSON file to write once all is recorded")
    args = parser.parse_args(argv)
    suspects = json.loads(args.suspects.read_text(encoding="utf-8"))
    edition = read_kept_edition(args.edition_dir)
    numbers = range(args.processes[0], args.processes[1] + 1)
    processes = list(measured_again(args.edition_dir.parent, suspects, numbers))
    tables = confirmation_tables(processes, edition, args.lines)
    Store(args.history).add_confirmation(edition.about["edition"], tables)
    rows = {name: len(table) for name, table in tables.items()}
    if args.receipt:
        write_json(args.receipt, {"suspects": suspects, "rows": rows})
    print(f"measured again: {len(suspects)} suspects, {sum(rows.values())} processes")
    return 0


def measured_again(results: Path, suspects: Sequence[dict[str, Any]], numbers: range) -> Iterator[Process]:
    """The second measurements of the suspects, read from their folders; for a job with ranks, the slowest rank."""
    for suspect in suspects:
        folder = results / suspect["run"]
        status = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        for number in numbers:
            measured = folder / suspect["case"] / str(number)
            spec = json.loads((measured / "case.json").read_text(encoding="utf-8"))
            origin = Origin(suspect["run"], suspect["case"], number, status)
            ranks = records_of(Process, tables_of(origin, spec, measured / "measurement.json")["case"])
            yield slowest_rank(list(ranks), {})


if __name__ == "__main__":
    sys.exit(run(main))
