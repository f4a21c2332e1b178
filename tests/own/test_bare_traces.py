"""A bare trace as a row: what is taken for its forward, and files that are no traces."""

import json

import pytest

from kernelbook.case_tables import Origin, tables_of
from kernelbook.config import trace_case

STATUS = {"status": "ok", "reason": None, "image_digest": None}


def span(name, start, length):
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}


@pytest.fixture
def tables_of_text(tmp_path):
    def tables(text, annotation=None):
        file = tmp_path / "step.pt.trace.json"
        file.write_text(text)
        return tables_of(Origin("mine", "step", 1, STATUS), trace_case("step", annotation).measurement, file)

    return tables


@pytest.fixture
def row_of(tables_of_text):
    return lambda text, annotation=None: tables_of_text(text, annotation)["case"].to_pylist()[0]


TRACE = json.dumps(
    {"traceEvents": [span("load", 0, 5), span("step", 10, 40), span("loss", 12, 30), span("step", 60, 42)]}
)


def test_the_forward_is_the_outer_range_that_takes_longest(row_of):
    row = row_of(TRACE)
    assert (row["annotation"], row["forwards"], row["cpu_time_us"]) == ("step", 2, 41)


def test_or_the_one_that_the_configuration_names(row_of):
    row = row_of(TRACE, "loss")
    assert (row["annotation"], row["forwards"], row["cpu_time_us"]) == ("loss", 1, 30)


def test_a_name_that_the_trace_does_not_have_is_told(row_of):
    row = row_of(TRACE, "train")
    assert row["cpu_time_us"] is None
    assert "no range named 'train'" in row["warnings"]


def test_steps_of_the_profiler_are_said_to_be_no_ranges(row_of):
    assert "(ProfilerStep# spans are not ranges)" in row_of(TRACE, "ProfilerStep#1")["warnings"]
    alone = json.dumps({"traceEvents": [span("ProfilerStep#1", 0, 5), span("ProfilerStep#2", 6, 5)]})
    codes = {note["code"]: note["message"] for note in json.loads(row_of(alone)["warnings"])}
    assert "the trace has no annotated range" in codes["no_forwards"]
    assert codes["steps_alone"].startswith("the trace has 2 ProfilerStep# spans and no range")


def test_a_trace_alone_is_not_said_to_be_of_a_cpu_run(row_of):
    (note,) = (note for note in json.loads(row_of(TRACE)["warnings"]) if note["code"] == "no_launches")
    assert "a CPU run, or recorded without the device's activities" in note["message"]


def test_forwards_that_a_cut_left_incomplete_are_left_out_and_counted(tables_of_text):
    """Three forwards of two kernels each, of which the file has the first and a half of the second."""
    events, pairs = [span("step", 100 * place, 50) for place in range(3)], []
    for number in range(1, 4):
        start = 100 * ((number - 1) // 2) + 20 - 10 * (number % 2)
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start, "dur": 2}
        kernel = {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start + 20, "dur": 6, "args": {"device": 0}}
        pairs += [{"ph": "X", "args": {}} | event for event in (kernel, launch)]
        for event in pairs[-2:]:
            event["args"] = event["args"] | {"correlation": number}
    events += [span("inner", 5, 30), span("inner", 105, 30)]
    tables = tables_of_text(json.dumps({"traceEvents": events + pairs}).removesuffix("]}"), "step")
    shown = [(part["annotation"], part["kernels"], part["parent"]) for part in tables["ranges"].to_pylist()]
    assert shown == [("step", 2, None), ("inner", 2, 0)]
    row = tables["case"].to_pylist()[0]
    assert (row["forwards"], row["kernels"], row["device_time_us"]) == (1, 2, 12)
    notes = {note["code"]: note for note in json.loads(row["warnings"])}
    assert notes["cut_forwards"]["count"] == 2
    assert "uneven" not in notes


@pytest.mark.parametrize(
    ("text", "words"), [("{}", "an empty JSON object"), ('{"name": "x"}', "the keys 'name'"), ("", "empty")]
)
def test_a_file_that_is_no_trace_is_a_failed_row_with_the_reason(row_of, text, words):
    row = row_of(text)
    assert row["status"] == "failed"
    assert "the trace cannot be read" in row["reason"]
    assert words in row["reason"]
