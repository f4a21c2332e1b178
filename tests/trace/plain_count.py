"""The counts of a trace in the plainest Python possible: a second opinion that shares nothing with the engine.

It computes with exact decimals, knows sound files only, and takes its definitions from the project's rulings: what a
launch is, what attributed means, busy time as a union per device, ranges, and the innermost op around a launch.
"""

import bisect
import collections
import gzip
import itertools
import json
import re
import statistics
from decimal import Decimal

KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset", "memset": "memset"}
SLACK_US = 1


def load(path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Decimal)
    events = document if isinstance(document, list) else document["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def category(event):
    return (event.get("cat") or "").lower()


def is_call(event):
    return category(event).split("_")[-1] in ("runtime", "driver")


def is_op(event):
    return category(event) in ("cpu_op", "operator") and not event["name"].startswith("ProfilerStep#")


def thread(event):
    return str(event["pid"]), str(event["tid"])


def end(event):
    return event["ts"] + event["dur"]


def inside(event, outer):
    touching = event["ts"] == end(outer) and 0 in (event["dur"], outer["dur"])
    begun = outer["ts"] <= event["ts"] and (event["ts"] < end(outer) or touching)
    return begun and end(event) <= end(outer) + SLACK_US


def is_open(outer, event):
    """Whether `outer` was open when `event` of its thread began; neighbours may overlap by the slack."""
    return outer["ts"] <= event["ts"] and (event["ts"] + SLACK_US < end(outer) or inside(event, outer))


def correlation(event):
    return event.get("args", {}).get("correlation")


def busy(activities):
    total = Decimal(0)
    lanes = collections.defaultdict(list)
    for event in activities:
        lanes[event["args"].get("device")].append((event["ts"], end(event)))
    for lane in lanes.values():
        reach = Decimal("-Infinity")
        for start, stop in sorted(lane):
            total += max(Decimal(0), stop - max(start, reach))
            reach = max(reach, stop)
    return total


def nearness(event):
    """Of events that were open on a thread, the innermost has the greatest: it began last. Ids and names break ties."""
    return event["ts"], -event["dur"], event.get("args", {}).get("External id", -1), event["name"]


class Innermost:
    """The innermost of some events that were open on a call's own thread."""

    def __init__(self, events):
        self.threads = collections.defaultdict(list)
        for event in sorted(events, key=nearness):
            self.threads[thread(event)].append(event)
        self.starts = {key: [event["ts"] for event in events] for key, events in self.threads.items()}
        self.ends = {key: list(itertools.accumulate(map(end, events), max)) for key, events in self.threads.items()}

    def around(self, call):
        key = thread(call)
        place = bisect.bisect_right(self.starts.get(key, []), call["ts"]) - 1
        while place >= 0 and call["ts"] <= self.ends[key][place]:  # else all events up to there had ended
            if is_open(self.threads[key][place], call):
                return self.threads[key][place]
            place -= 1
        return None


def count(path):
    """Totals, warnings and per-name figures of one sound trace."""
    events = load(path)
    activities = [event for event in events if category(event) in KINDS]
    calls = {}
    for event in events:
        if is_call(event):
            calls[correlation(event)] = event
    launched = [event for event in activities if correlation(event) in calls]
    ids = {correlation(event) for event in activities}
    kinds = collections.Counter(KINDS[category(event)] for event in activities)
    rows = [e["ts"] for e in events if is_call(e) or category(e) in ("cpu_op", "operator", "user_annotation")]
    lost = [event for event in activities if correlation(event) not in calls]
    first_call, first_row = min(calls, default=None), min(rows, default=None)
    early = [event for event in lost if calls and (correlation(event) < first_call or event["ts"] < first_row)]
    ops = Innermost(filter(is_op, events))
    ranges = range_counts(events, launched, calls)
    self_device = collections.Counter()
    for event in launched:
        op = ops.around(calls[correlation(event)])
        if op is not None:
            self_device[op["name"]] += event["dur"]
    return {
        "activities": len(activities),
        "kernels": kinds["kernel"],
        "memcpys": kinds["memcpy"],
        "memsets": kinds["memset"],
        "attributed": len(launched),
        "unattributed": len(activities) - len(launched),
        "launches": sum(1 for event in events if is_call(event) and correlation(event) in ids),
        "before_window": len(early),
        "device_time_us": float(sum(event["dur"] for event in activities)),
        "device_busy_us": float(busy(activities)),
        "ranges": len(list(filter(is_range, events))),
        "ops": len({event["name"] for event in events if is_op(event)}),
        "self_device_us": {name: float(time) for name, time in self_device.items() if time},
        "per_range": [row[:3] for row in ranges],
        "warnings": " ".join(sorted(warnings(activities, calls, lost, early, ranges))),
    }


def warnings(activities, calls, lost, early, ranges):
    if not activities:
        working = [call for call in calls.values() if re.search("launch|memcpy|memset", call["name"].lower())]
        yield "launches_without_activities" if working else "no_launches"
    if lost:
        yield "unattributed"
    if early:
        yield "before_window"
    if any(slow_first([row for row in ranges if row[0] == name]) for name in {row[0] for row in ranges}):
        yield "slow_first"


def slow_first(ranges):
    for figure in (3, 4):
        first, *others = (row[figure] for row in ranges)
        if len(others) >= 2 and first > 2 * statistics.median(others) > 0:
            return True
    return False


def is_range(event):
    return category(event) == "user_annotation" and not event["name"].startswith("ProfilerStep#")


def range_counts(events, launched, calls):
    """Per annotated range (name, kernels, activities, length, device time), in order of start.

    What counts is the work launched on its own thread while it was open.
    """
    found = []
    per_thread = collections.defaultdict(list)
    for event in launched:
        call = calls[correlation(event)]
        per_thread[thread(call)].append((call, event))
    starts = {}
    for key, rows in per_thread.items():
        rows.sort(key=lambda row: row[0]["ts"])
        starts[key] = [call["ts"] for call, _ in rows]
    for outer in sorted(filter(is_range, events), key=lambda event: event["ts"]):
        key = thread(outer)
        first = bisect.bisect_left(starts.get(key, []), outer["ts"])
        last = bisect.bisect_right(starts.get(key, []), end(outer))
        mine = [event for call, event in per_thread[key][first:last] if is_open(outer, call)]
        kernels = sum(category(event) == "kernel" for event in mine)
        found.append((outer["name"], kernels, len(mine), outer["dur"], sum(event["dur"] for event in mine)))
    return found
