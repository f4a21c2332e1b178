"""Figures do not depend on the order of the events in the file."""

from itertools import permutations

import pytest

from kernelbook.summarize.summary import summarize
from tests.trace.made_trace import annotation, kernel, launch, op


def content(reading):
    activities, calls = reading.forwards()
    tables = {**reading.tables(), "forward activities": activities, "calls": calls}
    return summarize(reading).to_json(), {name: table.to_pylist() for name, table in tables.items()}


@pytest.mark.parametrize(
    "events",
    [
        [annotation("aten::mm", 2004, 82, tid=0), annotation("aten::mm", 2004, 82, tid=1), op("aten::mm", 2008, 0)],
        [annotation("step", 0, 50, tid="b"), annotation("step", 0, 50, tid=7), annotation("step", 0, 50, pid="a")],
        [annotation("aten::mm", 0, 9), op("aten::mm", 0, 9), op("aten::bmm", 0, 9)],
        [annotation("step_1", 0, 9), annotation("step_2", 0, 9), annotation("step_3", 20, 9)],
        [launch(1, 0), launch(2, 0), kernel("gemm", 5, 1, 1), kernel("relu", 5, 1, 2)],
        [annotation("step", 0, 9), launch(1, 0), kernel("gemm", 5, 1, 1), kernel("relu", 5, 1, 1)],
    ],
)
def test_the_order_of_the_events_has_no_effect(read, events):
    expected = content(read(events))
    for order in permutations(events):
        assert content(read(list(order))) == expected


def test_of_ranges_that_tie_that_of_the_first_thread_is_first(read):
    """Thread 0 did nothing and thread 1 called an op: two works, equally frequent and long."""
    ranges = [annotation("aten::mm", 2004, 82, tid=tid) for tid in (1, 0)]
    table = read([op("aten::mm", 2008, 0, tid=1), *ranges]).ranges
    assert table.select(["tid", "kind"]).to_pylist() == [{"tid": 0, "kind": 0}, {"tid": 1, "kind": 1}]


@pytest.mark.parametrize("reverse", [False, True])
def test_of_equally_long_ops_the_one_with_the_first_id_is_outside(read, reverse):
    """In whole µs, `aten::zeros` and the `aten::empty` that it calls may have the same times."""
    events = [
        op("aten::zeros", 0, 9, **{"External id": 9}), op("aten::empty", 0, 9, **{"External id": 10}),
        launch(1, 2), kernel("fill", 5, 1, 1),
    ]  # fmt: skip
    reading = read(events[::-1] if reverse else events)
    assert reading.activities["op_path"].to_pylist() == [["aten::zeros", "aten::empty"]]
