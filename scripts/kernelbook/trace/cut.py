"""Which ranges of a file that ends too early are not whole: what they launched lies past the cut, or may."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelbook.trace.attribution import Attribution
from kernelbook.trace.columns import MISSING, RUNTIME, Columns
from kernelbook.trace.launches import launching


def cut_ranges(columns: Columns, found: Attribution, truncated: Sequence[bool]) -> np.ndarray:
    """Per range whether its device figures may be too low because of the cut; all False for files that are whole.

    truncated: per window of the columns. torch writes the ops first, then each activity beside its launch. So a range
    is whole where a later runtime call of its window was still read, and every launch inside it has its activity. A
    window without device activities has no such figures.
    """
    rows, ranges = found.forest.rows, found.ranges
    cut = np.zeros(len(ranges), dtype=bool)
    if not any(truncated) or not len(columns.device.start):
        return cut
    of_row = np.searchsorted(columns.windows, rows.start, "right") - 1
    of_range = of_row[ranges]
    calls = rows.kind == RUNTIME
    for window in np.flatnonzero(truncated):
        last = rows.start[calls & (of_row == window)].max(initial=-1)
        cut |= (of_range == window) & (rows.end[ranges] > last)
    return cut | (np.isin(of_range, np.flatnonzero(truncated)) & (_lost_before(found, columns, ranges) > 0))


def _lost_before(found: Attribution, columns: Columns, ranges: np.ndarray) -> np.ndarray:
    """Per range how many launches inside its time have no activity in the file."""
    rows = found.forest.rows
    calls = np.flatnonzero((rows.kind == RUNTIME) & (rows.correlation != MISSING))
    calls = calls[
        launching(columns.names)[rows.name[calls]] & ~np.isin(rows.correlation[calls], columns.device.correlation)
    ]
    starts = np.sort(rows.start[calls])
    return np.searchsorted(starts, rows.end[ranges], "right") - np.searchsorted(starts, rows.start[ranges], "left")
