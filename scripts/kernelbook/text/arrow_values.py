"""Arrow arrays of Python values.

`pyarrow.array` imports pandas if it is installed, which takes longer than reading a trace. The layout of the buffers is
that of https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

#: Type codes of `array.array`.
TYPE_CODES = {pa.int64(): "q", pa.float64(): "d"}


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of this type; None becomes null. Structs are given as dicts, maps as lists of pairs.

    Raises TypeError or OverflowError for a value of another type.
    """
    validity = _packed(value is not None for value in values) if None in values else None
    if pa.types.is_struct(kind):
        rows = [value or {} for value in values]
        children = [array_of([row.get(field.name) for row in rows], field.type) for field in kind]
        return pa.Array.from_buffers(kind, len(values), [validity], children=children)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        items = [item for value in values for item in value or ()]
        child = _pairs(items, kind) if pa.types.is_map(kind) else array_of(items, kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [validity, _offsets(values)], children=[child])
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, len(values), [validity, _packed(values)])
    if (text := pa.types.is_string(kind)) or pa.types.is_binary(kind):
        content = [b"" if value is None else str.encode(value) if text else value for value in values]
        buffers = [validity, _offsets(content), pa.py_buffer(b"".join(content))]
        return pa.Array.from_buffers(kind, len(values), buffers)
    if kind not in TYPE_CODES:
        return pa.array(values, kind)
    numbers = array(TYPE_CODES[kind], [0 if value is None else value for value in values])
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(numbers)])


def rows_where(table: pa.Table, chosen: Iterable[bool]) -> pa.Table:
    """The rows that are chosen. To compare a column with a value, `pyarrow.compute` would import pandas."""
    return table.filter(array_of([*chosen], pa.bool_()))


def _pairs(items: Sequence[tuple[Any, Any]], kind: pa.MapType) -> pa.Array:
    keys = array_of([key for key, _ in items], kind.key_type)
    values = array_of([value for _, value in items], kind.item_type)
    pair = pa.struct([kind.key_field, kind.item_field])
    return pa.Array.from_buffers(pair, len(items), [None], children=[keys, values])


def _offsets(values: Iterable[Any]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate((len(value or ()) for value in values), initial=0)))


def _packed(values: Iterable[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array([bool(value) for value in values], np.bool_), bitorder="little"))
