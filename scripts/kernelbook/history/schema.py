"""The columns of the history: one row a case and process of a night. Version 2.

| version | what changed |
| --- | --- |
| 1 | the first |
| 2 | `kernel_count`, `image_digest`, `sm_clock_mhz`, `ops`, `ops_id`, `warnings` added |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

import pyarrow as pa

VERSION = 2
VERSION_KEY = b"kernelbook_history_schema"

_NAMES = pa.list_(pa.string())
_COLUMNS: dict[str, pa.DataType] = {
    "edition": pa.string(),  # the night
    "night": pa.string(),  # its date, YYYY-MM-DD
    "run": pa.string(),
    "line": pa.string(),  # the name under which the run's series go on
    "case": pa.string(),  # null: the whole run was left out
    "process": pa.int64(),
    "workload": pa.string(),
    "variant": pa.string(),
    "mode": pa.string(),
    "dtype": pa.string(),
    "params": pa.string(),  # JSON, keys sorted
    "status": pa.string(),  # ok | failed | unsupported | left out
    "reason": pa.string(),
    "series": pa.string(),  # short id of what may be compared; null unless ok
    "device": pa.string(),
    "device_type": pa.string(),
    "driver": pa.string(),
    "torch": pa.string(),
    "cuda": pa.string(),
    "cudnn": pa.string(),
    "image": pa.string(),
    "image_digest": pa.string(),  # what really ran, when the image is a moving tag
    "started_utc": pa.string(),
    "kernel_count": pa.int64(),  # per forward
    "kernels": _NAMES,  # names in launch order, one forward
    "kernels_id": pa.string(),  # digest of names, memcpys and memsets: equal ids, equal kernels
    "memcpys": pa.int64(),
    "memsets": pa.int64(),
    "launches": pa.int64(),
    "ops": _NAMES,
    "ops_id": pa.string(),
    "warnings": _NAMES,  # codes
    "forward_time_us": pa.float64(),  # median of the unprofiled forwards
    "forward_times_us": pa.list_(pa.float64()),  # the raw ones
    "device_time_us": pa.float64(),  # per forward, median over the profiled ones
    "cpu_time_us": pa.float64(),  # per forward, profiled
    "first_call_us": pa.float64(),
    "peak_memory_bytes": pa.int64(),
    "sm_clock_mhz": pa.float64(),  # the higher of before and after
}
SCHEMA = pa.schema(list(_COLUMNS.items()), metadata={VERSION_KEY: str(VERSION).encode()})
SERIES_KEY = ("workload", "variant", "mode", "params", "dtype", "device", "driver", "line")


def short_id(value: object) -> str:
    """Twelve hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def series_id(row: Mapping[str, object]) -> str:
    """Id of the series a row belongs to: values are compared only where all of `SERIES_KEY` is equal."""
    return short_id([row.get(key) for key in SERIES_KEY])


def table_of(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Rows as a table of the present schema; a missing key is null. Raises pyarrow.ArrowInvalid for a wrong type."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)


def upgrade(table: pa.Table, version: int, columns: list[str]) -> pa.Table:
    """`columns` of a table of an older version as the present one has them: a column it did not know is null.

    Raises ValueError for a version that is newer than this code.
    """
    if version > VERSION:
        raise ValueError(
            f"history schema {version}, but this Kernelbook reads up to {VERSION}: update Kernelbook to read this night"
        )
    wanted = pa.schema([SCHEMA.field(name) for name in columns])
    if table.column_names == columns and table.schema.equals(wanted):
        return table.replace_schema_metadata(None)
    arrays = [
        table[name].cast(SCHEMA.field(name).type)
        if name in table.column_names
        else pa.nulls(len(table), SCHEMA.field(name).type)
        for name in columns
    ]
    return pa.table(arrays, schema=wanted)
