"""The figures in the explanations are those of the recorded run, worked out here from its files."""

import json
import re
import statistics
from pathlib import Path

import pytest

from kernelbook.trace import read_trace

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "resources/recorded/h200-torch2.11"
DOCS = ROOT / "docs"
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| ([\d.]+) µs \| ([\d.]+) µs \| ([\d.]+) \|$", re.M)


def figures(case):
    """Medians over processes: CPU and device time of a profiled forward, time of an unprofiled one, µs."""
    found = []
    for folder in sorted((RECORDED / case).iterdir()):
        measurement = json.loads((folder / "measurement.json").read_text(encoding="utf-8"))
        ranges = read_trace(folder / "trace.json.gz").ranges.to_pylist()
        own = [row for row in ranges if row["annotation"] == measurement["case"]["annotation"]]
        times = [statistics.median(row[name] for row in own) for name in ("cpu_time_us", "device_time_us")]
        found.append([*times, statistics.median(measurement["forward_times_us"])])
    return [statistics.median(values) for values in zip(*found, strict=True)]


def rows(heading):
    """The rows of the table in profiler.md whose first column of figures has this heading."""
    text = (DOCS / "explanation/profiler.md").read_text(encoding="utf-8")
    table = text.partition(f"| case | {heading}")[2].partition("\n\n")[0]
    return [(case, *map(float, values)) for case, *values in ROW.findall(table)]


@pytest.mark.parametrize(("heading", "place", "least"), [("CPU time", 0, 3), ("device time", 1, 4)])
def test_what_the_profiler_changes(heading, place, least):
    told = rows(heading)
    assert len(told) >= least
    for case, profiled, unprofiled, ratio in told:
        found = figures(case)
        assert (profiled, unprofiled) == (round(found[place], 1), round(found[2], 1)), case
        assert ratio == round(found[place] / found[2], 2), case


def test_why_counts_are_not_totals_divided():
    totals = read_trace(RECORDED / "sdpa-math-eager/1/trace.json.gz").totals
    text = (DOCS / "explanation/attribution.md").read_text(encoding="utf-8")
    assert f"{totals.kernels} kernels in the first file, which would make {totals.kernels / 10} each" in text
    numbers = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
    assert f"{numbers[totals.unattributed]} of those were launched before" in text
    assert totals.kernels - totals.unattributed == 20 * 10


def test_why_the_median():
    ranges = read_trace(RECORDED / "linear-eager/1/trace.json.gz").ranges["cpu_time_us"].to_pylist()
    median, mean = statistics.median(ranges), statistics.fmean(ranges)
    text = (DOCS / "explanation/times.md").read_text(encoding="utf-8")
    assert f"takes {ranges[0] / median:.1f} times the median of all ten" in text
    assert f"pulls their mean up by {100 * (mean / median - 1):.0f} %" in text
    _, device, forward = figures("linear-eager")
    assert f"`linear-eager` has {device:.2f} µs of device time in a forward of {forward:.1f} µs" in text


def test_forward_times_that_the_tutorial_tells():
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    assert f"an unprofiled forward takes {figures('matmul-add-64-eager')[2]:.1f} µs" in text
    liger, eager, compiled = (figures(case)[2] for case in ("mlp-liger", "mlp-eager", "mlp-compile"))
    assert f"{liger:.0f} µs, against {eager:.0f} µs in eager mode and {compiled:.0f} µs compiled" in text
    math, inplace = (figures(case)[1] for case in ("sdpa-math-eager", "attention-inplace-eager"))
    assert f"takes {math / inplace:.1f} times as long as four lines of Python" in text
