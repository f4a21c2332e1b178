"""Numbers of any size in any field: what does not fit is null, or the id as text, and the rest of the file is read."""

import json

import pytest

from tests.trace.made_trace import annotation, document, forward, kernel, launch, memcpy, op, warned

NUMBERS = [
    "9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775809", "9" * 40, "9" * 5000,
    "-" + "9" * 5000, "1e400", "-1e400", "1e19", "1E+30", '"9223372036854775808"', '"' + "9" * 5000 + '"',
    '"--5"', '"1e400"', "NaN", "Infinity", "true", "[1]", '{"a": 1}',
]  # fmt: skip
PLACES = ["grid", "block", "registers per thread", "shared memory", "bytes", "device", "stream", "correlation"]
PLACES += ["est. achieved occupancy %", "pid", "tid", "ts", "dur", "name", "cat", "ph"]


def spelled(events, number, **head):
    """The text of a trace in which the word NUMBER stands for a number as it is spelled."""
    return json.dumps(document(events, **head)).replace('"NUMBER"', number).encode()


def odd_kernel(place):
    """A kernel with NUMBER in one place."""
    event = kernel("odd", 40, 5, 9, grid=[2, 3, 4], block=[32, 1, 1], bytes=8)
    where = event["args"] if place in event["args"] or " " in place else event
    where[place] = ["NUMBER", 1, 1] if place in ("grid", "block") else "NUMBER"
    return event


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:24])
@pytest.mark.parametrize("place", PLACES)
def test_an_odd_number_takes_nothing_else_with_it(read_bytes, place, number):
    """Events of a forward before and after the odd kernel have the figures that they have without it."""
    events = [*forward(1000), launch(9, 1020), odd_kernel(place), *forward(2000, first=20)]
    reading = read_bytes(spelled(events, number))
    rows = [row for row in reading.activities.to_pylist() if row["name"] in ("gemm", "relu", "Memset (Device)")]
    assert [(row["duration_us"], row["range"], row["op"]) for row in rows] == [
        (1, 0, "aten::addmm"), (20, 0, "aten::addmm"), (10, 0, "aten::relu"),
        (1, 1, "aten::addmm"), (20, 1, "aten::addmm"), (10, 1, "aten::relu"),
    ]  # fmt: skip
    assert {step["kernels"] for step in reading.ranges.to_pylist()} <= {2, 3}
    assert "damaged" not in warned(reading)
    json.dumps([reading.activities.to_pylist(), reading.device_properties], allow_nan=False)


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "9" * 5000, '"' + "9" * 30 + '"'])
def test_a_number_of_more_than_64_bits_is_null(read_bytes, number):
    names = {
        "grid": "grid", "block": "block", "registers per thread": "registers_per_thread", "bytes": "bytes",
        "shared memory": "shared_memory_bytes", "device": "device", "stream": "stream", "correlation": "correlation",
    }  # fmt: skip
    for place, column in names.items():
        reading = read_bytes(spelled([launch(9, 0), odd_kernel(place)], number))
        (row,) = reading.activities.to_pylist()
        found = {name: row[name] for name in names.values()}
        whole = {
            "grid": [2, 3, 4], "block": [32, 1, 1], "bytes": 8, "registers_per_thread": None,
            "shared_memory_bytes": None, "device": 0, "stream": 7, "correlation": 9,
        }  # fmt: skip
        assert found == whole | {column: None}
        assert row["launch_api"] == (None if place == "correlation" else "cudaLaunchKernel")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("9223372036854775809", "9223372036854775810"),
        ("-9223372036854775809", "-9223372036854775810"),
        ("9" * 4999 + "8", "9" * 5000),
        ('"9223372036854775809"', '"9223372036854775810"'),
    ],
)
@pytest.mark.parametrize("field", ["pid", "tid"])
def test_large_ids_keep_threads_apart(read_bytes, field, one, other):
    """Two threads whose ids are the same as floats: the launch is inside the range of its own thread alone."""
    first = [annotation("f", 0, 50), op("aten::mm", 1, 20), launch(1, 3)]
    second = [annotation("g", 0, 50), op("aten::add", 1, 20), launch(2, 3)]
    for event in first:
        event[field] = "ONE"
    for event in second:
        event[field] = "OTHER"
    text = json.dumps(document([*first, *second, kernel("k", 30, 10, 1), kernel("l", 50, 10, 2)]))
    reading = read_bytes(text.replace('"ONE"', one).replace('"OTHER"', other).encode())
    ranges = {row["annotation"]: (row["kernels"], row["inferred"], row[field]) for row in reading.ranges.to_pylist()}
    assert ranges == {"f": (1, False, None), "g": (1, False, None)}
    assert reading.activities["op"].to_pylist() == ["aten::mm", "aten::add"]


def test_a_large_id_is_the_same_as_a_number_and_as_text(read_bytes):
    step = annotation("f", 0, 50)
    step["tid"] = "NUMBER"
    call = launch(1, 3)
    call["tid"] = "9223372036854775809"
    reading = read_bytes(spelled([step, call, kernel("k", 30, 10, 1)], "9223372036854775809"))
    assert reading.ranges["kernels"].to_pylist() == [1]


def test_large_correlation_ids_as_text_are_exact(read):
    """As floats the two ids would be one."""
    events = [
        op("aten::mm", 0, 9),
        launch("9007199254740992", 1),
        op("aten::add", 10, 9),
        launch("9007199254740993", 11),
    ]
    kernels = [kernel("a", 30, 5, "9007199254740993"), kernel("b", 40, 5, "9007199254740992")]
    assert read([*events, *kernels]).activities["op"].to_pylist() == ["aten::add", "aten::mm"]


@pytest.mark.parametrize("bad", [[0, 1, 1], [-1, 1, 1], [1, 1], [1, 1, 1, 1], [1, 1, None], [1.5e300, 1, 1], "1,1,1"])
def test_what_is_no_size_is_null(read, bad):
    """A block of no thread would be divided by when waves are counted."""
    rows = read([kernel("k", 0, 1, 1, grid=bad, block=[1, 1, 1]), kernel("l", 5, 1, 1, grid=[1, 1, 1], block=bad)])
    grids, blocks = (rows.activities[name].to_pylist() for name in ("grid", "block"))
    assert (grids, blocks) == ([None, [1, 1, 1]], [[1, 1, 1], None])


def test_each_activity_has_its_own_launch_configuration(read):
    """Equal and different ones by turns, a text, and one that lacks most of it."""
    small, large = {"grid": [2, 1, 1], "block": [64, 1, 1]}, {"grid": [8, 4, 1], "block": [256, 1, 1]}
    more = {"registers per thread": 32, "shared memory": 1024, "est. achieved occupancy %": 50}
    events = [
        kernel("k", 0, 1, 1, **small, **more),
        memcpy(5, 1, 2),
        kernel("k", 10, 1, 3, **large, **more),
        kernel("k", 15, 1, 4, **small, **more),
        kernel("k", 20, 1, 5, **small, **(more | {"registers per thread": "40"})),
        kernel("k", 25, 1, 6, grid=[2, 1, 1]),
    ]
    activities = read(events).activities
    columns = ("grid", "block", "registers_per_thread", "shared_memory_bytes", "occupancy_percent", "bytes")
    assert list(zip(*(activities[name].to_pylist() for name in columns), strict=True)) == [
        ([2, 1, 1], [64, 1, 1], 32, 1024, 50, None),
        (None, None, None, None, None, 64),
        ([8, 4, 1], [256, 1, 1], 32, 1024, 50, None),
        ([2, 1, 1], [64, 1, 1], 32, 1024, 50, None),
        ([2, 1, 1], [64, 1, 1], 40, 1024, 50, None),
        ([2, 1, 1], None, None, None, None, None),
    ]


def test_counts_are_never_negative(read):
    (row,) = read([memcpy(0, 1, 1, **{"registers per thread": -7, "shared memory": -1024})]).activities.to_pylist()
    assert (row["registers_per_thread"], row["shared_memory_bytes"], row["bytes"]) == (None, None, 64)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:24])
def test_device_properties_are_numbers_or_null(read_bytes, number):
    head = {"deviceProperties": [{"id": 0, "name": "Made GPU", "numSms": "NUMBER", "warpSize": 32}]}
    head["distributedInfo"] = {"rank": "NUMBER", "world_size": "NUMBER"}
    reading = read_bytes(spelled(forward(), number, **head))
    (device,) = reading.device_properties
    assert device | {"numSms": None} == {"id": 0, "name": "Made GPU", "numSms": None, "warpSize": 32}
    assert device["numSms"] is None or abs(device["numSms"]) < 2**63
    assert reading.totals.kernels == 2
    json.dumps([reading.device_properties, reading.distributed], allow_nan=False)
