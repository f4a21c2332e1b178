"""Figures of recorded traces, read from their JSON in the plainest way, independent of the engine."""

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
WRAPPER = (
    *("TorchDynamo Cache Lookup", "Torch-Compiled Region", "Pregraph bytecode"),
    "AOTDispatcher Runtime Wrapper Prologue",
)


@lru_cache(maxsize=32)
def forwards(trace: Path, annotation: str) -> list[dict[str, list[Event]]]:
    """Of each range of that name: its device activities ("device"), CPU ops ("ops") and API calls ("calls")."""
    events = [e for e in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"] if e.get("ph") == "X"]
    ranges = sorted(
        (e for e in events if e["name"] == annotation and e["cat"] == "user_annotation"), key=lambda e: e["ts"]
    )
    starts = [e["ts"] for e in ranges]
    found: list[dict[str, list[Event]]] = [{"device": [], "ops": [], "calls": [], "range": [e]} for e in ranges]

    def place(event: Event) -> int | None:
        at = bisect.bisect_right(starts, event["ts"]) - 1
        return at if at >= 0 and event["ts"] < ranges[at]["ts"] + ranges[at]["dur"] else None

    launched = {e["args"]["correlation"]: place(e) for e in events if e["cat"] in CALLS and "correlation" in e["args"]}
    for event in events:
        if event["cat"] in DEVICE and launched.get(event["args"].get("correlation")) is not None:
            found[launched[event["args"]["correlation"]]]["device"].append(event)
        elif event["cat"] == "cpu_op" and place(event) is not None:
            found[place(event)]["ops"].append(event)
        elif event["cat"] in CALLS and place(event) is not None:
            found[place(event)]["calls"].append(event)
    return found


def by_process(case: Path, annotation: str, figure: Callable[[dict[str, list[Event]]], float]) -> list[float]:
    """The median over forwards of a figure, for each process under a case's folder."""
    traces = sorted(case.glob("*/trace.json.gz"))
    return [statistics.median(figure(forward) for forward in forwards(trace, annotation)) for trace in traces]


def usual(case: Path, annotation: str, figure: Callable[[dict[str, list[Event]]], float]) -> float:
    """The median over the processes of their medians over forwards."""
    return statistics.median(by_process(case, annotation, figure))


def wrapper_time(forward: dict[str, list[Event]]) -> float:
    """Time of torch.compile's wrapper itself, µs."""
    return self_time(forward, WRAPPER)


def self_time(forward: dict[str, list[Event]], names: tuple[str, ...]) -> float:
    """Time of the ops whose names begin so, without what lies directly inside them, µs."""

    def inside(inner: Event, outer: Event) -> bool:
        end, last = inner["ts"] + inner["dur"], outer["ts"] + outer["dur"]
        return inner is not outer and outer["ts"] <= inner["ts"] and end <= last

    total = 0.0
    for event in (op for op in forward["ops"] if op["name"].startswith(names)):
        within = [each for each in (*forward["ops"], *forward["calls"]) if inside(each, event)]
        direct = [op for op in within if not any(inside(op, other) for other in within)]
        total += event["dur"] - sum(op["dur"] for op in direct)
    return total


def device_time(forward: dict[str, list[Event]]) -> float:
    """Summed time of all device activities, µs."""
    return sum(event["dur"] for event in forward["device"])


def cpu_time(forward: dict[str, list[Event]]) -> float:
    """Length of the forward's range on the CPU, µs."""
    return forward["range"][0]["dur"]


def time_of(part: str) -> Callable[[dict[str, list[Event]]], float]:
    """Summed time of the device activities whose name has that part, µs."""
    return lambda forward: sum(event["dur"] for event in forward["device"] if part in event["name"])
