"""Which figures may be compared: one rule for guesses, comparisons, the headline and the page."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """The conditions that a figure was measured under; None is unknown.

    ``threads``: torch's CPU threads. ``params``: those of the workload, as JSON. ``timer``: what timed the unprofiled
    forwards, None if none were timed.
    """

    run: str
    workload: str | None = None
    device: str | None = None
    device_type: str | None = None
    threads: int | None = None
    driver: str | None = None
    dtype: str | None = None
    params: str | None = None
    timer: str | None = None

    @property
    def machine(self) -> tuple[str | None, ...]:
        """What processes must share to be merged: the device, and its driver or the number of threads."""
        if self.device_type == "cpu":
            return self.device, _threads(self.threads)
        return self.device, self.driver


def refusal(a: Conditions, b: Conditions) -> str | None:
    """Why times of the two may not be compared; None if they may.

    Device, driver, element type and timer must be the same, and the parameters if the workload is. On CPUs the CPU's
    name and the number of threads replace device and driver. A value that neither of two runs states counts as
    different.
    """
    for name, mine, theirs, must_be_known in _pairs(a, b):
        if mine != theirs:
            differ = "differ" if name == "parameters" else "differs"
            return f"the {name} {differ}: {_setting_text(mine)} and {_setting_text(theirs)}"
        if mine is None and must_be_known:
            return f"the {name} is not known"
    return None


def _pairs(a: Conditions, b: Conditions) -> list[tuple[str, str | None, str | None, bool]]:
    """(name, value of a, value of b, whether it must be known), in the order of comparison."""
    apart = a.run != b.run
    cpus = a.device_type == b.device_type == "cpu"
    kind = "CPU" if cpus else "device" if "cpu" in (a.device_type, b.device_type) else "GPU"
    second = (
        ("number of threads", _threads(a.threads), _threads(b.threads), apart)
        if cpus
        else ("driver", a.driver, b.driver, apart)
    )
    pairs = [(kind, a.device, b.device, apart), second, ("element type", a.dtype, b.dtype, apart)]
    if a.workload == b.workload:
        stated = "{}" not in (a.params or "{}", b.params or "{}")
        pairs.insert(0 if stated else len(pairs), ("parameters", a.params, b.params, False))
    if a.timer and b.timer:
        pairs.append(("timer", a.timer, b.timer, False))
    return pairs


def _threads(number: int | None) -> str | None:
    return None if number is None else str(number)


def _setting_text(value: str | None) -> str:
    if value is None:
        return "unknown"
    if not value.startswith("{"):
        return value
    return ", ".join(f"{key} {inner}" for key, inner in json.loads(value).items()) or "none"
