"""Where other programs see changes in series of nights: asv, apache-otava and ruptures, called as their docs say.

Reads JSON from standard input: {"series": [[value of each night, ...], ...], "first": night, "every": nights}. Each
series is shown up to night `first`, then `every` nights later, and so on. Writes JSON: {program: for each series
[[night of the report, night of the change], ...]}. A change is reported if it lies in the last 7 nights, and a change
within 3 nights of a reported one is the same. Needs the packages of benchmarks/requirements.txt and no others, so it
runs in an environment of its own.

- asv: `step_detect.detect_steps`, whose steps count from 5 % on, the default of `regressions_thresholds`.
- apache-otava: `Series.analyze` with its default window (50) and p (0.001), and a least magnitude of 3 %.
- ruptures: `KernelCPD` with a linear kernel on values in units of their noise, `min_size=3`, `pen=5 ln n`, from 3 % on.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import ruptures
from asv import step_detect
from otava.series import AnalysisOptions, Metric, Series

RECENT = 7
SAME = 3


def asv(values: Sequence[float]) -> list[int]:
    steps = step_detect.detect_steps(list(values), [1] * len(values))
    return [right[0] for left, right in pairwise(steps) if abs(right[2] / left[2] - 1) >= 0.05]


def otava(values: Sequence[float]) -> list[int]:
    options = AnalysisOptions()
    options.min_magnitude = 0.03
    series = Series("nights", None, list(range(len(values))), {"time": Metric()}, {"time": list(values)}, {})
    return [int(point.index) for point in series.analyze(options).change_points["time"]]


def kernel_cpd(values: Sequence[float]) -> list[int]:
    sigma = max(1.4826 * float(np.median(np.abs(np.diff(values)))) / math.sqrt(2), 0.002 * statistics.median(values))
    signal = np.asarray(values).reshape(-1, 1) / sigma
    found = ruptures.KernelCPD(kernel="linear", min_size=3).fit(signal).predict(pen=5 * math.log(len(values)))
    medians = [statistics.median(values[a:b]) for a, b in pairwise([0, *found])]
    return [int(at) for at, (a, b) in zip(found, pairwise(medians), strict=False) if abs(b / a - 1) >= 0.03]


PROGRAMS: dict[str, Callable[[Sequence[float]], list[int]]] = {"asv": asv, "otava": otava, "ruptures": kernel_cpd}


def reports(program: Callable[[Sequence[float]], list[int]], values: Sequence[float], first: int, every: int) -> list:
    """[night of the report, night of the change] of one series."""
    made: list[list[int]] = []
    for at in range(first, len(values), every):
        for place in program(values[: at + 1]):
            if place > at - RECENT and all(abs(place - old) > SAME for _, old in made):
                made.append([at, place])
    return made


def main() -> int:
    job = json.load(sys.stdin)
    found = {
        name: [reports(program, values, job["first"], job["every"]) for values in job["series"]]
        for name, program in PROGRAMS.items()
    }
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
