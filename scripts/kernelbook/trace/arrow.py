"""NumPy columns to Arrow arrays, straight from their buffers: `pyarrow.array` would import pandas first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_TYPES = {"int64": pa.int64(), "int32": pa.int32(), "int8": pa.int8(), "float64": pa.float64()}


def numbers(values: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """Numbers, or booleans; null where `missing` is true."""
    values = np.ascontiguousarray(values)
    if values.dtype == bool:
        return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(missing), _bits(values)])
    return pa.Array.from_buffers(_TYPES[values.dtype.name], len(values), [_validity(missing), pa.py_buffer(values)])


def microseconds(nanoseconds: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """Nanoseconds as float µs."""
    return numbers(np.asarray(nanoseconds) / 1000.0, missing)


def texts(codes: np.ndarray, names: list[str]) -> pa.Array:
    """Names by code; a negative code is null."""
    codes = np.asarray(codes)
    used, place = np.unique(codes, return_inverse=True)
    spelled = [names[code].encode() if code >= 0 else b"" for code in used.tolist()]
    lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))
    offsets = np.concatenate(([0], np.cumsum(lengths[place])))
    large = offsets[-1] >= 2**31
    data = pa.py_buffer(b"".join([spelled[index] for index in place.tolist()]))
    kind, width = (pa.large_string(), np.int64) if large else (pa.string(), np.int32)
    return pa.Array.from_buffers(kind, len(codes), [_validity(codes < 0), pa.py_buffer(offsets.astype(width)), data])


def strings(values: list[str | None]) -> pa.Array:
    """Strings as they are."""
    names = [value or "" for value in values]
    return texts(np.array([index if value is not None else -1 for index, value in enumerate(values)], np.int64), names)


def triples(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    """Rows of three whole numbers as lists; null where `missing` is true."""
    offsets = np.concatenate(([0], np.cumsum(np.where(missing, 0, 3)))).astype(np.int32)
    flat = numbers(values[~missing].reshape(-1))
    return pa.Array.from_buffers(
        pa.list_(pa.int64()), len(values), [_validity(missing), pa.py_buffer(offsets)], children=[flat]
    )


def _validity(missing: np.ndarray | None) -> pa.Buffer | None:
    return None if missing is None or not missing.any() else _bits(~missing)


def _bits(values: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
