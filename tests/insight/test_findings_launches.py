"""Rules about launches that wait: a full queue of launches, kernels that are loaded when they are first launched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelbook.cases import Activity, Call, CaseFacts, ProfiledForward
from kernelbook.trace import TraceWarning
from tests.insight.insight_findings import found, one, small
from tests.insight.insight_traces import Trace

SGEMM = "ampere_sgemm_128x64_nn"


def queue(blocked: int, kernel_us: float = 100.0, overhead: bool = True) -> CaseFacts:
    """1,000 launches, one each 4 µs, then `blocked` ones that take 102 µs, 98 of them overhead.

    Kernel n runs from 10 + n * kernel_us on.
    """
    calls: list[Call] = []
    activities = []
    at = 0.0
    for n in range(1000 + blocked):
        length = 2.0 if n < 1000 else 102.0
        place = len(calls)
        calls.append(Call(place, 0, None, "runtime", "cudaLaunchKernel", at, length, length, correlation=n))
        if n >= 1000 and overhead:
            calls.append(Call(place + 1, 1, place, "overhead", "Command Buffer Full", at + 2, 98.0, 98.0))
        activities.append(
            Activity(
                n, "kernel", "k", 10.0 + kernel_us * n, kernel_us, launch_start_us=at, launch_duration_us=length,
                correlation=n,
            )
        )  # fmt: skip
        at += 4.0 if n < 1000 else 102.0
    forward = ProfiledForward(1, 0, at, start_us=0.0, activities=tuple(activities))
    return CaseFacts("r", "c", kernels=len(activities), forwards=(forward,), calls=tuple(calls), chosen=(1, 0))


def test_a_full_queue_means_that_the_device_is_the_bottleneck() -> None:
    """100 launches wait 98 µs each. 1,001 launches begin by 4,000 µs, and 40 kernels: 961 are queued."""
    finding = one(queue(100), "full-queue")
    assert finding.time_us == pytest.approx(9800.0)
    assert finding.text == (
        "Launches wait 100 times in a forward for room in the queue of launches, 9.80 ms in all (Command Buffer Full): "
        "up to 961 are queued, and the device is busy for 100 % of the time. The device is the bottleneck, not the "
        "launching."
    )
    assert finding.severity == "info"
    assert "None for the launches" in finding.remedy


def test_a_full_queue_is_recognized_without_the_overhead_of_cupti() -> None:
    """By launches of 102 µs, where others take 2, while the device is 961 behind."""
    finding = one(queue(100, overhead=False), "full-queue")
    assert finding.time_us == pytest.approx(10200.0)
    assert "(cudaLaunchKernel)" in finding.text


def test_a_slow_launch_into_an_empty_queue_is_not_a_full_queue() -> None:
    """Kernels of 1 µs: each launch finds the device idle."""
    assert found(queue(100, kernel_us=1.0, overhead=False), "full-queue") == []
    assert found(queue(0), "full-queue") == []


def loading(tmp_path: Path, *forwards: float) -> CaseFacts:
    """Forwards of 100 µs, in which kernels are loaded for so many µs."""
    trace = Trace()
    for number, length in enumerate(forwards):
        trace.forward([(SGEMM, 10.0)])
        if length:
            trace.event("overhead", "Lazy Function Loading", 200.0 * number + 39.0, length)
    return small(tmp_path, trace)


def test_kernels_that_are_loaded_in_the_first_forward_are_reported(tmp_path: Path) -> None:
    finding = one(loading(tmp_path, 60.0, 0.0, 0.0), "kernel-loading")
    assert (finding.time_us, finding.share, finding.severity) == (60.0, 0.6, "medium")
    assert finding.text == (
        "CUDA loads kernels inside the forward: Lazy Function Loading 60.0 µs, of the 100 µs of the first forward; the "
        "median of the forwards that load none is 100 µs."
    )
    assert "CUDA_MODULE_LOADING=EAGER" in finding.remedy


def test_kernels_that_are_loaded_in_each_forward_weigh_more(tmp_path: Path) -> None:
    finding = one(loading(tmp_path, 60.0, 40.0, 40.0), "kernel-loading")
    assert finding.severity == "high"
    assert finding.evidence == "Lazy Function Loading 60.0 µs in the first forward; 3 of 3 forwards load kernels"


def test_a_short_load_is_not_reported(tmp_path: Path) -> None:
    assert found(loading(tmp_path, 4.0, 0.0), "kernel-loading") == []


def test_a_first_forward_that_loads_kernels_is_explained_once(tmp_path: Path) -> None:
    facts = loading(tmp_path, 60.0, 0.0, 0.0)
    slow = replace(
        facts, notes=(TraceWarning("slow_first", 1, "the first range takes 2.1 times the median of the others"),)
    )
    assert found(slow, "slow-first") == []
    assert found(replace(slow, call_totals=()), "slow-first") != []
