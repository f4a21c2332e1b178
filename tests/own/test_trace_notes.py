"""What a bare trace is said to be peculiar for, on small traces written by hand."""

import json

import pytest

from kernelbook.trace import read_trace
from kernelbook.trace_notes import trace_notes


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
        return {note["code"]: note for note in trace_notes(file, read_trace(file))}

    return notes


OP = event("cpu_op", "aten::mm", 0, 10)


def test_an_ordinary_trace_has_no_notes(notes_of):
    assert notes_of([OP, launch("cudaLaunchKernel", 1, 1), kernel(20, 1)]) == {}


def test_a_launch_with_several_activities_is_a_graph(notes_of):
    notes = notes_of([OP, launch("cudaGraphLaunch", 1, 1), kernel(20, 1), kernel(30, 1), kernel(40, 1)])
    assert notes["graph_launches"]["count"] == 1
    said = "1 launch starts several activities, up to 3: a graph launch, counted once"
    assert notes["graph_launches"]["message"] == said


def test_streams_are_counted_and_overlap_explained(notes_of):
    notes = notes_of([OP, launch("cudaLaunchKernel", 1, 1), kernel(20, 1), launch("x", 4, 2), kernel(21, 2, stream=9)])
    assert notes["several_streams"]["count"] == 2


def test_a_trace_without_ops_says_that_the_launcher_is_unknown(notes_of):
    notes = notes_of([launch("hipLaunchKernel", 1, 1), kernel(20, 1)])
    assert set(notes) == {"no_ops"}


def test_a_rank_says_which_it_is_and_of_how_many(notes_of):
    whole = {"distributedInfo": {"rank": 3, "world_size": 16}, "traceEvents": [OP]}
    assert notes_of(None, whole)["rank"]["message"] == "the trace is that of rank 3 of a job with 16 ranks"
    assert notes_of(None, whole | {"distributedInfo": {"rank": 0, "world_size": 1}}) == {}


def test_driver_launches_are_named(notes_of):
    notes = notes_of([OP, launch("cuLaunchKernel", 1, 1, "cuda_driver"), kernel(20, 1)])
    message = notes["driver_launches"]["message"]
    assert "1 kernel was launched through the driver (cuLaunchKernel)" in message
    assert "cuBLAS" in message  # whose Hopper kernels are launched so, too


@pytest.mark.parametrize(
    "whole",
    [[event("Operator", "aten::mm", 0, 10)], {"traceEvents": [event("Operator", "aten::mm", 0, 10)]}],
    ids=["array", "categories"],
)
def test_files_of_old_versions_are_said_to_be_old(notes_of, whole):
    assert "old_schema" in notes_of(None, whole)
