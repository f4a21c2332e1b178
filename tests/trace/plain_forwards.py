"""The forwards of a trace in the plainest Python possible, slow and with nothing of the engine.

Every CPU row (op, runtime call, annotation) looks at every range. It belongs to the range of its own thread that began
last of those open when it began, itself included, and counts for every other that was open, too. Where none was, it
belongs to the range of another thread of its process that was open around it and began last, of those that began at
once the first to end, and counts for those around that one that were open when it began. An activity belongs where
its launch does.
"""

from collections import Counter

from tests.trace.plain_count import (
    KINDS,
    category,
    correlation,
    end,
    inside,
    is_call,
    is_op,
    is_open,
    is_range,
    load,
    nearness,
    thread,
)

STEP = "ProfilerStep#"


def kind(event):
    """op, runtime or annotation; None for what is no row of the CPU."""
    if is_call(event):
        return "runtime"
    if category(event) == "user_annotation" or (event.get("name") or "").startswith(STEP):
        return "annotation"
    return "op" if is_op(event) else None


def home(row, ranges):
    """(the range that a row belongs to or None, whether that is on another thread)."""
    own = [r for r in ranges if r is row or (thread(r) == thread(row) and is_open(r, row))]
    if own:
        return max(own, key=nearness), False
    others = [r for r in ranges if thread(r)[0] == thread(row)[0] and thread(r) != thread(row) and inside(row, r)]
    return max(others, key=lambda r: (r["ts"], -end(r)), default=None), bool(others)


def forwards(path, *names):
    """A forward per outermost range with one of these names, in order of start.

    Each has its range, how often it has each row (kind, name, whether it ran on another thread) and each activity
    (name, whether its launch did), its device time, and the places of its activities and ops in the file.
    """
    events = load(path)
    ranges = sorted(filter(is_range, events), key=lambda event: (event["ts"], thread(event), nearness(event)))
    named = [r for r in ranges if r["name"] in names]
    found = [
        {"range": r, "rows": Counter(), "activities": Counter(), "device_time_us": 0, "places": set()}
        for r in named
        if not any(o is not r and thread(o) == thread(r) and inside(r, o) for o in named)
    ]
    launches = {}
    for row in filter(kind, events):
        at, inferred = home(row, ranges)
        for forward in found if at else []:
            top = forward["range"]
            around = thread(top) == thread(at) and nearness(top) <= nearness(at) and is_open(top, row)
            if top is row or not (top is at or around):
                continue
            forward["rows"][kind(row), row["name"], inferred] += 1
            if is_op(row):
                forward["places"].add(events.index(row))
            if is_call(row):
                launches.setdefault(correlation(row), []).append((forward, inferred))
    for event in events:
        for forward, inferred in launches.get(correlation(event), []) if category(event) in KINDS else []:
            forward["activities"][event["name"], inferred] += 1
            forward["device_time_us"] += event["dur"]
            forward["places"].add(events.index(event))
    return found
