"""The figures in the explanations are those of the recorded run, computed here from its files."""

import gzip
import json
import re
import statistics
from itertools import pairwise

import pytest

from kernelbook.judge.time_line import LATENCY, LAUNCH, OP, PYTHON, WORK
from kernelbook.judge.time_split import time_split
from kernelbook.trace import read_trace
from tests.helpers import ROOT, default_cases
from tests.insight.insight_recorded import facts_of_folder

RECORDED = ROOT / "resources/recorded/h200-torch2.11"
DOCS = ROOT / "docs"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
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


def events(folder):
    return json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))["traceEvents"]


def step_under_the_profiler(folder):
    """Median distance of the last ends of what was launched in successive forwards, µs, off the file's JSON."""
    name = json.loads((folder / "measurement.json").read_text(encoding="utf-8"))["case"]["annotation"]
    found = [event for event in events(folder) if event.get("ph") == "X"]
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in found if (e["name"], e["cat"]) == (name, "user_annotation"))
    launched = {e["args"]["correlation"]: e["ts"] for e in found if e["cat"] in ("cuda_runtime", "cuda_driver")}
    ran = [(launched.get(e["args"]["correlation"], 0), e["ts"] + e["dur"]) for e in found if e["cat"] in DEVICE]
    ends = [max(end for at, end in ran if first <= at <= last) for first, last in spans]
    return statistics.median(after - before for before, after in pairwise(ends))


def test_what_a_whole_step_takes_under_the_profiler():
    text = (DOCS / "explanation/profiler.md").read_text(encoding="utf-8")
    cases = [case for case, *_ in rows("CPU time")]
    steps = [statistics.median(map(step_under_the_profiler, (RECORDED / case).iterdir())) for case in cases]
    more = [step / figures(case)[2] - 1 for step, case in zip(steps, cases, strict=True)]
    first, second, third = (f"{step:.1f} µs" for step in steps)
    assert f"{first}, {second} and {third}" in text
    assert "{:+.0%}, {:+.0%} and {:+.0%}".format(*more).replace("%", " %") in text
    assert all(1.575 <= ratio <= 1.85 for *_, ratio in rows("CPU time"))  # "60 to 85 % longer"


def test_in_how_many_cases_the_cpu_times_of_processes_lie_apart():
    cases = [RECORDED / case for case in sorted(default_cases())]
    apart = 0
    for case in cases:
        name = json.loads((case / "1/measurement.json").read_text(encoding="utf-8"))["case"]["annotation"]
        times = [
            statistics.median(e["dur"] for e in events(p) if (e.get("cat"), e["name"]) == ("user_annotation", name))
            for p in case.iterdir()
        ]
        apart += max(times) / min(times) > 1.2
    text = (DOCS / "explanation/profiler.md").read_text(encoding="utf-8")
    assert f"in {apart} of the {len(cases)} recorded cases the processes lie more than 20 % apart" in text


def test_which_op_the_external_id_names_and_how_many_activities_have_none():
    named, without, stragglers = 0, 0, set()
    for folder in (folder for case in default_cases() for folder in (RECORDED / case).iterdir()):
        found = [event for event in events(folder) if event.get("ph") == "X"]
        ops = [event for event in found if event["cat"] == "cpu_op"]
        calls = {e["args"]["correlation"]: e for e in found if e["cat"] in ("cuda_runtime", "cuda_driver")}
        for event in (event for event in found if event["cat"] in DEVICE):
            call = calls.get(event["args"]["correlation"])
            if call is None:
                without += "External id" not in event["args"]
                stragglers.add(folder.parent.name)
                continue
            around = [o for o in ops if o["tid"] == call["tid"] and o["ts"] <= call["ts"] <= o["ts"] + o["dur"]]
            innermost = max(around, key=lambda op: (op["ts"], -op["dur"]))
            named += event["args"]["External id"] == innermost["args"]["External id"]
    text = (DOCS / "explanation/attribution.md").read_text(encoding="utf-8")
    assert (
        f"that of the innermost op for all {named:,} activities whose launch is in the file, and the other {without} "
        in text
    )
    assert len(stragglers) == 4
    assert "four of the 21 default cases of the recorded run do" in text


def test_why_counts_are_not_totals_divided():
    totals = read_trace(RECORDED / "sdpa-math-eager/1/trace.json.gz").totals
    text = (DOCS / "explanation/attribution.md").read_text(encoding="utf-8")
    assert f"{totals.kernels} kernels in the first file, which would be {totals.kernels / 10} each" in text
    numbers = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
    assert f"{numbers[totals.unattributed]} of those were launched by the warm-up step" in text
    assert totals.kernels - totals.unattributed == 20 * 10


def test_why_the_median():
    ranges = read_trace(RECORDED / "linear-eager/1/trace.json.gz").ranges["cpu_time_us"].to_pylist()
    median, mean = statistics.median(ranges), statistics.fmean(ranges)
    text = (DOCS / "explanation/times.md").read_text(encoding="utf-8")
    assert f"takes {ranges[0] / median:.1f} times the median of all ten" in text
    assert f"is slow**: {ranges[0] / median:.1f} times" in (DOCS / "explanation/profiler.md").read_text(
        encoding="utf-8"
    )
    assert f"raises their mean by {100 * (mean / median - 1):.0f} %" in text
    _, device, forward = figures("linear-eager")
    assert f"`linear-eager` has {device:.2f} µs of device time in a forward of {forward:.1f} µs" in text


def test_forward_times_that_the_tutorial_tells():
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    assert f"an unprofiled forward takes {figures('matmul-add-64-eager')[2]:.1f} µs" in text
    liger, eager, compiled = (figures(case)[2] for case in ("mlp-liger", "mlp-eager", "mlp-compile"))
    assert f"{liger:.0f} µs, against {eager:.0f} µs in eager mode and {compiled:.0f} µs compiled" in text
    math, inplace = (figures(case)[1] for case in ("sdpa-math-eager", "attention-inplace-eager"))
    assert f"takes {math / inplace:.1f} times as long as four lines of Python" in text


def test_where_the_time_of_linear_eager_goes():
    facts = facts_of_folder("h200", RECORDED, "linear-eager")["linear-eager"]
    split = time_split(facts)
    parts = {kind: split.of_kind(kind) for kind in (OP, PYTHON, LAUNCH, LATENCY, WORK)}
    text = (DOCS / "explanation/time-split.md").read_text(encoding="utf-8")
    assert f"{split.time_us:.1f} µs: {parts[OP]:.0f} µs in ops, {parts[PYTHON]:.0f} µs in Python between them" in text
    assert f"{parts[LAUNCH]:.0f} µs in the launch, {parts[LATENCY]:.1f} µs to start the kernel" in text
    assert f"{parts[WORK]:.1f} µs for the kernel" in text
