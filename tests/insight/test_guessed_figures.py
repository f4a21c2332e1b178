"""Guesses about figures: each word confirmed, broken and, where its data are missing, not judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelbook.cases import Activity, Call, CallTotal, CaseFacts, Process, ProfiledForward
from kernelbook.cases.process import Dynamo
from kernelbook.counters import KernelCounters
from kernelbook.judge.cost_model import Ceilings
from kernelbook.judge.expectations import judge
from tests.insight.insight_recorded import Facts
from tests.insight.test_expectations import LINEAR, MUL, NVJET, OTHER_GEMM, SILENT, facts, uneven, verdict

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def processes(case: CaseFacts, **columns: tuple[Any, ...]) -> CaseFacts:
    """The case with one process for each of the values of the columns."""
    rows = zip(*columns.values(), strict=True)
    return replace(
        case,
        processes=tuple(
            Process("h200", case.case, process=i, **dict(zip(columns, row, strict=True)))
            for i, row in enumerate(rows, 1)
        ),
    )


TIMED = processes(LINEAR, forward_time_us=(100.0, 110.0))
SIZED = processes(LINEAR, peak_memory_bytes=(3 * 2**20, 3 * 2**20))
BREAKS = processes(LINEAR, dynamo=(Dynamo(graph_breaks={"print": 2, "item": 1}, recompiles=0),))
# Busy for 25 and 30 of 100 µs: idle for 75 and 70 %.
IDLE = processes(LINEAR, forward_time_us=(100.0, 100.0), device_busy_us=(25.0, 30.0))
# Four activities of 10 µs, one of which is a collective: 25 %.
COLLECTIVE = facts(
    activities=(
        ("kernel", NVJET, "aten::mm"),
        ("kernel", NCCL, "c10d::allreduce_"),
        ("kernel", MUL, "aten::mul"),
        ("memcpy", "Memcpy HtoD (Pageable -> Device)", "aten::copy_"),
    )
)


def with_runtime(*names: str) -> CaseFacts:
    """A case whose forward calls these functions of the CUDA runtime inside aten::item."""
    item = Call(0, 0, None, "op", "aten::item", 0.0, 90.0, 1.0)
    calls = tuple(Call(i, 1, 0, "runtime", name, 5.0 * i, 4.0, 4.0) for i, name in enumerate(names, 1))
    totals = tuple(CallTotal(1, 0, "runtime", name, names.count(name), 4.0, 4.0) for name in dict.fromkeys(names))
    return facts(calls=(item, *calls), call_totals=(CallTotal(1, 0, "op", "aten::item", 1, 90.0, 1.0), *totals))


SYNCHRONIZED = with_runtime("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaEventSynchronize")


def with_occupancy(*occupancies: float | None) -> CaseFacts:
    """A case of one kernel for each occupancy: block of 256 threads, 64 registers a thread, no shared memory."""
    kernels = tuple(
        Activity(
            i, "kernel", MUL, float(i), 1.0,
            grid=(132, 1, 1), block=(256, 1, 1), registers_per_thread=64, occupancy_percent=occupancy,
        )
        for i, occupancy in enumerate(occupancies)
    )  # fmt: skip
    properties = {
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerMultiprocessor": 65536,
        "sharedMemPerMultiprocessor": 233472,
        "computeMajor": 9,
        "computeMinor": 0,
        "numSms": 132,
    }
    return facts(forwards=(ProfiledForward(1, 0, 50.0, 10.0, 10.0, 0.0, kernels),), device_properties=properties)


OCCUPIED = with_occupancy(12.0, 25.0)


@pytest.mark.parametrize(
    ("word", "value", "case", "wanted", "observed"),
    [
        ("forward_time_us", "90-120", TIMED, "confirmed", "105 µs"),
        ("forward_time_us", {"max": 90}, TIMED, "broken", "105 µs"),
        ("forward_time_us", {"max": 105}, TIMED, "not applicable", "processes differ"),
        ("forward_time_us", {"max": 100}, LINEAR, "confirmed", "100 µs"),  # a bare figure of the case
        ("forward_time_us", {"max": 1}, replace(LINEAR, forward_time_us=None), "not applicable", "not measured"),
        ("peak_memory_mib", "2.5-3.5", SIZED, "confirmed", "3.0 MiB"),
        ("peak_memory_mib", {"max": 2}, SIZED, "broken", "3.0 MiB"),
        ("peak_memory_mib", {"max": 2}, LINEAR, "not applicable", "not measured"),
        ("idle_percent", "70-75", IDLE, "confirmed", "72.5 %"),
        ("idle_percent", {"max": 50}, IDLE, "broken", "72.5 %"),
        ("idle_percent", {"min": 72}, IDLE, "not applicable", "processes differ"),
        ("collective_percent", "25-25", COLLECTIVE, "confirmed", "25 %"),
        ("collective_percent", {"max": 20}, COLLECTIVE, "broken", "25 %"),
        ("collective_percent", {"max": 0}, LINEAR, "confirmed", "0 %"),
        ("collective_percent", {"max": 0}, facts(activities=()), "not applicable", "no device time"),
        ("occupancy_percent", {"*Mul*": "10-30"}, OCCUPIED, "confirmed", "12 %, 25 %"),
        ("occupancy_percent", {"*Mul*": {"min": 20}}, OCCUPIED, "broken", "12 %, 25 %"),
        ("occupancy_percent", {"*Mul*": {"min": 20}}, with_occupancy(25.0, None), "not applicable", "not known"),
        ("occupancy_percent", {"*Mul*": {"min": 20}}, with_occupancy(5.0, None), "broken", "5 %"),
        ("occupancy_percent", {"nvjet*": {"min": 20}}, OCCUPIED, "not applicable", "not known"),
        ("synchronizations", 2, SYNCHRONIZED, "confirmed", "2"),
        ("synchronizations", 0, SYNCHRONIZED, "broken", "2"),
        ("synchronizations", 0, with_runtime("cudaLaunchKernel"), "confirmed", "0"),
        ("synchronizations", 0, LINEAR, "not applicable", "not recorded"),
        ("copies_to_device", 1, COLLECTIVE, "confirmed", "1"),
        ("copies_to_device", 0, COLLECTIVE, "broken", "1"),
        ("copies_to_device", 0, LINEAR, "confirmed", "0"),
        ("graph_breaks", 3, BREAKS, "confirmed", "3"),
        ("graph_breaks", 0, BREAKS, "broken", "3"),
        ("graph_breaks", 0, LINEAR, "not applicable", "not recorded"),
        ("graph_breaks", 0, processes(LINEAR, dynamo=(Dynamo(),)), "not applicable", "not recorded"),
        ("recompilations", 0, BREAKS, "confirmed", "0"),
        ("recompilations", {"min": 1}, BREAKS, "broken", "0"),
        ("recompilations", 0, LINEAR, "not applicable", "not recorded"),
    ],
)
def test_a_figure_in_and_out_of_its_range(word: str, value: Any, case: CaseFacts, wanted: str, observed: str) -> None:
    assert verdict(word, value, case)[:2] == (wanted, observed)


def test_the_evidence_of_figures() -> None:
    assert verdict("forward_time_us", {"max": 105}, TIMED)[2] == (
        "an unprofiled forward: 100 µs to 110 µs over 2 processes; in the range in 1 of 2 processes"
    )
    assert verdict("graph_breaks", 0, BREAKS)[2] == "graph breaks in a process: 3; 2 × print; 1 × item"
    # 65536 registers / (64 x 256) = 4 blocks = 32 of 64 warps.
    assert verdict("occupancy_percent", {"*": {"min": 20}}, OCCUPIED)[2] == (
        "vectorized_elementwise_kernel [mul]: 12 % of 50 % that its resources allow; "
        "vectorized_elementwise_kernel [mul]: 25 % of 50 % that its resources allow"
    )
    assert verdict("synchronizations", 0, SYNCHRONIZED)[2] == (
        "2 synchronizations in a forward: 1 × cudaStreamSynchronize in aten::item, 4.00 µs, "
        "1 × cudaEventSynchronize in aten::item, 4.00 µs"
    )
    assert verdict("copies_to_device", 0, COLLECTIVE)[2] == (
        "1 copy to the device in a forward: Memcpy HtoD (Pageable -> Device) in no op"
    )


def test_the_idle_share_of_a_bare_trace_is_that_of_its_time_line() -> None:
    # One kernel of 10 µs from 0 on, and a range of 50 µs: idle for 40 of 50 µs.
    bare = replace(LINEAR, forward_time_us=None)
    judged = verdict("idle_percent", "80-80", bare)
    assert judged[:2] == ("confirmed", "80 %")
    assert judged[2].startswith("idle share of the trace (longest: ")
    untimed = replace(bare, forwards=(ProfiledForward(1, 0, 50.0, 10.0, 10.0, None),))
    assert verdict("idle_percent", "80-80", untimed)[:2] == ("not applicable", "not known")


def test_the_share_of_the_roof() -> None:
    # One kernel of 10 µs moves 1 + 1 MB: 200 GB/s, half of a memory roof of 400 GB/s.
    moved = facts(
        activities=(("kernel", MUL, "aten::mul"),), ops=((0, "aten::mul"),), input_bytes=10**6, output_bytes=10**6
    )

    def judged(value: Any, case: CaseFacts, ceilings: Ceilings) -> tuple[str, str]:
        (one,) = judge(case.case, {"roof_percent": value}, case, {}, ceilings)
        return one.verdict, one.observed

    roof = Ceilings(bytes_per_s=400e9)
    assert judged({"*Mul*": "49-51"}, moved, roof) == ("confirmed", "50 %")
    assert judged({"*Mul*": {"min": 60}}, moved, roof) == ("broken", "50 %")
    assert judged({"*Mul*": {"min": 60}}, moved, Ceilings()) == ("not applicable", "not known")
    assert judged({"nvjet*": {"min": 60}}, moved, roof) == ("not applicable", "not known")


def test_the_share_of_the_roof_in_the_shipped_run(recorded_facts: Facts) -> None:
    product = recorded_facts["ceiling-matmul"]
    (judged,) = judge("ceiling-matmul", {"roof_percent": {"*": {"min": 95}}}, product, recorded_facts)
    assert judged.verdict == "confirmed", judged.evidence  # the ceiling is the best of its own processes


def test_kernels_in_order() -> None:
    case = facts(activities=tuple(("kernel", name, "x") for name in (NVJET, MUL, OTHER_GEMM)))
    assert verdict("kernels_in_order", ["nvjet_*", "*Mul*", "nvjet_*"], case)[:2] == ("confirmed", "in this order")
    assert verdict("kernels_in_order", [NVJET, OTHER_GEMM], case)[0] == "confirmed"
    assert verdict("kernels_in_order", ["*Mul*", NVJET], case)[:2] == (
        *("broken", f"{NVJET} not found after what comes before it"),
    )  # fmt: skip
    assert verdict("kernels_in_order", ["nvjet_*"] * 3, case)[0] == "broken"
    assert verdict("kernels_in_order", SILENT, case)[0] == "broken"
    assert verdict("kernels_in_order", ["*Mul*"] * 2, uneven(1, 2))[:2] == ("not applicable", "forwards differ")
    on_cpu = replace(case, device_type="cpu", kernels=None)
    assert verdict("kernels_in_order", "nvjet_*", on_cpu)[0] == "not applicable"


def test_a_measured_occupancy_is_judged_before_an_estimate() -> None:
    """The trace estimates 12 % and 25 %; Nsight Compute measured the first kernel, and could not join the second."""
    counters = (
        KernelCounters(run="r", case="c", status="joined", position=0, occupancy_percent=40.0),
        KernelCounters(run="r", case="c", status="not joined", position=1, occupancy_percent=90.0),
    )
    wanted, observed, evidence = verdict(
        "occupancy_percent", {"*Mul*": {"min": 20}}, replace(OCCUPIED, counters=counters)
    )
    assert (wanted, observed) == ("confirmed", "40 %, 25 %")
    assert "40 % of 50 % that its resources allow (measured by Nsight Compute)" in evidence
    assert evidence.count("measured") == 1
