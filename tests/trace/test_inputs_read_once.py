"""The second pass over a file, for the inputs of ops, is made once, however many of its ranges are read."""

import pytest

from kernelbook.trace import inputs
from tests.trace.made_trace import annotation, op


@pytest.fixture
def passes(monkeypatch):
    """The files that are read for the inputs of ops, in order."""
    files = []

    class Counted(inputs.EventReader):
        def __init__(self, path, **more):
            files.append(path)
            super().__init__(path, **more)

    monkeypatch.setattr(inputs, "EventReader", Counted)
    return files


def shapes(reading):
    return [each["inputs"] and [one["shape"] for one in each["inputs"]] for each in reading.forwards()[1].to_pylist()]


def test_ranges_of_one_file_share_the_pass(read, passes):
    with_inputs = {"args": {"Input Dims": [[8, 4], []]}}
    events = [
        annotation("first", 1000.0, 100.0),
        op("aten::add", 1010.0, 10.0) | with_inputs,
        annotation("second", 2000.0, 100.0),
        op("aten::neg", 2010.0, 10.0),
        op("aten::mul", 2030.0, 10.0) | {"args": {"Input Dims": [[2, 2]]}},
    ]
    reading = read(events)
    assert passes == []
    assert shapes(reading.select("first")) == [[[8, 4], []]]
    assert shapes(reading.select("second")) == [None, [[2, 2]]]
    assert len(passes) == 1


def test_a_range_without_ops_needs_no_pass(read, passes):
    assert shapes(read([annotation("empty", 1000.0, 100.0)], "empty")) == []
    assert passes == []


def test_ops_of_both_formats_in_one_file_keep_their_inputs(read):
    """Two files that another tool merged: ops are told apart by their place among all ops."""
    events = [
        annotation("step", 1000.0, 100.0),
        op("aten::add", 1010.0, 10.0) | {"cat": "Operator", "args": {"Input dims": [[1]]}},
        op("aten::neg", 1030.0, 10.0) | {"args": {"Input Dims": [[2]]}},
        op("aten::mul", 1050.0, 10.0) | {"cat": "Operator", "args": {"Input dims": [[3]]}},
        op("aten::sin", 1070.0, 10.0) | {"args": {"Input Dims": [[4]]}},
    ]
    assert shapes(read(events, "step")) == [[[1]], [[2]], [[3]], [[4]]]
