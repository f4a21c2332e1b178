"""The tables of one process on disk: what they were made from, and whether they are complete.

Beside the tables lies tables.json: the digest of their sources and the size of each table. It is written last, so that
tables without it, or with other sizes, count as missing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

TABLES = ("case", "ranges", "activities", "calls", "ops", "kernels", "ncu", "rank_trace")
STAMP = "tables.json"


def write_stamp(folder: Path, source: str) -> None:
    """Mark the tables in `folder` as complete. source: digest of what they were made from."""
    beside = folder / f".{STAMP}.{os.getpid()}"
    beside.write_text(json.dumps({"source": source, "sizes": _sizes(folder)}) + "\n", encoding="utf-8")
    beside.replace(folder / STAMP)


def made_from(folder: Path) -> str | None:
    """Digest of what the tables in `folder` were made from; None where a table is missing or incomplete."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        return stamp["source"] if stamp["sizes"] == _sizes(folder) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_incomplete(results: Path, rows: Iterable[tuple[str, str, int]]) -> None:
    """Delete tables.json of each run that lacks tables, and what was made from it, so that Snakemake makes all again.

    The tables of processes are no outputs of a rule, so Snakemake does not notice when they are gone; and it does not
    make a missing file again while what follows from it exists. Runs that were never read are passed over.
    """
    processes: dict[str, list[Path]] = {}
    for run, case, process in rows:
        processes.setdefault(run, []).append(results / run / case / str(process))
    for run, folders in processes.items():
        receipt = results / run / STAMP
        complete = receipt.is_file() and all(made_from(folder) for folder in folders)
        if not complete and (results / run / "inputs.json").is_file():
            receipt.unlink(missing_ok=True)
            shutil.rmtree(results / "edition", ignore_errors=True)
            (results / "report" / "index.html").unlink(missing_ok=True)


def _sizes(folder: Path) -> list[int]:
    return [(folder / f"{name}.parquet").stat().st_size for name in TABLES]
