"""Figures of recorded traces read off their JSON in the plainest way, so that a test owes nothing to the engine."""

from __future__ import annotations

import bisect
import gzip
import json
import statistics
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

Event = dict[str, Any]
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}


@lru_cache(maxsize=32)
def forwards(trace: Path, annotation: str) -> list[dict[str, list[Event]]]:
    """Of each range of that name: its device activities ("device") and the CPU ops inside it ("ops")."""
    events = [e for e in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"] if e.get("ph") == "X"]
    ranges = sorted(
        (e for e in events if e["name"] == annotation and e["cat"] == "user_annotation"), key=lambda e: e["ts"]
    )
    starts = [e["ts"] for e in ranges]
    found: list[dict[str, list[Event]]] = [{"device": [], "ops": [], "range": [e]} for e in ranges]

    def place(event: Event) -> int | None:
        at = bisect.bisect_right(starts, event["ts"]) - 1
        return at if at >= 0 and event["ts"] < ranges[at]["ts"] + ranges[at]["dur"] else None

    launched = {e["args"]["correlation"]: place(e) for e in events if e["cat"] in CALLS and "correlation" in e["args"]}
    for event in events:
        if event["cat"] in DEVICE and launched.get(event["args"].get("correlation")) is not None:
            found[launched[event["args"]["correlation"]]]["device"].append(event)
        elif event["cat"] == "cpu_op" and place(event) is not None:
            found[place(event)]["ops"].append(event)
    return found


def usual(case: Path, annotation: str, figure: Callable[[dict[str, list[Event]]], float]) -> float:
    """The median over forwards of a figure, and of that the median over the processes under a case's folder."""
    traces = sorted(case.glob("*/trace.json.gz"))
    return statistics.median(
        statistics.median(figure(forward) for forward in forwards(trace, annotation)) for trace in traces
    )


def device_time(forward: dict[str, list[Event]]) -> float:
    """Summed time of all device activities, µs."""
    return sum(event["dur"] for event in forward["device"])


def cpu_time(forward: dict[str, list[Event]]) -> float:
    """Length of the forward's range on the CPU, µs."""
    return forward["range"][0]["dur"]


def time_of(part: str) -> Callable[[dict[str, list[Event]]], float]:
    """Summed time of the device activities whose name has that part, µs."""
    return lambda forward: sum(event["dur"] for event in forward["device"] if part in event["name"])
