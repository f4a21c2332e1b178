"""Rules about the CPU's share of a forward, each on a recorded trace that shows the thing, or on a small one."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.judge.findings import find_in_run
from kernelbook.judge.findings.overhead import CALLS, PYTHON, WRAPPER, cpu_parts
from tests.insight.insight_findings import busy, ends, found, one, small, unprofiled
from tests.insight.insight_raw import by_process, self_time
from tests.insight.insight_recorded import Facts, Look, taking, waiting
from tests.insight.insight_traces import Trace

SGEMM = "ampere_sgemm_128x64_nn"


@pytest.fixture
def waiting_facts(recorded_facts: Facts) -> Facts:
    """The recorded run as with a slower CPU: four cases wait for it, each in one process at least."""
    slower = {  # unprofiled forward over busy time, for each process; above 1.1 it waits for the CPU
        "mlp-compile": (1.43, 1.02, 1.01),
        "mlp-liger": (1.36, 1.31, 1.27),
        "sdpa-auto-eager": (1.15, 1.04, 1.04),
        "sdpa-cudnn-eager": (1.19, 1.045, 1.14),
    }

    def slowed(case: str) -> CaseFacts:
        busy_us = [process.device_busy_us or 0.0 for process in recorded_facts[case].processes]
        return waiting(recorded_facts[case], *(ratio * us for ratio, us in zip(slower[case], busy_us, strict=True)))

    return recorded_facts | {case: slowed(case) for case in slower}


# --- CPU against device ----------------------------------------------------------------------------------------------


def test_linear_is_launch_bound_and_inplace_attention_is_not(facts_of: Look) -> None:
    finding = one(facts_of("linear-eager"), "overhead-bound")
    assert finding.text.startswith("Overhead-bound (launch-bound): ")
    assert finding.severity == "high"
    assert finding.share is not None
    assert finding.share > 0.8
    assert (finding.kind, finding.of) == ("spent", "forward")  # no case measures what a remedy saves of it
    assert found(facts_of("attention-inplace-eager"), "overhead-bound") == []


def test_times_of_processes_that_lie_apart_are_told_as_a_range(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["linear-compile"], "overhead-bound")
    wholes = unprofiled(recorded_h200 / "linear-compile")
    idle = [
        whole - own for whole, own in zip(wholes, busy(recorded_h200 / "linear-compile", "linear_fwd"), strict=True)
    ]
    assert f"an unprofiled forward takes {ends(wholes)} (over 3 processes)" in finding.text
    assert f"For the other {ends(idle)} it waits for the CPU" in finding.text
    assert (finding.time_low_us, finding.time_high_us) == (pytest.approx(min(idle)), pytest.approx(max(idle)))
    alike = taking(recorded_facts["linear-eager"], 40.0, 41.0, 42.0)  # 5 % apart
    assert "over 3 processes" not in one(alike, "overhead-bound").text


def test_cudnn_attention_is_launch_bound_although_its_kernel_is_the_fastest(
    recorded_facts: Facts, waiting_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(waiting_facts["sdpa-cudnn-eager"], "overhead-bound", waiting_facts)
    assert finding.text.startswith("Overhead-bound (launch-bound) in 2 of 3 processes: ")
    assert "Yet its kernel (also in sdpa-auto-eager) is the fastest of this workload" in finding.text
    # The next on the device is attention-flex-compile, before sdpa-flash-eager.
    flex, cudnn = recorded_h200 / "attention-flex-compile", recorded_h200 / "sdpa-cudnn-eager"
    device = median(busy(flex, "attn_fwd")) / median(busy(cudnn, "sdpa_fwd"))
    text = f"{device:.2f}× as fast as attention-flex-compile on the device"
    # Its first process, at 139 µs, lies above all of cuDNN's, the last, at 82.9, too: 92.4 over 64.7 in the median.
    whole = median(unprofiled(flex)) / median(each.forward_time_us for each in waiting_facts[cudnn.name].processes)
    assert f"{text}, {whole:.2f}× in an unprofiled forward" in finding.text
    assert found(waiting_facts["sdpa-flash-eager"], "overhead-bound", waiting_facts) == []
    assert found(recorded_facts["sdpa-cudnn-eager"], "overhead-bound", recorded_facts) == []


def test_the_time_waited_for_the_cpu_is_that_of_the_processes_that_wait(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["attention-flex-compile"], "overhead-bound", recorded_facts)
    folder = recorded_h200 / "attention-flex-compile"
    wholes, works = unprofiled(folder), busy(folder, "attn_fwd")
    late = [(whole, work) for whole, work in zip(wholes, works, strict=True) if whole > 1.1 * work]
    assert len(late) == 2  # the other process waits for 1.7 of 82.9 µs
    assert finding.text.startswith("Overhead-bound (launch-bound) in 2 of 3 processes: ")
    idle = [whole - work for whole, work in late]
    assert f"there an unprofiled forward takes {ends([whole for whole, _ in late])}" in finding.text
    assert f"For the other {ends(idle)} it waits for the CPU" in finding.text
    assert (finding.time_low_us, finding.time_high_us) == (pytest.approx(min(idle)), pytest.approx(max(idle)))
    assert finding.share == pytest.approx(median(idle) / median(whole for whole, _ in late))


def test_in_the_further_traces_cudnn_is_launch_bound_and_fastest_too(request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue("shared_facts")
    text = one(facts["sdpa-cudnn-eager"], "overhead-bound", facts).text
    assert "Yet its kernel is the fastest of this workload" in text
    assert "sdpa-flash-eager on the device" in text
    assert not any("Yet" in other.text for other in found(facts["sdpa-flash-eager"], "overhead-bound", facts))


def test_unprofiled_forwards_that_overlap_give_no_ratio(waiting_facts: Facts, recorded_h200: Path) -> None:
    text = one(waiting_facts["mlp-liger"], "overhead-bound", waiting_facts).text
    compiled, liger = (median(busy(recorded_h200 / f"mlp-{of}", "mlp_fwd")) for of in ("compile", "liger"))
    ratio = f"{compiled / liger:.2f}× as fast as mlp-compile on the device"
    assert f"{ratio}, while the unprofiled forwards of the two overlap" in text


def test_a_case_that_waits_for_the_cpu_in_one_process_alone_is_a_note(waiting_facts: Facts) -> None:
    finding = one(waiting_facts["mlp-compile"], "overhead-bound")
    assert finding.text.startswith("Overhead-bound (launch-bound) in 1 of 3 processes: ")
    assert (finding.severity, finding.kind, finding.time_us) == ("info", "note", None)
    told = [finding.text for finding in find_in_run(waiting_facts) if finding.kind == "note"]
    (some,) = (text for text in told if text.startswith("Overhead-bound"))
    assert "mlp-compile in 1 of 3 processes" in some
    assert "sdpa-auto-eager in 1 of 3 processes" in some


def test_what_the_cpu_does_is_told_by_its_parts(recorded_facts: Facts, waiting_facts: Facts) -> None:
    parts = cpu_parts(recorded_facts["linear-compile"])
    assert next(iter(parts)) == WRAPPER  # and not the one launch
    assert parts[CALLS] < 0.1
    assert sum(parts.values()) == pytest.approx(1.0)
    finding = one(recorded_facts["linear-compile"], "overhead-bound")
    assert "% torch.compile's wrapper, " in finding.text
    assert "CUDA graph" in one(recorded_facts["matmul-add-64-eager"], "overhead-bound").remedy
    liger = one(waiting_facts["mlp-liger"], "overhead-bound").text
    assert "% the Python function LigerGELUMulFunction" in liger


def test_parts_of_cpu_time_are_those_of_the_calls(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([(SGEMM, 10.0)])  # a range of 100 µs, in it an op of 30 with a launch of 5
    parts = cpu_parts(small(tmp_path, trace))
    assert parts == {PYTHON: pytest.approx(0.7), "ATen ops": pytest.approx(0.25), CALLS: pytest.approx(0.05)}


# --- calls -----------------------------------------------------------------------------------------------------------


def test_metadata_ops_are_counted(facts_of: Look) -> None:
    # matmul's and linear's views: t, transpose, as_strided of one linear.
    assert "3 of 5 CPU ops only change sizes and strides" in one(facts_of("linear-eager"), "metadata-ops").text
    assert found(facts_of("matmul-add-64-eager"), "metadata-ops") == []


def test_a_library_call_is_the_bar_without_child_ops(facts_of: Look) -> None:
    assert one(facts_of("sdpa-cudnn-eager"), "library-call").text.startswith("aten::_cudnn_attention_forward spends")
    finding = one(facts_of("linear-eager"), "library-call")
    assert finding.text.startswith("aten::addmm spends")
    assert "the trace does not break it down" in finding.text
    assert "cuBLAS" in finding.remedy


def test_a_cost_on_the_cpu_says_how_far_its_processes_lie_apart(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["attention-inplace-eager"], "library-call")
    folder = recorded_h200 / "attention-inplace-eager"
    spent = by_process(folder, "attn_fwd", lambda forward: self_time(forward, ("aten::bmm",)))
    assert f"spends {ends(spent)} (over 3 processes)" in finding.text
    assert finding.time_high_us > 1.5 * finding.time_low_us


def test_a_cause_is_claimed_for_known_ops_alone(recorded_facts: Facts) -> None:
    (liger,) = (f for f in found(recorded_facts["mlp-liger"], "library-call") if f.text.startswith("LigerGELU"))
    assert "library" not in liger.text
    assert "cuBLAS" not in liger.remedy
    assert "Python code" in liger.remedy


def test_an_occupancy_query_is_no_launch(tmp_path: Path) -> None:
    trace = Trace()
    query = ("cuda_runtime", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
    trace.forward([(SGEMM, 10.0)], inside=[query])
    facts = small(tmp_path, trace)
    assert (facts.kernels, facts.launches) == (1, 1)
    finding = one(facts, "occupancy-query")
    assert "1 runtime call per forward" in finding.text
    assert finding.time_us == 4.0


def test_a_buffer_request_of_the_profiler_is_told(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([(SGEMM, 10.0)])
    row = {"name": "Activity Buffer Request", "count": 1, "cpu_time_us": 2254.0, "self_cpu_time_us": 2254.0}
    facts = small(tmp_path, trace, key_averages=[row])
    assert "1 buffer while it recorded: 2.25 ms" in one(facts, "profiler-buffer").text


# --- between the forwards --------------------------------------------------------------------------------------------


def steps(tmp_path: Path, name: str, length: float) -> CaseFacts:
    """Forwards of 100 µs with 10 µs of device work, one every 200 µs, each followed by a range with 5 µs of it."""
    trace = Trace()
    for number in range(3):
        trace.forward([(SGEMM, 10.0)])
        at = 200.0 * number + 100.0
        trace.event("user_annotation", name, at, length)
        trace.event("cuda_runtime", "cudaLaunchKernel", at + 1.0, 2.0, correlation=900 + number)
        trace.event("kernel", "multi_tensor_apply_kernel", at + 4.0, 5.0, correlation=900 + number, device=0, stream=7)
    return small(tmp_path, trace)


@pytest.mark.parametrize(
    ("name", "rule", "remedy"),
    [
        ("Optimizer.step#AdamW.step", "optimizer-on-cpu", "fused=True"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "data-loading", "num_workers"),
    ],
)
def test_what_torch_does_between_the_forwards_keeps_the_device_idle(
    tmp_path: Path, name: str, rule: str, remedy: str
) -> None:
    """90 µs of CPU time less 5 of device work; the device is busy for 15 of the 200 µs of a step."""
    finding = one(steps(tmp_path, name, 90.0), rule)
    assert (finding.time_us, finding.severity) == (85.0, "high")
    assert "takes 90.0 µs of CPU time between the forwards" in finding.text
    assert (
        "against 5.00 µs of device work in 1 kernel. Of a step of 200 µs the device is busy for 15.0 µs" in finding.text
    )
    assert remedy in finding.remedy


def test_a_short_range_between_the_forwards_is_not_reported(tmp_path: Path) -> None:
    assert found(steps(tmp_path, "Optimizer.step#AdamW.step", 14.0), "optimizer-on-cpu") == []
    assert found(steps(tmp_path / "own", "my own range", 90.0), "optimizer-on-cpu") == []


def test_ranges_outside_the_forwards_are_counted_once_for_each_forward(tmp_path: Path) -> None:
    (other,) = steps(tmp_path, "zero_grad", 50.0).other_ranges
    assert (other.name, other.per_forward, other.cpu_time_us) == ("zero_grad", 1.0, 50.0)
    assert (other.device_busy_us, other.kernels) == (5.0, 1)
