"""Which call launched an activity: runtime calls around driver calls, and processes that share correlation ids."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbook.trace import read_trace
from tests.trace.made_trace import annotation, kernel, launch, op, warned
from tests.trace.test_fuzz import in_a_file, text_of


def pair(correlation, start, **more):
    return [
        launch(correlation, start, 10, "cudaLaunchKernel", **more),
        launch(correlation, start + 2, 6, "cuLaunchKernel", "cuda_driver", **more),
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_a_driver_call_inside_a_runtime_call_is_the_same_launch(read, turned):
    events = [annotation("f", 0, 90), op("aten::mm", 5, 40), *pair(5, 10), *pair(6, 25), kernel("k", 50, 10, 5)]
    events += [kernel("l", 70, 10, 6), launch(7, 60, 2, "cuLaunchKernel", "cuda_driver"), kernel("m", 80, 5, 7)]
    reading = read(events[::-1] if turned else events)
    assert (reading.totals.launches, reading.totals.attributed) == (3, 3)
    assert [row["launches"] for row in reading.ranges.to_pylist()] == [3]
    assert reading.activities["launch_api"].to_pylist() == ["cudaLaunchKernel", "cudaLaunchKernel", "cuLaunchKernel"]
    assert reading.activities["launch_delay_us"].to_pylist() == [40.0, 45.0, 20.0]
    assert set(reading.activities["graph"].to_pylist()) == {False}


def test_a_pair_of_one_length_is_one_launch(read):
    calls = [launch(5, 10, 6), launch(5, 10, 6, "cuLaunchKernel", "cuda_driver")]
    reading = read([*calls, kernel("k", 50, 10, 5)])
    assert (reading.totals.launches, reading.activities["launch_api"].to_pylist()) == (1, ["cudaLaunchKernel"])


def test_a_pair_without_an_activity_is_one_call(read):
    assert warned(read([op("aten::mm", 0, 50), *pair(5, 10)])) == {"launches_without_activities": 1}


def two_processes(*kernels):
    """Ranges f of process 100 and g of process 200, each with calls 5 (the same id) and one of its own."""
    return [
        annotation("f", 0, 50, pid=100), launch(5, 10, pid=100), launch(1, 20, pid=100),
        annotation("g", 0, 60, pid=200), launch(5, 15, pid=200), launch(2, 25, pid=200), *kernels,
    ]  # fmt: skip


def test_an_id_of_two_processes_that_nothing_tells_apart_is_unattributed(read):
    reading = read(two_processes(kernel("k", 30, 10, 5, device=0), kernel("k", 40, 10, 5, device=1)))
    totals = reading.totals
    assert (totals.kernels, totals.launches, totals.attributed, totals.unattributed) == (2, 2, 0, 2)
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [0, 0]
    assert warned(reading) == {"unattributed": 2, "several_processes": 2}
    message = next(warning.message for warning in reading.warnings if warning.code == "unattributed")
    assert "not in the file" not in message


def test_ids_of_one_process_alone_tell_whose_the_device_is(read):
    reading = read(
        two_processes(
            kernel("a", 30, 10, 1, device=0), kernel("b", 40, 10, 5, device=0),
            kernel("c", 30, 10, 2, device=1), kernel("d", 42, 10, 5, device=1),
        )
    )  # fmt: skip
    assert [(row["annotation"], row["kernels"], row["launches"]) for row in reading.ranges.to_pylist()] == [
        ("f", 2, 2), ("g", 2, 2),
    ]  # fmt: skip
    assert (reading.totals.launches, warned(reading)) == (4, {})
    launched = {row["name"]: row["launch_start_us"] for row in reading.activities.to_pylist()}
    assert launched == {"a": 20, "b": 10, "c": 25, "d": 15}
    assert set(reading.activities["graph"].to_pylist()) == {False}


def test_a_device_that_both_processes_use_tells_nothing(read):
    kernels = [kernel("a", 30, 10, 1), kernel("b", 40, 10, 2), kernel("c", 50, 10, 5), kernel("d", 60, 10, 5)]
    reading = read(two_processes(*kernels))
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [1, 1]
    assert warned(reading) == {"unattributed": 2, "several_processes": 2}


def test_the_pid_of_an_activity_tells_where_it_is_no_device_number(read):
    kernels = [kernel("a", 30, 10, 5), kernel("b", 40, 10, 5, device=1), kernel("c", 50, 10, 1), kernel("d", 60, 5, 2)]
    for event, pid in zip(kernels, (100, "200", 200, 999), strict=True):
        event["pid"] = pid
    reading = read(two_processes(*kernels))
    found = {row["name"]: row["launch_start_us"] for row in reading.activities.to_pylist()}
    assert found == {"a": 10, "b": 15, "c": None, "d": 25}  # call 1 is of another process than kernel c
    assert warned(reading) == {"unattributed": 1}


def test_processes_with_ids_of_their_own_are_joined_as_one(read):
    events = [
        annotation("f", 0, 50, pid=100), launch(1, 10, pid=100), kernel("a", 30, 10, 1),
        annotation("g", 0, 60, pid=200), launch(2, 15, pid=200), kernel("b", 40, 10, 2),
    ]  # fmt: skip
    reading = read(events)
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [1, 1]
    assert (reading.totals.launches, warned(reading)) == (2, {})


def test_graphs_of_two_processes_are_two_launches(read):
    nodes = [kernel(f"k{i}", 30 + i, 1, 5, device=device) for device in (0, 1) for i in range(3)]
    reading = read(two_processes(kernel("a", 90, 1, 1, device=0), kernel("b", 90, 1, 2, device=1), *nodes))
    graphs = [row for row in reading.activities.to_pylist() if row["graph"]]
    assert sorted((row["launch_start_us"], row["device"]) for row in graphs) == [(10, 0)] * 3 + [(15, 1)] * 3
    assert reading.device_use["launch"].to_list().count(None) == 0
    assert len(set(reading.device_use["launch"].to_list())) == 4


@st.composite
def merged(draw):
    """Events of up to three processes that share some ids, on devices of their own or shared."""
    events = []
    for pid in (100, 200, 300)[: draw(st.integers(1, 3))]:
        for place, correlation in enumerate(draw(st.lists(st.integers(1, 8), unique=True, max_size=6))):
            calls = pair(correlation, 20.0 * place, pid=pid)
            events += calls[: draw(st.integers(1, 2))]
    for place in range(draw(st.integers(1, 10))):
        event = kernel(f"k{place}", 200.0 + place, 1, draw(st.integers(1, 8)), device=draw(st.integers(0, 3)))
        if draw(st.booleans()):
            event["pid"] = draw(st.sampled_from([event["pid"], 100, 200, 300]))
        events.append(event)
    return events


def plainly_joined(events):
    """(kernel -> (pid, start) of its launch or None, disputed kernels): the rule, kernel by kernel."""
    calls = collections.defaultdict(dict)
    for event in events:
        if event["cat"] == "cuda_runtime":
            calls[event["args"]["correlation"]][event["pid"]] = event["ts"]
    callers = {pid for owners in calls.values() for pid in owners}
    kernels = [event for event in events if event["cat"] == "kernel"]
    alone = collections.defaultdict(set)
    for event in kernels:
        owners = calls[event["args"]["correlation"]]
        if len(owners) == 1:
            alone[event["pid"], event["args"]["device"]] |= set(owners)
    joined, disputed = {}, set()
    for event in kernels:
        owners = calls[event["args"]["correlation"]]
        device = event["args"]["device"]
        seen = alone[event["pid"], device]
        if event["pid"] != device and event["pid"] in callers and len(callers) > 1:
            owners = {pid: ts for pid, ts in owners.items() if pid == event["pid"]}
        elif len(seen) == 1:
            owners = {pid: ts for pid, ts in owners.items() if pid in seen}
        if len(owners) > 1:
            disputed.add(event["name"])
        joined[event["name"]] = next(iter(owners.values())) if len(owners) == 1 else None
    return joined, disputed


@given(merged())
def test_processes_are_joined_as_a_plain_reading_joins_them(events):
    reading = in_a_file(read_trace, text_of(events, True).encode())
    joined, disputed = plainly_joined(events)
    origin = min(event["ts"] for event in events)
    found = {row["name"]: row["launch_start_us"] for row in reading.activities.to_pylist()}
    assert found == {name: None if ts is None else ts - origin for name, ts in joined.items()}
    assert warned(reading).get("several_processes", 0) == len(disputed)
    assert reading.totals.attributed + reading.totals.unattributed == len(joined)
