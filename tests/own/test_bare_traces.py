"""A bare trace as a row: which range is its forward, and files that are no traces."""

import json

import pytest

from kernelbook.cases import case_facts
from kernelbook.config.loading import trace_case
from kernelbook.extraction.process_tables import Origin, tables_of
from kernelbook.judge.clock import clock_of

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
    assert (row["annotation"], row["forwards"], row["cpu_time_us"], row["bare"]) == ("step", 2, 41, True)


def test_or_the_one_that_the_configuration_names(row_of):
    row = row_of(TRACE, "loss")
    assert (row["annotation"], row["forwards"], row["cpu_time_us"]) == ("loss", 1, 30)


def test_a_name_that_the_trace_does_not_have_is_told(row_of):
    row = row_of(TRACE, "train")
    assert row["cpu_time_us"] is None
    assert "no range named 'train'" in row["warnings"][-1]["message"]


def test_steps_of_the_profiler_are_forwards_where_they_are_asked_for(row_of):
    assert "no range named 'ProfilerStep#1'" in row_of(TRACE, "ProfilerStep#1")["warnings"][-1]["message"]
    alone = json.dumps({"traceEvents": [span("ProfilerStep#1", 0, 5), span("ProfilerStep#2", 6, 5)]})
    codes = {note["code"]: note["message"] for note in row_of(alone)["warnings"]}
    assert "the trace has no annotated range" in codes["no_forwards"]
    assert codes["steps_alone"].startswith("the trace has 2 ProfilerStep# spans and no range")
    row = row_of(alone, "ProfilerStep#*")
    assert (row["annotation"], row["forwards"], row["cpu_time_us"]) == ("ProfilerStep#*", 2, 5)
    assert "steps_alone" not in {note["code"] for note in row["warnings"]}


def step(name, start, kernels, inner=()):
    """A range of 400 µs with kernels ((name, µs)) launched 10 µs after one another; inner: names of ranges in it."""
    events = [span(name, start, 400), *(span(each, start + 1 + 50 * place, 40) for place, each in enumerate(inner))]
    for place, (called, time) in enumerate(kernels):
        at, number = start + 5 + 10 * place, start + place
        shared = {"ph": "X", "args": {"correlation": number}}
        events.append(shared | {"cat": "cuda_runtime", "name": "launch", "pid": 1, "tid": 1, "ts": at, "dur": 2})
        events.append(shared | {"cat": "kernel", "name": called, "pid": 0, "tid": 7, "ts": at + 99, "dur": time})
    return events


PREFILL, DECODE = [("gemm", 50)] * 6 + [("argmax", 4)], [("gemm", 8)] * 3 + [("argmax", 4)]
SERVING = {"execute_1(256)_1(1)": PREFILL, "execute_0(0)_2(2)": DECODE, "execute_0(0)_3(3)": DECODE,
           "execute_1(64)_1(1)": PREFILL, "execute_0(0)_1(1)": DECODE}  # fmt: skip


@pytest.mark.parametrize("annotation", [None, "execute_*"])
def test_prefills_and_decodes_are_told_apart(tables_of_text, annotation):
    """Three decodes of four kernels and 28 µs, two prefills of seven and 304 µs."""
    events = [
        event for place, (name, kernels) in enumerate(SERVING.items()) for event in step(name, 1000 * place, kernels)
    ]
    tables = tables_of_text(json.dumps({"traceEvents": events}), annotation)
    (row,) = tables["case"].to_pylist()
    assert (row["annotation"], row["forwards"]) == (annotation or "execute_*(*)_*(*)", 5)
    assert (row["kernels"], row["device_time_us"]) == (4, 28)
    notes = {note["code"]: note for note in row["warnings"]}
    assert notes["several_kinds"]["count"] == 2
    assert notes["several_kinds"]["message"] == (
        "forwards did different work: 3 × 4 kernels, 28.0 µs of device time (0, 0, 2, 2; 0, 0, 3, 3; 0, 0, 1, 1); "
        "2 × 7 kernels, 304 µs of device time (1, 256, 1, 1; 1, 64, 1, 1); counts and times are those of the first kind"
    )
    assert "uneven" not in notes
    assert ("numbered_names" in notes) == (annotation is None)
    assert [(each["index"], each["kind"], each["label"]) for each in tables["ranges"].to_pylist()] == [
        (0, 1, "1, 256, 1, 1"), (1, 0, "0, 0, 2, 2"), (2, 0, "0, 0, 3, 3"), (3, 1, "1, 64, 1, 1"), (4, 0, "0, 0, 1, 1"),
    ]  # fmt: skip
    assert tables["activities"]["index"].to_pylist() == [0] * 7 + [1] * 4 + [2] * 4 + [3] * 7 + [4] * 4


def test_a_forward_is_the_outermost_range_of_its_name(tables_of_text):
    """Two forwards of three kernels and 9 µs, each with two wraps of the same name in it."""
    events = [event for start in (0, 1000) for event in step("fsdp", start, [("k", 3)] * 3, ["fsdp", "fsdp"])]
    tables = tables_of_text(json.dumps({"traceEvents": events}))
    (row,) = tables["case"].to_pylist()
    assert (row["annotation"], row["forwards"], row["kernels"], row["device_time_us"]) == ("fsdp", 2, 3, 9)
    ranges = tables["ranges"].to_pylist()
    assert [(each["level"], each["forward"]) for each in ranges] == [(0, True), (1, False), (1, False)] * 2
    assert [each["index"] for each in ranges if each["forward"]] == [0, 1]
    assert tables["activities"]["index"].to_pylist() == [0] * 3 + [1] * 3


def test_a_trace_alone_is_not_said_to_be_of_a_cpu_run(row_of):
    (note,) = (note for note in row_of(TRACE)["warnings"] if note["code"] == "no_launches")
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
    notes = {note["code"]: note for note in row["warnings"]}
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


def test_the_windows_of_a_process_are_one_row(tmp_path):
    """Forwards of 40 and 42 µs in the first, and of 50 in the second; a rank is missing."""
    files = [
        tmp_path / "node_1.1796008518075623954.pt.trace.json",
        tmp_path / "node_1.1796008519075623954.pt.trace.json",
    ]
    files[0].write_text(TRACE)
    files[1].write_text(json.dumps({"traceEvents": [span("step", 10, 50)]}))
    lacking = {"code": "missing_rank", "count": 1, "message": "1 of 2 ranks have no trace here: 1"}
    spec = trace_case("trace", None).measurement | {"warnings": [lacking]}
    row = tables_of(Origin("mine", "trace", 1, STATUS), spec, files[0], files[1:])["case"].to_pylist()[0]
    assert (row["forwards"], row["cpu_time_us"], row["trace_path"]) == (3, 42, files[0].as_posix())
    notes = {note["code"]: note for note in row["warnings"]}
    assert notes["missing_rank"] == lacking
    assert "the process wrote 2 windows" in notes["windows"]["message"]


def test_a_kernel_at_0_is_in_the_figures_and_on_no_lane(tables_of_text):
    """Two kernels of 10 µs, of which the first has no time: 20 µs of device time, 10 of which are impossible."""
    start, events = 1.7e15, [span("step", 1.7e15, 50)]
    for number in (1, 2):
        args = {"correlation": number, "device": 0, "stream": 7}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start + number, "dur": 1}
        work = {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": (number - 1) * (start + 20), "dur": 10}
        events += [{"ph": "X", "args": args} | call, {"ph": "X", "args": args} | work]
    tables = tables_of_text(json.dumps({"traceEvents": events}))
    row = tables["case"].to_pylist()[0]
    assert (row["forwards"], row["kernels"], row["device_time_us"]) == (1, 2, 20)
    assert row["totals"]["implausible_us"] == 10
    assert tables["activities"]["start_us"].to_pylist() == [None, 20.0]
    named = {name: table for name, table in tables.items() if name != "case"} | {"cases": tables["case"]}
    (facts,) = case_facts(named).values()
    assert [activity.start_us for activity in facts.forwards[0].activities] == [None, 20.0]
    assert clock_of(facts).device_gaps_us == 0.0
