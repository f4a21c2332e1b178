"""Times that cannot be, found in the plainest Python possible: every activity is compared with every other one."""

from tests.trace import plain_count

HOUR_US, SECOND_US, EARLY_US, SLACK_US = 3_600_000_000, 1_000_000, 1000, 10


def groups(starts):
    """The starts in order, split where nothing began for more than an hour."""
    found = []
    for start in sorted(starts):
        if not found or start - found[-1][-1] > HOUR_US:
            found.append([])
        found[-1].append(start)
    return found


def wrong_times(events):
    """(how many events have wrong times, how many µs of device time cannot be)."""
    activities = [event for event in events if plain_count.category(event) in plain_count.KINDS]
    rows = [event for event in events if event not in activities]
    main = []
    for group in groups([event["ts"] for event in events]):
        main = group if len(group) >= len(main) else main
    calls = {plain_count.correlation(row): row for row in rows if plain_count.is_call(row)}
    launch = [calls.get(plain_count.correlation(activity)) for activity in activities]
    several = len({row["pid"] for row in rows}) > 1
    apart = [not main[0] <= event["ts"] <= main[-1] for event in activities]
    near = [row for row in rows if main[0] <= row["ts"] <= main[-1]]
    early = [
        call in near and not away and event["ts"] + EARLY_US < call["ts"]
        for event, call, away in zip(activities, launch, apart, strict=True)
    ]
    shifted = sum(early) > max(sum(call is not None for call in launch) // 2, 1)
    elsewhere = bool(activities) and all(apart) and all(event["ts"] for event in activities)
    passing = [passed(event, call, activities, launch, several) for event, call in zip(activities, launch, strict=True)]
    often = {event["name"] for event in activities if usual(event["name"], activities, passing)}
    passing = [0 if event["name"] in often else late for event, late in zip(activities, passing, strict=True)]
    count, excess = len(rows) - len(near), 0
    for event, call, away, soon, late in zip(activities, launch, apart, early, passing, strict=True):
        parts = [event["dur"] if away and not elsewhere else 0]
        parts += [min(event["dur"], call["ts"] - event["ts"])] if soon and not shifted else []
        long = call is not None and near and event["dur"] > max(SECOND_US, span(near))
        parts += [late] if late else []
        parts += [event["dur"] - span(near)] if long else []
        excess += max(parts)
        count += bool(away or soon or late or long)
    return count, excess


def span(rows):
    return max(map(plain_count.end, rows)) - min(row["ts"] for row in rows)


def usual(name, activities, passing):
    """Whether five activities of a name, and more than half of all, do so: no wrong time then."""
    those = [late for event, late in zip(activities, passing, strict=True) if event["name"] == name]
    often = sum(bool(late) for late in those)
    return often >= 5 and often > len(those) / 2


def passed(event, call, activities, launch, several):
    """How far an activity that ends after a later one of its stream runs past the next start there."""
    where = event["args"]["device"], event["args"]["stream"], several and call and call["pid"]
    later = [
        other
        for other, its in zip(activities, launch, strict=True)
        if (other["args"]["device"], other["args"]["stream"], several and its and its["pid"]) == where
        and other["ts"] > event["ts"]
        and (plain_count.correlation(event) is None or plain_count.correlation(other) != plain_count.correlation(event))
    ]
    if any(plain_count.end(event) > plain_count.end(other) + SLACK_US for other in later):
        return plain_count.end(event) - min(other["ts"] for other in later)
    return 0
