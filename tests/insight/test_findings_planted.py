"""One fault planted in a recorded folder each: it is named first, with its weight, its time and a remedy that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelbook.cases import CaseFacts
from kernelbook.counters.kernel import KernelCounters
from kernelbook.judge.findings import Finding, find_in_run
from tests.insight.insight_recorded import facts_of_folder
from tests.insight.planted import (
    BF16,
    COPY,
    FP32,
    NVJET,
    POINTWISE,
    SOFTMAX,
    TILE_32,
    Play,
    Program,
    cast,
    item,
    pointwise,
    product,
    write_case,
)

BIG = (8192, 4096)
OLD_GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_nn_align8>(Params)"
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(cublasLt::cublasSplitKParams)"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>(cudnn::ops::params_t)"
TO_NCHW = "void cudnn::ops::nhwcToNchwKernel<__nv_bfloat16, __nv_bfloat16, float, true, false>(cudnn::ops::params_t)"
CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel__5x_cudnn"
FLASH_2 = (
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>(Flash_fwd_params)"
)
EFFICIENT = "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_kernel0_0"
QUERY = ((8, 16, 2048, 64), BF16)
SCORES = (8, 16, 2048, 2048)


def convolutions(p: Program) -> None:
    for _ in range(3):
        with p.op("aten::cudnn_convolution", ((32, 256, 56, 56), BF16)):
            p.kernel(TO_NHWC, 60)
            p.kernel(CONVOLUTION, 180)
            p.kernel(TO_NCHW, 70)


def casts_up_and_down(p: Program) -> None:
    for _ in range(4):
        cast(p, BIG, BF16, FP32, 60)
        pointwise(p, "aten::mul", 90, (BIG, FP32), (BIG, FP32))
        cast(p, BIG, FP32, BF16, 60)


def autocast(p: Program) -> None:
    """Four layers of 25 µs, each behind a cast of its weight of 60 µs, so that the device never waits."""
    for _ in range(4):
        with p.op("aten::linear", ((512, 4096), FP32)):
            cast(p, (4096, 4096), FP32, BF16, 60)
            product(p, 512, 4096, 4096, 25)


def copies_for_layout(p: Program) -> None:
    tensor = ((8, 2048, 16, 128), BF16)
    for _ in range(3):
        with p.op("aten::contiguous", tensor), p.op("aten::clone", tensor):
            pointwise(p, "aten::copy_", 90, tensor, tensor, ((), "Scalar"), name=COPY)
        product(p, 16384, 2048, 2048, 190)


def growing_cache(p: Program) -> None:
    for _ in range(4):
        with p.op("aten::cat", ((8, 16, 4096, 128), BF16)):
            p.kernel("void at::native::(anonymous namespace)::CatArrayBatchedCopy<unsigned short, 4, 128, 1>(int)", 200)
        product(p, 256, 4096, 4096, 18)


def cross_entropy(p: Program) -> None:
    logits = ((8192, 32000), FP32)
    with p.op("aten::log_softmax", logits), p.op("aten::_log_softmax", logits):
        p.kernel(SOFTMAX, 800)
    pointwise(p, "aten::neg", 800, logits)
    pointwise(p, "aten::mul", 800, logits, logits)


def split_k(p: Program) -> None:
    factors = ((256, 65536), BF16), ((65536, 256), BF16)
    with p.op("aten::mm", *factors):
        p.kernel("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x4_nn_align8", 140, grid=132)
        p.kernel(SPLIT_K, 60)


def tail_wave(p: Program) -> None:
    resources = {"registers per thread": 200, "shared memory": 160000}
    for _ in range(2):
        product(p, 133 * 128, 128, 8192, 130, OLD_GEMM, grid=133, **resources)
        pointwise(p, "aten::relu", 5, ((133 * 128, 128), BF16))


def small_tiles(p: Program) -> None:
    product(p, 4096, 4096, 4096, 880, TILE_32, grid=16384, **{"registers per thread": 90, "shared memory": 16384})


def unused(p: Program) -> None:
    """Of two products only the second one's result, 64 MiB, is activated and returned."""
    product(p, 8192, 8192, 4096, 680)
    product(p, 8192, 4096, 4096, 340)
    pointwise(p, "aten::gelu", 35, ((8192, 4096), BF16))


def apart(p: Program) -> None:
    """q, k and v of a small model: 9 µs of work, each launch behind 21 µs of CPU time."""
    for _ in range(3):
        with p.op("aten::linear", ((256, 512), BF16), cpu=4.0):
            product(p, 256, 512, 512, 3, "nvjet_sm90_tst_64x64_64x13_4x2_h_bz_TNT", grid=32)


def sdpa(*arguments: tuple[Any, str], backend: str, kernels: tuple[tuple[str, float], ...]) -> Play:
    def play(p: Program) -> None:
        with p.op("aten::scaled_dot_product_attention", *arguments), p.op(backend, *arguments):
            for name, us in kernels:
                p.kernel(name, us)

    return play


MATH_KERNELS = ((NVJET, 250.0), (POINTWISE, 800.0), (SOFTMAX, 800.0), (NVJET, 250.0))


def flash_attention_2(p: Program) -> None:
    with p.op("flash_attn::_flash_attn_forward", QUERY, QUERY, QUERY):
        p.kernel(FLASH_2, 480)


def waits_for_sizes(p: Program) -> None:
    for _ in range(3):
        product(p, 4096, 4096, 4096, 180)
        with p.op("aten::nonzero", ((8192,), "bool")):
            p.copy("DtoH (Device -> Pinned)", 8, 2)
            p.wait()
        p.clock += 60


def reads_values(p: Program) -> None:
    for _ in range(4):
        product(p, 2048, 2048, 2048, 30)
        item(p)
        p.clock += 20


def small_tensors_from_the_cpu(p: Program) -> None:
    for _ in range(20):
        with p.op("aten::to"), p.op("aten::_to_copy"), p.op("aten::copy_"):
            p.copy("HtoD (Pageable -> Device)", 8, 2)
            p.wait()
        pointwise(p, "aten::add", 3, ((1024, 1024), BF16))


def graphs_asked_for(p: Program) -> None:
    with p.op("Torch-Compiled Region: 0/0"), p.op("## Call CompiledFxGraph f0 ##"):
        for _ in range(50):
            p.kernel("triton_poi_fused_add_relu_0", 2)
            p.clock += 6


def eager_in_spite_of_compile(p: Program) -> None:
    for _ in range(4):
        product(p, 4096, 4096, 4096, 180)
        pointwise(p, "aten::relu", 20, ((4096, 4096), BF16))


def empties_the_cache(p: Program) -> None:
    product(p, 4096, 4096, 4096, 180)
    for _ in range(3):
        p.call("cudaFree", 200)
    with p.op("aten::empty"):
        p.call("cudaMalloc", 400)
    product(p, 4096, 4096, 4096, 180)


def optimizer_loop(p: Program) -> None:
    with p.op("Optimizer.step#AdamW.step", category="user_annotation"):
        for _ in range(40):
            for op in ("aten::mul_", "aten::lerp_", "aten::addcmul_", "aten::addcdiv_"):
                pointwise(p, op, 2, ((512, 512), FP32), ((512, 512), FP32))


#: What is played -> (fields of the case or measurement, rule of the first finding, its severity, its time in µs where
#: a count by hand gives it, words of its text, words of its remedy).
Planted = tuple[Play, dict[str, Any], str, str, float | None, str, str]
FAULTS: dict[str, Planted] = {
    "layout": (convolutions, {}, "layout-copies", "high", 3 * 130, "6 kernels", "channels_last"),
    "casts": (casts_up_and_down, {}, "casts", "high", 8 * 60, "8 casts (bf16 to fp32, fp32 to bf16)", "one type"),
    "autocast": (autocast, {"dtype": "float32"}, "casts", "high", 240, "4 casts (fp32 to bf16)", "model.bfloat16()"),
    "contiguous": (copies_for_layout, {}, "layout-copies", "high", 270, "aten::contiguous", "contiguous()"),
    "cat": (growing_cache, {}, "copying", "high", 800, "aten::cat copies in 4 kernels", "allocated once"),
    "loss": (cross_entropy, {}, "unfused-chain", "high", None, "a cross entropy", "F.cross_entropy"),
    "split_k": (split_k, {}, "split-k-reduction", "high", 60, "1 product of 256 × 256 × 65536", "rows or columns"),
    "tail": (tail_wave, {}, "tail-wave", "high", 260 * (1 - 133 / 264), "2 products of 17024", "Change the batch"),
    "tiles": (small_tiles, {}, "slow-product", "high", 880 - 165, "tile of 32x32x64 is small", "larger tiles"),
    "unused": (unused, {"output_bytes": 2**26}, "unused-result", "high", 680, "8192 × 8192 × 4096", "Drop"),
    "apart": (apart, {}, "products-apart", "high", None, "3 products of an input of 256 × 512", "one matrix"),
    "math": (
        sdpa(*[QUERY] * 3, (SCORES, BF16), backend="aten::_scaled_dot_product_attention_math", kernels=MATH_KERNELS),
        {}, "slow-attention-backend", "high", 2100, "FLASH_ATTENTION takes no mask", "fused backend",
    ),
    "efficient": (
        sdpa(*[QUERY] * 3, backend="aten::_scaled_dot_product_efficient_attention", kernels=((EFFICIENT, 560.0),)),
        {}, "slow-attention-backend", "high", 560, "FLASH_ATTENTION takes such inputs", "enable_flash_sdp",
    ),
    "flash_2": (flash_attention_2, {}, "older-architecture", "medium", 480, "FlashAttention 2", "FlashAttention 3"),
    "nonzero": (waits_for_sizes, {}, "synchronization", "high", None, "aten::nonzero waits", "fixed size"),
    "item": (reads_values, {}, "synchronization", "high", None, "aten::item waits", "Keep the value on the device"),
    "small_copies": (small_tensors_from_the_cpu, {}, "synchronization", "high", None, "20 times", "device='cuda'"),
    "graphs": (
        graphs_asked_for, {"mode": "compile", "compile_options": {"mode": "reduce-overhead"}}, "no-cuda-graph", "high",
        None, "CUDA graphs were asked for (mode reduce-overhead)", "TORCH_LOGS=cudagraphs",
    ),
    "eager": (
        eager_in_spite_of_compile, {"mode": "compile"}, "not-compiled", "high", None, "although its mode is compile",
        "fullgraph=True",
    ),
    "empty_cache": (empties_the_cache, {}, "allocation", "high", None, "cudaFree 3 times", "empty_cache()"),
    "optimizer": (optimizer_loop, {}, "optimizer-on-cpu", "high", None, "160 kernels", "fused=True"),
}  # fmt: skip


def fast_product(p: Program) -> None:
    product(p, 8192, 4096, 4096, 340)
    pointwise(p, "aten::gelu", 35, (BIG, BF16))


def used_products(p: Program) -> None:
    """As `unused`, but both results are summed, the first behind a view."""
    product(p, 8192, 8192, 4096, 680)
    product(p, 8192, 4096, 4096, 340)
    with p.op("aten::view", ((8192, 8192), BF16)):
        pass
    for result in ((64, 128, 8192), BF16), ((8192, 4096), BF16):
        with p.op("aten::sum", result):
            p.kernel("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum_functor<float>>>(int)", 31)


def compiled(p: Program) -> None:
    with p.op("Torch-Compiled Region: 0/0"), p.op("## Call CompiledFxGraph f0 ##"):
        p.kernel("triton_poi_fused_add_relu_0", 200)


HEALTHY: dict[str, tuple[Play, dict[str, Any]]] = {
    "product": (fast_product, {}),
    "used": (used_products, {"output_bytes": 4}),
    "compiled": (compiled, {"mode": "compile"}),
    "chain": (lambda p: [product(p, 4096, 4096, 4096, 175) for _ in range(2)], {}),  # type: ignore[dict-item]
    "flash": (
        sdpa(
            *[QUERY] * 3,
            backend="aten::_scaled_dot_product_cudnn_attention",
            kernels=(
                ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_kernel0_0", 190),
            ),
        ),
        {},
    ),
}


@pytest.fixture(name="findings_of")
def _findings_of(tmp_path: Path) -> Callable[..., list[Finding]]:
    def findings_of(play: Play, **about: Any) -> list[Finding]:
        return find_in_run({"planted": facts(tmp_path, play, **about)})

    return findings_of


def facts(folder: Path, play: Play, **about: Any) -> CaseFacts:
    write_case(folder, "planted", play, **about)
    return facts_of_folder("planted", folder)["planted"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_first(findings_of: Callable[..., list[Finding]], name: str) -> None:
    play, about, rule, severity, time_us, words, remedy = FAULTS[name]
    first = findings_of(play, **about)[0]
    assert (first.rule, first.severity) == (rule, severity)
    assert words in first.text
    assert remedy in first.remedy
    assert time_us is None or first.time_us == pytest.approx(time_us, rel=0.1)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_work_has_no_finding_of_weight(findings_of: Callable[..., list[Finding]], name: str) -> None:
    play, about = HEALTHY[name]
    assert not [(f.rule, f.text) for f in findings_of(play, **about) if f.severity in ("high", "medium")]


def test_a_wait_for_a_busy_device_is_the_time_of_its_kernels(findings_of: Callable[..., list[Finding]]) -> None:
    """20 products of 180 µs are queued when item() is called: the CPU waits for nearly 3.6 ms, the device for 3 µs."""

    def reads_at_the_end(p: Program) -> None:
        for _ in range(20):
            product(p, 4096, 4096, 4096, 180)
        item(p)

    first = findings_of(reads_at_the_end)[0]
    assert (first.rule, first.severity) == ("synchronization", "medium")
    assert first.text.endswith("it works: that is the time of earlier kernels, not of aten::item.")
    assert first.time_us is not None
    assert first.time_us < 15


def test_an_op_that_launches_is_not_said_to_run_on_the_cpu(findings_of: Callable[..., list[Finding]]) -> None:
    """A launch of 500 µs inside an op keeps the device idle, but nothing is computed on the CPU."""

    def slow_launches(p: Program) -> None:
        for _ in range(3):
            with p.op("aten::add", (BIG, BF16), cpu=500.0):
                p.kernel(POINTWISE, 35)

    assert "cpu-op" not in {finding.rule for finding in findings_of(slow_launches)}


def test_casts_that_autocast_makes_are_no_implicit_copies(findings_of: Callable[..., list[Finding]]) -> None:
    assert "unwritten-copy" not in {finding.rule for finding in findings_of(autocast, dtype="float32")}


def test_a_kernel_that_fills_the_output_of_addmm_copies_its_bias(findings_of: Callable[..., list[Finding]]) -> None:
    def bias(p: Program) -> None:
        with p.op("aten::addmm", ((4096,), FP32), ((4096, 4096), FP32), ((4096, 4096), FP32)):
            p.kernel(COPY, 30)
            p.kernel("volta_sgemm_128x64_tn", 900)

    (finding,) = [f for f in findings_of(bias, dtype="float32") if f.rule in ("bias-memcpy", "unwritten-copy")]
    assert finding.text.startswith("A copy writes the addend of aten::addmm to the output")


def test_an_index_of_another_type_is_to_be_passed_in_the_type_that_is_taken(
    findings_of: Callable[..., list[Finding]],
) -> None:
    def index(p: Program) -> None:
        with p.op("aten::index", (BIG, BF16)):
            with p.op("aten::to", ((8192,), "bool")), p.op("aten::_to_copy"), p.op("aten::copy_"):
                p.copy("DtoD (Device -> Device)", 8192, 30)
            p.kernel("void at::native::index_elementwise_kernel<128, 4>(int)", 60)

    (finding,) = [f for f in findings_of(index) if f.rule == "unwritten-copy"]
    assert finding.remedy == "Pass the tensor in the element type and on the device that the op takes."


def test_fuller_waves_state_where_they_were_measured(tmp_path: Path) -> None:
    """Three products of 0.25 waves each: one product of 0.75 waves takes one wave instead of three."""
    case = facts(tmp_path, apart)
    measured = [
        KernelCounters(run=case.run, case=case.case, status="joined", position=at, waves=0.25) for at in (0, 1, 2)
    ]
    for count, words in ((3, ", and fuller waves (measured by Nsight Compute)."), (0, ", and fuller waves."),
                         (1, ", and fuller waves (in part measured by Nsight Compute).")):  # fmt: skip
        found = find_in_run({"planted": replace(case, counters=tuple(measured[:count]))})
        (finding,) = [each for each in found if each.rule == "products-apart"]
        assert words in finding.text


def test_launches_are_not_told_of_where_the_forward_waits(findings_of: Callable[..., list[Finding]]) -> None:
    """What `empties_the_cache` allocates keeps the device idle, not that it has two products."""
    assert "products-apart" not in {finding.rule for finding in findings_of(empties_the_cache)}
