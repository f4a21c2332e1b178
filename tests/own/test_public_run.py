"""A folder of traces from many sources as one run: every file is in the report, and what is odd is reported."""

import html
import json

import pytest

from tests.helpers.snakemake import WorkingFolder

pytestmark = pytest.mark.slow

# What the index of those traces says of each file, and the words by which the report says it.
PECULIAR = {
    "kin-tb-resnet50-nw0-v1-19": "categories of old versions of torch",
    "spyre-tb-resnet50-nw0-old-a": "bare array of events",
    "hta-negative-queue-length": "872 device activities were launched by a call that is not in the file",
    "hta-event-sync-multistream": "activities on 3 streams",
    "hta-cupti-profiler-range": "no device activity: collecting it failed",
    "hta-cpu-only": "a CPU run",
    "hta-rank-not-found": "a CPU run",
    "hta-triton-example": "launched through the driver (cuLaunchKernel)",
    "tl-h100-qwen-chat": "509 of them were launched before the window opened",
    "tl-mi210-gpu-only": "the trace has no CPU op",
    "tl-torch-compile-triton": "launched through the driver (hipModuleLaunchKernel)",
    "tl-vllm-decode-graph-exec": "1 launch starts several activities, up to 421",
}


@pytest.fixture(scope="module")
def report(shared_dir, tmp_path_factory):
    """The report of the folder; nothing but the folder is configured."""
    folder = WorkingFolder(tmp_path_factory.mktemp("public traces"))
    runs = {"public": {"recorded": str(shared_dir / "traces" / "public")}}
    folder.configure({"runs": runs})
    folder.snakemake("--cores", "2")
    return folder.path / "reports" / "latest"


def test_every_file_is_a_case_of_the_report(report, shared_dir):
    files = list((shared_dir / "traces" / "public").glob("*.json.gz"))
    cases = json.loads((report / "summary.json").read_text())["cases"]
    assert len(files) == len(cases) == len(PECULIAR)
    assert {case["case"] for case in cases} == set(PECULIAR)
    assert {case["status"] for case in cases} == {"ok"}


@pytest.mark.parametrize("case", PECULIAR)
def test_what_is_peculiar_about_a_file_is_said_in_the_page_and_its_twin(report, case):
    (row,) = (row for row in json.loads((report / "summary.json").read_text())["cases"] if row["case"] == case)
    assert any(PECULIAR[case] in warning["message"] for warning in row["warnings"])
    assert PECULIAR[case] in (report / "index.html").read_text()
    assert PECULIAR[case] in html.unescape((report / "details.md").read_text())


def test_a_trace_without_ranges_has_the_kernels_of_the_whole_file(report):
    text = html.unescape((report / "details.md").read_text())
    assert "The whole file: 8,772 kernels, 12 memcpys, 312 memsets" in text  # torch 1.9, a plain count of its events


def test_what_a_trace_does_not_hold_is_missing_and_never_zero(report):
    cases = {row["case"]: row for row in json.loads((report / "summary.json").read_text())["cases"]}
    for row in cases.values():
        for name in ("first_call_us", "peak_memory_bytes", "flops", "relative_error"):
            assert row[name] is None
        assert row["forward_time_us"] == {"median": None, "p05": None, "p95": None}
    assert cases["hta-cpu-only"]["kernels"] is None
