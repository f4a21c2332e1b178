"""Numbers from JSON values of events, which may be numbers or text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from kernelbook.trace.events import integer, number
from kernelbook.trace.types import Flags, Floats, Ints

MISSING = -1
_NO_SIZE = (MISSING,) * 3
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


def floats_of(values: Sequence[Any]) -> Floats:
    """NaN for anything that is not a number."""
    try:
        return np.fromiter(values, np.float64, len(values))
    except (ValueError, TypeError, OverflowError):
        return np.array([number(value) for value in values], dtype=np.float64)


def integers_of(values: Sequence[Any]) -> Ints:
    """MISSING for anything that is not an integer of 64 bits."""
    with suppress(ValueError, TypeError, OverflowError):
        return np.fromiter(values, np.int64, len(values))
    with suppress(ValueError, TypeError, OverflowError):
        return np.array([MISSING if value is None else value for value in values], dtype=np.int64)
    return np.array([MISSING if (read := integer(value)) is None else read for value in values], dtype=np.int64)


def counts_of(values: Sequence[Any]) -> Ints:
    """As `integers_of`, with negative values as MISSING."""
    return np.maximum(integers_of(values), MISSING)


def valid_size(size: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """A grid or block as it is, or None if it is not three positive integers of 64 bits."""
    return size if size and len(size) == 3 and all(0 < each < 2**63 for each in size) else None


def sizes_of(sizes: Sequence[tuple[int, ...] | None]) -> Ints:
    """Valid sizes as rows of three numbers, which are MISSING for None."""
    return np.array([size or _NO_SIZE for size in sizes], np.int64).reshape(-1, 3)


def stream_of(tid: int | str | None) -> int | str | None:
    return tid.removeprefix("stream ") if isinstance(tid, str) else tid
