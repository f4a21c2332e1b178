"""The clock: profiled against unprofiled time, busy and idle, on recorded cases and on forwards made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from kernelbook.cases import Activity, CaseFacts, Process, ProfiledForward
from kernelbook.judge.clock import bound_of, bounds_by_process, clock_of, profiled_forward_us
from tests.insight.insight_raw import by_process, device_time, forwards
from tests.insight.insight_recorded import facts_of_folder
from tests.insight.insight_traces import Trace

BASE = CaseFacts("r", "c", device_type="cuda", kernels=1, device_busy_us=90.0, forward_time_us=100.0, cpu_time_us=95.0)


@pytest.mark.parametrize(
    ("busy", "whole", "cpu", "bound"),
    [
        (100.0, 105.0, 500.0, "gpu"),
        (100.0, 110.0, 500.0, "gpu"),  # a tenth is within what is not explained
        (100.0, 111.0, 500.0, "launches"),
        (100.0, 150.0, 60.0, "unclear"),  # the CPU is not busy for so long
        (None, 100.0, 10.0, "unknown"),
        (100.0, None, 10.0, "unknown"),
    ],
)
def test_what_bounds_a_forward(busy: float | None, whole: float | None, cpu: float, bound: str) -> None:
    facts = replace(BASE, device_busy_us=busy, forward_time_us=whole, cpu_time_us=cpu)
    assert bound_of(facts)[0] == bound


def test_each_process_has_a_bound_of_its_own() -> None:
    processes = (
        Process("r", "c", process=1, forward_time_us=104.0, device_busy_us=100.0, cpu_time_us=300.0),
        Process("r", "c", process=2, forward_time_us=150.0, device_busy_us=100.0, cpu_time_us=300.0),
        Process("r", "c", process=3, forward_time_us=150.0, device_busy_us=100.0, cpu_time_us=60.0),
        Process("r", "c", process=4, forward_time_us=150.0, cpu_time_us=60.0),
        Process("r", "c", process=5, status="failed", merged=False),
        Process("r", "c", process=6, forward_time_us=150.0, device_busy_us=100.0, cpu_time_us=300.0, merged=False),
    )
    facts = replace(BASE, processes=processes)
    assert bounds_by_process(facts) == {1: "gpu", 2: "launches", 3: "unclear", 4: "unknown"}


def test_processes_of_recorded_cases_differ_where_their_own_figures_do(
    recorded_facts: dict[str, CaseFacts], recorded_h200: Path
) -> None:
    """Unprofiled time over device time, from the files; in a forward of one kernel that is its busy time."""
    for case, annotation in (("attention-flex-compile", "attn_fwd"), ("ceiling-copy", "ceiling_copy")):
        files = sorted((recorded_h200 / case).glob("*/measurement.json"))
        whole = [median(json.loads(file.read_text())["forward_times_us"]) for file in files]
        busy = by_process(recorded_h200 / case, annotation, device_time)
        bounds = ["gpu" if of <= 1.1 * own else "launches" for of, own in zip(whole, busy, strict=True)]
        assert list(bounds_by_process(recorded_facts[case]).values()) == bounds


def test_profiled_time_is_from_end_to_end_of_successive_forwards() -> None:
    def forward(index: int, start: float) -> ProfiledForward:
        two = (Activity(0, "kernel", "a", start, 30.0), Activity(1, "kernel", "b", start + 50.0, 20.0))
        return ProfiledForward(1, index, 40.0, 50.0, 50.0, start, two)

    facts = replace(BASE, forwards=(forward(0, 0.0), forward(1, 200.0), forward(2, 410.0), forward(4, 5000.0)))
    assert profiled_forward_us(facts) == 205.0  # the median of 200 and 210; between 2 and 4 one is missing
    clock = clock_of(facts)
    assert clock.device_gaps_us == 20.0  # 70 µs from first start to last end, 50 of them busy
    assert clock.device_idle_us == pytest.approx(10.0)
    assert clock.overhead_share == pytest.approx(1.05)


def test_an_activity_without_a_possible_time_moves_no_window() -> None:
    """The same forwards, of which the second has a kernel without a start, and the last has no other."""

    def forward(index: int, start: float, more: tuple[Activity, ...]) -> ProfiledForward:
        two = (Activity(0, "kernel", "a", start, 30.0), Activity(1, "kernel", "b", start + 50.0, 20.0))
        return ProfiledForward(1, index, 40.0, 50.0, 50.0, start, (*two, *more))

    lost = Activity(2, "kernel", "c", None, 10.0)
    three = (forward(0, 0.0, ()), forward(1, 200.0, (lost,)), forward(2, 410.0, ()))
    facts = replace(BASE, forwards=(*three, ProfiledForward(1, 3, 40.0, 10.0, 10.0, 600.0, (lost,))))
    assert profiled_forward_us(facts) == 205.0
    assert clock_of(facts).device_gaps_us == 20.0


def test_each_process_has_one_voice_in_what_the_profiler_costs() -> None:
    def one(process: int, index: int, start: float, gap: float, delay: float) -> ProfiledForward:
        two = (
            Activity(0, "kernel", "a", start, 30.0, launch_delay_us=delay),
            Activity(1, "kernel", "b", start + 30.0 + gap, 20.0, launch_delay_us=delay),
        )
        return ProfiledForward(process, index, 40.0 * process, 50.0, 50.0, start, two)

    many = [one(1, i, 100.0 * i, 1.0, 4.0) for i in range(9)]
    few = [one(process, i, 300.0 * i, 5.0, 8.0) for process in (2, 3) for i in range(3)]
    clock = clock_of(replace(BASE, forwards=(*many, *few)))
    # Of all forwards together most are of process 1; of three processes two are of the others.
    assert (clock.profiled_forward_us, clock.device_gaps_us, clock.launch_delay_us) == (300.0, 5.0, 8.0)
    assert profiled_forward_us(replace(BASE, kernels=None, forwards=(*many, *few))) == 80.0


@pytest.mark.parametrize(
    ("case", "annotation"),
    [("matmul-add-64-cold-eager", "matmul_add"), ("linear-compile", "linear_fwd"), ("mlp-eager", "mlp_fwd")],
)
def test_overhead_of_the_recorded_run_is_that_of_medians_of_processes(
    case: str, annotation: str, recorded_facts: dict[str, CaseFacts], recorded_h200: Path
) -> None:
    profiled, unprofiled = [], []
    for measurement in sorted((recorded_h200 / case).glob("*/measurement.json")):
        unprofiled.append(median(json.loads(measurement.read_text())["forward_times_us"]))
        of_one = forwards(measurement.with_name("trace.json.gz"), annotation)
        ends = [max(event["ts"] + event["dur"] for event in forward["device"]) for forward in of_one]
        profiled.append(median(after - before for before, after in pairwise(ends)))
    clock = clock_of(recorded_facts[case])
    assert clock.profiled_forward_us == pytest.approx(median(profiled), abs=0.1)
    assert clock.overhead_share == pytest.approx(median(profiled) / median(unprofiled) - 1, abs=0.005)


def test_a_gpu_bound_case_agrees_and_a_launch_bound_one_says_why(shared_facts: dict[str, CaseFacts]) -> None:
    agrees = clock_of(shared_facts["attention-inplace-eager"])
    assert agrees.bound == "gpu"
    assert agrees.text.endswith("the two agree.")
    assert abs(agrees.overhead_share or 1.0) < 0.1
    differs = clock_of(shared_facts["linear-eager"])
    assert differs.bound == "launches"
    assert (differs.overhead_share or 0.0) > 0.1
    assert "overhead-bound: the device waits for the CPU" in differs.text
    slowed = clock_of(shared_facts["mlp-eager"])
    assert slowed.bound == "gpu"
    assert "the profiler slows the launches" in slowed.text


def test_a_launch_delay_counts_from_the_start_of_the_call(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([("ampere_sgemm_128x64_nn", 10.0)])  # launched 10 µs into its op, running 30 µs into it
    trace.write(tmp_path, "small")
    assert clock_of(facts_of_folder("small", tmp_path)["small"]).launch_delay_us == 20.0


def test_without_a_device_the_cpu_is_why() -> None:
    forwards = tuple(ProfiledForward(1, i, 80.0, start_us=200.0 * i) for i in range(3))
    clock = clock_of(CaseFacts("r", "c", device_type="cpu", forward_time_us=40.0, cpu_time_us=80.0, forwards=forwards))
    assert clock.profiled_forward_us == 80.0  # the range itself: between ranges the profiler is at work
    assert "on the CPU" in clock.text
    assert (clock.device_busy_us, clock.launch_delay_us) == (None, None)
    assert "cannot be compared" in clock_of(CaseFacts("r", "c")).text
