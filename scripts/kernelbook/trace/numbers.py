"""Numbers from JSON values of events, which may be numbers or text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from kernelbook.trace.events import Args, integer, number
from kernelbook.trace.types import Flags, Floats, Ints

MISSING = -1
_NO_SIZE = [MISSING] * 3
_LONGEST_US = 1e13  # 115 days: an end without a start
_FARTHEST_US = 9e15  # about 285 years: more does not fit into integer ns


def spans_of(start: Floats, length: Floats) -> tuple[Ints, Ints, Flags]:
    """(starts in ns, ends in ns, whether both are finite, not negative and not longer than any program runs).

    start, length: in µs.
    """
    with np.errstate(invalid="ignore"):
        valid: Flags = (start >= 0) & (length >= 0) & (length < _LONGEST_US) & (start + length < _FARTHEST_US)
    if not valid.all():
        start, length = np.where(valid, start, 0), np.where(valid, length, 0)
    begin, end = _nanoseconds(start), _nanoseconds(length)
    end += begin
    return begin, end, valid


def _nanoseconds(microseconds: Floats) -> Ints:
    """Exact for every float: 1.7e15 µs times 1000 would lose the fraction."""
    whole: Floats = np.floor(microseconds)
    fraction: Floats = np.subtract(microseconds, whole)
    fraction *= 1000
    result: Ints = whole.astype(np.int64)
    result *= 1000
    result += np.rint(fraction, out=fraction).astype(np.int64)
    return result


def floats_of(values: list[Any]) -> Floats:
    """NaN for anything that is not a number."""
    try:
        return np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return np.array([number(value) for value in values], dtype=np.float64)


def integers_of(values: Sequence[Any]) -> Ints:
    """MISSING for anything that is not an integer of 64 bits."""
    with suppress(ValueError, TypeError, OverflowError):
        return np.array(values, dtype=np.int64)
    with suppress(ValueError, TypeError, OverflowError):
        return np.array([MISSING if value is None else value for value in values], dtype=np.int64)
    return np.array([MISSING if (read := integer(value)) is None else read for value in values], dtype=np.int64)


def counts_of(values: Sequence[Any]) -> Ints:
    """As `integers_of`, with negative values as MISSING."""
    return np.maximum(integers_of(values), MISSING)


def sizes_of(args: list[Args]) -> Ints:
    """Grid and block, six numbers per row; the three numbers of an invalid one are MISSING."""
    return np.hstack([_triples([each.grid for each in args]), _triples([each.block for each in args])])


def _triples(listed: list[list[int] | None]) -> Ints:
    triples = [size or _NO_SIZE for size in listed]
    if {*map(len, triples)} != {3}:
        triples = [size if len(size) == 3 else _NO_SIZE for size in triples]
    sizes = integers_of([*chain.from_iterable(triples)]).reshape(-1, 3)
    sizes[(sizes < 1).any(axis=1)] = MISSING
    return sizes


def stream_of(tid: int | str | None) -> int | str | None:
    return tid.removeprefix("stream ") if isinstance(tid, str) else tid
