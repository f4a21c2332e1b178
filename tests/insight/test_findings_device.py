"""Rules about device time, each on a recorded trace that shows the thing, or on a small trace where none does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from kernelbook.cases import Activity, Call, CaseFacts, ProfiledForward
from kernelbook.judge.cost_model import Ceilings
from kernelbook.judge.findings import find, find_in_run
from kernelbook.judge.findings.waits import blocking_calls, wait_remedy
from kernelbook.judge.occupancy import achievable_occupancy, theoretical_occupancy
from kernelbook.judge.time_line import Wait
from kernelbook.text.formatting import duration
from tests.insight.insight_findings import found, one, small, unprofiled
from tests.insight.insight_recorded import Facts, Look
from tests.insight.insight_traces import H200, Trace
from tests.insight.made_inputs import inputs
from tests.insight.recorded_faults import fault_facts, recorded_faults

# --- copies ----------------------------------------------------------------------------------------------------------


def test_the_copy_that_masked_fill_makes_is_found_with_op_bytes_and_share(facts_of: Look) -> None:
    naive = facts_of("attention-naive-eager")
    finding = one(naive, "unwritten-copy")
    # 8 x 16 x 1024 x 1024 scores of 2 bytes are 256 MiB.
    assert "aten::masked_fill makes an implicit copy of 256 MiB" in finding.text
    assert "aten::clone > aten::copy_" in finding.text
    assert finding.time_us == pytest.approx(128, abs=3)
    assert finding.share == pytest.approx(0.12, abs=0.01)
    assert finding.kind == "recoverable"
    assert found(facts_of("attention-inplace-eager"), "unwritten-copy") == []
    assert found(facts_of("matmul-add-4096-compile"), "unwritten-copy") == []
    assert found(facts_of("sdpa-math-eager"), "unwritten-copy") == []  # its five copies convert: that is told elsewhere


def test_a_copy_that_an_out_of_place_op_makes_is_told_once_with_its_remedy(facts_of: Look) -> None:
    naive = facts_of("attention-naive-eager")
    finding = one(naive, "unwritten-copy")
    assert "It works out of place" in finding.text
    assert "masked_fill_" in finding.remedy
    assert "no_grad" in finding.remedy
    assert found(naive, "out-of-place") == []
    assert found(facts_of("attention-inplace-eager"), "out-of-place") == []


def test_a_memcpy_seeds_the_bias_of_the_compiled_addmm(facts_of: Look) -> None:
    finding = one(facts_of("matmul-add-4096-compile"), "bias-memcpy")
    assert "aten::addmm" in finding.text
    assert finding.time_us == pytest.approx(15.5, abs=1.0)
    assert "max-autotune" in finding.remedy
    assert found(facts_of("linear-eager"), "bias-memcpy") == []


def test_a_copy_of_a_forward_that_is_shorter_than_eager_is_told_so(recorded_facts: Facts, recorded_h200: Path) -> None:
    case, twin = "matmul-add-4096-compile", "matmul-add-4096-eager"
    mine, eager = (unprofiled(recorded_h200 / name) for name in (case, twin))
    assert max(mine) < min(eager)
    said = f"Despite the copy, an unprofiled forward takes {duration(median(mine))} against {duration(median(eager))}"
    assert said in one(recorded_facts[case], "bias-memcpy", recorded_facts).text
    slow = replace(recorded_facts[case].processes[0], forward_times_us=(200.0,), forward_time_us=200.0)
    slower = replace(recorded_facts[case], processes=(slow, *recorded_facts[case].processes[1:]))
    assert "All the same" not in one(slower, "bias-memcpy", recorded_facts).text


def test_workspace_memsets_are_counted_and_cost_little(facts_of: Look) -> None:
    finding = one(facts_of("mlp-eager"), "workspace-memset")
    assert "cuBLAS clears a workspace of 4 bytes before 2 kernels: 2 memsets more" in finding.text
    assert (finding.severity, finding.kind) == ("info", "spent")
    assert "cuDNN" in one(facts_of("sdpa-cudnn-eager"), "workspace-memset").text
    assert found(facts_of("sdpa-math-eager"), "workspace-memset") == []


def test_a_copy_that_was_asked_for_is_no_finding_and_wrappers_do_not_count(tmp_path: Path) -> None:
    copy = (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
        "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}> >(int)"
    )
    asked, unasked = Trace(), Trace()
    asked.forward([(copy, 10.0)], op="aten::contiguous", inside=[("cpu_op", "aten::clone")])
    unasked.forward([(copy, 10.0)], op="aten::index")
    assert found(small(tmp_path / "a", asked), "unwritten-copy") == []
    assert "aten::index makes an implicit copy" in one(small(tmp_path / "b", unasked), "unwritten-copy").text


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


def test_a_grid_too_small_for_the_device_achieves_no_theoretical_occupancy() -> None:
    kernel = Activity(0, "kernel", "k", 0.0, 1.0, grid=(4, 2, 1), block=(384, 1, 1), registers_per_thread=168,
                      shared_memory_bytes=164308)  # fmt: skip
    # 8 blocks of 12 warps over 132 multiprocessors of 64 warps.
    assert achievable_occupancy(kernel, H200) == pytest.approx(100 * 8 * 12 / (132 * 64))
    assert achievable_occupancy(replace(kernel, grid=(2, 66, 1)), H200) == 18.75
    assert achievable_occupancy(replace(kernel, grid=None), H200) == 18.75


def test_zero_occupancy_of_a_cublas_kernel_is_a_gap(facts_of: Look) -> None:
    finding = one(facts_of("linear-eager"), "occupancy-gap")
    assert "assumes at most 48 KiB of shared memory" in finding.text
    assert "opts in to 160 KiB" in finding.text
    assert "18.8 % is possible" in finding.text
    assert "cuLaunchKernelEx" in finding.evidence


def test_a_product_of_64_leaves_most_multiprocessors_idle(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["matmul-add-64-eager"], "few-blocks")
    assert "nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT 8 blocks" in finding.text
    assert "on 132 multiprocessors" in finding.text
    assert "split-K" not in finding.remedy  # 64 elements are one tile deep
    assert found(recorded_facts["mlp-eager"], "few-blocks") == []  # persistent: a block on each


@pytest.mark.parametrize(("k", "split"), [(64, False), (255, False), (256, True), (4096, True)])
def test_split_k_is_proposed_where_the_sum_is_long(recorded_facts: Facts, k: int, split: bool) -> None:
    facts = recorded_facts["matmul-add-64-eager"]
    calls = tuple(
        replace(call, inputs=inputs([[64, k], [k, 64]], every="c10::BFloat16")) if call.name == "aten::mm" else call
        for call in facts.calls
    )
    remedy = one(replace(facts, calls=calls, trace_path=None), "few-blocks").remedy  # of these shapes alone
    # The tile of nvjet_sm90_tst_64x8_64x16 is 64 deep.
    assert ("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT could also be split" in remedy) == split


def test_a_kernel_that_talks_to_other_devices_is_meant_to_have_few_blocks(tmp_path: Path) -> None:
    for name, number in (("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0), ("ampere_sgemm_128x64_nn", 1)):
        trace = Trace()
        trace.forward([(name, 10.0)], grid=[2, 1, 1])
        assert len(found(small(tmp_path / name, trace), "few-blocks")) == number, name


def test_kernels_of_an_older_architecture_are_named(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["sdpa-efficient-eager"], "older-architecture")
    assert finding.text.startswith("Built for an older architecture than the sm90 of this device: fmha_cutlassF")
    assert found(recorded_facts["sdpa-cudnn-eager"], "older-architecture") == []  # sm90
    assert one(recorded_facts["sdpa-flash-eager"], "older-architecture").subject.endswith("(sm80, FlashAttention 2)")


# --- products --------------------------------------------------------------------------------------------------------


def test_unequal_products_are_told_with_sizes_tiles_and_how_they_fill_the_device(recorded_facts: Facts) -> None:
    finding = one(recorded_facts["mlp-eager"], "unequal-gemms")
    # 2 x 8192 x 3072 x 768 FLOP; cuBLAS is column-major, so the names' 256x128 and 192x128 are n x m: 64 x 12 and
    # 64 x 4 tiles of m x n, over grids of 132 blocks.
    assert "3 products of 38.7 GFLOP each run on 2 kernels and take different times. n and k differ." in finding.text
    assert "8192 × 3072 × 768: tile 128x256x64, persistent, 5.82 tiles a block" in finding.text
    assert "8192 × 768 × 3072: tile 128x192x64, persistent, 1.94 tiles a block" in finding.text
    assert (finding.kind, finding.time_us) == ("note", None)
    # 8192 tiles over 132 multiprocessors that hold two blocks each.
    assert "tile 128x128x8, 31.03 waves" in one(recorded_facts["sdpa-math-eager"], "unequal-gemms").text


@pytest.mark.parametrize("case", ["attention-inplace-eager", "attention-naive-eager", "attention-naive-compile"])
def test_products_that_differ_by_less_than_a_twentieth_are_no_finding(recorded_facts: Facts, case: str) -> None:
    assert found(recorded_facts[case], "unequal-gemms") == []  # 84.7 and 82.4 µs


def test_the_same_products_in_several_cases_are_told_once(recorded_facts: Facts) -> None:
    told = [finding for finding in find_in_run(recorded_facts) if finding.rule == "unequal-gemms"]
    assert [finding.cases for finding in told if finding.cases] == [("mlp-compile", "mlp-eager", "mlp-liger")]


def test_products_that_differ_no_more_than_those_of_one_kernel_are_no_finding(recorded_facts: Facts) -> None:
    mlp = recorded_facts["mlp-eager"]
    gate = next(a for a in mlp.activities if a.family == "GEMM")
    slower = [
        replace(f, activities=tuple(
            replace(a, duration_us=a.duration_us + 20.0) if a.position == gate.position else a for a in f.activities
        ))
        for f in mlp.forwards
    ]  # fmt: skip
    # Gate 76 and up 57 µs on one kernel lie 19 apart, their mean and the 51 of down 16.
    assert found(replace(mlp, forwards=tuple(slower)), "unequal-gemms") == []


def two_products(second: tuple[int, int], times: tuple[float, float]) -> CaseFacts:
    """Two products of equal FLOPs on two kernels; of the first 64 x 32 times 32 x 16, of the second m and n given."""
    names = ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT")
    rows = tuple(Activity(i, "kernel", n, 20.0 * i, times[i], op="aten::mm") for i, n in enumerate(names))
    calls: list[Call] = []
    for m, n in ((64, 16), second):
        at, tensors = len(calls), inputs([[m, 32], [32, n]], every="c10::BFloat16")
        calls.append(Call(at, 0, None, "op", "aten::mm", 0.0, 1.0, 1.0, inputs=tensors))
        calls.append(Call(at + 1, 1, at, "runtime", "cuLaunchKernelEx", 0.0, 1.0, 1.0, kernels=1))
    return CaseFacts("r", "c", kernels=2, forwards=(ProfiledForward(1, 0, 9.0, activities=rows),), calls=tuple(calls))


def test_unequal_products_say_which_sizes_differ() -> None:
    said = "Their sizes are the same"
    assert said in one(two_products((64, 16), (10.0, 12.0)), "unequal-gemms").text
    assert "m and n differ." in one(two_products((16, 64), (10.0, 12.0)), "unequal-gemms").text
    assert found(two_products((16, 64), (10.0, 10.4)), "unequal-gemms") == []


def test_products_that_differ_less_than_the_processes_do_are_no_finding() -> None:
    first = two_products((16, 64), (10.0, 11.0)).forwards[0]
    slower = tuple(replace(a, duration_us=a.duration_us + 2.0) for a in first.activities)
    both = (first, replace(first, process=2, activities=slower))
    assert found(replace(two_products((16, 64), (10.0, 11.0)), forwards=both), "unequal-gemms") == []


# --- remedies fit their causes ---------------------------------------------------------------------------------------

FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_ffma_aligna4_alignc4_execute_kernel"
SM80 = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x1_nn"
FLASH_2 = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false>>"
FLASH_3 = "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwd<2>>>>"
AVAILABLE = "FlashAttention 3 and SDPA's CUDNN_ATTENTION backend have kernels for this device."


def recorded_fault(name: str) -> CaseFacts:
    """One of the recorded faults, see ``faults/README.md``, with its median unprofiled forward."""
    return fault_facts(name, dict(recorded_faults())[name])


def older(tmp_path: Path, name: str, capability: str = "9.0") -> list[str]:
    """Remedies of older-architecture for a forward of one kernel."""
    trace = Trace()
    for _ in range(3):
        trace.forward([(name, 50.0)])
    facts = small(tmp_path, trace, device={"type": "cuda", "name": "a GPU", "capability": capability})
    return [finding.remedy for finding in found(facts, "older-architecture")]


def test_kernels_on_cuda_cores_are_not_told_to_use_tensor_core_instructions(tmp_path: Path) -> None:
    assert older(tmp_path, FFMA) == []


def test_tensor_core_kernels_of_an_older_architecture_lack_its_instructions(tmp_path: Path) -> None:
    (remedy,) = older(tmp_path, SM80)
    assert "wgmma" in remedy


def test_flash_attention_2_on_hopper_has_a_successor(tmp_path: Path) -> None:
    assert older(tmp_path, FLASH_2) == [AVAILABLE]


@pytest.mark.parametrize(("name", "capability"), [(FLASH_3, "9.0"), (FLASH_2, "8.0"), (FLASH_2, "12.0")])
def test_without_a_newer_attention_nothing_is_said(tmp_path: Path, name: str, capability: str) -> None:
    assert older(tmp_path, name, capability) == []


def test_a_misaligned_product_is_to_be_padded() -> None:
    facts = recorded_fault("gemm_fp16_k_odd")
    (finding,) = found(facts, "unaligned-product")
    assert finding.remedy.startswith("Pad K to 1024")
    # The kernel is one for sm75 because of the size: one cause, one finding.
    assert found(facts, "older-architecture") == []
    assert found(recorded_fault("gemm_fp16_k_even"), "older-architecture") == []


def test_a_forward_that_waits_is_told_to_drop_the_wait(tmp_path: Path) -> None:
    trace = Trace()
    for _ in range(3):  # three waits of 4 us each in 100 us of CPU time, and 60 us of device work
        waits = [("cuda_runtime", "cudaStreamSynchronize")]
        trace.forward([("a_kernel", 20.0)] * 3, op="aten::_local_scalar_dense", inside=waits)
    facts = small(tmp_path, trace)
    assert one(facts, "synchronization").remedy.startswith("Keep the value on the device")
    assert not any("graph" in finding.remedy for finding in find(facts))


@pytest.mark.parametrize("fault", ["synchronize_in_forward", "cpu_in_forward", "copy_pinned_blocking"])
def test_a_forward_that_a_graph_cannot_capture_is_not_told_to_use_one(fault: str) -> None:
    facts = recorded_fault(fault)
    assert blocking_calls(facts)
    assert not any("CUDA graph" in finding.remedy for finding in find(facts))


def test_a_read_value_is_to_stay_on_the_device() -> None:
    wait = Wait("cudaStreamSynchronize", "synchronization", "aten::_local_scalar_dense", 80.0, 1)
    assert wait_remedy(wait).startswith("Keep the value on the device")
    sized = Wait("cudaStreamSynchronize", "synchronization", "aten::nonzero", 80.0, 1)
    assert "whose output size depends on the data" in wait_remedy(sized)
    allocation = Wait("cudaMalloc", "allocation", "aten::empty", 2500.0, 2)
    assert wait_remedy(allocation).endswith("(cudaMalloc from aten::empty).")


def test_no_finding_of_a_cpu_run_mentions_a_cuda_graph(recorded_facts: Facts) -> None:
    facts = recorded_facts["linear-compile"]
    forwards = tuple(replace(f, activities=(), device_time_us=None, device_busy_us=None) for f in facts.forwards)
    cpu = replace(facts, forwards=forwards, device_type="cpu", device_time_us=None, device_busy_us=None, kernels=None)
    findings = find(cpu)
    assert findings
    assert not cpu.on_device
    assert [finding.rule for finding in findings if "CUDA graph" in finding.remedy] == []


def test_a_slow_cast_is_not_told_to_be_contiguous() -> None:
    ceilings = Ceilings({"16-bit": 814e12, "fp32": 67e12}, 4.2e12)
    findings = find(recorded_fault("casts_up_and_down"), ceilings=ceilings)
    (casts,) = [finding for finding in findings if finding.rule == "casts"]
    assert casts.remedy.startswith("Keep tensors in one type")
    assert not any("contiguous" in finding.remedy for finding in findings if "[copy] moves" in finding.text)
