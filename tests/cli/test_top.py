"""`kernelbook top`: sums over all traces of a folder, counted by hand."""

import json

import pytest

from kernelbook.kernel_names.top_kernels import top_kernels
from tests.helpers.schemas import validate


def test_kernels_are_summed_over_all_files_by_name_and_family(kernelbook, folder):
    status, out, err = kernelbook("top", folder, "--json")
    assert status == 0
    assert "rows.json" in err
    found = json.loads(out)
    validate(found, "cli/top.schema.json")
    rows = {row["name"]: row for row in found["kernels"]}
    assert {name: (row["count"], row["total_us"], row["max_us"], row["files"]) for name, row in rows.items()} == {
        "gemm": (3, 75.0, 50.0, 2),
        "relu": (1, 10.0, 10.0, 1),
        "Memset (Device)": (1, 1.0, 1.0, 1),
    }
    families = {row["name"]: (row["count"], row["total_us"]) for row in found["families"]}
    assert families == {"GEMM": (3, 75.0), "elementwise": (1, 10.0), "memset": (1, 1.0)}
    assert [row["total_us"] for row in found["families"]] == [75.0, 10.0, 1.0]
    assert {file["source"].rsplit("/", 1)[1]: file["device_time_us"] for file in found["files"]} == {
        "one.json": 31.0,
        "two.json": 55.0,
    }


def test_the_terminal_shows_shares_of_all_files_together(kernelbook, folder):
    status, out, _ = kernelbook("top", folder, "--limit", "1")
    assert status == 0
    assert out.startswith("2 traces, 86.0 µs of device time\n")
    gemm = next(line for line in out.splitlines() if line.startswith("gemm "))
    assert gemm.split() == ["gemm", "GEMM", "3", "75.0", "µs", "87", "%", "50.0", "µs", "2"]  # 75 of 86
    assert "Top 1 of 3 kernels" in out
    assert "two.json" in out  # the file that weighs most
    assert "one.json" not in out.split("files below")[1]


def test_a_family_of_several_categories_has_none():
    row = {"count": 1, "total_us": 2.0, "max_us": 2.0}
    kernels = [("a", row | {"name": "memset", "category": "kernel"}), ("a", row | {"name": "m", "category": "memset"})]
    _, families = top_kernels(kernels)
    assert {family.name: family.category for family in families}["memset"] == "memset"


def test_convolutions_have_a_row_of_their_own_among_the_families():
    """Their family is `other`, which says little where they take a third of the time."""
    row = {"count": 1, "total_us": 2.0, "max_us": 2.0, "category": "kernel"}
    names = (
        "volta_scudnn_128x64_relu_small_nn_v1",
        "cudnn::winograd::generateWinogradTilesKernel<0>(int)",
        "topk_kernel",
    )
    _, families = top_kernels([("a", row | {"name": name}) for name in names])
    assert {family.name: family.count for family in families} == {"convolution": 2, "other": 1}


def test_a_trace_without_device_activities_is_counted_apart(kernelbook, tmp_path):
    from tests.trace.made_trace import op, write

    write(tmp_path / "cpu.json", [op("aten::mm", 0, 5)])
    status, out, _ = kernelbook("top", tmp_path)
    assert status == 0
    assert "1 trace without device activities" in out


@pytest.mark.parametrize("name", ["absent.json", "rows.json"])
def test_a_named_file_that_is_no_trace(kernelbook, folder, name):
    status, out, err = kernelbook("top", folder / name, folder / "one.json")
    assert (status, len(err.splitlines())) == (2, 1)
    assert "1 trace, 31.0 µs" in out
