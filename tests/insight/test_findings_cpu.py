"""Rules about the CPU's share of a forward, each on a recorded trace that shows the thing, or on a small one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from insight_findings import found, one, small
from insight_raw import device_time, forwards
from insight_traces import Trace

from kernelbook.case_facts import CaseFacts
from kernelbook.findings import find_in_run
from kernelbook.findings.overhead import CALLS, PYTHON, WRAPPER, cpu_parts
from kernelbook.findings.registry import Scene
from kernelbook.units import duration

Look = Callable[[str], CaseFacts]
Facts = dict[str, CaseFacts]
SGEMM = "ampere_sgemm_128x64_nn"


def unprofiled(folder: Path) -> list[float]:
    """Median forward time of each process, from the measurements, µs."""
    read = [json.loads(path.read_text()) for path in sorted(folder.glob("*/measurement.json"))]
    return [median(each["forward_times_us"]) for each in read]


def busy(folder: Path, annotation: str) -> list[float]:
    """Median device time of each process, which is its busy time on one stream, µs."""
    traces = sorted(folder.glob("*/trace.json.gz"))
    return [median(map(device_time, forwards(trace, annotation))) for trace in traces]


def ends(times: list[float]) -> str:
    """The range as texts give it."""
    return f"{duration(min(times))} to {duration(max(times))}"


# --- CPU against device ----------------------------------------------------------------------------------------------


def test_linear_is_launch_bound_and_inplace_attention_is_not(facts_of: Look) -> None:
    finding = one(facts_of("linear-eager"), "overhead-bound")
    assert finding.text.startswith("Overhead-bound (launch-bound): ")
    assert finding.severity == "high"
    assert finding.share is not None
    assert finding.share > 0.9
    assert (finding.kind, finding.of) == ("recoverable", "forward")
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
    assert "over 3 processes" not in one(recorded_facts["linear-eager"], "overhead-bound").text  # 8 % apart


def test_cudnn_attention_is_launch_bound_although_its_kernel_is_the_fastest(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["sdpa-cudnn-eager"], "overhead-bound", recorded_facts)
    # Forward over busy time of its processes, by hand: 1.186, 1.036 and 1.105.
    assert finding.text.startswith("Overhead-bound (launch-bound) in 2 of 3 processes: ")
    assert "Yet its kernel (also in sdpa-auto-eager) is the fastest of this workload" in finding.text
    assert "1.63 x as fast as sdpa-flash-eager on the device, 1.48 x in an unprofiled forward" in finding.text
    assert found(recorded_facts["sdpa-flash-eager"], "overhead-bound", recorded_facts) == []


def test_in_the_further_traces_cudnn_is_launch_bound_and_fastest_too(request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue("shared_facts")
    text = one(facts["sdpa-cudnn-eager"], "overhead-bound", facts).text
    assert "Yet its kernel is the fastest of this workload" in text
    assert "sdpa-flash-eager on the device" in text
    assert not any("Yet" in other.text for other in found(facts["sdpa-flash-eager"], "overhead-bound", facts))


def test_unprofiled_forwards_that_overlap_give_no_ratio(recorded_facts: Facts) -> None:
    text = one(recorded_facts["mlp-liger"], "overhead-bound", recorded_facts).text
    assert "1.07 x as fast as mlp-compile on the device, while the unprofiled forwards of the two overlap" in text


def test_a_case_that_waits_for_the_cpu_in_one_process_alone_is_a_note(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["mlp-compile"], "overhead-bound")
    assert finding.text.startswith("Overhead-bound (launch-bound) in 1 of 3 processes: ")
    assert (finding.severity, finding.kind, finding.time_us) == ("info", "note", None)
    told = [finding.text for _, finding in find_in_run(recorded_facts) if finding.kind == "note"]
    (some,) = (text for text in told if text.startswith("Overhead-bound"))
    assert "mlp-compile in 1 of 3 processes" in some
    assert "sdpa-auto-eager in 1 of 3 processes" in some


def test_what_the_cpu_does_is_told_by_its_parts(recorded_facts: Facts) -> None:
    parts = cpu_parts(recorded_facts["linear-compile"])
    assert next(iter(parts)) == WRAPPER  # and not the one launch
    assert parts[CALLS] < 0.1
    assert sum(parts.values()) == pytest.approx(1.0)
    finding = one(recorded_facts["linear-compile"], "overhead-bound")
    assert "% torch.compile's wrapper, " in finding.text
    assert "leave this part eager" in finding.remedy
    assert "CUDA graph" in one(recorded_facts["matmul-add-64-eager"], "overhead-bound").remedy
    liger = one(recorded_facts["mlp-liger"], "overhead-bound").text
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
    assert "that the trace does not break down" in finding.text
    assert "cuBLAS" in finding.remedy


def test_a_cost_on_the_cpu_says_how_far_its_processes_lie_apart(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["sdpa-cudnn-eager"], "library-call")
    assert "(over 3 processes)" in finding.text
    assert finding.time_high_us > 2 * finding.time_low_us


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
    assert "1 runtime call a forward" in finding.text
    assert finding.time_us == 4.0


def test_a_buffer_request_of_the_profiler_is_told(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([(SGEMM, 10.0)])
    row = {"name": "Activity Buffer Request", "count": 1, "cpu_time_us": 2254.0, "self_cpu_time_us": 2254.0}
    facts = small(tmp_path, trace, key_averages=[row])
    assert "1 buffer while it recorded: 2.25 ms" in one(facts, "profiler-buffer").text


# --- torch.compile ---------------------------------------------------------------------------------------------------


def test_compile_costs_a_wrapper_on_the_cpu_and_fuses_nothing_of_a_linear(request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue("shared_facts")
    overhead = one(facts["linear-compile"], "compile-overhead", facts)
    assert overhead.text.startswith("torch.compile's wrapper (Dynamo's guards, AOTAutograd's prologue, ")
    assert "eager" in overhead.text
    nothing = one(facts["linear-compile"], "compile-fused-nothing", facts)
    assert "the very kernel of linear-eager" in nothing.text
    assert found(facts["mlp-compile"], "compile-fused-nothing", facts) == []
    assert found(facts["linear-eager"], "compile-overhead", facts) == []


def test_fusing_nothing_costs_what_an_unprofiled_forward_takes_longer(
    recorded_facts: Facts, recorded_h200: Path
) -> None:
    finding = one(recorded_facts["linear-compile"], "compile-fused-nothing", recorded_facts)
    compiled, eager = (unprofiled(recorded_h200 / case) for case in ("linear-compile", "linear-eager"))
    assert (
        f"an unprofiled forward takes {ends(compiled)} (over 3 processes) against {duration(median(eager))}"
        in finding.text
    )
    assert finding.time_us == pytest.approx(median(compiled) - median(eager))
    assert finding.time_low_us == pytest.approx(min(compiled) - max(eager))
    assert (finding.of, finding.kind) == ("forward", "recoverable")


def test_forwards_that_overlap_with_those_of_eager_give_no_cost(recorded_facts: Facts) -> None:
    case, eager = recorded_facts["linear-compile"], recorded_facts["linear-eager"]
    slow = tuple(
        replace(p, forward_times_us=(90.0,) if p.process == 1 else p.forward_times_us) for p in eager.processes
    )
    others = recorded_facts | {"linear-eager": replace(eager, processes=slow)}  # one at 90 µs, above 81.6 of compile
    finding = one(case, "compile-fused-nothing", others)
    assert (finding.time_us, finding.kind) == (None, "note")


def test_the_code_that_inductor_wrote_is_no_overhead_of_its_wrapper(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["attention-flex-compile"], "compile-overhead", recorded_facts)
    assert "Torch-Compiled Region" in finding.evidence
    assert "CompiledFxGraph" not in finding.evidence


def test_the_wrapper_costs_no_more_than_the_device_idles(recorded_facts: Facts, recorded_h200: Path) -> None:
    finding = one(recorded_facts["attention-flex-compile"], "compile-overhead", recorded_facts)
    folder = recorded_h200 / "attention-flex-compile"
    idle = [whole - own for whole, own in zip(unprofiled(folder), busy(folder, "attn_fwd"), strict=True)]
    assert f"An unprofiled forward can lose no more than the {ends(idle)} for which its device is idle." in finding.text
    assert finding.time_us == pytest.approx(median(idle))


def test_where_the_device_sets_the_pace_the_wrapper_costs_no_forward_time(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["sdpa-math-compile"], "compile-overhead", recorded_facts)
    assert finding.severity == "info"
    assert "it costs no forward time" in finding.text
    # CPU time of all eager processes is above that of all compiled ones: 590 to 834 µs against 308 to 395.
    assert " A whole forward takes 308 µs to 395 µs of CPU time, eager 590 µs to 834 µs." in finding.text
    overlapping = one(recorded_facts["attention-naive-compile"], "compile-overhead", recorded_facts).text
    assert overlapping.endswith("eager 302 µs to 379 µs: the processes overlap.")
    rows = [f for _, f in find_in_run(recorded_facts) if f.rule == "compile-overhead" and f.severity == "info"]
    assert [len(finding.cases.split(", ")) for finding in rows] == [4]


def test_a_second_compilation_of_a_frame_is_a_recompilation(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([(SGEMM, 10.0)], op="Torch-Compiled Region: 0/1")
    assert "compiled again" in one(small(tmp_path, trace), "recompiled").text


def test_a_first_compilation_is_none(facts_of: Look) -> None:
    assert found(facts_of("mlp-compile"), "recompiled") == []


def test_times_of_a_twin_on_another_machine_are_not_set_beside_ones_own(recorded_facts: Facts) -> None:
    twin = replace(recorded_facts["linear-eager"], driver="1.0")
    others = recorded_facts | {"linear-eager": twin}
    case = recorded_facts["linear-compile"]
    assert "eager " in one(case, "compile-overhead", recorded_facts).text
    assert "eager " not in one(case, "compile-overhead", others).text
    assert " against " in one(case, "compile-fused-nothing", recorded_facts).text
    alone = one(case, "compile-fused-nothing", others)
    assert (alone.time_us, alone.kind) == (None, "note")
    assert twin not in Scene(case, others).peers()
    assert recorded_facts["linear-eager"] in Scene(case, recorded_facts).peers()


def compiled(tmp_path: Path, **measured: object) -> CaseFacts:
    """Three forwards of one compiled region that spends 10, 20 and 26 µs in itself; the first stands for the case."""
    trace = Trace()
    for kernel in (11.0, 10.0, 12.0):
        trace.forward([(SGEMM, kernel)], op="Torch-Compiled Region: 0/0")
    ops = [event for event in trace.events if event["cat"] == "cpu_op"]
    for op, length in zip(ops, (15.0, 25.0, 31.0), strict=True):
        op["dur"] = length  # 5 µs of it are the launch
    return small(tmp_path, trace, **measured)


def test_a_cost_on_the_cpu_is_the_median_over_all_forwards(tmp_path: Path) -> None:
    facts = compiled(tmp_path)
    assert facts.chosen == (1, 0)
    finding = one(facts, "compile-overhead")
    assert (finding.time_us, finding.share) == (20.0, 0.2)  # of 100 µs
    assert "takes 20.0 µs of CPU time in each call under the profiler" in finding.text
    assert finding.evidence == "Torch-Compiled Region: 0/0 20.0 µs"


@pytest.mark.parametrize(("whole", "level"), [(100.0, "high"), (11.5, "info"), (None, "info")])
def test_a_cost_on_the_cpu_ranks_only_where_the_cpu_sets_the_pace(
    tmp_path: Path, whole: float | None, level: str
) -> None:
    facts = compiled(tmp_path, forward_times_us=[whole] * 3 if whole else [])
    assert one(facts, "compile-overhead").severity == level
