"""Each rule on a recorded trace that shows the thing, or on a small trace where none does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from insight_recorded import facts_of_folder
from insight_traces import H200, Trace

from kernelbook.case_facts import Activity, Call, CaseFacts, Forward
from kernelbook.findings import Finding, find, rules
from kernelbook.findings.registry import Scene
from kernelbook.findings.shape import theoretical_occupancy

Look = Callable[[str], CaseFacts]


def found(facts: CaseFacts, rule: str, others: dict[str, CaseFacts] | None = None) -> list[Finding]:
    """What one rule found."""
    return [finding for finding in find(facts, others) if finding.rule == rule]


def one(facts: CaseFacts, rule: str, others: dict[str, CaseFacts] | None = None) -> Finding:
    """The only finding of a rule."""
    (finding,) = found(facts, rule, others)
    assert finding.text.endswith(".")
    assert finding.remedy.endswith(".")
    assert finding.evidence
    return finding


def small(tmp_path: Path, trace: Trace, **measured: object) -> CaseFacts:
    """The facts of one small trace."""
    trace.write(tmp_path, "small", **measured)
    return facts_of_folder("small", tmp_path)["small"]


# --- copies ----------------------------------------------------------------------------------------------------------


def test_the_copy_that_masked_fill_makes_is_found_with_op_bytes_and_share(facts_of: Look) -> None:
    naive = facts_of("attention-naive-eager")
    finding = one(naive, "unwritten-copy")
    # 8 x 16 x 1024 x 1024 scores of 2 bytes are 256 MiB.
    assert "aten::masked_fill launched a copy of 256 MiB" in finding.text
    assert "aten::clone > aten::copy_" in finding.text
    assert finding.time_us == pytest.approx(128, abs=3)
    assert finding.share == pytest.approx(0.12, abs=0.01)
    assert found(facts_of("attention-inplace-eager"), "unwritten-copy") == []
    assert found(facts_of("matmul-add-4096-compile"), "unwritten-copy") == []


def test_out_of_place_says_which_op_and_when_in_place_is_safe(facts_of: Look) -> None:
    naive = facts_of("attention-naive-eager")
    finding = one(naive, "out-of-place")
    assert finding.time_us is None  # it is that of the copy, which is told already
    assert finding.positions == one(naive, "unwritten-copy").positions
    assert finding.remedy == one(naive, "unwritten-copy").remedy
    assert "masked_fill works out of place" in finding.text
    assert "masked_fill_" in finding.remedy
    assert "no_grad" in finding.remedy
    assert found(facts_of("attention-inplace-eager"), "out-of-place") == []


def test_a_memcpy_seeds_the_bias_of_the_compiled_addmm(facts_of: Look) -> None:
    finding = one(facts_of("matmul-add-4096-compile"), "bias-memcpy")
    assert "aten::addmm" in finding.text
    assert finding.time_us == pytest.approx(15.5, abs=1.0)
    assert found(facts_of("linear-eager"), "bias-memcpy") == []


def test_workspace_memsets_are_counted_and_cost_little(facts_of: Look) -> None:
    finding = one(facts_of("mlp-eager"), "workspace-memset")
    assert "cuBLAS clears a workspace of 4 bytes before 2 kernels" in finding.text
    assert finding.severity == "info"
    assert "cuDNN" in one(facts_of("sdpa-cudnn-eager"), "workspace-memset").text
    assert found(facts_of("sdpa-math-eager"), "workspace-memset") == []


# --- attention -------------------------------------------------------------------------------------------------------


def test_math_runs_its_products_in_fp32_on_cuda_cores_and_casts_around_them(facts_of: Look) -> None:
    math = facts_of("sdpa-math-eager")
    finding = one(math, "fp32-gemm")
    assert "2 GEMM kernels ran in fp32 on CUDA cores" in finding.text
    assert "5 casts around them" in finding.text
    assert finding.severity == "high"
    gemms = [a for a in math.activities if "xmma_gemm_f32f32" in a.name]
    copies = [a for a in math.activities if "copy_kernel" in a.name]
    assert (len(gemms), len(copies)) == (2, 5)
    assert finding.time_us == pytest.approx(sum(a.duration_us for a in [*gemms, *copies]))
    assert "allow_fp16_bf16_reduction_math_sdp" in finding.remedy
    assert found(facts_of("attention-inplace-eager"), "fp32-gemm") == []


def test_math_rebuilds_its_mask_at_each_call(facts_of: Look) -> None:
    finding = one(facts_of("sdpa-math-eager"), "mask-rebuilt")
    # ones, tril, two scalars and where: five kernels before the products.
    assert "5 kernels: ones, tril, scalar_tensor, where" in finding.text
    assert finding.time_us == pytest.approx(11.3, abs=0.5)
    assert found(facts_of("attention-naive-eager"), "mask-rebuilt") == []


def test_safe_softmax_has_four_kernels_beside_softmax(facts_of: Look) -> None:
    finding = one(facts_of("sdpa-math-eager"), "safe-softmax")
    assert "4 kernels beside softmax" in finding.text
    assert finding.time_us == pytest.approx(667, abs=8)


# --- CPU against device ----------------------------------------------------------------------------------------------


def test_linear_is_launch_bound_and_inplace_attention_is_not(facts_of: Look) -> None:
    finding = one(facts_of("linear-eager"), "overhead-bound")
    assert finding.severity == "high"
    assert finding.share is not None
    assert finding.share > 0.9
    assert "1 launch by the CPU" in finding.text
    assert found(facts_of("attention-inplace-eager"), "overhead-bound") == []


def test_cudnn_attention_is_launch_bound_although_its_kernel_is_the_fastest(
    request: pytest.FixtureRequest,
) -> None:
    for fixture in ("recorded_facts", "shared_facts"):
        facts = request.getfixturevalue(fixture)
        finding = one(facts["sdpa-cudnn-eager"], "overhead-bound", facts)
        assert "Yet its kernels are the fastest of this workload" in finding.text
        assert "sdpa-flash-eager on the device" in finding.text
        flash = found(facts["sdpa-flash-eager"], "overhead-bound", facts)
        assert not any("Yet" in other.text for other in flash)


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


def test_a_cause_is_claimed_for_known_ops_alone(recorded_facts: dict[str, CaseFacts]) -> None:
    (liger,) = (f for f in found(recorded_facts["mlp-liger"], "library-call") if f.text.startswith("LigerGELU"))
    assert "library" not in liger.text
    assert "cuBLAS" not in liger.remedy


def test_an_occupancy_query_is_no_launch(tmp_path: Path) -> None:
    trace = Trace()
    query = ("cuda_runtime", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
    trace.forward([("ampere_sgemm_128x64_nn", 10.0)], inside=[query])
    facts = small(tmp_path, trace)
    assert (facts.kernels, facts.launches) == (1, 1)
    finding = one(facts, "occupancy-query")
    assert "1 runtime call a forward" in finding.text
    assert finding.time_us == 4.0


def test_a_buffer_request_of_the_profiler_is_told(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([("ampere_sgemm_128x64_nn", 10.0)])
    row = {"name": "Activity Buffer Request", "count": 1, "cpu_time_us": 2254.0, "self_cpu_time_us": 2254.0}
    facts = small(tmp_path, trace, key_averages=[row])
    assert "1 buffer while it recorded: 2.25 ms" in one(facts, "profiler-buffer").text


# --- torch.compile ---------------------------------------------------------------------------------------------------


def test_compile_costs_rows_on_the_cpu_and_fuses_nothing_of_a_linear(request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue("shared_facts")
    overhead = one(facts["linear-compile"], "compile-overhead", facts)
    assert "adds 5 profiler ranges to each call" in overhead.text
    assert "eager" in overhead.text
    nothing = one(facts["linear-compile"], "compile-fused-nothing", facts)
    assert "the very kernel of linear-eager" in nothing.text
    assert found(facts["mlp-compile"], "compile-fused-nothing", facts) == []
    assert found(facts["linear-eager"], "compile-overhead", facts) == []


def test_a_second_compilation_of_a_frame_is_a_recompilation(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([("ampere_sgemm_128x64_nn", 10.0)], op="Torch-Compiled Region: 0/1")
    assert "compiled again" in one(small(tmp_path, trace), "recompiled").text


def test_a_first_compilation_is_none(facts_of: Look) -> None:
    assert found(facts_of("mlp-compile"), "recompiled") == []


def test_times_of_a_twin_on_another_machine_are_not_set_beside_ones_own(recorded_facts: dict[str, CaseFacts]) -> None:
    twin = replace(recorded_facts["linear-eager"], driver="1.0")
    others = recorded_facts | {"linear-eager": twin}
    case = recorded_facts["linear-compile"]
    assert "eager " in one(case, "compile-overhead", recorded_facts).text
    assert "eager " not in one(case, "compile-overhead", others).text
    assert "more CPU time" in one(case, "compile-fused-nothing", recorded_facts).text
    assert one(case, "compile-fused-nothing", others).time_us == 0.0
    assert twin not in Scene(case, others).peers()
    assert recorded_facts["linear-eager"] in Scene(case, recorded_facts).peers()


def compiled(tmp_path: Path, **measured: object) -> CaseFacts:
    """Three forwards of one compiled region that spends 10, 20 and 26 µs in itself; the first stands for the case."""
    trace = Trace()
    for kernel in (11.0, 10.0, 12.0):
        trace.forward([("ampere_sgemm_128x64_nn", kernel)], op="Torch-Compiled Region: 0/0")
    ops = [event for event in trace.events if event["cat"] == "cpu_op"]
    for op, length in zip(ops, (15.0, 25.0, 31.0), strict=True):
        op["dur"] = length  # 5 µs of it are the launch
    return small(tmp_path, trace, **measured)


def test_a_cost_on_the_cpu_is_the_median_over_all_forwards(tmp_path: Path) -> None:
    facts = compiled(tmp_path)
    assert facts.chosen == (1, 0)
    finding = one(facts, "compile-overhead")
    assert (finding.time_us, finding.share) == (20.0, 0.2)  # of 100 µs
    assert "1 profiler range to each call, 20.0 µs of CPU time under the profiler" in finding.text
    assert finding.evidence == "Torch-Compiled Region: 0/0 20.0 µs"


@pytest.mark.parametrize(("whole", "level"), [(100.0, "high"), (11.5, "info"), (None, "info")])
def test_a_cost_on_the_cpu_ranks_only_where_the_cpu_sets_the_pace(
    tmp_path: Path, whole: float | None, level: str
) -> None:
    facts = compiled(tmp_path, forward_times_us=[whole] * 3 if whole else [])
    assert one(facts, "compile-overhead").severity == level


# --- the window ------------------------------------------------------------------------------------------------------


def test_work_from_before_the_window_is_told_and_not_counted(request: pytest.FixtureRequest) -> None:
    math = request.getfixturevalue("shared_facts")["sdpa-math-eager"]
    assert math.kernels == 20  # and not 69 / 3 = 23
    assert "finished inside it: 9;" in one(math, "before-window").text


def test_a_slow_first_step_is_told(tmp_path: Path, facts_of: Look) -> None:
    assert one(facts_of("linear-eager"), "slow-first").severity == "info"
    trace = Trace()
    for _ in range(4):
        trace.forward([("ampere_sgemm_128x64_nn", 10.0)])
    assert found(small(tmp_path, trace), "slow-first") == []


def test_launches_without_kernels_are_a_failed_collection(tmp_path: Path) -> None:
    trace = Trace()
    trace.forward([("ampere_sgemm_128x64_nn", 10.0)], device=False)
    facts = small(tmp_path, trace)
    assert facts.kernels is None
    assert "collection failed" in one(facts, "launches-without-kernels").text


def test_one_kernel_that_varies_from_step_to_step(tmp_path: Path) -> None:
    trace = Trace()
    for length in (50.0, 51.0, 63.0):
        trace.forward([("ampere_sgemm_128x64_nn", length), ("ampere_sgemm_128x128_nn", 20.0)])
    finding = one(small(tmp_path, trace), "uneven-kernel")
    assert "50.0 µs to 63.0 µs in 3 forwards" in finding.text
    assert finding.time_us == 13.0


# --- shape -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "percent"),
    [
        # Kineto's own estimate, rounded, stands beside each in our H200 traces.
        (128, 48, 0, 62.5),  # softmax_warp_forward: 63
        (128, 121, 12672, 25.0),  # xmma 64x64x8: 25
        (128, 255, 33792, 12.5),  # xmma 128x128x8: 13
        (128, 40, 0, 75.0),  # vectorized mul: 75
        (128, 32, 0, 100.0),  # vectorized gelu: 100
        (128, 255, 49152, 12.5),  # flash_fwd_kernel: 13
        (128, 128, 18944, 25.0),  # fmha_cutlassF: 25
        # One block of 12 warps of 64, by hand: 213188 of 233472 bytes of shared memory leave no room for a second.
        (384, 168, 213188, 18.75),
    ],
)
def test_theoretical_occupancy(threads: int, registers: int, shared: int, percent: float) -> None:
    kernel = Activity(0, "kernel", "k", 0.0, 1.0, block=(threads, 1, 1), registers_per_thread=registers,
                      shared_memory_bytes=shared)  # fmt: skip
    assert theoretical_occupancy(kernel, H200) == percent
    assert theoretical_occupancy(kernel, {}) is None


def test_zero_occupancy_of_a_cublas_kernel_is_a_gap(facts_of: Look) -> None:
    finding = one(facts_of("linear-eager"), "occupancy-gap")
    assert "gap in the measurement" in finding.text
    assert "cuLaunchKernelEx" in finding.text
    assert "19 %" in finding.text
    assert found(facts_of("linear-eager"), "low-occupancy") == []


def test_low_occupancy_of_flash_attention_is_meant(facts_of: Look) -> None:
    assert "flash_fwd_kernel 12.5 %" in one(facts_of("sdpa-flash-eager"), "low-occupancy").text


def test_equal_flops_on_two_kernels_are_explained_by_waves(recorded_facts: dict[str, CaseFacts]) -> None:
    finding = one(recorded_facts["mlp-eager"], "unequal-gemms")
    # 2 x 8192 x 3072 x 768 FLOP; 12 x 64 tiles of 256 x 128 and 4 x 64 of 192 x 128, over 132 multiprocessors.
    assert "3 products of 38.7 GFLOP each run on 2 different kernels" in finding.text
    assert "768 tiles, 5.82 waves" in finding.text
    assert "256 tiles, 1.94 waves" in finding.text
    assert found(recorded_facts["matmul-add-4096-eager"], "unequal-gemms") == []


@pytest.mark.parametrize(("other", "differs"), [((64, 16), False), ((16, 64), True)])
def test_unequal_gemms_say_that_outputs_differ_only_where_they_do(other: tuple[int, int], differs: bool) -> None:
    names = ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT")
    rows = tuple(Activity(i, "kernel", n, 20.0 * i, 10.0, op="aten::mm") for i, n in enumerate(names))
    shapes = [f"[[{m}, 32], [32, {n}]]" for m, n in ((64, 16), other)]
    calls = tuple(Call(i, 0, None, "op", "aten::mm", 0.0, 1.0, 1.0, input_shapes=s) for i, s in enumerate(shapes))
    facts = CaseFacts("r", "c", kernels=2, forwards=(Forward(1, 0, 9.0, activities=rows),), calls=calls)
    assert ("outputs of different shape" in one(facts, "unequal-gemms").text) is differs


# --- all of them -----------------------------------------------------------------------------------------------------


def test_every_rule_has_a_condition_and_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for name, rule in rules().items():
        assert f'"{name}"' in source, f"no test of the rule {name}"
        assert rule.condition


def test_findings_come_with_the_dearest_first_and_a_failed_case_has_none(facts_of: Look) -> None:
    levels = [finding.severity for finding in find(facts_of("sdpa-math-eager"))]
    assert levels == sorted(levels, key=["high", "medium", "low", "info"].index)
    assert find(CaseFacts("r", "c", status="failed")) == []


def test_of_one_weight_cpu_time_under_the_profiler_comes_last(recorded_facts: dict[str, CaseFacts]) -> None:
    found_in = find(recorded_facts["linear-compile"], recorded_facts)
    high = [(finding.rule, finding.of) for finding in found_in if finding.severity == "high"]
    assert high == [
        ("overhead-bound", "forward"),
        ("compile-fused-nothing", "CPU, profiled"),
        ("compile-overhead", "CPU, profiled"),
    ]
    for facts in recorded_facts.values():
        for finding in find(facts, recorded_facts):
            assert (finding.of is None) == (finding.time_us is None), (facts.case, finding.rule)


def test_a_copy_that_was_asked_for_is_no_finding_and_wrappers_do_not_count(tmp_path: Path) -> None:
    copy = (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
        "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}> >(int)"
    )
    asked, unasked = Trace(), Trace()
    asked.forward([(copy, 10.0)], op="aten::contiguous", inside=[("cpu_op", "aten::clone")])
    unasked.forward([(copy, 10.0)], op="aten::index")
    assert found(small(tmp_path / "a", asked), "unwritten-copy") == []
    assert "aten::index launched a copy" in one(small(tmp_path / "b", unasked), "unwritten-copy").text
