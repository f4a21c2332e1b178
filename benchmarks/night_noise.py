"""Made-up nights for benchmarks/detection.py: kinds of noise, planted steps and drifts, and nights as Parquet files.

A value is that of a night's median over its processes, as a logarithm of its ratio to the level of its case. Noise of
the machine moves all cases of a night alike, and a second measurement of that night as well; noise of a single case is
drawn anew for the second measurement, except where it is correlated over nights.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from kernelbook.history.schema import SCHEMA, VERSION, series_id  # noqa: E402
from kernelbook.history.store import Store  # noqa: E402

CASES = 20
CEILINGS = 2
EARLIER = 60
PROCESSES = 5
AGAIN = 5


@dataclass(frozen=True)
class Nights:
    """Logarithms (cases, nights) of what was measured first and again, and the number (nights,) of the GPU."""

    first: np.ndarray
    second: np.ndarray
    gpus: np.ndarray

    def planted(self, cases: list[int], change: np.ndarray) -> Nights:
        """The same nights with logarithms (nights,) added to these cases."""
        first, second = self.first.copy(), self.second.copy()
        first[cases] += change
        second[cases] += change
        return Nights(first, second, self.gpus)


Random = np.random.Generator
Kind = Callable[[Random, int], Nights]


def _own(draw: Callable[[Random, tuple[int, int]], np.ndarray]) -> Kind:
    """Noise of each case for itself, drawn anew for the second measurement."""

    def make(rng: Random, nights: int) -> Nights:
        return Nights(draw(rng, (CASES, nights)), draw(rng, (CASES, nights)), np.zeros(nights, int))

    return make


def _machine(draw: Callable[[Random, int], tuple[np.ndarray, np.ndarray]]) -> Kind:
    """Noise that all cases share; a third of a percent is each case's own. draw: (shift of each night, its GPU)."""

    def make(rng: Random, nights: int) -> Nights:
        shift, gpus = draw(rng, nights)
        own = [0.003 * rng.standard_normal((CASES, nights)) for _ in range(2)]
        return Nights(shift + own[0], shift + own[1], gpus)

    return make


def autocorrelated(rng: Random, nights: int, phi: float, sigma: float) -> np.ndarray:
    """A stationary AR(1) process (nights,) of standard deviation sigma."""
    values = np.empty(nights)
    value = sigma * rng.standard_normal()
    for night in range(nights):
        values[night] = value
        value = phi * value + sigma * math.sqrt(1 - phi**2) * rng.standard_normal()
    return values


def _shared_ar(phi: float) -> Kind:
    return _machine(lambda rng, nights: (autocorrelated(rng, nights, phi, 0.03), np.zeros(nights, int)))


def _own_ar(phi: float) -> Kind:
    def make(rng: Random, nights: int) -> Nights:
        state = np.array([autocorrelated(rng, nights, phi, 0.03) for _ in range(CASES)])
        return Nights(state, state + 0.003 * rng.standard_normal(state.shape), np.zeros(nights, int))

    return make


def _two_clocks(rng: Random, nights: int) -> tuple[np.ndarray, np.ndarray]:
    return 0.04 * (rng.random(nights) < 0.5), np.zeros(nights, int)


def _sticky_clocks(rng: Random, nights: int) -> tuple[np.ndarray, np.ndarray]:
    return 0.04 * (np.cumsum(rng.random(nights) < 0.15) % 2), np.zeros(nights, int)


def _two_machines(rng: Random, nights: int) -> tuple[np.ndarray, np.ndarray]:
    gpus = rng.integers(0, 2, nights)
    return 0.05 * gpus, gpus


def _weeks_on_a_machine(rng: Random, nights: int) -> tuple[np.ndarray, np.ndarray]:
    gpus = (rng.integers(4) + np.cumsum(rng.random(nights) < 1 / 18)) % 4
    return (0.04 * rng.standard_normal(4))[gpus], gpus


def _weekly(rng: Random, nights: int) -> tuple[np.ndarray, np.ndarray]:
    return 0.05 * ((np.arange(nights) + rng.integers(7)) % 7 >= 5), np.zeros(nights, int)


def _spiky(rng: Random, shape: tuple[int, int]) -> np.ndarray:
    return 0.01 * rng.standard_normal(shape) + math.log(3) * (rng.random(shape) < 0.03)


def _quantised(rng: Random, shape: tuple[int, int]) -> np.ndarray:
    return np.log(np.maximum(np.round(25 * (1 + 0.015 * rng.standard_normal(shape))), 1) / 25)


def white(sigma: float) -> Kind:
    """Independent normal noise."""
    return _own(lambda rng, shape: sigma * rng.standard_normal(shape))


KINDS: dict[str, tuple[Kind, float]] = {
    "white 1 %": (white(0.01), 0.1),
    "white 3 %": (white(0.03), 0.1),
    "AR(1) .6 at 3 %, shared": (_shared_ar(0.6), 0.2),
    "AR(1) .9 at 3 %, shared": (_shared_ar(0.9), 0.2),
    "AR(1) .6 at 3 %, private": (_own_ar(0.6), 1.0),
    "AR(1) .9 at 3 %, private": (_own_ar(0.9), 3.0),
    "two clock states 4 %": (_machine(_two_clocks), 0.2),
    "two clock states 4 %, for days": (_machine(_sticky_clocks), 0.2),
    "two machines 5 %": (_machine(_two_machines), 0.2),
    "machines that stay for weeks 4 %": (_machine(_weeks_on_a_machine), 0.3),
    "weekly 5 %": (_machine(_weekly), 0.3),
    "spikes of 3 times": (_own(_spiky), 0.1),
    "Student t3 1 %": (_own(lambda rng, shape: 0.01 * rng.standard_t(3, shape)), 0.1),
    "Student t3 3 %": (_own(lambda rng, shape: 0.03 * rng.standard_t(3, shape)), 0.1),
    "quantised to 4 %": (_own(_quantised), 0.1),
}
"""Name -> (noise, goal in alarms a series-year)."""


def case_names() -> list[str]:
    return [f"ceiling-{at}" if at < CEILINGS else f"case-{at}" for at in range(CASES)]


def edition(night: int) -> str:
    return str(date(2024, 1, 1) + timedelta(days=night))


def write_night(store: Store, runs: Mapping[str, tuple[Nights, bool]], at: int, rng: Random) -> None:
    """Record one night of each run. runs: name -> its nights, and whether each case is measured again."""
    store.add_night(edition(at), {run: _table(run, nights, at, again, rng) for run, (nights, again) in runs.items()})


def _table(run: str, nights: Nights, at: int, again: bool, rng: Random) -> pa.Table:
    """Five processes for each case, and five more for the second measurement with `again`."""
    rows = []
    for case, name in enumerate(case_names()):
        base = dict.fromkeys(SCHEMA.names) | {
            "edition": edition(at), "night": edition(at), "run": run, "line": run, "case": name,
            "workload": "ceiling" if case < CEILINGS else "work", "variant": "plain", "mode": "eager",
            "dtype": "bfloat16", "params": "{}", "settings": "{}", "status": "ok", "device": "GPU", "driver": "580",
            "torch": "2.13.0", "gpu_id": f"gpu{nights.gpus[at]}", "kernel_count": 2, "memcpys": 0, "memsets": 0,
            "launches": 2, "kernels_id": "k", "ops_id": "o", "warnings": [],
        }  # fmt: skip
        base["series"] = series_id(base)
        logs = [(nights.first[case, at], process, False) for process in range(PROCESSES)]
        if again:
            logs += [(nights.second[case, at], process, True) for process in range(PROCESSES, PROCESSES + AGAIN)]
        for log, process, confirmation in logs:
            time = 100.0 * math.exp(log + 0.003 * rng.standard_normal())
            rows.append(base | {"process": process + 1, "confirmation": confirmation, "forward_time_us": time})
    assert VERSION >= 4
    return pa.Table.from_pylist(rows, schema=SCHEMA)
