"""Rows of the history as series: one value per night for comparable measurements, oldest night first."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

METRICS = ("forward_time_us", "device_time_us")
"""Times that are judged, most important first."""
WATCHED = ("peak_memory_bytes", "first_call_us", "relative_error", "occupancy_percent")
"""Other figures that are judged."""
_MEDIANS = (*METRICS, *WATCHED, "cpu_time_us", "sm_clock_mhz")
_MODES = (
    "gpu_id",
    "torch_git",
    "graph_breaks",
    "recompiles",
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
CONDITIONS = ("device", "driver", "params", "dtype", "settings", "workload", "variant", "mode")
"""If one of these changes, another series begins."""
FIXED = ("run", "line", "case", *CONDITIONS)


@dataclass(frozen=True)
class Series:
    """Comparable measurements: n nights of one case with one GPU, driver, line, settings and parameters.

    `nights` (n): positions in `Histories.nights`. `values`: arrays (n) in µs or MHz, NaN if missing, each the median
    over the night's processes. `confirmed`: the same of a second measurement of the night. `facts`: the value of most
    processes of the night. `own`: the first position of the series itself; before it are the nights of the series that
    it follows (`Histories.followed`).
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
    confirmed: dict[str, np.ndarray] = field(default_factory=dict)
    own: int = 0

    @property
    def subject(self) -> tuple[str, str]:
        """Line and case, independent of GPU and driver."""
        return self.line, self.case

    def before(self, metric: str, position: int, nights: int) -> np.ndarray:
        """Up to `nights` values of the metric before a position, without missing values and zeros."""
        values = self.values[metric][max(0, position - nights) : position]
        return values[values > 0]

    def after(self, earlier: Series) -> Series:
        """This series with the nights of an earlier one of the same case before its own."""
        count = int(np.searchsorted(earlier.nights, self.nights[0]))
        return replace(
            self,
            nights=np.r_[earlier.nights[:count], self.nights],
            values={name: np.r_[earlier.values[name][:count], own] for name, own in self.values.items()},
            confirmed={name: np.r_[earlier.confirmed[name][:count], own] for name, own in self.confirmed.items()},
            facts={name: [*earlier.facts[name][:count], *own] for name, own in self.facts.items()},
            own=count,
        )


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

    @cached_property
    def by_case(self) -> dict[str, list[Series]]:
        """The series of each case, of all runs."""
        groups: dict[str, list[Series]] = {}
        for series in self.series:
            groups.setdefault(series.case, []).append(series)
        return groups

    @cached_property
    def followed(self) -> tuple[Series, ...]:
        """Each series, with the nights of the series before it: that of its line and case with the latest earlier
        night.

        After a change of GPU, driver or parameters, new figures are compared with these nights.
        """
        result = []
        for group in self.by_subject.values():
            chains: list[Series] = []
            for series in group:
                first = series.nights[0]
                earlier = [chain for chain in chains if chain.nights[0] < first]
                last = max(earlier, key=lambda chain: chain.nights[chain.nights < first][-1], default=None)
                chains.append(series.after(last) if last is not None else series)
            result += chains
        return tuple(result)


def make_series(table: pa.Table, nights: Sequence[str]) -> Histories:
    """Group the good rows of `table` into series; `nights` gives the order. Columns that were not read are left out."""
    good = table.filter(pc.and_kleene(pc.equal(table["status"], "ok"), pc.is_valid(table["series"])))
    second = None
    if "confirmation" in table.column_names:
        again = pc.fill_null(good["confirmation"], False)
        good, second = good.filter(pc.invert(again)), good.filter(again)
    if not len(good):
        return Histories(tuple(nights), ())
    groups = _Groups(good, nights)
    medians = {name: groups.medians(good[name]) for name in _MEDIANS if name in good.column_names}
    modes = {name: _modes(good[name], groups.order, groups.starts) for name in _MODES if name in good.column_names}
    if "warnings" in good.column_names:
        modes["warnings"] = _common_warnings(good["warnings"], groups.order, groups.starts)
    confirmed = _confirmed(second, groups, nights) if second is not None else {}
    firsts = good.select(FIXED).take(pa.array(groups.order[groups.starts]))
    made = []
    for left, right in groups.spans():
        span = slice(left, right)
        fixed = firsts.slice(right - 1, 1).to_pylist()[0]
        facts = {name: values[span] for name, values in modes.items()}
        facts |= {name: [fixed[name]] * (right - left) for name in CONDITIONS}
        made.append(
            Series(
                id=groups.series_of(left),
                **fixed,
                nights=groups.nights[span],
                values={name: values[span] for name, values in medians.items()},
                facts=facts,
                confirmed={name: values[span] for name, values in confirmed.items()},
            )
        )
    return Histories(tuple(nights), tuple(sorted(made, key=lambda item: (item.line, item.case, item.id))))


class _Groups:
    """Rows of a table by series and night, sorted by both.

    `order`: the rows in that order. `starts`: where each of the n groups begins in it. `nights`, `codes` (n,): position
    of the night, and of the series among `names`.
    """

    def __init__(self, table: pa.Table, nights: Sequence[str]) -> None:
        night_of = pc.index_in(table["edition"], pa.array(nights, pa.string())).to_numpy()
        series = table["series"].combine_chunks().dictionary_encode()
        self.names = series.dictionary
        code = series.indices.to_numpy().astype(np.int64)
        self.order = np.lexsort((night_of, code))
        night_of, code = night_of[self.order], code[self.order]
        self.starts = np.flatnonzero(np.r_[True, (np.diff(code) != 0) | (np.diff(night_of) != 0)])
        self.nights, self.codes = night_of[self.starts], code[self.starts]

    def medians(self, column: pa.ChunkedArray) -> np.ndarray:
        if column.null_count == len(column):
            return np.full(len(self.starts), np.nan)
        return _medians(column.to_numpy()[self.order], self.starts)

    def series_of(self, group: int) -> str:
        return str(self.names[int(self.codes[group])].as_py())

    def spans(self) -> Iterator[tuple[int, int]]:
        """First group and end of each series."""
        bounds = np.flatnonzero(np.r_[True, np.diff(self.codes) != 0, True])
        return itertools.pairwise(bounds.tolist())


def _confirmed(second: pa.Table, groups: _Groups, nights: Sequence[str]) -> dict[str, np.ndarray]:
    """Medians of the second measurements of each group of the first ones; NaN if there is none."""
    values = {name: np.full(len(groups.starts), np.nan) for name in _MEDIANS if name in second.column_names}
    if len(second):
        again = _Groups(second, nights)
        codes = pc.fill_null(pc.index_in(again.names, groups.names), -1).to_numpy()[again.codes]
        wanted = codes * len(nights) + again.nights
        keys = groups.codes * len(nights) + groups.nights  # sorted, as the groups are
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        is_there = keys[place] == wanted
        for name, column in values.items():
            column[place[is_there]] = again.medians(second[name])[is_there]
    return values


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
