"""Tables of a reading as NumPy columns, which become Arrow tables only where these are asked for.

Importing pyarrow takes longer than reading a small trace. Buffers are handed to Arrow as they are, since
`pyarrow.array` would import pandas first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kernelbook.trace.numbers import MISSING
from kernelbook.trace.types import Array, Flags, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa


class Column(msgspec.Struct, frozen=True):
    """Numbers or booleans, null if `missing` is true.

    names: with it, `values` are indices into these names, and a negative one is null.
    """

    values: Array
    missing: Flags | None = None
    names: Sequence[str] | None = None

    def take(self, rows: Ints | Flags) -> Column:
        return Column(self.values[rows], None if self.missing is None else self.missing[rows], self.names)

    def to_list(self) -> list[Any]:
        values: list[Any] = self.values.tolist()
        if self.names is not None:
            return [self.names[code] if code >= 0 else None for code in values]
        if self.missing is None or not self.missing.any():
            return values
        return [None if null else value for value, null in zip(values, self.missing.tolist(), strict=True)]

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        if self.names is not None:
            return self._text_array(self.names)
        values: Array = np.ascontiguousarray(self.values)
        size = len(values)
        validity = None if self.missing is None or not self.missing.any() else _bits(~self.missing)
        if values.dtype == bool:
            return pa.Array.from_buffers(pa.bool_(), size, [validity, _bits(values)])
        kind = {"int8": pa.int8(), "int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64()}
        return pa.Array.from_buffers(kind[values.dtype.name], size, [validity, pa.py_buffer(values)])

    def _text_array(self, names: Sequence[str]) -> pa.Array:
        import pyarrow as pa

        values: Ints = np.maximum(self.values, -1)
        used = np.flatnonzero(np.bincount(values + 1)) - 1
        encoded = [b""] * (len(names) + 1)  # by code; the last is that of null, -1
        lengths = np.zeros(len(encoded), dtype=np.int64)
        for code in used[used >= 0].tolist():
            encoded[code] = names[code].encode()
            lengths[code] = len(encoded[code])
        offsets = np.concatenate(([0], np.cumsum(lengths[values])))
        kind, width = (pa.large_string(), np.int64) if offsets[-1] >= 2**31 else (pa.string(), np.int32)
        data = pa.py_buffer(b"".join(np.array(encoded, dtype=object)[values].tolist()))
        missing: Flags = self.values < 0
        validity = _bits(~missing) if missing.any() else None
        return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(offsets.astype(width)), data])


class Lists(msgspec.Struct, frozen=True):
    """Lists of rows of `items`: list i holds `count[i]` of them from `first[i]` on. A negative count: null."""

    first: Ints
    count: Ints
    items: Column | Lists | Frame

    @property
    def values(self) -> Ints:
        return self.first

    def take(self, rows: Ints | Flags) -> Lists:
        return Lists(self.first[rows], self.count[rows], self.items)

    def take_or_null(self, rows: Ints) -> Lists:
        """`take`, with a null for each negative row."""
        first, count = (np.append(values, -1)[np.maximum(rows, -1)] for values in (self.first, self.count))
        return Lists(first, count, self.items)

    def to_list(self) -> list[Any]:
        items = self.items.to_rows() if isinstance(self.items, Frame) else self.items.to_list()
        pairs = zip(self.first.tolist(), self.count.tolist(), strict=True)
        return [items[first : first + count] if count >= 0 else None for first, count in pairs]

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        count = np.maximum(self.count, 0)
        ends = np.cumsum(count)
        rows = np.repeat(self.first - (ends - count), count) + np.arange(count.sum())
        items = self.items.take(rows)
        child = items.to_struct() if isinstance(items, Frame) else items.to_arrow()
        missing: Flags = self.count < 0
        validity = _bits(~missing) if missing.any() else None
        offsets = pa.py_buffer(np.concatenate(([0], ends)).astype(np.int32))
        return pa.Array.from_buffers(pa.list_(child.type), len(count), [validity, offsets], children=[child])


class Frame(dict[str, Column | Lists]):
    """Columns of equal length by name."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values())).values)

    def take(self, rows: Ints | Flags) -> Frame:
        return Frame({name: column.take(rows) for name, column in self.items()})

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: column.to_arrow() for name, column in self.items()})

    def to_struct(self) -> pa.Array:
        import pyarrow as pa

        return pa.StructArray.from_arrays([column.to_arrow() for column in self.values()], [*self])

    def to_rows(self, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """One dict per row, of the columns of these names or of all."""
        chosen = list(self if names is None else names)
        columns = [self[name].to_list() for name in chosen]
        return [dict(zip(chosen, row, strict=True)) for row in zip(*columns, strict=True)]

    def counts(self, *names: str) -> dict[tuple[Any, ...], int]:
        """Number of rows of each combination of values in these columns."""
        key = np.zeros(self.size, dtype=np.int64)
        for name in names:
            codes = np.unique(self[name].values, return_inverse=True)[1]
            key = key * (codes.max(initial=0) + 1) + codes
        _, first, count = np.unique(key, return_index=True, return_counts=True)
        columns = [self[name].take(first).to_list() for name in names]
        return dict(zip(zip(*columns, strict=True), count.tolist(), strict=True))


def whole(values: Ints) -> Column:
    """Whole numbers, null if MISSING."""
    return Column(values, values == MISSING)


def microseconds(nanoseconds: Ints | Floats, missing: Flags | None = None) -> Column:
    return Column(np.divide(nanoseconds, 1000.0), missing)


def texts(values: Sequence[str | None]) -> Column:
    codes = [index if value is not None else -1 for index, value in enumerate(values)]
    return Column(np.array(codes, dtype=np.int64), names=[value or "" for value in values])


def listed(values: Sequence[Sequence[Any] | None], items: Callable[[list[Any]], Column | Lists | Frame]) -> Lists:
    """Lists of `values`, whose items together `items` makes columns of; None is null."""
    count = np.array([-1 if value is None else len(value) for value in values], dtype=np.int64)
    flat = [item for value in values if value is not None for item in value]
    size = np.maximum(count, 0)
    return Lists(np.cumsum(size) - size, count, items(flat))


def _bits(values: Flags) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(values, bitorder="little"))
