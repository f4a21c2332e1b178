"""`kernelbook.read`: tables and forwards of a trace for Python programs, counted by hand."""

import subprocess
import sys

import pytest

import kernelbook
from tests.helpers import ROOT
from tests.helpers.patience import LONG
from tests.trace.made_trace import annotation, forward, kernel, launch, op, write


@pytest.fixture
def trace(tmp_path):
    """Three forwards `step` of a memset (1 µs), gemm and relu (10 µs); gemm takes 20, 22 and 30 µs."""
    events = []
    for number, time in enumerate((20, 22, 30)):
        for event in forward(1000.0 * (number + 1), 10 * number + 1):
            events.append({**event, "dur": time} if event["name"] == "gemm" else event)
    return kernelbook.read(write(tmp_path / "made.json", events))


def test_the_tables_of_a_trace(trace):
    kernels = {row["name"]: (row["count"], row["total_us"]) for row in trace.kernels.to_pylist()}
    assert kernels == {"gemm": (3, 72.0), "relu": (3, 30.0), "Memset (Device)": (3, 3.0)}
    ops = {row["name"]: row["count"] for row in trace.ops.to_pylist()}
    assert ops == {"aten::linear": 3, "aten::addmm": 3, "aten::relu": 3}
    assert trace.ranges["annotation"].to_pylist() == ["step"] * 3
    assert trace.activities.num_rows == 9
    assert (trace.device, trace.truncated, trace.totals.kernels, trace.warnings) == ("Made GPU", False, 6, ())


def test_tables_become_data_frames(trace):
    frame = trace.kernels.to_pandas()
    assert frame.loc[frame["name"] == "gemm", "total_us"].tolist() == [72.0]


def test_the_forward_that_stands_for_the_others(trace):
    found = trace.forward("step")
    assert (found.forwards, found.kernels, found.memcpys, found.memsets, found.launches) == (3, 2, 0, 1, 3)
    assert found.device_time_us == 33.0  # the median of 31, 33 and 41
    assert found.activities["name"].to_pylist() == ["Memset (Device)", "gemm", "relu"]
    assert found.activities["duration_us"].to_pylist() == [1.0, 22.0, 10.0]
    assert found.activities["op"].to_pylist() == ["aten::addmm", "aten::addmm", "aten::relu"]
    assert [row["name"] for row in found.calls.to_pylist() if row["category"] == "op"] == [
        *("aten::linear", "aten::addmm", "aten::relu"),
    ]
    assert trace.forward() is trace.forward()
    assert trace.forward("st*").annotation == "st*"


def test_the_strip_of_a_forward_is_text_to_scale(trace):
    head, memset, gemm, relu = str(trace.forward("step")).splitlines()
    assert head == "2 kernels, 0 memcpys, 1 memset; 33.0 µs of device time"
    assert gemm.count("█") == 24
    assert relu.count("█") == 24 * 10 // 22
    assert "aten::addmm" in memset


def test_a_range_that_is_not_there_names_the_right_one(trace):
    with pytest.raises(kernelbook.TraceError, match="no range named 'stp': did you mean 'step'"):
        trace.forward("stp")


def test_a_trace_without_ranges_has_no_forward(tmp_path):
    trace = kernelbook.read(write(tmp_path / "made.json", [op("aten::mm", 0, 9), launch(1, 1), kernel("k", 4, 3, 1)]))
    assert trace.kernels.num_rows == 1
    with pytest.raises(kernelbook.TraceError, match="no record_function range"):
        trace.forward()


def test_a_trace_without_a_device(tmp_path):
    trace = kernelbook.read(write(tmp_path / "made.json", [annotation("step", 0, 10), op("aten::mm", 1, 5)]))
    found = trace.forward("step")
    assert (found.kernels, found.device_time_us, found.cpu_time_us) == (None, None, 10.0)
    assert str(found) == "no device activity in the trace"


@pytest.mark.parametrize("text", ["{}", "no JSON"])
def test_a_file_that_is_no_trace(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(kernelbook.TraceError, match=r"x\.json"):
        kernelbook.read(tmp_path / "x.json")


def test_the_package_offers_its_names_and_imports_nothing_before_they_are_used():
    code = (
        "import sys, kernelbook; assert set(kernelbook.__all__) <= set(dir(kernelbook));"
        "assert not {'numpy', 'pyarrow', 'torch', 'rich'} & set(sys.modules), sorted(sys.modules);"
        "[getattr(kernelbook, name) for name in kernelbook.__all__]; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "scripts")}, check=True, timeout=LONG)
    with pytest.raises(AttributeError, match="no attribute 'raed'"):
        kernelbook.raed  # noqa: B018
