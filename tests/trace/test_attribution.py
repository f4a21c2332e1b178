"""Attribution and counting: each kind of trouble with a trace as small as it can be."""

import pyarrow as pa
import pytest

from kernelbook.cases import Activity, Call
from kernelbook.cases.records import meanings
from kernelbook.trace import rows
from tests.trace.made_trace import activity, annotation, forward, kernel, launch, memcpy, memset, op, row, warned

NONE_OF_IT = {"kernels": None, "memcpys": None, "memsets": None, "launches": None, "attributed": None}
NONE_OF_IT |= {"unattributed": None, "device_time_us": None, "device_busy_us": None, "implausible_us": None}


def ops_of(reading):
    return {row["name"]: row for row in reading.ops.to_pylist()}


def test_a_sound_forward(read):
    reading = read(forward())
    assert reading.device == "Made GPU"
    assert warned(reading) == {}
    assert vars(reading.totals) == {
        "kernels": 2, "memcpys": 0, "memsets": 1, "launches": 3, "attributed": 3, "unattributed": 0,
        "device_time_us": 31.0, "device_busy_us": 31.0, "implausible_us": 0.0,
    }  # fmt: skip
    (step,) = reading.ranges.to_pylist()
    assert step == {
        "annotation": "step", "index": 0, "kernels": 2, "memcpys": 0, "memsets": 1, "launches": 3,
        "cpu_time_us": 100.0, "device_time_us": 31.0, "device_busy_us": 31.0, "inferred": False, "start_us": 0.0,
        "parent": None, "pid": 100, "tid": 1, "group": "step", "label": None, "level": 0, "kind": 0, "forward": True,
    }  # fmt: skip
    linear, addmm, relu = (ops_of(reading)[name] for name in ("aten::linear", "aten::addmm", "aten::relu"))
    assert linear == {
        "name": "aten::linear", "count": 1, "cpu_time_us": 40.0, "self_cpu_time_us": 10.0, "device_time_us": 21.0,
        "self_device_time_us": 0.0, "kernels": 1,
    }  # fmt: skip
    assert (addmm["self_cpu_time_us"], addmm["self_device_time_us"]) == (30 - 3 - 5, 21.0)
    assert (relu["self_cpu_time_us"], relu["device_time_us"], relu["kernels"]) == (14.0, 10.0, 1)


def test_activities_in_order_of_start(read):
    memset_row, gemm, relu = read(forward()).activities.to_pylist()
    assert (memset_row["category"], memset_row["bytes"], memset_row["launch_api"]) == ("memset", 64, "cudaMemsetAsync")
    assert gemm["op"] == "aten::addmm"
    assert gemm["op_path"] == ["aten::linear", "aten::addmm"]
    assert (gemm["launch_start_us"], gemm["launch_duration_us"], gemm["launch_delay_us"]) == (20.0, 5.0, 12.0)
    assert (gemm["start_us"], gemm["duration_us"], gemm["device"], gemm["stream"]) == (32.0, 20.0, 0, 7)
    assert (gemm["range"], gemm["graph"], gemm["correlation"], relu["name"]) == (0, False, 2, "relu")


def test_launch_parameters(read):
    args = {"grid": [2, 66, 1], "block": [384, 1, 1], "registers per thread": 168, "shared memory": 213188}
    event = kernel("gemm", 5, 1, 1, **args)
    event["args"]["est. achieved occupancy %"] = 12
    found = read([launch(1, 0), event, kernel("bare", 9, 1, 1)]).activities.to_pylist()
    names = ("grid", "block", "registers_per_thread", "shared_memory_bytes", "occupancy_percent", "bytes")
    assert [found[0][name] for name in names] == [[2, 66, 1], [384, 1, 1], 168, 213188, 12.0, None]
    assert [found[1][name] for name in names] == [None] * 6


def test_annotation_spans_on_the_gpu_are_no_work(read):
    with_span = read([*forward(), activity("gpu_user_annotation", "step", 1030, 50, None)])
    assert with_span.totals == read(forward()).totals
    assert with_span.activities.num_rows == 3


@pytest.mark.parametrize("synchronised", [False, True])
def test_a_cpu_run_has_no_device_figures(read, synchronised):
    """The profiler itself waits for the device at the end, also where nothing ran on it."""
    wait = [launch(1, 90, 5, "cudaDeviceSynchronize")] if synchronised else []
    reading = read([annotation("step", 0, 100), op("aten::add", 1, 5), *wait])
    assert warned(reading) == {"no_launches": 0}
    assert vars(reading.totals) == NONE_OF_IT
    (step,) = reading.ranges.to_pylist()
    figures = ("kernels", "memcpys", "memsets", "launches", "device_time_us", "device_busy_us")
    assert [step[name] for name in figures] == [None] * 6
    (add,) = reading.ops.to_pylist()
    assert (add["count"], add["device_time_us"], add["self_device_time_us"], add["kernels"]) == (1, None, None, None)


def test_launches_without_activities_are_another_trouble(read):
    reading = read([op("aten::add", 1, 50), launch(1, 10), launch(2, 20), row("cuda_profiler_range", "add", 20, 3)])
    assert warned(reading) == {"launches_without_activities": 2}
    assert vars(reading.totals) == NONE_OF_IT


def test_calls_that_launch_nothing_are_no_launches(read):
    """A CPU run in a process that has set up its GPU."""
    names = ("cudaMalloc", "cudaGetDeviceCount", "cudaStreamIsCapturing", "cudaDeviceSynchronize")
    reading = read([op("aten::add", 1, 50), *(launch(n, 10 + 5 * n, 2, name) for n, name in enumerate(names))])
    assert warned(reading) == {"no_launches": 0}


def test_activities_without_a_correlation_id_are_not_said_to_lack_their_launch(read):
    reading = read([*forward(), kernel("k", 1200, 5, None), kernel("k", 1300, 5, 999)])
    (warning,) = reading.warnings
    text = (
        "2 device activities could not be joined to a launch (1 without a correlation id): they count "
        "in the totals, but in no range"
    )
    assert (warning.code, warning.message) == ("unattributed", text)


def test_zero_means_there_was_activity_elsewhere(read):
    first, _ = read([*forward(), annotation("idle", 2000, 10)]).ranges.to_pylist()[::-1]
    assert (first["annotation"], first["kernels"], first["device_time_us"], first["device_busy_us"]) == (
        "idle",
        0,
        0,
        0,
    )


def test_one_graph_launch_with_many_activities(read):
    graph = [annotation("step", 0, 100), op("replay", 1, 50), launch(9, 10, 5, "cudaGraphLaunch")]
    reading = read([*graph, *(kernel(f"k{i}", 20 + i, 1, 9) for i in range(5)), memcpy(30, 2, 9)])
    totals = reading.totals
    assert (totals.kernels, totals.memcpys, totals.launches, totals.attributed) == (5, 1, 1, 6)
    (step,) = reading.ranges.to_pylist()
    assert (step["kernels"], step["memcpys"], step["launches"]) == (5, 1, 1)
    assert set(reading.activities["graph"].to_pylist()) == {True}
    assert set(reading.activities["op"].to_pylist()) == {"replay"}


def test_an_activity_whose_launch_is_not_in_the_file(read):
    reading = read([*forward(first=10), kernel("stray", 1050, 7, 999), kernel("early", 990, 50, 4)])
    totals = reading.totals
    assert (totals.kernels, totals.attributed, totals.unattributed) == (4, 3, 2)
    assert warned(reading) == {"unattributed": 2, "before_window": 1}
    assert [step["kernels"] for step in reading.ranges.to_pylist()] == [2]
    assert {row["name"] for row in reading.kernels.to_pylist()} >= {"stray", "early"}
    stray = next(row for row in reading.activities.to_pylist() if row["name"] == "stray")
    nothing = ("op", "op_path", "range", "launch_api", "launch_start_us", "launch_duration_us", "launch_delay_us")
    assert [stray[name] for name in nothing] == [None] * 7


def test_an_activity_without_correlation_is_not_joined_to_a_call_without_one(read):
    nameless = launch(None, 15)
    nameless["args"] = {}
    reading = read([op("aten::add", 10, 20), nameless, kernel("k", 20, 5, None)])
    assert (reading.totals.attributed, reading.totals.unattributed) == (0, 1)


def test_external_ids_are_never_joined_on(read):
    """The kernel's External id equals its correlation, and by chance the id of an unrelated op."""
    unrelated = op("aten::unrelated", 0, 5)
    unrelated["args"] = {"External id": 42}
    events = [unrelated, op("aten::real", 10, 20), launch(42, 12, **{"External id": 42}), kernel("k", 30, 5, 42)]
    events[-1]["args"]["External id"] = 42
    (found,) = read(events).activities.to_pylist()
    assert found["op"] == "aten::real"


def test_no_external_id_is_needed(read):
    assert [row["op"] for row in read(forward()).activities.to_pylist()] == ["aten::addmm", "aten::addmm", "aten::relu"]


@pytest.mark.parametrize("category", ["cuda_runtime", "cuda_driver", "xpu_runtime", "privateuse1_driver", "Runtime"])
def test_a_launch_is_known_by_category_and_correlation(read, category):
    events = [op("aten::add", 0, 20), launch(5, 3, name="zzNeverSeenBefore", category=category), kernel("k", 10, 5, 5)]
    reading = read(events)
    assert (reading.totals.launches, reading.totals.attributed) == (1, 1)
    assert reading.activities["op"].to_pylist() == ["aten::add"]


def test_other_runtime_calls_are_no_launches(read):
    events = [*forward(), launch(77, 1090, name="cudaEventQuery"), launch(None, 1095, name="cudaGetLastError")]
    assert read(events).totals.launches == 3


def test_overlapping_streams(read):
    calls = [launch(i, i) for i in range(1, 5)]
    events = [
        kernel("a", 100, 50, 1, stream=7), kernel("b", 120, 60, 2, stream=8),
        kernel("c", 300, 10, 3, stream=7), kernel("d", 100, 50, 4, device=1, stream=7),
    ]  # fmt: skip
    totals = read([*calls, *events]).totals
    assert totals.device_time_us == 50 + 60 + 10 + 50
    assert totals.device_busy_us == (80 + 10) + 50


def test_nested_annotations_are_inclusive(read):
    events = [
        annotation("outer", 0, 100), annotation("inner", 10, 30), annotation("ProfilerStep#3", 0, 200),
        launch(1, 15), launch(2, 60), kernel("a", 50, 10, 1), kernel("b", 70, 10, 2),
    ]  # fmt: skip
    reading = read(events)
    outer, inner = reading.ranges.to_pylist()
    assert [(r["annotation"], r["kernels"], r["launches"], r["parent"]) for r in (outer, inner)] == [
        ("outer", 2, 2, None), ("inner", 1, 1, 0),
    ]  # fmt: skip
    assert reading.totals.kernels == 2
    assert reading.activities["range"].to_pylist() == [1, 0]


def test_index_counts_per_name_in_order_of_start(read):
    events = [annotation("b", 200, 10), annotation("a", 100, 10), annotation("b", 0, 10), annotation("a", 300, 10)]
    found = [(r["annotation"], r["index"], r["start_us"]) for r in read(events).ranges.to_pylist()]
    assert found == [("b", 0, 0.0), ("a", 0, 100.0), ("b", 1, 200.0), ("a", 1, 300.0)]


def test_memcpy_and_memset_are_classes_of_their_own(read):
    calls = [launch(1, 1), launch(2, 2), launch(3, 3)]
    reading = read([*calls, kernel("k", 10, 5, 1), memcpy(20, 3, 2), memset(30, 2, 3)])
    totals = reading.totals
    assert (totals.kernels, totals.memcpys, totals.memsets, totals.device_busy_us) == (1, 1, 1, 10.0)
    assert {row["category"] for row in reading.kernels.to_pylist()} == {"kernel", "memcpy", "memset"}


def test_python_frames_hide_nothing(read):
    frames = [row("python_function", f"model.py({i}): forward", 1001 + i, 90 - 2 * i) for i in range(10)]
    with_frames, without = read([*forward(), *frames]), read(forward())
    assert with_frames.ops == without.ops
    assert with_frames.activities.drop_columns("start_us") == without.activities.drop_columns("start_us")


def test_waits_overhead_and_spans_are_no_busy_time(read):
    more = [
        row("cuda_sync", "Stream Sync", 1000, 90, tid=-1, correlation=2), row("overhead", "Buffer Flush", 1000, 50),
        row("Trace", "PyTorch Profiler (0)", 900, 900, pid="Spans", tid="PyTorch Profiler"),
    ]  # fmt: skip
    assert read([*forward(), *more]).totals == read(forward()).totals


def test_unknown_categories_are_counted(read):
    reading = read([*forward(), row("brand_new", "x", 0, 1), row("brand_new", "y", 0, 1), row(None, "z", 0, 1)])
    assert warned(reading) == {"unknown_category": 3}


def test_a_slow_first_step_is_flagged(read):
    steps = [event for i in range(4) for event in forward(1000.0 + 1000 * i, 1 + 3 * i)]
    assert warned(read(steps)) == {}
    steps[0]["dur"] = 900
    reading = read(steps)
    assert warned(reading) == {"slow_first": 1}
    assert "step (CPU time)" in reading.warnings[0].message  # and on the device as long as the others


def test_an_op_nested_in_itself_is_counted_as_torch_counts_it(read):
    """An only child of its parent's name is folded into it; with a sibling, be it a runtime call, it is not."""
    folded = [op("aten::to", 0, 50), op("aten::to", 10, 30), op("aten::copy_", 15, 10)]
    siblings = [op("aten::to", 100, 50), op("aten::to", 110, 30), launch(1, 145, 2)]
    found = ops_of(read([*folded, *siblings, kernel("k", 160, 5, 1)]))["aten::to"]
    assert found == {
        "name": "aten::to", "count": 1 + 2,
        "cpu_time_us": 50.0 + 50 + 30, "self_cpu_time_us": 40.0 + (50 - 30 - 2) + 30,
        "device_time_us": 5.0, "self_device_time_us": 5.0, "kernels": 1,
    }  # fmt: skip


def test_a_chain_of_namesakes_folds_into_one(read):
    chain = [op("aten::to", i, 50 - 2 * i) for i in range(5)]
    (found,) = read(chain).ops.to_pylist()
    assert (found["count"], found["cpu_time_us"], found["self_cpu_time_us"]) == (1, 50.0, 50.0)


def test_processes_and_threads_are_kept_apart(read):
    """The same thread id in two processes, and two threads of one process."""
    events = [
        op("aten::mine", 0, 100, pid=1, tid=5),
        op("aten::other", 1, 50, pid=2, tid=5), op("aten::third", 2, 40, pid=1, tid=6),
        launch(1, 10, pid=1, tid=5), kernel("k", 20, 5, 1),
    ]  # fmt: skip
    assert read(events).activities["op_path"].to_pylist() == [["aten::mine"]]


def test_forwards(read):
    steps = [event for i in range(2) for event in forward(1000.0 + 1000 * i, 1 + 3 * i)]
    steps[1]["args"] = {"Input Dims": [[2, 3], []], "Input type": ["float", ""], "Concrete Inputs": ["", "1.5"]}
    steps[1]["args"]["Input Strides"] = [[3, 1], []]
    activities, calls = read(steps, "step").forwards()
    assert [(r["index"], r["position"], r["name"]) for r in activities.to_pylist()] == [
        (0, 0, "Memset (Device)"), (0, 1, "gemm"), (0, 2, "relu"),
        (1, 0, "Memset (Device)"), (1, 1, "gemm"), (1, 2, "relu"),
    ]  # fmt: skip
    first = [call for call in calls.to_pylist() if call["index"] == 0]
    assert [(c["position"], c["parent"], c["depth"], c["category"], c["name"]) for c in first] == [
        (0, None, 0, "op", "aten::linear"), (1, 0, 1, "op", "aten::addmm"), (2, 1, 2, "runtime", "cudaMemsetAsync"),
        (3, 1, 2, "runtime", "cudaLaunchKernel"), (4, None, 0, "op", "aten::relu"),
        (5, 4, 1, "runtime", "cudaLaunchKernel"),
    ]  # fmt: skip
    assert [(c["start_us"], c["duration_us"], c["self_us"]) for c in first[:3]] == [
        (5, 40, 10),
        (10, 30, 22),
        (12, 3, 3),
    ]
    assert [(c["kernels"], c["self_device_time_us"], c["correlation"]) for c in first] == [
        (0, 0, None), (1, 21, None), (0, 1, 1), (1, 20, 2), (1, 10, None), (1, 10, 3),
    ]  # fmt: skip
    assert first[0]["inputs"] == [
        {"type": "float", "shape": [2, 3], "strides": [3, 1], "value": "", "tensors": None},
        {"type": "", "shape": [], "strides": [], "value": "1.5", "tensors": None},
    ]
    assert [c["inputs"] for c in first[1:]] == [None] * 5
    assert [c["inputs"] for c in calls.to_pylist() if c["index"] == 1] == [None] * 6


def test_forwards_of_an_annotation_that_is_not_there(read):
    reading = read(forward(), "ste")
    activities, calls = reading.forwards()
    assert (activities.num_rows, calls.num_rows) == (0, 0)
    assert activities.column_names[2:] == reading.activities.column_names
    assert calls.schema == read(forward(), "step").forwards()[1].schema


def test_two_runs_of_one_process_that_share_correlation_ids(read):
    """The last call with the id that began before the activity is its launch."""
    events = [
        op("aten::first", 0, 50), launch(1, 10), kernel("a", 20, 5, 1),
        op("aten::second", 100, 50), launch(1, 110), kernel("b", 120, 5, 1),
    ]  # fmt: skip
    assert read(events).activities["op"].to_pylist() == ["aten::first", "aten::second"]


def test_column_types(read):
    """The types do not depend on what the file holds."""
    full, empty = read(forward()), read([op("aten::add", 0, 5)])
    for name in ("ranges", "kernels", "ops", "activities"):
        assert getattr(full, name).schema == getattr(empty, name).schema
    assert full.activities.schema.field("grid").type == pa.list_(pa.int64())


def test_the_columns_are_those_that_have_a_meaning(read):
    reading = read(forward(), "step")
    activities, calls = reading.forwards()
    tables = {rows.RangeRow: reading.ranges, rows.KernelRow: reading.kernels, rows.OpRow: reading.ops}
    assert {kind: table.column_names for kind, table in tables.items()} == {kind: [*meanings(kind)] for kind in tables}
    in_forward = {*meanings(rows.InForward)}
    assert {*activities.column_names} == {*meanings(Activity)} | in_forward
    assert {*calls.column_names} == {*meanings(Call)} | in_forward
