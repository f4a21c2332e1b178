"""Impossible times: which are recognised, which figures they change, and which not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbook.trace import read_trace
from tests.trace import plain_times
from tests.trace.made_trace import annotation, forward, kernel, launch, memcpy, op, read_in_memory, warned

EPOCH = 1.7e15
YEARS = 1.0e15


def queue(number, base=0.0, gap=100, first=1):
    """A range of 500 µs that launches `number` kernels of 10 µs, one each `gap` µs from 1 ms on."""
    rows = [launch(first + k, base + 1 + k, 1) for k in range(number)]
    return [
        annotation("f", base, 500),
        *rows,
        *(kernel("k", base + 1000 + gap * k, 10, first + k) for k in range(number)),
    ]


def share(reading):
    return [each.busy_share for each in reading.annotations()]


def test_a_kernel_that_runs_past_later_ones_of_its_stream(read):
    """The sixth of 20 takes 3 s; the next begins 100 µs after it. 19 x 10 and 100 µs of 2910 are busy."""
    events = queue(20)
    events[26]["dur"] = 3_000_000
    reading = read(events)
    totals = reading.totals
    assert warned(reading) == {"implausible": 1}
    assert (totals.kernels, totals.device_time_us, totals.implausible_us) == (20, 3_000_190.0, 2_999_900.0)
    assert share(reading) == [pytest.approx(290 / 2910)]
    assert "1 activity ended after a later one on the same stream" in reading.warnings[0].message


@pytest.mark.parametrize(("stream", "count"), [(7, 1), (8, 0)])
def test_only_work_of_the_same_stream_ends_in_order(read, stream, count):
    events = [launch(1, 0), launch(2, 5), kernel("a", 20, 100, 1), kernel("b", 40, 10, 2, stream=stream)]
    reading = read(events)
    assert warned(reading).get("implausible", 0) == count
    assert reading.totals.implausible_us == 80 * count


def test_a_first_range_is_not_slow_for_a_time_that_is_impossible(read):
    events = [event for step in range(4) for event in queue(3, 1e4 * step, 10, 1 + 3 * step)]
    events[5]["dur"] = 3_000_000
    assert warned(read(events)) == {"implausible": 1}


# Starts and lengths of kernels launched with programmatic dependent launch, on an H200 with torch 2.11, in µs
DEPENDENT = {
    "waiting": [
        (0.0, 69.1), (112.1, 1.5), (143.6, 69.1), (172.7, 41.4), (194.9, 88.2), (217.3, 67.2), (239.3, 114.1),
        (259.4, 95.5), (280.4, 143.4), (301.7, 123.4),
    ],
    "not waiting": [(244.5, 69.2), (298.0, 15.7), (343.0, 69.1), (406.9, 5.2), (456.8, 69.1), (537.0, 69.2)],
    "whole device": [(0.0, 313.1), (109.7, 207.9), (293.5, 336.4), (317.5, 316.8), (615.0, 331.6), (634.3, 316.7)],
}  # fmt: skip


@pytest.mark.parametrize("chain", DEPENDENT)
def test_kernels_that_begin_before_the_one_before_them_ended_are_in_order(read, chain):
    times = DEPENDENT[chain]
    events = [op("f", 0, 2000), *(launch(n, n) for n, _ in enumerate(times))]
    events += [kernel("k", 2000 + start, length, n) for n, (start, length) in enumerate(times)]
    reading = read(events)
    assert warned(reading) == {}
    assert reading.totals.implausible_us == 0


def test_branches_of_a_graph_may_share_the_stream_of_its_launch(read):
    events = [
        launch(1, 0, name="cudaGraphLaunch"),
        kernel("a", 20, 100, 1),
        kernel("b", 30, 5, 1),
        kernel("c", 36, 5, 1),
    ]
    assert "implausible" not in warned(read(events))


def test_but_a_graph_ends_before_what_is_launched_after_it(read):
    events = [launch(1, 0, name="cudaGraphLaunch"), kernel("a", 20, 100, 1), kernel("b", 30, 5, 1)]
    reading = read([*events, launch(2, 5), kernel("c", 40, 5, 2)])
    assert (warned(reading)["implausible"], reading.totals.implausible_us) == (1, 80.0)


def test_two_processes_have_streams_of_the_same_number(read):
    events = [launch(1, 0, pid=5), launch(2, 5, pid=6), kernel("a", 20, 100, 1), kernel("b", 40, 10, 2)]
    assert "implausible" not in warned(read(events))


def test_a_kernel_that_mostly_runs_beside_others_has_a_stream_of_its_own(read):
    """An exporter that gives all streams one id: each all-reduce lies over three products."""
    events = []
    for step in range(6):
        events += [launch(10 * step, 500 * step), kernel("all_reduce", 500 * step + 100, 300, 10 * step)]
        for part in (1, 2, 3):
            at = 500 * step + 100 * part
            events += [launch(10 * step + part, at), kernel("product", at + 20, 50, 10 * step + part)]
    reading = read(events)
    assert "implausible" not in warned(reading)
    assert reading.totals.implausible_us == 0


def test_a_stream_that_is_not_known_is_not_judged(read):
    events = [launch(1, 0), launch(2, 5), kernel("a", 20, 100, 1), kernel("b", 40, 10, 2)]
    for event in events[2:]:
        del event["args"]["stream"]
        event["tid"] = "?"
    assert "implausible" not in warned(read(events))


@pytest.mark.parametrize(("end", "count"), [(10.0, 0), (10.5, 1)])
def test_coarse_times_move_an_end_by_less_than_ten_microseconds(read, end, count):
    events = [launch(1, 0), launch(2, 5), kernel("a", 20, 10 + end, 1), kernel("b", 25, 5, 2)]
    assert warned(read(events)).get("implausible", 0) == count


@pytest.mark.parametrize(("waited", "count"), [(False, 1), (True, 0)])
def test_a_last_kernel_that_outlasts_the_cpu(read, waited, count):
    events = queue(3)
    events[-1]["dur"] = 3_000_000
    if waited:
        events.append(launch(9, 600, 3_001_000, "cudaDeviceSynchronize"))
    reading = read(events)
    assert warned(reading).get("implausible", 0) == count
    assert reading.totals.implausible_us == (2_999_500.0 if count else 0.0)


def test_a_kernel_of_less_than_a_second_may_outlast_a_window_that_does_not_wait(read):
    assert "implausible" not in warned(read([launch(1, 0), kernel("k", 20, 900_000, 1)]))


@pytest.mark.parametrize("start", [0, 1000.0, EPOCH + YEARS])
def test_a_kernel_years_away_moves_no_window_and_no_other_start(read, start):
    events = queue(4, EPOCH)
    events[-1]["ts"] = start
    reading = read(events)
    assert warned(reading) == {"implausible": 1}
    assert (reading.totals.kernels, reading.totals.device_time_us, reading.totals.implausible_us) == (4, 40.0, 10.0)
    (row,) = reading.ranges.to_pylist()
    assert (row["kernels"], row["start_us"], row["device_busy_us"]) == (4, 0.0, 40.0)
    found = {row["correlation"]: row for row in reading.activities.to_pylist()}
    assert [found[n]["start_us"] for n in (1, 2, 3, 4)] == [1000.0, 1100.0, 1200.0, None]
    assert [found[n]["launch_delay_us"] for n in (1, 2, 3, 4)] == [999.0, 1098.0, 1197.0, None]
    assert share(reading) == [pytest.approx(30 / 1210)]
    assert [each.launch_delay_us for each in reading.annotations()] == [1098.0]


@pytest.mark.parametrize("row", [annotation("f", 0, 500), op("aten::mm", 0, 5), launch(99, 0)])
def test_a_cpu_event_years_away_moves_no_window(read, row):
    reading = read([*queue(2, EPOCH), row])
    assert warned(reading) == {"implausible": 1}
    assert reading.totals.implausible_us == 0.0
    assert share(reading) == [pytest.approx(20 / 1110)]
    assert reading.activities["start_us"].to_pylist() == [1000.0, 1100.0]
    assert "1 CPU event began hours away" in reading.warnings[0].message


def test_a_kernel_without_launch_at_0_is_not_said_to_come_from_before_the_window(read):
    reading = read([*queue(2, EPOCH), kernel("k", 0, 10, None)])
    assert warned(reading) == {"implausible": 1, "unattributed": 1}


def test_many_kernels_at_0_overflow_nothing(read):
    """Twelve ranges of three kernels each, the first of which has no time."""
    events = []
    for step in range(12):
        part = queue(3, EPOCH + 2000 * step, first=1 + 3 * step)
        part[4]["ts"] = 0
        events += part
    reading = read(events)
    assert [row["device_busy_us"] for row in reading.ranges.to_pylist()] == [30.0] * 12
    assert (reading.totals.device_busy_us, reading.totals.implausible_us) == (250.0, 120.0)


def test_the_same_clock_from_0_on_is_no_missing_time(read):
    assert "implausible" not in warned(read([annotation("f", 0, 500), launch(1, 0), kernel("k", 0, 10, 1)]))


def test_a_kernel_before_its_launch(read):
    """It begins 5 ms before the call, so all of it lies before: 10 µs."""
    events = queue(4, 1e6)
    events[-1]["ts"] = 1e6 - 5000
    reading = read(events)
    assert (warned(reading), reading.totals.implausible_us) == ({"implausible": 1}, 10.0)
    assert reading.activities["launch_delay_us"].to_pylist() == [None, 999.0, 1098.0, 1197.0]
    assert "1 activity began before the launch" in reading.warnings[0].message


@pytest.mark.parametrize("shift", [-5e6, -YEARS, YEARS])
def test_a_device_with_a_clock_of_its_own(read, shift):
    """Lengths hold, so nothing is taken off; delays and shares are not known."""
    events = queue(4, EPOCH)
    for event in events[5:]:
        event["ts"] += shift
    reading = read(events)
    assert (warned(reading), reading.totals.implausible_us) == ({"implausible": 4}, 0.0)
    assert "the device's clock is not the CPU's" in reading.warnings[0].message
    assert reading.activities["launch_delay_us"].to_pylist() == [None] * 4
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [4]


def test_a_clock_that_is_off_by_less_than_a_millisecond_is_borne(read):
    events = queue(4, 1e6)
    for event in events[5:]:
        event["ts"] -= 1900
    assert warned(read(events)) == {}


def test_an_end_without_a_start_is_malformed(read):
    reading = read([*queue(2, EPOCH), launch(9, EPOCH + 20), kernel("k", 0, EPOCH + 2000, 9)])
    assert (warned(reading), reading.totals.kernels, reading.totals.device_time_us) == ({"malformed": 1}, 2, 20.0)


def test_without_device_activity_there_is_nothing_to_take_off(read):
    assert read([op("aten::mm", 0, 5), launch(1, 2)]).totals.implausible_us is None
    assert read(forward()).totals.implausible_us == 0.0


def test_no_recorded_trace_has_a_time_that_cannot_be(root, shared_dir):
    files = [*root.glob("resources/recorded/*/*/*/trace.json.gz"), *shared_dir.glob("traces/*/*.json.gz")]
    assert len(files) > 80
    for file in files:
        assert {"implausible", "overlapping_rows"} & set(warned(read_trace(file))) == set(), file


@st.composite
def spoilt(draw):
    """Kernels and copies of two processes on two streams, some one after the other, some with a wrong time."""
    base = draw(st.sampled_from([0, 10_000_000, 1_700_000_000_000_000]))
    events = [annotation("f", base, 1000)]
    for number in range(draw(st.integers(1, 9))):
        called, start = base + 10 * draw(st.integers(0, 50)), base + 10 * draw(st.integers(60, 200))
        length = draw(st.sampled_from([0, 5, 15, 45, 105]))
        wrong = draw(st.sampled_from([None] * 6 + ["start", "end", "early", "call"]))
        start = {"start": draw(st.sampled_from([0, base + 10**14])), "early": base - 5_000_000}.get(wrong, start)
        called = 0 if wrong == "call" else called
        work = draw(st.sampled_from([lambda *args, **more: kernel("k", *args, **more), memcpy]))
        events.append(launch(number, called, 5, pid=draw(st.sampled_from([7, 7, 8]))))
        length = 3_000_000 if wrong == "end" else length
        of = draw(st.sampled_from([number] * 5 + [None, 1000 + number]))
        events.append(work(max(start, 0), length, of, stream=draw(st.integers(1, 2))))
    return events


@given(spoilt())
def test_doubts_are_those_of_a_plain_reading(events):
    reading = read_in_memory(events)
    count, excess = plain_times.wrong_times(events)
    assert (warned(reading).get("implausible", 0), reading.totals.implausible_us) == (count, excess)
    assert 0 <= reading.totals.implausible_us <= reading.totals.device_time_us
    assert all(0 <= busy <= 1 for busy in share(reading) if busy is not None)
