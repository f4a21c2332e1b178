"""Rows of the history as series: one value per night for comparable measurements, oldest night first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

METRICS = ("forward_time_us", "device_time_us")
"""Metrics that are judged, most important first."""
_MEDIANS = (*METRICS, "cpu_time_us", "sm_clock_mhz")
_MODES = (
    "kernels_id",
    "kernel_count",
    "memcpys",
    "memsets",
    "launches",
    "ops_id",
    "torch",
    "cuda",
    "cudnn",
    "image_digest",
)
FIXED = ("run", "line", "case", "workload", "variant", "mode", "params", "settings", "dtype", "device", "driver")


@dataclass(frozen=True)
class Series:
    """Comparable measurements: n nights of one case with one GPU, driver, line, settings and parameters.

    `nights` (n): positions in `Histories.nights`. `values`: arrays (n) in µs or MHz, NaN if missing, each the median
    over the night's processes. `facts`: the value of most processes of the night. `processes` (n): their number.
    """

    id: str
    run: str
    line: str
    case: str
    workload: str
    variant: str
    mode: str
    params: str
    settings: str | None
    dtype: str
    device: str | None
    driver: str | None
    nights: np.ndarray
    values: dict[str, np.ndarray]
    facts: dict[str, list[Any]]
    processes: np.ndarray

    @property
    def subject(self) -> tuple[str, str]:
        """Line and case, independent of GPU and driver."""
        return self.line, self.case

    def before(self, metric: str, position: int, nights: int) -> np.ndarray:
        """Up to `nights` values of the metric before a position, without missing values and zeros."""
        values = self.values[metric][max(0, position - nights) : position]
        return values[values > 0]


@dataclass(frozen=True)
class Histories:
    """All series of a history and its nights."""

    nights: tuple[str, ...]
    series: tuple[Series, ...]

    @cached_property
    def by_subject(self) -> dict[tuple[str, str], list[Series]]:
        """The series of each line and case, oldest first."""
        groups: dict[tuple[str, str], list[Series]] = {}
        for series in sorted(self.series, key=lambda item: (int(item.nights[0]), item.id)):
            groups.setdefault(series.subject, []).append(series)
        return groups


def make_series(table: pa.Table, nights: Sequence[str]) -> Histories:
    """Group the good rows of `table` into series; `nights` gives the order. Columns that were not read are left out."""
    good = table.filter(pc.and_kleene(pc.equal(table["status"], "ok"), pc.is_valid(table["series"])))
    if not len(good):
        return Histories(tuple(nights), ())
    names = set(table.column_names)
    night_of = pc.index_in(good["edition"], pa.array(nights, pa.string())).to_numpy()
    series_codes = good["series"].combine_chunks().dictionary_encode()
    code = series_codes.indices.to_numpy()
    order = np.lexsort((night_of, code))
    night_of, code = night_of[order], code[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(code) != 0) | (np.diff(night_of) != 0)])
    medians = {name: _medians(good[name].to_numpy()[order], starts) for name in _MEDIANS if name in names}
    modes = {name: _modes(good[name], order, starts) for name in _MODES if name in names}
    if "warnings" in names:
        modes["warnings"] = _common_warnings(good["warnings"], order, starts)
    counts = np.diff(np.r_[starts, len(order)])
    firsts = good.select(FIXED).take(pa.array(order[starts]))
    bounds = np.flatnonzero(np.r_[True, np.diff(code[starts]) != 0, True])
    made = []
    for left, right in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        span = slice(left, right)
        made.append(
            Series(
                id=series_codes.dictionary[int(code[starts[left]])].as_py(),
                **firsts.slice(right - 1, 1).to_pylist()[0],
                nights=night_of[starts[span]],
                values={name: values[span] for name, values in medians.items()},
                facts={name: values[span] for name, values in modes.items()},
                processes=counts[span],
            )
        )
    return Histories(tuple(nights), tuple(sorted(made, key=lambda item: (item.line, item.case, item.id))))


def _medians(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Median of each group without missing values; NaN for a group without values. Groups begin at `starts`."""
    values = values.astype(float)
    group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(values)]))
    ordered = values[np.lexsort((values, group))]  # NaN sorts last
    count = np.add.reduceat(np.isfinite(values).astype(int), starts)
    low, high = starts + np.maximum(count - 1, 0) // 2, starts + count // 2
    middle = (ordered[low] + ordered[np.minimum(high, len(values) - 1)]) / 2
    return np.where(count > 0, middle, np.nan)


def _modes(column: pa.ChunkedArray, order: np.ndarray, starts: np.ndarray) -> list[Any]:
    """The most frequent value of each group, without missing values; the first on a tie."""
    coded = column.combine_chunks().dictionary_encode()
    words = [*coded.dictionary.to_pylist(), None]
    missing = len(words) - 1
    codes = pc.fill_null(coded.indices, missing).to_numpy()[order]
    lows = np.minimum.reduceat(codes, starts)
    highs = np.maximum.reduceat(np.where(codes == missing, -1, codes), starts)
    result = lows.tolist()
    ends = np.r_[starts[1:], len(codes)]
    for group in np.flatnonzero(lows < highs).tolist():
        members = codes[starts[group] : ends[group]]
        result[group] = Counter(members[members != missing].tolist()).most_common(1)[0][0]
    return [words[code] for code in result]


def _common_warnings(column: pa.ChunkedArray, order: np.ndarray, starts: np.ndarray) -> list[tuple[str, ...] | None]:
    """Warning codes of most rows of each group; None for nights that did not record warnings."""
    rows = column.combine_chunks()
    if rows.null_count == len(rows):
        return [None] * len(starts)
    quiet = (pc.fill_null(pc.list_value_length(rows), 0).to_numpy() == 0)[order]
    is_recorded = rows.is_valid().to_numpy(zero_copy_only=False)[order]
    silent = np.logical_and.reduceat(quiet, starts)
    any_recorded = np.logical_or.reduceat(is_recorded, starts)
    ends = np.r_[starts[1:], len(order)]
    result: list[tuple[str, ...] | None] = [() if recorded else None for recorded in any_recorded.tolist()]
    for group in np.flatnonzero(~silent).tolist():
        members = order[starts[group] : ends[group]]
        counts = Counter(code for row in members.tolist() for code in rows[row].as_py() or ())
        result[group] = tuple(sorted(code for code, n in counts.items() if 2 * n > len(members)))
    return result
