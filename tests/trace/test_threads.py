"""Work of autograd's own threads, and the annotations of other threads that were open around it."""

import pytest
from made_trace import annotation, kernel, launch, op

MAIN, AUTOGRAD, LOADER = 1, 2, 3


def backward(start, correlation, tid=AUTOGRAD, **more):
    return [
        op("MmBackward0", start, 20, tid=tid, **more), op("aten::mm", start + 2, 15, tid=tid, **more),
        launch(correlation, start + 5, 3, tid=tid, **more), kernel("gemm", start + 30, 8, correlation),
    ]  # fmt: skip


def test_backward_belongs_to_the_op_of_its_own_thread_and_to_the_open_range_of_another(read):
    events = [
        annotation("train", 0, 100), op("aten::linear", 10, 10), launch(1, 12, 3), kernel("gemm", 20, 5, 1),
        *backward(50, 2),
    ]  # fmt: skip
    reading = read(events)
    (step,) = reading.ranges.to_pylist()
    assert (step["kernels"], step["launches"], step["device_time_us"], step["inferred"]) == (2, 2, 13.0, True)
    assert reading.activities["op_path"].to_pylist() == ["aten::linear", "MmBackward0 > aten::mm"]
    assert reading.activities["inferred"].to_pylist() == [False, True]
    activities, calls = reading.forwards("train")
    assert activities.num_rows == 2
    assert calls["name"].to_pylist() == ["aten::linear", "cudaLaunchKernel"]


def test_figures_of_the_own_thread_are_not_inferred(read):
    (step,) = read([annotation("s", 0, 50), launch(1, 5), kernel("k", 10, 1, 1)]).ranges.to_pylist()
    assert step["inferred"] is False


@pytest.mark.parametrize("start", [0, 60, 85])
def test_only_a_range_that_was_open_around_the_launch(read, start):
    """The launch lies at 65 to 68: before, within or after the range."""
    reading = read([annotation("s", start, 20), *backward(60, 1)])
    (step,) = reading.ranges.to_pylist()
    assert (step["kernels"], step["inferred"]) == ((1, True) if start == 60 else (0, False))


def test_a_nearer_range_on_the_own_thread_wins(read):
    events = [annotation("train", 0, 100), annotation("hook", 55, 30, tid=AUTOGRAD), *backward(60, 1)]
    train, hook = read(events).ranges.to_pylist()
    assert (train["annotation"], train["kernels"], train["inferred"]) == ("train", 0, False)
    assert (hook["annotation"], hook["kernels"], hook["inferred"]) == ("hook", 1, False)


def test_a_profiler_step_is_no_range(read):
    """Neither on the own thread nor on another."""
    events = [annotation("ProfilerStep#2", 0, 200), annotation("train", 0, 100), *backward(60, 1)]
    events.append(annotation("ProfilerStep#2", 50, 40, tid=AUTOGRAD))
    (train,) = read(events).ranges.to_pylist()
    assert (train["kernels"], train["inferred"]) == (1, True)


def test_the_innermost_open_range_and_all_around_it(read):
    events = [annotation("outer", 0, 200), annotation("inner", 50, 50), annotation("past", 10, 20), *backward(60, 1)]
    found = {row["annotation"]: (row["kernels"], row["inferred"]) for row in read(events).ranges.to_pylist()}
    assert found == {"outer": (1, True), "inner": (1, True), "past": (0, False)}


def test_of_two_other_threads_the_range_that_began_last(read):
    events = [annotation("train", 0, 200), annotation("load", 50, 100, tid=LOADER), *backward(60, 1)]
    found = {row["annotation"]: row["kernels"] for row in read(events).ranges.to_pylist()}
    assert found == {"train": 0, "load": 1}


def test_a_range_of_another_process_is_never_taken(read):
    (train,) = read([annotation("train", 0, 200, pid=7), *backward(60, 1)]).ranges.to_pylist()
    assert (train["kernels"], train["inferred"]) == (0, False)


def test_no_kernel_is_lost_without_any_range(read):
    reading = read(backward(60, 1))
    assert (reading.totals.attributed, reading.activities["op"].to_pylist()) == (1, ["aten::mm"])
    assert reading.activities["range"].to_pylist() == [None]
