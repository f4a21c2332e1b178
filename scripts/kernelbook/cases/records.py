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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from kernelbook.text.arrow_values import array_of

PLAIN = (str, int, float)  # a bool is an int
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
    return table_of_rows([_row(record) for record in records], schema)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows, whose values `array_of` takes, as a table with these columns; a missing key is null."""
    columns = [array_of([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _row(record: Any) -> dict[str, Any]:
    hints, _, free_maps = _layout(type(record))
    row = {name: _plain(getattr(record, name)) for name in hints if name not in free_maps}
    return row | {name: [(k, value_text(v)) for k, v in getattr(record, name).items()] for name in free_maps}


def _plain(value: Any) -> Any:
    """A struct as dict, a map as list of pairs, as Arrow takes them."""
    if value is None or isinstance(value, PLAIN):  # most values
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return [(key, _plain(item)) for key, item in value.items()]
    return {name: _plain(getattr(value, name)) for name in _layout(type(value)).hints}


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
