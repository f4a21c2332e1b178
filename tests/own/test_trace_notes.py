"""Notes about what is unusual in a bare trace, on small traces written by hand."""

import json

import pytest

from kernelbook.extraction.trace_notes import trace_notes
from kernelbook.trace import read_trace


def event(category, name, start, length, thread=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": thread, "ts": start, "dur": length, "args": args}


def launch(api, start, correlation, category="cuda_runtime"):
    return event(category, api, start, 2, correlation=correlation)


def kernel(start, correlation, stream=7):
    return event("kernel", "k", start, 5, stream, device=0, stream=stream, correlation=correlation)


@pytest.fixture
def notes_of(tmp_path):
    def notes(events, whole=None):
        file = tmp_path / "trace.json"
        file.write_text(json.dumps(whole if whole is not None else {"schemaVersion": 1, "traceEvents": events}))
        return {note.code: note for note in trace_notes(read_trace(file))}

    return notes


OP = event("cpu_op", "aten::mm", 0, 10)


def test_an_ordinary_trace_has_no_notes(notes_of):
    assert notes_of([OP, launch("cudaLaunchKernel", 1, 1), kernel(20, 1)]) == {}


def test_a_launch_with_several_activities_is_a_graph(notes_of):
    notes = notes_of([OP, launch("cudaGraphLaunch", 1, 1), kernel(20, 1), kernel(30, 1), kernel(40, 1)])
    assert notes["graph_launches"].count == 1
    said = "1 launch starts several activities, up to 3: a graph launch, counted once"
    assert notes["graph_launches"].message == said


def test_streams_are_counted_and_overlap_explained(notes_of):
    notes = notes_of([OP, launch("cudaLaunchKernel", 1, 1), kernel(20, 1), launch("x", 4, 2), kernel(21, 2, stream=9)])
    assert notes["several_streams"].count == 2


def test_a_trace_without_ops_says_that_the_launcher_is_unknown(notes_of):
    notes = notes_of([launch("hipLaunchKernel", 1, 1), kernel(20, 1)])
    assert set(notes) == {"no_ops"}


def test_a_rank_says_which_it_is_and_of_how_many(notes_of):
    whole = {"distributedInfo": {"rank": 3, "world_size": 16}, "traceEvents": [OP]}
    assert notes_of(None, whole)["rank"].message == "the trace is that of rank 3 of a job with 16 ranks"
    assert notes_of(None, whole | {"distributedInfo": {"rank": 0, "world_size": 1}}) == {}


def test_driver_launches_are_named(notes_of):
    notes = notes_of([OP, launch("cuLaunchKernel", 1, 1, "cuda_driver"), kernel(20, 1)])
    message = notes["driver_launches"].message
    assert "1 kernel was launched through the driver (cuLaunchKernel)" in message
    assert "cuBLAS" in message  # whose Hopper kernels are launched so, too


@pytest.mark.parametrize("category", ["Operator", "Kernel", "Memcpy", "Memset", "Runtime"])
@pytest.mark.parametrize("whole", [lambda events: events, lambda events: {"traceEvents": events}])
def test_old_categories_tell_an_old_trace(notes_of, category, whole):
    """Also far from the start of the file."""
    events = [event("cpu_op", f"aten::op{i}", 20 * i, 10) for i in range(2000)]
    notes = notes_of(None, whole([*events, event(category, "aten::mm", 90000, 10)]))
    message = notes["old_schema"].message
    assert category in message
    assert ("bare array" in message) is isinstance(whole([]), list)


@pytest.mark.parametrize("whole", [lambda events: events, lambda events: {"traceEvents": events}])
def test_names_of_old_categories_elsewhere_tell_nothing(notes_of, whole):
    names = [event("cpu_op", name, 20 * i, 10, kind="Runtime") for i, name in enumerate(["Kernel", "Operator"])]
    assert notes_of(None, whole(names)) == {}


STEP, RANGE = event("user_annotation", "ProfilerStep#1", 0, 90), event("user_annotation", "replay", 0, 50)


@pytest.mark.parametrize("around", [[], [STEP], [STEP, RANGE]])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("api", ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"])
def test_a_graph_replay_lacks_no_ops(notes_of, around, nodes, api):
    kernels = [kernel(30 + 10 * i, 1) for i in range(nodes)]
    assert "no_ops" not in notes_of([*around, launch(api, 3, 1), *kernels])


def test_the_reason_for_missing_ops_is_only_given_where_it_is_known(notes_of):
    alone = notes_of([launch("cudaLaunchKernel", 3, 1), kernel(30, 1)])
    inside = notes_of([RANGE, launch("cudaLaunchKernel", 3, 1), kernel(30, 1)])
    unknown = notes_of([kernel(30, 1)])
    assert ["ProfilerActivity.CPU" in found["no_ops"].message for found in (alone, inside, unknown)] == [
        True, False, True,
    ]  # fmt: skip


def ranges(*spans):
    """Ranges ((name, start, length, thread)), each with the launch of one kernel of its own in it."""
    events = [OP]
    for number, (name, start, length, thread) in enumerate(spans):
        events.append(event("user_annotation", name, start, length, thread))
        events.append(event("cuda_runtime", "launch", start + 1, 2, thread, correlation=number))
        ids = {"device": 0, "stream": 7, "correlation": number}
        events.append(event("kernel", name.rstrip("2"), 1000 + 10 * number, 5, 7, **ids))
    return events


def test_names_that_differ_in_numbers_are_said_to_be_taken_together(notes_of):
    notes = notes_of(ranges(*((f"step_{'2' * n}", 100 * n, 50, 1) for n in (1, 2, 3))))
    assert notes["numbered_names"].message == (
        "3 names of ranges differ in numbers alone and are taken together: step_* (3 names)"
    )
    assert notes["numbered_names"].count == 3


def test_or_kept_apart(notes_of):
    notes = notes_of(ranges(("stage_1", 0, 50, 1), ("stage_2", 100, 50, 1), ("stage_1", 200, 50, 1)))
    assert notes["numbered_apart"].message.startswith("2 names of ranges differ in numbers alone and are kept apart")
    assert notes["numbered_apart"].message.endswith(": stage_* (2 names)")


def test_work_of_a_range_of_another_thread_inside_the_forward_is_said_not_to_be_the_forwards(notes_of):
    notes = notes_of(ranges(("train", 0, 200, 1), ("preload", 50, 50, 2), ("evaluate", 120, 50, 2)))
    assert notes["ranges_beside"].message == (
        "2 ranges of other threads (preload, evaluate) ran inside train: 2 kernels in them count for them alone"
    )
    assert "ranges_beside" not in notes_of(ranges(("train", 0, 200, 1), ("inner", 50, 50, 1)))


def test_a_launch_of_several_activities_is_a_graph_only_by_its_name(notes_of):
    notes = notes_of([OP, launch("cudaLaunchKernelMultiDevice", 1, 1), kernel(20, 1), kernel(30, 1, stream=7)])
    assert notes["graph_launches"].message == "1 launch starts several activities, up to 2: counted once"


def test_streams_of_several_devices_are_added_up(notes_of):
    other = event("kernel", "k", 21, 5, 7, device=1, stream=7, correlation=2)
    notes = notes_of([OP, launch("cudaLaunchKernel", 1, 1), kernel(20, 1), launch("cudaLaunchKernel", 4, 2), other])
    assert notes["several_streams"].message.endswith("an overlap on one device once, and adds up the devices")


def test_libraries_are_those_of_the_vendor(notes_of):
    notes = notes_of([OP, launch("hipModuleLaunchKernel", 1, 1), kernel(20, 1)])
    assert "(hipBLASLt, MIOpen)" in notes["driver_launches"].message
