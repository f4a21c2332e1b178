"""The columns of the history: one row per case and process of a night. Version 4.

| version | what changed |
| --- | --- |
| 1 | the first |
| 2 | `kernel_count`, `image_digest`, `sm_clock_mhz`, `ops`, `ops_id`, `warnings` added |
| 3 | `settings` added; `series` takes in the case and its settings |
| 4 | `confirmation`, `gpu_id`, `torch_git`, `graph_breaks`, `recompiles`, `relative_error`, `occupancy_percent` added |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kernelbook.config.defaults import MEASURE_DEFAULTS
from kernelbook.config.loading import NO_FIGURE

VERSION = 4
VERSION_KEY = b"kernelbook_history_schema"

_NAMES = pa.list_(pa.string())
_COLUMNS: dict[str, pa.DataType] = {
    "edition": pa.string(),  # the night
    "night": pa.string(),  # its date, YYYY-MM-DD
    "run": pa.string(),
    "line": pa.string(),  # the name under which the run's series go on
    "case": pa.string(),  # null: the whole run was left out
    "process": pa.int64(),
    "confirmation": pa.bool_(),  # a second measurement of a suspect in the same night
    "workload": pa.string(),
    "variant": pa.string(),
    "mode": pa.string(),
    "dtype": pa.string(),
    "params": pa.string(),  # JSON, keys sorted
    "settings": pa.string(),  # JSON: how it was measured and compiled, if not by default
    "status": pa.string(),  # ok | failed | unsupported | left out
    "reason": pa.string(),
    "series": pa.string(),  # short id of what may be compared; null unless ok
    "device": pa.string(),
    "device_type": pa.string(),
    "driver": pa.string(),
    "gpu_id": pa.string(),  # which GPU of its kind
    "torch": pa.string(),
    "torch_git": pa.string(),  # commit that torch was built from
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
    "graph_breaks": pa.int64(),  # of torch.compile, in one process
    "recompiles": pa.int64(),
    "relative_error": pa.float64(),  # to a float64 reference
    "occupancy_percent": pa.float64(),  # achieved occupancy, by device time over the kernels of one forward
    "sm_clock_mhz": pa.float64(),  # the higher of before and after
}
SCHEMA = pa.schema(list(_COLUMNS.items()), metadata={VERSION_KEY: str(VERSION).encode()})
SERIES_KEY = ("workload", "variant", "mode", "params", "dtype", "device", "driver", "line", "case")
DEFAULT_SETTINGS = "{}"
# Keys of a configured case that are not settings: those in other columns, and those that cannot change a figure.
NO_SETTINGS = frozenset(
    {*SERIES_KEY, *NO_FIGURE, "cpu_params", "annotation", "retry_of", "note", "expect", "sweep", "enabled"}
)


def short_id(value: object) -> str:
    """Twelve hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def series_id(row: Mapping[str, object]) -> str:
    """Id of a row's series: values are compared only if all of `SERIES_KEY` and the settings are equal.

    Default and unknown settings do not affect the id.
    """
    settings = row.get("settings")
    more = [] if settings in (None, DEFAULT_SETTINGS) else [settings]
    return short_id([*(row.get(key) for key in SERIES_KEY), *more])


def settings_of(case: Mapping[str, object]) -> str:
    """The column `settings` of a configured case: JSON with sorted keys, without defaults."""
    defaults = {**MEASURE_DEFAULTS, "compile_options": {}}
    settings = {key: value for key, value in case.items() if key not in NO_SETTINGS and value != defaults.get(key)}
    return json.dumps(settings, sort_keys=True)


def with_series(table: pa.Table) -> tuple[pa.Table, dict[tuple[str, str], str]]:
    """(table with recomputed series ids of rows before version 3, map from (old id, case) to new id).

    table: rows in order of nights. The settings of the old rows are unknown; they are taken from the first later night
    of the same case, so that its series continues.
    """
    old = pc.and_(pc.is_valid(table["series"]), pc.is_null(table["settings"]))
    if not pc.any(old).as_py():
        return table, {}
    later: dict[str, str] = {}
    for row in _distinct(table.filter(pc.is_valid(table["settings"]))):
        if row["series"]:
            later.setdefault(series_id(row | {"settings": None}), row["series"])
    renamed = {}
    for row in _distinct(table.filter(old)):
        computed_id = series_id(row)
        renamed[row["series"], row["case"]] = later.get(computed_id, computed_id)
    keys = pc.binary_join_element_wise(table["series"], table["case"], "\0").combine_chunks().dictionary_encode()
    names = [renamed.get(tuple(key.split("\0"))) if key else None for key in keys.dictionary.to_pylist()]
    computed = pa.array(names, pa.string()).take(keys.indices)
    series = pc.if_else(old, computed, table["series"])
    place = table.column_names.index("series")
    return table.set_column(place, table.schema.field(place), series), renamed


def _distinct(table: pa.Table) -> list[dict[str, Any]]:
    """Distinct combinations of the columns that make a series, in order of first occurrence."""
    columns = [*SERIES_KEY, "settings", "series"]
    numbered = table.select(columns).append_column("row", pa.array(range(len(table)), pa.int64()))
    grouped = numbered.group_by(columns, use_threads=False).aggregate([("row", "min")])
    rows: list[dict[str, Any]] = grouped.sort_by("row_min").to_pylist()
    return rows


def table_of(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Rows as a table of the current schema; a missing key is null. Raises pyarrow.ArrowInvalid for a wrong type."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)


def upgrade(table: pa.Table, version: int, columns: Sequence[str]) -> pa.Table:
    """`columns` of a table of an older version in the current schema; columns that it lacks are null.

    Raises ValueError for a version that is newer than this code.
    """
    if version > VERSION:
        raise ValueError(
            f"history schema {version}, but this Kernelbook reads up to {VERSION}: update Kernelbook to read this night"
        )
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    if table.column_names == list(columns) and table.schema.equals(schema):
        return table.replace_schema_metadata(None)
    arrays = [
        table[name].cast(SCHEMA.field(name).type)
        if name in table.column_names
        else pa.nulls(len(table), SCHEMA.field(name).type)
        for name in columns
    ]
    return pa.table(arrays, schema=schema)
