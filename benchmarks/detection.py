"""How often a steady case alarms, and how soon a step or a drift is reported: on made-up nights, beside peers.

The nights are Parquet files of a history in a temporary folder, 20 cases a run, and scripts/detect_changes.py judges
each night after the first 60, once with second measurements, of which it reads those of its suspects, and once without.
An alarm is a change of time, a shift of all cases, or a drift; each case of a change counts. Peers see the medians of
single cases (benchmarks/change_peers.py): asv, apache-otava and ruptures (benchmarks/requirements.txt), in the
environment of the Python that --peers names.

Examples:
  python benchmarks/detection.py --peers .venv-bench/bin/python
  python benchmarks/detection.py --rows t3,white --runs 40 --seed 7
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import night_noise
import numpy as np
from night_noise import CASES, CEILINGS, EARLIER, KINDS, ROOT, Nights, Store, case_names, edition, write_night

ALARMS = ("time", "drift", "shared")
ALARM_NIGHTS = 120
OF_PEERS = 4
"""Cases of a run that the peers see."""
STEPS = (
    (0.05, 0.01, (40, 90, 99)),
    (0.10, 0.01, (95, 99, 100)),
    (0.50, 0.01, (100, 100, 100)),
    (0.10, 0.03, (10, 50, 85)),
)
"""(step, noise, goals in % by night 1, 2 and 3)"""
STEPPING = 3
"""Cases of a run that step."""
STEP_NIGHTS = 4
DRIFTS = (0.001, 0.0015, 0.002)
PROGRAMS = ("kernelbook", "without-confirmation")
"""Ours, as runs of one history: with second measurements of suspects and without."""


@dataclass(frozen=True)
class Report:
    """An alarm: what was reported, in which night, and the night that the change is said to begin with."""

    case: str | None
    at: int
    begin: int


def judged(runs: Mapping[str, tuple[Nights, bool]], seed: Sequence[int]) -> dict[str, list[Report]]:
    """Run -> alarms of all nights after the earlier ones. runs: name -> its nights, and whether they have a second
    measurement."""
    rng = np.random.default_rng([*seed, 1])
    count = next(iter(runs.values()))[0].first.shape[1]
    places = {edition(at): at for at in range(count)}
    with tempfile.TemporaryDirectory() as folder:
        for at in range(count):
            write_night(Store(Path(folder)), runs, at, rng)
        command = [sys.executable, ROOT / "scripts/detect_changes.py", "--history", folder, "--since", edition(EARLIER)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        verdicts = [json.loads(path.read_text()) for path in sorted(Path(folder, "events").glob("*.json"))]
    if len(verdicts) != count - EARLIER:
        raise RuntimeError(f"{count - EARLIER} nights were to be judged, and {len(verdicts)} were")
    reports: dict[str, list[Report]] = {run: [] for run in runs}
    for verdict in verdicts:
        for event in verdict["events"]:
            for each in event["members"] or [event]:
                if each["kind"] in ALARMS:
                    report = Report(each["case"], places[verdict["edition"]], places[each["night"]])
                    reports[each["run"]].append(report)
    return reports


def both(nights: Nights) -> dict[str, tuple[Nights, bool]]:
    """The same nights with second measurements and without, as two runs."""
    return {name: (nights, name == "kernelbook") for name in PROGRAMS}


def of_peers(python: str | None, series: Iterable[np.ndarray]) -> dict[str, list[list[list[int]]]]:
    """Program -> reports of each series of logarithms (nights,); empty without peers."""
    if python is None:
        return {}
    job = {"first": EARLIER, "every": 1, "series": [(100 * np.exp(logs)).tolist() for logs in series]}
    script = ROOT / "benchmarks/change_peers.py"
    done = subprocess.run([python, script], input=json.dumps(job), check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def alarms_of_run(name: str, seed: int, run: int, python: str | None) -> dict[str, float]:
    """Alarms a series-year of one run of steady cases, by program."""
    nights = KINDS[name][0](np.random.default_rng([seed, run]), EARLIER + ALARM_NIGHTS)
    years = ALARM_NIGHTS / 365
    rates = {name: len(reports) / years / CASES for name, reports in judged(both(nights), (seed, run)).items()}
    peers = of_peers(python, nights.first[CEILINGS : CEILINGS + OF_PEERS])
    return rates | {peer: sum(map(len, found)) / years / OF_PEERS for peer, found in peers.items()}


def steps_of_run(size: float, sigma: float, seed: int, run: int, python: str | None) -> dict[str, list[int]]:
    """Nights after the step that each program needed for the steps of one run that it reported."""
    rng = np.random.default_rng([seed, run, 2])
    cases = (CEILINGS + rng.permutation(CASES - CEILINGS)[:STEPPING]).tolist()
    change = np.where(np.arange(EARLIER + STEP_NIGHTS) >= EARLIER, math.log1p(size), 0.0)
    nights = night_noise.white(sigma)(rng, EARLIER + STEP_NIGHTS).planted(cases, change)
    delays: dict[str, list[int]] = {}
    for program, reports in judged(both(nights), (seed, run)).items():
        first: dict[str | None, int] = {}
        for report in reports:
            first.setdefault(report.case, report.at - EARLIER)
        delays[program] = [first[name] for name in (case_names()[case] for case in cases) if name in first]
    peers = of_peers(python, nights.first[cases])
    return delays | {peer: [found[0][0] - EARLIER for found in each if found] for peer, each in peers.items()}


def drift_of_run(rate: float, seed: int) -> list[str]:
    """Where a drift of `rate` a night, +10 % in all, is reported, for three cases of a run with 1 % noise."""
    rng = np.random.default_rng([seed, 3])
    count = EARLIER + round(0.1 / rate)
    change = np.log1p(rate * np.maximum(np.arange(count) - EARLIER, 0))
    cases = [3, 9, 15]
    nights = night_noise.white(0.01)(rng, count).planted(cases, change)
    reports = judged({"kernelbook": (nights, True)}, (seed, 3))["kernelbook"]
    first = [next((report.at for report in reports if report.case == case_names()[case]), None) for case in cases]
    return ["never" if at is None else f"+{100 * rate * (at - EARLIER):.1f} %" for at in first]


def show(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table; each row is printed as soon as it is known."""
    print("\n| " + " | ".join(headings) + " |\n| ---" + " | ---:" * (len(headings) - 1) + " |", flush=True)
    for cells in rows:
        print("| " + " | ".join(cells) + " |", flush=True)


def alarm_rows(pool: ProcessPoolExecutor, names: Sequence[str], args: argparse.Namespace) -> Iterable[list[str]]:
    jobs = {
        name: [pool.submit(alarms_of_run, name, args.seed, run, args.peers) for run in range(args.runs)]
        for name in names
    }
    for name, futures in jobs.items():
        rates = [future.result() for future in futures]
        means = [f"{np.mean([rate[program] for rate in rates]):.2f}" for program in rates[0]]
        yield [name, f"{KINDS[name][1]:g}", *means]


def step_rows(pool: ProcessPoolExecutor, args: argparse.Namespace) -> Iterable[list[str]]:
    jobs = [
        [pool.submit(steps_of_run, size, sigma, args.seed, run, args.peers) for run in range(args.step_runs)]
        for size, sigma, _ in STEPS
    ]
    for (size, sigma, goals), futures in zip(STEPS, jobs, strict=True):
        runs = [future.result() for future in futures]
        name = f"{size:.0%} at {sigma:.0%}"
        yield [name, "goal with confirmation, without it a night later", *(f"{goal}" for goal in goals), ""]
        for program in runs[0]:
            delays = [delay for run in runs for delay in run[program]]
            shares = (100 * sum(at <= by for at in delays) / (args.step_runs * STEPPING) for by in range(STEP_NIGHTS))
            yield [name, program, *(f"{share:.0f}" for share in shares)]


def drift_rows(pool: ProcessPoolExecutor, args: argparse.Namespace) -> Iterable[list[str]]:
    jobs = [pool.submit(drift_of_run, rate, args.seed) for rate in DRIFTS]
    for rate, future in zip(DRIFTS, jobs, strict=True):
        yield [f"{100 * rate:g} % a night", ", ".join(future.result())]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=2, help="runs of 20 cases and 120 nights for each noise (default: 2)"
    )
    parser.add_argument("--step-runs", type=int, default=20, help="runs for each step (default: 20)")
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument(
        "--rows", default="", metavar="WORD,...", help="kinds of noise with one of these words; `steps`, `drift`"
    )
    parser.add_argument("--peers", help="the Python in whose environment the peers are installed")
    parser.add_argument("--quick", action="store_true", help="one run of each noise and six of each step")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args(argv)
    if args.quick:
        args.runs, args.step_runs = 1, 6
    began = time.monotonic()
    words = args.rows.split(",")
    names = [name for name in KINDS if any(word in name for word in words)]
    years = args.runs * CASES * ALARM_NIGHTS / 365
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, seed {args.seed}, {args.workers} processes")
    peers = list(of_peers(args.peers, []))
    with ProcessPoolExecutor(args.workers) as pool:
        if names:
            headings = [f"alarms a series-year ({years:.0f} years; peers {years * OF_PEERS / CASES:.0f})", "goal"]
            headings += [*PROGRAMS, *peers]
            show(headings, alarm_rows(pool, names, args))
        if not args.rows or "steps" in words:
            headings = [f"steps reported, % ({STEPPING * args.step_runs} each)", "by"]
            show([*headings, *(f"night {at + 1}" for at in range(STEP_NIGHTS))], step_rows(pool, args))
        if not args.rows or "drift" in words:
            show(["drift", "reported at"], drift_rows(pool, args))
    print(f"\n{(time.monotonic() - began) / 60:.0f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
