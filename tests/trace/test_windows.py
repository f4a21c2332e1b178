"""Several windows of one process, each a file: read as one, and no time of one is that of another."""

import pytest

from kernelbook.trace import read_trace
from tests.trace import made_trace
from tests.trace.made_trace import annotation, kernel, launch, op, warned

HOUR = 3.6e9


def window(start, length, first=1, annotated="step"):
    """Two ranges of 100 µs with a matrix product each, whose kernel takes `length` µs."""
    events = []
    for number in (0, 1):
        at = start + 200 * number
        events += [
            annotation(annotated, at, 100), {**op("aten::mm", at + 5, 20), "args": {"Input Dims": [[number, first]]}},
            launch(first + number, at + 10), kernel("gemm", at + 30, length, first + number),
        ]  # fmt: skip
    return events


@pytest.fixture
def read_windows(tmp_path):
    def of(*windows):
        files = []
        for number, events in enumerate(windows):
            file = tmp_path / f"{number}.json"
            if isinstance(events, str):
                file.write_text(events)
            files.append(file if isinstance(events, str) else made_trace.write(file, events))
        return read_trace(files[0], "step", files[1:])

    return of


def figures(reading):
    return [(row["index"], row["kernels"], row["device_time_us"]) for row in reading.ranges.to_pylist()]


@pytest.mark.parametrize(
    "later", [1000, 1000.0 + 24 * HOUR, 0, 1000 - 50], ids=["same", "a day on", "from 0", "before"]
)
def test_ranges_and_sums_are_those_of_all_windows(read_windows, later):
    """Also where the windows use the same correlation ids, and times that overlap."""
    reading = read_windows(window(1000, 10), window(later, 30))
    assert figures(reading) == [(0, 1, 10.0), (1, 1, 10.0), (2, 1, 30.0), (3, 1, 30.0)]
    assert warned(reading) == {}
    totals = reading.totals
    assert (totals.kernels, totals.launches, totals.attributed, totals.device_time_us) == (4, 4, 4, 80.0)
    (gemm,) = reading.kernels.to_pylist()
    assert (gemm["count"], gemm["median_us"], gemm["min_us"], gemm["max_us"]) == (4, 20.0, 10.0, 30.0)
    starts = reading.ranges["start_us"].to_pylist()
    assert (starts[:2], starts[3] - starts[2]) == ([0.0, 200.0], 200.0)
    assert 0 < starts[2] - starts[1] < 200


def test_the_inputs_of_each_call_are_its_own(read_windows):
    _, calls = read_windows(window(0, 10), window(0, 30, first=7)).forwards()
    shapes = [[each["shape"] for each in row["inputs"]] for row in calls.to_pylist() if row["category"] == "op"]
    assert shapes == [[[0, 1]], [[1, 1]], [[0, 7]], [[1, 7]]]


def test_a_window_that_is_cut_short_leaves_the_others_whole(read_windows):
    """Of the second window its last kernel and launch are gone, so that no call after its ranges was read."""
    whole = made_trace.kineto(window(0, 30))
    reading = read_windows(window(0, 10), whole[: whole.rindex('"cudaLaunchKernel"')], window(0, 40))
    assert reading.truncated
    assert reading.incomplete.tolist() == [False, False, True, True, False, False]
    assert [kernels for _, kernels, _ in figures(reading)] == [1, 1, 1, 0, 1, 1]


def test_a_time_of_0_in_a_later_window_moves_nothing(read_windows):
    late = window(1.7e15, 30)
    late[-1]["ts"] = 0
    reading = read_windows(window(1.7e15, 10), late)
    assert (warned(reading), reading.totals.implausible_us) == ({"implausible": 1}, 30.0)
    assert reading.ranges["start_us"].to_pylist()[:2] == [0.0, 200.0]


def test_the_first_window_may_be_empty(read_windows):
    assert figures(read_windows([], window(1000, 10))) == [(0, 1, 10.0), (1, 1, 10.0)]
