"""Results of an earlier execution: whether a measurement has to be repeated, and whether tables are complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Earlier:
    """An earlier execution. failed_at: its time if it failed. retry_of: time of the failure that it repeated."""

    failed_at: str | None
    retry_of: str | None

    def repeat_of(self, again: bool) -> str | None:
        """Time of the failure that the next execution repeats, if any. again: whether failures are to be repeated."""
        return self.failed_at if again and self.failed_at else self.retry_of


@cache
def previous(path: Path, stamp: str) -> Earlier:
    """The earlier execution described in the measurement.json or run.json at `path`. stamp: the key of its time."""
    earlier = read_object(path)
    failed_at = earlier.get(stamp) if earlier.get("status") in ("failed", "lost") else None
    case = earlier.get("case")
    retry_of = (case if isinstance(case, Mapping) else earlier).get("retry_of")
    return Earlier(failed_at, retry_of)


@cache
def read_object(path: Path) -> Mapping[str, Any]:
    """A JSON object, as it was when the DAG was built: each file is read once. Empty if it cannot be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, Mapping) else {}


# --- the tables of one process ---------------------------------------------------------------------------------------
# Beside the tables lies tables.json: the digest of their sources and the size of each table. It is written last, so
# that tables without it, or with other sizes, count as missing.


TABLE_SUFFIX = ".arrow"
TABLES = ("case", "ranges", "activities", "calls", "ops", "kernels", "ncu", "rank_trace")
STAMP = "tables.json"


def table_file(folder: Path, name: str) -> Path:
    """The file of a table of the process whose folder this is; see `extraction.arrow_files`."""
    return folder / f"{name}{TABLE_SUFFIX}"


def write_stamp(folder: Path, source: str) -> None:
    """Mark the tables in `folder` as complete. source: digest of what they were made from."""
    beside = folder / f".{STAMP}.{os.getpid()}"
    beside.write_text(json.dumps({"source": source, "sizes": _sizes(folder)}) + "\n", encoding="utf-8")
    beside.replace(folder / STAMP)


def made_from(folder: Path) -> str | None:
    """Digest of what the tables in `folder` were made from; None if a table is missing or incomplete."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        return stamp["source"] if stamp["sizes"] == _sizes(folder) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_incomplete(results: Path, rows: Iterable[tuple[str, str, int]]) -> None:
    """Delete tables.json of each run that lacks tables, and the results from it, so that Snakemake makes them again.

    The tables of processes are not outputs of a rule, so Snakemake does not notice when they are missing; nor does it
    make a missing file again while files made from it exist. Runs that were never read are skipped.
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
    return [table_file(folder, name).stat().st_size for name in TABLES]
