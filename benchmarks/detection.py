"""How often a steady case alarms, and how soon a step or a drift is reported: on made-up nights, beside peers.

The nights are Parquet files of a history in a temporary folder, judged one by one by scripts/detect_changes.py, 60
nights before the first one judged, 20 cases a run. Peers see the medians of one case at a time: asv (`step_detect`,
5 %), apache-otava (window 50, p .001, 3 %) and ruptures (KernelCPD, linear kernel, penalty 5 ln n, 3 %); those not
installed are left out (benchmarks/requirements.txt). An alarm is counted once for each new place of a change.

Examples:
  python benchmarks/detection.py --series-years 20
  python benchmarks/detection.py --only white --no-peers
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import night_noise
import numpy as np
from night_noise import CASES, CEILINGS, EARLIER, KINDS, Nights, Store, case_names, edition, write_night

import detect_changes

ALARMS = ("time", "drift", "shared")
STEPS = (
    (0.05, 0.01, (40, 90, 99)),
    (0.10, 0.01, (95, 99, 100)),
    (0.50, 0.01, (100, 100, 100)),
    (0.10, 0.03, (10, 50, 85)),
)
"""(step, noise, goals in % by night 1, 2 and 3)"""
DRIFTS = (0.001, 0.0015, 0.002)
Peer = Callable[[np.ndarray], list[int]]


def judged(nights: Nights, seed: int, *, confirm: bool) -> list[tuple[str | None, int, int, float]]:
    """(case, night of the report, night of the change, relative change) of all alarms after the earlier nights."""
    rng = np.random.default_rng([seed, 1])
    reports: list[tuple[str | None, int, int, float]] = []
    places = {edition(at): at for at in range(nights.first.shape[1])}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        for at in range(nights.first.shape[1]):
            write_night(store, nights, at, confirm=confirm, rng=rng)
            if at < EARLIER:
                continue
            output = Path(folder, "verdict.json")
            with contextlib.redirect_stdout(io.StringIO()):
                detect_changes.main(["--history", folder, "--output", str(output)])
            for event in json.loads(output.read_text())["events"]:
                for each in event["members"] or [event]:
                    if each["kind"] in ALARMS:
                        reports.append((each["case"], at, places[each["night"]], each["change"]))
    return reports


def peers() -> dict[str, Peer]:
    """Positions of changes by each peer that is installed."""
    made: dict[str, Peer] = {}
    with contextlib.suppress(ImportError):
        from asv import step_detect

        def asv(values: np.ndarray) -> list[int]:
            steps = step_detect.detect_steps(list(values), [1] * len(values))
            return [right[0] for left, right in itertools.pairwise(steps) if abs(right[2] / left[2] - 1) >= 0.05]

        made["asv"] = asv
    with contextlib.suppress(ImportError):
        from otava.analysis import compute_change_points

        def otava(values: np.ndarray) -> list[int]:
            points, _ = compute_change_points(
                [float(v) for v in values], window_len=50, max_pvalue=0.001, min_magnitude=0.03
            )
            return [int(point.index) for point in points]

        made["otava"] = otava
    with contextlib.suppress(ImportError):
        import ruptures

        def kernel_cpd(values: np.ndarray) -> list[int]:
            sigma = max(1.4826 * float(np.median(np.abs(np.diff(values)))) / math.sqrt(2), 0.2)
            model = ruptures.KernelCPD(kernel="linear", min_size=3).fit((values / sigma).reshape(-1, 1))
            ends = [0, *model.predict(pen=5 * math.log(len(values)))]
            means = [float(np.median(values[a:b])) for a, b in itertools.pairwise(ends)]
            return [at for at, old, new in zip(ends[1:], means, means[1:], strict=False) if abs(new / old - 1) >= 0.03]

        made["ruptures"] = kernel_cpd
    return made


def watched(peer: Peer, logs: np.ndarray, every: int = 1) -> list[tuple[int, int]]:
    """(night of the report, night of the change) of one case (nights,) by a peer; a change near an old one is old."""
    reports: list[tuple[int, int]] = []
    for at in range(EARLIER, len(logs), every):
        for place in peer(100 * np.exp(logs[: at + 1])):
            if place > at - 7 and all(abs(place - old) > 3 for _, old in reports):
                reports.append((at, place))
    return reports


def alarms(name: str, seed: int, years: float, others: dict[str, Peer]) -> list[str]:
    """A row of the first table: alarms a series-year with and without confirmation, then of the peers."""
    kind, goal = KINDS[name]
    per_run = 120
    runs = max(1, round(years * 365 / (CASES * per_run)))
    counts = {True: 0, False: 0}
    of_peers = dict.fromkeys(others, 0.0)
    for run in range(runs):
        nights = kind(np.random.default_rng([seed, run]), EARLIER + per_run)
        for confirm in counts:
            counts[confirm] += len(judged(nights, seed, confirm=confirm))
        for peer, detect in others.items():
            of_peers[peer] += sum(len(watched(detect, logs, every=4)) for logs in nights.first[2:6]) * CASES / 4
    total = runs * CASES * per_run / 365
    cells = [f"{counts[True] / total:.2f}", f"{counts[False] / total:.2f}", f"{goal:g}"]
    return [name, *cells, *(f"{count / total:.1f}" for count in of_peers.values()), f"{total:.0f}"]


def steps(size: float, sigma: float, seed: int, runs: int, others: dict[str, Peer]) -> list[list[str]]:
    """Rows of the second table: share of steps reported by night 1, 2 and 3. Three cases of a run step in one night."""
    reported: dict[str, list[int]] = {}
    total = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run, 2])
        cases = (CEILINGS + rng.permutation(CASES - CEILINGS)[:3]).tolist()
        change = np.where(np.arange(EARLIER + 3) >= EARLIER, math.log1p(size), 0.0)
        nights = night_noise.white(sigma)(rng, EARLIER + 3).planted(cases, change)
        total += len(cases)
        for confirm in (True, False):
            delays: dict[str | None, int] = {}
            for case, at, _, _ in judged(nights, seed, confirm=confirm):
                delays.setdefault(case, at - EARLIER)
            name = "with confirmation" if confirm else "without"
            reported.setdefault(name, []).extend(delays[case_names()[at]] for at in cases if case_names()[at] in delays)
        for peer, detect in others.items():
            for case in cases:
                reported.setdefault(peer, []).extend(at - EARLIER for at, _ in watched(detect, nights.first[case])[:1])
    return [
        [
            f"{size:.0%} at {sigma:.0%}",
            name,
            *(f"{100 * sum(at <= by for at in delays) / total:.0f}" for by in range(3)),
        ]
        for name, delays in reported.items()
    ]


def drift(rate: float, seed: int) -> list[str]:
    """Where a drift of `rate` a night, +10 % in all, is reported, for three cases of a run with 1 % noise."""
    rng = np.random.default_rng([seed, 3])
    count = EARLIER + round(0.1 / rate)
    change = np.log1p(rate * np.maximum(np.arange(count) - EARLIER, 0))
    cases = [3, 9, 15]
    nights = night_noise.white(0.01)(rng, count).planted(cases, change)
    reports = judged(nights, seed, confirm=True)
    first = {case: next((at for name, at, _, _ in reports if name == case_names()[case]), None) for case in cases}
    levels = ["never" if at is None else f"+{100 * rate * (at - EARLIER):.1f} %" for at in first.values()]
    return [f"{100 * rate:g} % a night", ", ".join(levels)]


def show(headings: Sequence[str]) -> None:
    print("\n| " + " | ".join(headings) + " |\n| ---" + " | ---:" * (len(headings) - 1) + " |", flush=True)


def row(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series-years", type=float, default=13, help="judged nights a kind of noise")
    parser.add_argument("--runs", type=int, default=15, help="runs of each step, with three steps each")
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--only", default="", help="kinds of noise with this word; `steps` or `drift` for those")
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args(argv)
    others = {} if args.no_peers else peers()
    names = [name for name in KINDS if args.only in name]
    if names:
        show(["noise", "alarms a series-year", "without confirmation", "goal", *others, "series-years"])
    for name in names:
        row(alarms(name, args.seed, args.series_years, others))
    if args.only in ("", "steps"):
        show(["step", "by", "night 1 %", "night 2 %", "night 3 %"])
        for size, sigma, goals in STEPS:
            for cells in steps(size, sigma, args.seed, args.runs, others):
                row(cells)
            row([f"{size:.0%} at {sigma:.0%}", "goal with confirmation", *map(str, goals)])
    if args.only in ("", "drift"):
        show(["drift", "reported at"])
        for rate in DRIFTS:
            row(drift(rate, args.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
