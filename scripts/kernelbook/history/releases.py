"""The level of a time with the last release of torch, with which the present level is compared.

A release was measured by earlier nights of the same series, or by another run in the same nights. The comparison finds
small steps and drifts that are too small to report one by one but add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kernelbook.history.levels import LASTING
from kernelbook.history.series import Series

SAME = ("case", "device", "driver", "workload", "variant", "mode", "params", "settings", "dtype")
"""Columns that must be equal in two runs for their times to be compared."""
LEAST_NIGHTS = 5
"""Nights that a release needs."""
_RELEASE = re.compile(r"(\d+(?:\.\d+)+)(?:\+(?!git).*)?")
_NUMBERS = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class ReleaseLevel:
    """The level with a release. log: logarithm of the time, over `nights` nights, the last of which is `until`."""

    version: str
    log: float
    nights: int
    until: int

    @property
    def cause(self) -> str:
        """The comparison as a cause, equal for all cases that are compared with this release."""
        return f"compared with torch {self.version}, the last release"


def release_of(version: str | None) -> str | None:
    """`2.9.0` of `2.9.0+cu130`; None for a nightly, a release candidate or a private build."""
    match = _RELEASE.fullmatch(version or "")
    return match[1] if match else None


def version_order(version: str) -> tuple[int, ...]:
    """Sort key: the numbers that a version begins with. `2.10.0.dev20251101` gives (2, 10, 0)."""
    match = _NUMBERS.match(version)
    return tuple(map(int, match[0].split("."))) if match else ()


def last_release(
    series: Series, metric: str, at: np.ndarray, logs: np.ndarray, others: Iterable[Series]
) -> ReleaseLevel | None:
    """The level with the last release before the version of the last night; None if no release has enough nights.

    at (m,): positions in the series. logs (m,): logarithms of the times there, without the shifts that all cases share.
    others: series of other runs.
    """
    present = series.facts["torch"][-1] if "torch" in series.facts else None
    if not present:
        return None
    levels = [*_own_levels(series, at, logs), *_levels_of_others(series, metric, at, logs, others)]
    return max(levels, key=lambda level: version_order(level.version), default=None)


def _earlier_release(version: str | None, present: str) -> str | None:
    """The release of a version if it is older than the present version, else None."""
    release = release_of(version)
    is_earlier = release and release != release_of(present) and version_order(release) <= version_order(present)
    return release if is_earlier else None


def _own_levels(series: Series, at: np.ndarray, logs: np.ndarray) -> Iterator[ReleaseLevel]:
    """Levels with the earlier releases that the series itself was measured with."""
    torch = series.facts["torch"]
    releases = {version: _earlier_release(version, torch[-1]) for version in set(torch[series.own :])}
    for release in {release for release in releases.values() if release}:
        nights = [i for i, place in enumerate(at) if place >= series.own and releases[torch[place]] == release]
        if len(nights) >= LEAST_NIGHTS:
            level, last = float(np.median(logs[nights[-LASTING:]])), int(series.nights[at[nights[-1]]])
            yield ReleaseLevel(release, level, min(len(nights), LASTING), last)


def _levels_of_others(
    series: Series, metric: str, at: np.ndarray, logs: np.ndarray, others: Iterable[Series]
) -> Iterator[ReleaseLevel]:
    """Levels of other runs with an earlier release, from the ratio of both runs in the last nights of both."""
    recent = series.nights[at[-LASTING:]]
    for other in others:
        torch = other.facts["torch"]
        release = _earlier_release(torch[-1], series.facts["torch"][-1])
        if other.run == series.run or not release or any(getattr(other, n) != getattr(series, n) for n in SAME):
            continue
        common, own, its = np.intersect1d(recent, other.nights, return_indices=True)
        ratio = series.values[metric][at[-LASTING:][own]] / other.values[metric][its]
        usable = (ratio > 0) & np.isfinite(ratio) & [torch[place] == torch[-1] for place in its]
        if usable.sum() >= LEAST_NIGHTS:
            log = float(np.median(logs[-LASTING:][own][usable]) - np.median(np.log(ratio[usable])))
            yield ReleaseLevel(release, log, int(usable.sum()), int(common[usable][0]) - 1)
