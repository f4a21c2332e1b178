"""The child's record, saved before each stage, and its progress lines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workloads.harness.files import finite, write_json

# --- seconds a phase -------------------------------------------------------------------------------------------------


SHORTEST_S = 0.05  # phases below this are left out of the line for people


class Stopwatch:
    """Counts seconds for one phase at a time; a phase that comes twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._phase: str | None = None
        self._since = time.monotonic()

    def phase(self, name: str | None) -> None:
        """End the current phase and begin another one; None begins none."""
        now = time.monotonic()
        if self._phase is not None:
            self.seconds[self._phase] = round(self.seconds.get(self._phase, 0.0) + now - self._since, 3)
        self._phase, self._since = name, now

    def add(self, seconds: Mapping[str, float]) -> None:
        """Take over what was counted elsewhere."""
        for name, spent in seconds.items():
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 3)


def summary(seconds: Mapping[str, float], total_s: float) -> str:
    """One line: `time: import of torch 1.9 s, ..., total 6.8 s`."""
    parts = [f"{name} {spent:.1f} s" for name, spent in seconds.items() if spent >= SHORTEST_S]
    return f"time: {', '.join([*parts, f'total {total_s:.1f} s'])}"


# --- the record ------------------------------------------------------------------------------------------------------


PROGRESS = "profile_case: "  # the supervisor prints lines that begin so
FACTS = ("sdpa_backends",)  # the keys of measurement.json that a workload's own facts may fill
LONGEST_FACTS = 100_000  # characters of JSON


def unheard() -> contextlib.AbstractContextManager[None]:
    """Ignore errors of printing: a workload may have closed its outputs, or replaced them by None."""
    return contextlib.suppress(OSError, ValueError, AttributeError)


class Notebook:
    """The record of one case. It is saved before each stage, so a crash loses only the current one."""

    def __init__(self, path: Path, case: str) -> None:
        self.path = path
        self.case = case
        self.started = time.monotonic()
        self._watch = Stopwatch()
        self.record: dict[str, Any] = {
            "stage": None,
            "warnings": [],
            "notes": [],
            "seconds": self._watch.seconds,
            "began": self.started,
            "pid": os.getpid(),
        }

    def stage(self, name: str) -> None:
        """Begin a stage; a failure is reported with its name."""
        self._watch.phase(name)
        self.record["stage"] = name
        self.save()
        with unheard():
            passed = time.monotonic() - self.started
            print(f"{PROGRESS}{self.case}: {name} ({passed:.1f} s)", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Save the record of a case that was measured to the end."""
        self._watch.phase(None)
        self.record["stage"] = None
        self.save()

    def save(self) -> None:
        """Save the record. Raises OSError if there is no room."""
        write_json(self.path, self.record)

    def warn(self, code: str, count: int, message: str) -> None:
        """Add a warning that the figures of the case are not what they seem."""
        self.record["warnings"].append({"code": code, "count": count, "message": message})

    def attempt(self, what: str, measure: Callable[[], Any]) -> Any:
        """The result of a measurement that may fail without failing the case; on an error None, and a note."""
        try:
            return measure()
        except (
            RuntimeError,
            MemoryError,
            TypeError,
            ValueError,
            LookupError,
            ArithmeticError,
            AttributeError,
        ) as error:
            words = (str(error).strip().splitlines() or [""])[0][:500]
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            self.note(f"no {what}: {kind}{words}")
            return None

    def note(self, text: str) -> None:
        """Add a note: which figure is missing, and why."""
        self.record["notes"].append(text)

    def add_facts(self, facts: dict[str, Any]) -> None:
        """Add what `Workload.facts` returned; keys other than `FACTS` are left out, with a note.

        Raises TypeError if it is no dict of JSON values, ValueError if it is too long.
        """
        if not isinstance(facts, dict):
            raise TypeError(f"facts() must return a dict, got {type(facts).__name__}")
        if len(json.dumps(finite(facts))) > LONGEST_FACTS:
            raise ValueError(f"facts() returned more than {LONGEST_FACTS:,} characters")
        refused = sorted(str(key) for key in facts if key not in FACTS)
        self.record.update({key: value for key, value in facts.items() if key in FACTS})
        if refused:
            self.note(f"facts() may fill {', '.join(FACTS)} alone: left out {', '.join(refused)[:200]}")
