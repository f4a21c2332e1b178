"""The files of an edition: edition.json and one Parquet file for each table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = 2
TABLES = (
    "cases",
    "ranges",
    "activities",
    "calls",
    "call_totals",
    "ops",
    "expectations",
    "findings",
    "comparisons",
    "costs",
    "time_split",
    "ceilings",
    "clock",
    "counters",
    "trust",
    "sdpa_backends",
    "kernels",
    "ranks",
    "collectives",
    "samples",
    "published",
)


class EditionError(ValueError):
    """The edition folder cannot be read; the message names the file and what to do."""


@dataclass(frozen=True)
class EditionFiles:
    """The content of an edition's files. about: edition.json. tables: name -> table."""

    about: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    def write(self, folder: Path) -> None:
        """Write edition.json and <table>.parquet into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        text = json.dumps(self.about, indent=1, sort_keys=True, allow_nan=False)
        (folder / "edition.json").write_text(text + "\n", encoding="utf-8")


def read_files(folder: Path, names: Iterable[str] = TABLES) -> EditionFiles:
    """edition.json and the tables of these names in a folder; a table without a file is left out.

    Raises EditionError if edition.json is missing or is not that of an edition, or if a file is damaged.
    """
    about = _about(folder)
    paths = {name: folder / f"{name}.parquet" for name in names}
    return EditionFiles(about, {name: _table(path) for name, path in paths.items() if path.is_file()})


def _about(folder: Path) -> dict[str, Any]:
    path = folder / "edition.json"
    if not path.is_file():
        raise EditionError(f"{path}: not found; make the edition first (scripts/collect_edition.py)")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, error) from error
    if not isinstance(about, dict) or not {"edition", "created_utc"} <= about.keys():
        raise EditionError(f"{path}: has no 'edition' or no 'created_utc'; this is not an edition folder")
    if about.get("schema") != SCHEMA:
        raise EditionError(f"{path}: schema must be {SCHEMA}, found {about.get('schema')!r}; make the edition anew")
    return about


def _table(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read()
    except pa.ArrowInvalid as error:
        raise _damaged(path, error) from error


def _damaged(file: Path, error: Exception) -> EditionError:
    remedy = f"delete the folder {file.parent} and run the workflow again, which collects it without measuring anew"
    return EditionError(f"{file}: is damaged ({error}): {remedy}")
