"""Timestamps: coarse, missing, of no length, as text."""

import json

import pytest

from tests.trace.made_trace import annotation, document, facts, forward, kernel, launch, op, read_in_memory, row, warned

EPOCH = 1712867402348256.0


@pytest.fixture(scope="module")
def sound():
    return facts(read_in_memory(forward()))


@pytest.mark.parametrize("base", [0.0, 5097429340948.0, EPOCH])
@pytest.mark.parametrize("past", [0.0, 0.25, 1.0])
def test_a_child_that_ends_a_little_after_its_parent(read, base, past):
    events = [
        op("aten::outer", base + 1, 10), op("aten::inner", base + 5, 6 + past),
        launch(1, base + 8, 3 + past), kernel("k", base + 30, 5, 1),
    ]  # fmt: skip
    reading = read(events)
    assert reading.activities["op_path"].to_pylist() == [["aten::outer", "aten::inner"]]
    found = {row["name"]: row for row in reading.ops.to_pylist()}
    assert found["aten::outer"]["self_cpu_time_us"] == 10 - 6 - past
    assert found["aten::inner"]["self_cpu_time_us"] == 3
    assert found["aten::outer"]["device_time_us"] == 5


def test_more_than_a_microsecond_after_is_no_child(read):
    reading = read([op("aten::a", 0, 10), op("aten::b", 5, 6.5)])
    assert [row["self_cpu_time_us"] for row in reading.ops.to_pylist()] == [10.0, 6.5]


def test_self_time_is_never_negative(read):
    reading = read([op("aten::a", 0, 10), op("aten::b", 0, 6), op("aten::c", 5.75, 5.25)])
    assert [row["self_cpu_time_us"] for row in reading.ops.to_pylist() if row["name"] == "aten::a"] == [0.0]


def test_neighbours_are_no_children(read):
    events = [op("aten::a", 0, 10), op("aten::b", 10, 5), op("aten::c", 15, 0.5)]
    assert [row["self_cpu_time_us"] for row in read(events).ops.to_pylist()] == [10.0, 5.0, 0.5]


def test_a_quarter_microsecond_since_1970_is_exact(read):
    reading = read([op("aten::a", EPOCH + 0.25, 10.5), op("aten::b", EPOCH + 0.75, 0.25), annotation("s", EPOCH, 20)])
    (step,) = reading.ranges.to_pylist()
    _, calls = reading.forwards()
    assert step["start_us"] == 0.0
    assert calls["start_us"].to_pylist() == [0.25, 0.75]
    assert calls["self_us"].to_pylist() == [10.25, 0.25]


def test_nanoseconds_after_a_base_time_are_exact(read):
    base = 5097429340948.059
    _, calls = read([annotation("s", base, 407.379), op("aten::a", 5097429341008.603, 91.794)]).forwards()
    assert calls["start_us"].to_pylist() == [60.544]
    assert calls["duration_us"].to_pylist() == [91.794]


def test_events_of_no_length_are_valid(read):
    work = [kernel("k", 100, 0, 1), kernel("l", 105, 0, 2)]
    events = [annotation("s", 100, 0), op("aten::a", 100, 0), launch(1, 100, 0), *work]
    reading = read(events)
    assert reading.totals.kernels == 2
    assert reading.totals.device_busy_us == 0.0
    assert reading.activities["op"].to_pylist() == ["aten::a", None]
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [1]
    assert "malformed" not in warned(reading)


@pytest.mark.parametrize("field", ["ts", "dur"])
@pytest.mark.parametrize("value", [-1, None, "NaN", "", "soon", [1], {}, True, 1e300, "-5", "inf"])
@pytest.mark.parametrize("category", ["kernel", "cpu_op", "cuda_runtime", "user_annotation", "gpu_memcpy"])
def test_malformed_times_are_left_out_and_counted(read, sound, field, value, category):
    bad = row(category, "bad", 1001, 5, correlation=3)
    bad[field] = value
    missing = {key: value for key, value in bad.items() if key != field}
    for event in (bad, missing):
        assert facts(read([*forward(), event])) == sound | {"warnings": {"malformed": 1}}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_bare_nan_as_a_time(read_bytes, word):
    text = json.dumps(document([*forward(), kernel("bad", 1, "WORD", 2)])).replace('"WORD"', word)
    reading = read_bytes(text.encode())
    assert warned(reading) == {"malformed": 1}
    assert reading.totals.kernels == 2


def test_numeric_strings_are_accepted(read):
    events = forward()
    for event in events:
        event["ts"], event["dur"] = str(event["ts"]), str(event["dur"])
        event["args"] = {key: str(value) for key, value in event["args"].items()}
    assert facts(read(events)) == facts(read(forward()))


def test_the_order_of_events_does_not_matter(read):
    assert facts(read(forward()[::-1])) == facts(read(forward()))


def test_equal_starts(read):
    """What ends last is outside; a runtime call is never around the op that made it."""
    events = [launch(1, 10, 5.5), op("aten::inner", 10, 5), op("aten::outer", 10, 9), kernel("k", 20, 1, 1)]
    assert read(events).activities["op_path"].to_pylist() == [["aten::outer", "aten::inner"]]
