"""Work of autograd's own threads, and the annotations of other threads that were open around it."""

import pytest

from tests.trace.made_trace import annotation, kernel, launch, op

MAIN, AUTOGRAD, LOADER = 1, 2, 3


def calls_of(reading):
    """The CPU rows of each forward: (name, depth, parent, thread)."""
    _, calls = reading.forwards()
    found = {}
    for row in calls.to_pylist():
        assert row["inferred"] == (row["thread"] > 0)
        assert row["position"] == len(found.setdefault(row["index"], []))
        found[row["index"]].append((row["name"], row["depth"], row["parent"], row["thread"]))
    return found


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
    assert reading.activities["op_path"].to_pylist() == [["aten::linear"], ["MmBackward0", "aten::mm"]]
    assert reading.activities["inferred"].to_pylist() == [False, True]
    activities, calls = reading.forwards()
    assert activities.num_rows == 2
    assert calls["name"].to_pylist() == [
        *("aten::linear", "cudaLaunchKernel"), *("MmBackward0", "aten::mm", "cudaLaunchKernel")
    ]  # fmt: skip
    assert calls["inferred"].to_pylist() == [False, False, True, True, True]


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


def test_rows_of_another_thread_keep_their_nesting(read):
    events = [
        annotation("train", 0, 100), annotation("backward", 20, 60), op("aten::ones_like", 22, 4),
        op("MmBackward0", 30, 30, tid=AUTOGRAD), op("aten::mm", 32, 20, tid=AUTOGRAD),
        op("aten::t", 33, 2, tid=AUTOGRAD), op("aten::add_", 70, 5, tid=AUTOGRAD), op("aten::copy_", 40, 5, tid=LOADER),
    ]  # fmt: skip
    assert calls_of(read(events, "train")) == {
        0: [
            ("backward", 0, None, 0),
            ("aten::ones_like", 1, 0, 0),
            ("MmBackward0", 0, None, 1),
            ("aten::mm", 1, 2, 1),
            ("aten::t", 2, 3, 1),
            ("aten::copy_", 0, None, 2),
            ("aten::add_", 0, None, 1),
        ]
    }
    _, calls = read(events).forwards()
    assert calls["self_us"].to_pylist() == [56, 4, 10, 18, 2, 5, 5]  # less the children on the same thread alone
    assert read(events).ranges["cpu_time_us"].to_pylist() == [100, 60]  # the time of other threads is no part of it


def test_a_row_that_is_only_partly_inside_is_left_out_and_what_ran_inside_is_kept(read):
    events = [
        annotation("train", 10, 80),
        op("began_before", 5, 20, tid=AUTOGRAD), op("inside_it", 12, 5, tid=AUTOGRAD),
        op("ended_after", 80, 15, tid=AUTOGRAD), op("still_inside", 82, 4, tid=AUTOGRAD),
        op("ended_within_a_microsecond", 60, 30.9, tid=LOADER), op("ended_later_than_that", 61, 30.1, tid=4),
    ]  # fmt: skip
    names = [row[:3] for row in calls_of(read(events, "train"))[0]]
    assert names == [
        ("inside_it", 0, None),
        ("ended_within_a_microsecond", 0, None),
        ("still_inside", 0, None),
    ]


def test_two_threads_with_the_same_range_open_share_the_work_of_a_third_by_which_began_last(read):
    """Two replicas of one process, and autograd threads that serve both."""
    events = [
        annotation("train", 0, 100, tid=11), op("forward", 1, 5, tid=11),
        annotation("train", 40, 100, tid=12), op("forward", 41, 5, tid=12),
        op("early", 20, 5, tid=AUTOGRAD), op("late", 60, 5, tid=AUTOGRAD), op("latest", 120, 5, tid=AUTOGRAD),
    ]  # fmt: skip
    found = calls_of(read(events, "train"))
    assert [row[0] for row in found[0]] == ["forward", "early"]
    assert [row[0] for row in found[1]] == ["forward", "late", "latest"]


@pytest.mark.parametrize("first", [11, 12])
def test_of_ranges_that_began_at_once_the_shorter_one(read, first):
    """Whichever comes first in the file."""
    events = [annotation("train", 0, 100 if tid == 11 else 90, tid=tid) for tid in (first, 23 - first)]
    found = read([*events, *backward(60, 1)]).ranges.to_pylist()
    assert {row["tid"]: row["kernels"] for row in found} == {11: 0, 12: 1}


def test_rows_of_a_range_of_the_own_thread_are_not_those_of_another(read):
    events = [
        annotation("train", 0, 100), op("aten::mul", 5, 5),
        annotation("evaluate", 50, 20, tid=AUTOGRAD), op("aten::add", 52, 5, tid=AUTOGRAD),
    ]  # fmt: skip
    assert [row[0] for row in calls_of(read(events, "train"))[0]] == ["aten::mul"]
    assert calls_of(read(events, "evaluate")) == {0: [("aten::add", 0, None, 0)]}


OF_TORCH = (
    "nccl:all_reduce",
    "FSDP::post_backward_reduce (1)",
    "Optimizer.step#SGD.step",
    "## Call CompiledFxGraph f1",
)


@pytest.mark.parametrize("name", OF_TORCH)
def test_a_range_that_torch_opens_on_another_thread_is_part_of_the_forward(read, name):
    """A collective in backward, in a range of torch's that is inside another one."""
    events = [
        annotation("train", 0, 100), annotation("backward", 20, 60), op("aten::mul", 5, 5), launch(1, 6),
        kernel("mul", 12, 5, 1), annotation(name, 40, 30, tid=AUTOGRAD),
        annotation("nccl:reduce_scatter", 45, 20, tid=AUTOGRAD), op("c10d::reduce", 46, 10, tid=AUTOGRAD),
        launch(2, 50, tid=AUTOGRAD), kernel("ncclDevKernel", 300, 8, 2),
        annotation("train", 400, 50),
    ]  # fmt: skip
    reading = read(events, "train")
    rows = {(row["annotation"], row["index"]): row for row in reading.ranges.to_pylist()}
    assert [rows["train", number]["kernels"] for number in (0, 1)] == [2, 0]
    assert [rows["train", number]["inferred"] for number in (0, 1)] == [True, False]
    assert (rows["backward", 0]["kernels"], rows["backward", 0]["device_time_us"]) == (1, 8)
    assert (rows[name, 0]["kernels"], rows[name, 0]["inferred"]) == (1, False)
    activities, _ = reading.forwards()
    assert [(row["name"], row["index"], row["inferred"]) for row in activities.to_pylist()] == [
        ("mul", 0, False), ("ncclDevKernel", 0, True)
    ]  # fmt: skip
    assert calls_of(reading)[0] == [
        ("aten::mul", 0, None, 0), ("cudaLaunchKernel", 1, 0, 0), ("backward", 0, None, 0), (name, 0, None, 1),
        ("nccl:reduce_scatter", 1, 3, 1), ("c10d::reduce", 2, 4, 1), ("cudaLaunchKernel", 3, 5, 1),
    ]  # fmt: skip
    assert reading.tables()["activities"]["range"].to_pylist() == [0, 0]
    assert reading.beside_forwards().size == 0


def test_ranges_of_torch_on_two_threads_at_once_are_both_of_the_step_and_not_of_each_other(read):
    events = [annotation("train", 0, 100)]
    for number, thread in enumerate((AUTOGRAD, LOADER), start=1):
        events += [
            annotation("nccl:all_reduce", 10 + number, 40 - 2 * number, tid=thread),
            launch(number, 20, tid=thread), kernel("ncclDevKernel", 100, 5, number, stream=number),
        ]  # fmt: skip
    assert [row["kernels"] for row in read(events).ranges.to_pylist()] == [2, 1, 1]


def test_a_range_of_torch_that_began_with_a_range_or_is_in_none_of_another_thread(read):
    """Equal times on two threads must not put each inside the other."""
    both = [annotation(name, 0, 100, tid=tid) for tid in (MAIN, AUTOGRAD) for name in ("nccl:all_reduce", "step")]
    reading = read([*both, launch(1, 5, tid=AUTOGRAD), kernel("ncclDevKernel", 100, 5, 1)])
    assert sum(row["kernels"] for row in reading.ranges.to_pylist() if row["tid"] == AUTOGRAD) == 2
    late = [annotation("train", 0, 50), annotation("nccl:all_reduce", 40, 20, tid=AUTOGRAD)]
    reading = read([*late, launch(1, 45, tid=AUTOGRAD), kernel("ncclDevKernel", 100, 5, 1)])
    assert [row["kernels"] for row in reading.ranges.to_pylist()] == [0, 1]


def test_ranges_of_other_threads_inside_a_forward_are_told_apart_from_it(read):
    """Work of its own. Others began before the step, or are of another process or of the step's own thread."""
    events = [
        annotation("train", 100, 100), annotation("backward", 110, 80), annotation("inner", 120, 5),
        annotation("evaluate", 130, 20, tid=AUTOGRAD), annotation("nested", 132, 5, tid=AUTOGRAD),
        annotation("early", 90, 20, tid=LOADER), annotation("elsewhere", 130, 20, tid=4, pid=7),
        launch(1, 135, tid=AUTOGRAD), kernel("gemm", 300, 8, 1),
    ]  # fmt: skip
    reading = read(events, "train")
    beside = reading.beside_forwards().to_rows()
    assert [(row["annotation"], row["kernels"]) for row in beside] == [("evaluate", 1)]
    assert [row["kernels"] for row in reading.ranges.to_pylist() if row["forward"]] == [0]
    assert read(events, "nothing").beside_forwards().size == 0


def test_rows_of_another_process_are_never_taken(read):
    events = [annotation("train", 0, 100), op("aten::mul", 5, 5), op("aten::add", 20, 5, pid=7, tid=1)]
    assert [row[0] for row in calls_of(read(events, "train"))[0]] == ["aten::mul"]


def test_a_range_inside_one_of_its_name_is_part_of_the_forward(read):
    """FSDP names every wrap alike: one forward has all of it, and is numbered among the forwards."""
    events = []
    for start in (0, 200):
        events += [
            annotation("fsdp", start, 100), op("aten::embedding", start + 1, 5),
            annotation("fsdp", start + 10, 40), op("aten::mm", start + 12, 20), launch(start + 1, start + 13),
            annotation("fsdp", start + 20, 5), kernel("gemm", start + 30, 8, start + 1),
        ]  # fmt: skip
    reading = read(events)
    inside = [("aten::embedding", 0), ("fsdp", 0), ("aten::mm", 1), ("cudaLaunchKernel", 2), ("fsdp", 2)]
    found = calls_of(reading)
    assert {index: [row[:2] for row in rows] for index, rows in found.items()} == {0: inside, 1: inside}
    activities, _ = reading.forwards()
    assert activities["index"].to_pylist() == [0, 1]
