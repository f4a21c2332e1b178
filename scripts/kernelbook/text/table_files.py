"""Writes tables as Parquet and as CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernelbook.text.formatting import csv_cell


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write NAME.parquet and NAME.csv of each table that has columns. Nested values are JSON in the CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        if not table.num_columns:
            continue
        with (folder / f"{name}.parquet").open("wb") as stream:  # Arrow would read a path such as a:b as an address
            pq.write_table(table, stream, compression="zstd")
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow([csv_cell(column) for column in table.column_names])
            columns = [_cells(column) for column in table.columns]
            writer.writerows(zip(*columns, strict=True))


def _cells(column: pa.ChunkedArray) -> list[Any]:
    values = column.to_pylist(maps_as_pydicts="lossy")  # scrubbing may make two keys equal
    if pa.types.is_nested(column.type):
        return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_dictionary(column.type):
        return [csv_cell(value) for value in values]
    return values
