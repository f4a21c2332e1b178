"""Which figures may be compared: pairs worked out by hand. The page carries what this rule decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.cases.comparability import Conditions, refusal

H200 = Conditions("a", "mlp", "NVIDIA H200", "cuda", 16, "580", "bfloat16", '{"batch": 8}', "cuda_events")
CPU = Conditions("a", "mlp", "EPYC 9654", "cpu", 16, None, "bfloat16", '{"batch": 8}', "wall")


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (H200, replace(H200, run="b"), None),
        (H200, replace(H200, device="NVIDIA A100"), "the GPU differs: NVIDIA H200 and NVIDIA A100"),
        (H200, replace(H200, driver="550"), "the driver differs: 580 and 550"),
        (H200, replace(H200, threads=4), None),  # a GPU's time is not that of the CPU's threads
        (H200, replace(H200, dtype="float16"), "the element type differs: bfloat16 and float16"),
        (H200, replace(H200, params='{"batch": 4}'), "the parameters differ: batch 8 and batch 4"),
        (H200, replace(H200, workload="attention", params='{"batch": 4}'), None),
        (H200, replace(H200, timer="wall"), "the timer differs: cuda_events and wall"),
        (H200, replace(H200, timer=None), None),  # nothing was timed: device times may still be compared
        (H200, CPU, "the device differs: NVIDIA H200 and EPYC 9654"),  # no CPU is called a GPU
        (H200, replace(CPU, params='{"batch": 1}'), "the parameters differ: batch 8 and batch 1"),  # which comes first
        (H200, replace(H200, device="NVIDIA A100", params="{}"), "the GPU differs: NVIDIA H200 and NVIDIA A100"),
        (CPU, replace(CPU, run="b"), None),
        (CPU, replace(CPU, device="Xeon"), "the CPU differs: EPYC 9654 and Xeon"),
        (CPU, replace(CPU, threads=8), "the number of threads differs: 16 and 8"),
        (replace(H200, driver=None), replace(H200, driver=None), None),  # one run: the same, whatever it is
        (replace(H200, driver=None), replace(H200, driver=None, run="b"), "the driver is not known"),
        (replace(H200, driver=None), replace(H200, run="b"), "the driver differs: unknown and 580"),
    ],
)
def test_what_may_be_compared(a: Conditions, b: Conditions, why: str | None) -> None:
    assert refusal(a, b) == why
    assert (refusal(b, a) is None) == (why is None)
