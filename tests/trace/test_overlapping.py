"""Rows of one thread that overlap without nesting: time decides what a launch belongs to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbook.trace import read_trace
from tests.trace import plain_count
from tests.trace.made_trace import annotation, document, in_a_file, kernel, launch, op, read_in_memory, warned


def kernels_of(reading):
    return {row["annotation"]: row["kernels"] for row in reading.ranges.to_pylist()}


@pytest.mark.parametrize(
    ("start", "counts", "innermost"),
    [
        (300, {"f": 1, "g": 0}, "f"),
        (700, {"f": 1, "g": 1}, "g"),
        (1200, {"f": 0, "g": 1}, "g"),
        (1700, {"f": 0, "g": 0}, None),
    ],
    ids=["f alone", "both", "g alone", "neither"],
)
def test_a_launch_counts_for_every_range_that_was_open_and_belongs_to_the_last(read, start, counts, innermost):
    events = [
        annotation("f", 0, 1000), annotation("g", 500, 1000),
        op("mm", start - 10, 30), launch(1, start), kernel("k", 2000, 10, 1),
    ]  # fmt: skip
    reading = read(events)
    assert kernels_of(reading) == counts
    names = reading.ranges["annotation"].to_pylist()
    (row,) = reading.activities["range"].to_pylist()
    assert (None if row is None else names[row]) == innermost
    assert reading.ranges["parent"].to_pylist() == [None, None]
    assert warned(reading) == {"overlapping_rows": 1}
    assert "'g' inside 'f'" in reading.warnings[0].message


def test_an_op_that_ends_a_little_after_its_range_is_still_in_it(read):
    """1.5 µs is more than what a rounded time explains."""
    events = [annotation("f", 0, 1000), op("mm", 10, 991.5), launch(1, 500), kernel("k", 2000, 10, 1)]
    reading = read(events)
    assert kernels_of(reading) == {"f": 1}
    assert reading.activities["op"].to_pylist() == ["mm"]
    assert warned(reading) == {"overlapping_rows": 1}
    activities, calls = reading.forwards()
    assert (activities.num_rows, calls["name"].to_pylist()) == (1, ["mm", "cudaLaunchKernel"])


@pytest.mark.parametrize("overlap", [0.25, 1.0])
def test_neighbours_that_overlap_by_a_rounded_time_are_neighbours(read, overlap):
    events = [
        annotation("f", 0, 100), annotation("g", 100 - overlap, 100), launch(1, 50), launch(2, 150),
        kernel("k", 300, 1, 1), kernel("k", 310, 1, 2),
    ]  # fmt: skip
    reading = read(events)
    assert kernels_of(reading) == {"f": 1, "g": 1}
    assert warned(reading) == {}


def test_forwards_that_overlap_stay_two_forwards(read):
    reading = read([annotation("step", 0, 102), annotation("step", 100, 100), op("aten::mm", 150, 10)])
    calls = reading.forwards()[1].to_pylist()
    assert [row["index"] for row in calls if row["name"] == "aten::mm"] == [1]
    assert reading.ranges["parent"].to_pylist() == [None, None]


def test_what_an_op_launched_after_the_op_around_it_ended_is_not_that_one_s(read):
    """outer is open to 100, inner from 50 to 200: launches at 60 and 150."""
    events = [
        op("outer", 0, 100), op("inner", 50, 150), launch(1, 60), launch(2, 150),
        kernel("k", 300, 5, 1), kernel("k", 310, 7, 2),
    ]  # fmt: skip
    found = {row["name"]: row for row in read(events).ops.to_pylist()}
    assert (found["outer"]["kernels"], found["outer"]["device_time_us"]) == (1, 5.0)
    assert (found["inner"]["kernels"], found["inner"]["self_device_time_us"]) == (2, 12.0)
    assert (found["outer"]["self_cpu_time_us"], found["inner"]["self_cpu_time_us"]) == (100.0, 146.0)


@st.composite
def overlapping(draw):
    """Rows at random times on one thread of each of two processes, all further apart than a rounded time."""
    events = []
    for number in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["op", "annotation", "call", "call"]))
        ts, dur = 5 * draw(st.integers(0, 60)), 5 * draw(st.integers(1, 40))
        pid = draw(st.sampled_from([7, 8]))
        if kind == "call":
            events.append(launch(number, ts, dur, pid=pid))
            events.append(kernel(f"k{number}", 2000 + 20 * number, draw(st.integers(1, 9)), number))
        else:
            events.append((op if kind == "op" else annotation)(f"{kind}{number}", ts, dur, pid=pid))
    return events


@st.composite
def two_threads(draw):
    """Ranges and calls at random times on two threads of a process; no two ranges begin at the same time."""
    starts = draw(st.lists(st.integers(0, 60), min_size=1, max_size=6, unique=True))
    events = [
        annotation(f"r{start}", 5 * start, 5 * draw(st.integers(1, 40)), tid=draw(st.integers(1, 2)))
        for start in starts
    ]
    for number in range(draw(st.integers(1, 6))):
        events.append(
            launch(number, 5 * draw(st.integers(0, 90)) + 1, draw(st.integers(1, 60)), tid=draw(st.integers(1, 2)))
        )
        events.append(kernel(f"k{number}", 2000 + 20 * number, 5, number))
    return events


def read_both(events):
    return in_a_file(lambda path: (read_trace(path), plain_count.count(path)), json.dumps(document(events)).encode())


@given(overlapping())
def test_every_launch_is_where_a_plain_reading_puts_it(events):
    reading, plain = read_both(events)
    rows = reading.ranges.to_pylist()
    if plain["activities"]:
        assert sorted((row["annotation"], row["kernels"]) for row in rows) == sorted(r[:2] for r in plain["per_range"])
        assert reading.totals.attributed == plain["attributed"]
    ops = {row["name"]: row for row in reading.ops.to_pylist()}
    own = {name: row["self_device_time_us"] for name, row in ops.items() if row["self_device_time_us"]}
    assert own == plain["self_device_us"]
    for name, row in ops.items():
        assert row["self_cpu_time_us"] >= 0
        (outer,) = (event for event in events if event["name"] == name)
        calls = [e for e in events if "runtime" in e["cat"] and e["pid"] == outer["pid"]]
        launched = {e["args"]["correlation"] for e in calls if plain_count.is_open(outer, e)}
        times = [e["dur"] for e in events if e["cat"] == "kernel" and e["args"]["correlation"] in launched]
        assert (row["kernels"], row["device_time_us"]) == (
            (len(times), sum(times)) if plain["activities"] else (None,) * 2
        )


@given(overlapping(), st.randoms(use_true_random=False))
def test_the_order_of_overlapping_events_does_not_matter(events, random):
    """Rows with the same times keep the order of the file, so only others are tried."""
    events = list({(event["cat"], event["pid"], event["ts"], event["dur"]): event for event in events}.values())
    shuffled = random.sample(events, len(events))
    assert read_in_memory(shuffled).ops.to_pylist() == read_in_memory(events).ops.to_pylist()


@given(two_threads())
def test_ranges_of_two_threads_that_overlap(events):
    """A launch is that of its own thread's ranges; else of the other thread's range around it and those open then."""
    reading, _ = read_both(events)
    ranges = [event for event in events if event["cat"] == "user_annotation"]
    expected = dict.fromkeys((event["name"] for event in ranges), 0)
    for call in (event for event in events if event["cat"] == "cuda_runtime"):
        mine = [r for r in ranges if r["tid"] == call["tid"] and plain_count.is_open(r, call)]
        theirs = [r for r in ranges if r["tid"] != call["tid"]]
        around = [r for r in theirs if plain_count.inside(call, r)]
        last = max((r["ts"] for r in around), default=-1)
        for row in mine or [r for r in theirs if r["ts"] <= last and plain_count.is_open(r, call)]:
            expected[row["name"]] += 1
    assert kernels_of(reading) == expected
