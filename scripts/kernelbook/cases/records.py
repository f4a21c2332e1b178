"""Frozen dataclasses as the rows of Arrow tables, and back: the fields of a class are the columns of its table.

| type of the field | type of the column |
| --- | --- |
| str, Literal; int; float; bool | string; int64; double; bool |
| tuple[T, ...] | list of T |
| a dataclass | struct of its fields |
| Mapping[str, T] | map from string to T |
| Mapping[str, Any] | map from string to string, each value as JSON; see `value_text` |

`T | None` has the type of T. A missing value is null, never a default.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from itertools import accumulate
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa

# --- values of columns -----------------------------------------------------------------------------------------------
# `pyarrow.array` imports pandas if it is installed, which takes longer than reading a trace. The layout of the buffers
# is that of https://arrow.apache.org/docs/format/Columnar.html.


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


def _pairs(items: Sequence[tuple[Any, Any]], kind: pa.MapType) -> pa.Array:
    keys = array_of([key for key, _ in items], kind.key_type)
    values = array_of([value for _, value in items], kind.item_type)
    pair = pa.struct([kind.key_field, kind.item_field])
    return pa.Array.from_buffers(pair, len(items), [None], children=[keys, values])


def _offsets(values: Iterable[Any]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate((len(value or ()) for value in values), initial=0)))


def _packed(values: Iterable[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array([bool(value) for value in values], np.bool_), bitorder="little"))


SCALARS = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
T = TypeVar("T")


def schema_of(kind: type, *without: str) -> pa.Schema:
    """The columns of a dataclass. without: fields to leave out."""
    return pa.schema([(name, _arrow(hint)) for name, hint in _layout(kind).hints.items() if name not in without])


def meanings(kind: type) -> dict[str, str]:
    """Column -> its meaning, for the fields of a dataclass or typed dict that have a `doc`."""
    hints = get_type_hints(kind, include_extras=True).items()
    return {name: meaning for name, hint in hints if (meaning := _doc(hint))}


def table_of(records: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """Instances of one dataclass as a table with these columns."""
    rows = [_row(record) for record in records]
    columns = [array_of([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _row(record: Any) -> dict[str, Any]:
    free = {
        name: {key: value_text(value) for key, value in getattr(record, name).items()}
        for name in _layout(type(record)).free_maps
    }
    return {field.name: _plain(free.get(field.name, getattr(record, field.name))) for field in fields(record)}


def _plain(value: Any) -> Any:
    """A struct as dict, a map as list of pairs, as Arrow takes them."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return [(key, _plain(item)) for key, item in value.items()]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def records_of(kind: type[T], table: pa.Table) -> list[T]:
    """The rows of a table as instances, each made by `record_of`."""
    rows = table.to_pylist(maps_as_pydicts="lossy")  # scrubbing may make two keys equal
    for name in set(_layout(kind).free_maps) & set(table.column_names):
        for row in rows:
            row[name] = {key: text_value(text) for key, text in (row[name] or {}).items()}
    return [record_of(kind, row) for row in rows]


def record_of(kind: type[T], row: Mapping[str, Any]) -> T:
    """An instance of `kind` from plain values.

    Unknown keys are skipped. A missing key and a null take the field's default, or None; NaN counts as null. Raises
    ValueError for a value of another type.
    """
    filled: dict[str, Any] = dict.fromkeys(_layout(kind).required)
    filled |= {name: value for name, value in row.items() if value is not None and value == value}  # NaN != NaN
    try:
        return msgspec.convert(filled, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"a row does not fit {kind.__name__}: {error}") from error


def value_text(value: Any) -> str:
    """A value as JSON (`64`, `true`, `[1, 2]`); a text that is not JSON stays as it is (`bfloat16`)."""
    return value if isinstance(value, str) and text_value(value) is value else json.dumps(value, sort_keys=True)


def text_value(text: str) -> Any:
    """The value that `value_text` wrote."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Layout(NamedTuple):
    """The fields of a dataclass: field -> annotation, those without a default, those that are `Mapping[str, Any]`."""

    hints: dict[str, Any]
    required: tuple[str, ...]
    free_maps: tuple[str, ...]


_LAYOUTS: dict[type, _Layout] = {}


def _layout(kind: type) -> _Layout:
    if kind not in _LAYOUTS:
        hints = get_type_hints(kind, include_extras=True)
        _LAYOUTS[kind] = _Layout(
            {field.name: hints[field.name] for field in fields(kind)},
            tuple(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING),
            tuple(field.name for field in fields(kind) if _bare(hints[field.name]) == Mapping[str, Any]),
        )
    return _LAYOUTS[kind]


def _doc(hint: Any) -> str | None:
    metas = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((_meaning(meta) for meta in metas if isinstance(meta, msgspec.Meta)), None)


def _meaning(meta: msgspec.Meta) -> str:
    """The description, then the possible values."""
    values = [value for value in (meta.extra_json_schema or {}).get("enum", ()) if value]
    listed = f"{', '.join(values[:-1])} or {values[-1]}." if values else ""
    return " ".join(filter(None, (meta.description, listed)))


def _bare(hint: Any) -> Any:
    """The type without `Annotated` and without `| None`."""
    while get_origin(hint) in (Annotated, Union, UnionType):
        hint = next(part for part in get_args(hint) if part is not NoneType)
    return hint


def _arrow(hint: Any) -> pa.DataType:
    kind = _bare(hint)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return pa.string()
    if origin is tuple:
        return pa.list_(_arrow(arguments[0]))
    if origin is Mapping:
        return pa.map_(pa.string(), pa.string() if arguments[1] is Any else _arrow(arguments[1]))
    if isinstance(kind, type) and is_dataclass(kind):
        return pa.struct([(name, _arrow(inner)) for name, inner in _layout(kind).hints.items()])
    return SCALARS[kind]
