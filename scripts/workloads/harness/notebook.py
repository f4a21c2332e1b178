"""What the child knows so far, on disk before each stage, and what it prints for people."""

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


PROGRESS = "profile_case: "  # the supervisor shows lines that begin so to people
FACTS = ("sdpa_backends",)  # the keys of measurement.json that a workload's own facts may fill
LONGEST_FACTS = 100_000  # characters of JSON


def unheard() -> contextlib.AbstractContextManager[None]:
    """A workload may have closed its outputs, or put None in their place: then what is printed is lost."""
    return contextlib.suppress(OSError, ValueError, AttributeError)


class Notebook:
    """The record of one case. It is written before each stage: a crash costs only what comes after it."""

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
        """Begin a stage; its name is what a failure will be reported with."""
        self._watch.phase(name)
        self.record["stage"] = name
        self.save()
        with unheard():
            passed = time.monotonic() - self.started
            print(f"{PROGRESS}{self.case}: {name} ({passed:.1f} s)", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write the record of a case that has come to its end."""
        self._watch.phase(None)
        self.record["stage"] = None
        self.save()

    def save(self) -> None:
        """Write the record."""
        write_json(self.path, self.record)

    def warn(self, code: str, count: int, message: str) -> None:
        """Warn whoever reads the row that its figures are not to be taken as they stand."""
        self.record["warnings"].append({"code": code, "count": count, "message": message})

    def attempt(self, what: str, measure: Callable[[], Any]) -> Any:
        """An extra that may fail without failing the case: its result, or None and a note."""
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
        """Say which figure is missing, and why."""
        self.record["notes"].append(text)

    def add_facts(self, facts: dict[str, Any]) -> None:
        """Take in what a workload tells of itself; keys that are the harness's own are left out, with a note.

        Raises TypeError or ValueError for what is no dict of JSON values, or too long.
        """
        if not isinstance(facts, dict):
            raise TypeError(f"facts() must return a dict, got {type(facts).__name__}")
        if len(json.dumps(finite(facts))) > LONGEST_FACTS:
            raise ValueError(f"facts() returned more than {LONGEST_FACTS:,} characters")
        refused = sorted(str(key) for key in facts if key not in FACTS)
        self.record.update({key: value for key, value in facts.items() if key in FACTS})
        if refused:
            self.note(f"facts() may fill {', '.join(FACTS)} alone: left out {', '.join(refused)[:200]}")
