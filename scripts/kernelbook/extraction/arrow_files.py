"""The tables of a process as files in Arrow's IPC format: small ones are read ten times as fast as from Parquet.

`pandas.read_feather` reads them too. Each rank has record batches of its own, so that one rank can be read alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from kernelbook.plan.earlier import table_file

COMPRESSED_FROM = 1 << 16  # bytes: to unpack less takes longer than to read it


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write each table into its file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with new_file(table_file(folder, name), table.schema, table.nbytes) as writer:
            writer.write_table(table)


def new_file(file: Path, schema: pa.Schema, size: int) -> pa.RecordBatchFileWriter:
    """A file for about `size` bytes of tables."""
    options = pa.ipc.IpcWriteOptions(compression="lz4" if size >= COMPRESSED_FROM else None)
    return pa.ipc.new_file(os.fspath(file), schema, options=options)


def read_schema(file: Path) -> pa.Schema:
    """The columns of a table."""
    with pa.OSFile(os.fspath(file)) as source:
        return pa.ipc.open_file(source).schema


def read_table(file: Path, rank: int | None = None) -> pa.Table:
    """A table, or its rows of one rank. Raises FileNotFoundError, and ValueError for a damaged file."""
    with pa.OSFile(os.fspath(file)) as source:
        try:
            opened = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(use_threads=False))
            batches = map(opened.get_batch, range(opened.num_record_batches))
            rows = [batch for batch in batches if rank is None or (batch.num_rows and batch["rank"][0].as_py() == rank)]
            table = pa.Table.from_batches(rows, opened.schema)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:  # of what is compressed, an OSError
            raise ValueError(f"{file}: is no table ({error}): delete it, and it is made again") from error
    return table
