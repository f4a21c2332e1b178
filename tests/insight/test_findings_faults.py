"""Common faults recorded on an H200: each is named first, and its healthy counterpart has no finding of weight."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kernelbook.cases import Activity, Call, CaseFacts, ProfiledForward
from kernelbook.counters import KernelCounters
from kernelbook.judge.cost_model import launched
from kernelbook.judge.findings import Finding, find, find_in_run
from tests.insight.insight_recorded import Facts
from tests.insight.insight_traces import H200
from tests.insight.made_inputs import inputs
from tests.insight.recorded_faults import fault_facts, recorded_faults

MEDIANS = recorded_faults()

#: Fault -> (rule, least severity, words of the text). Sizes and counts are those of record_faults.py.
NAMED = {
    "gemm_vocab_odd": ("unaligned-product", "high", "4096 × 50257 × 2048.*N = 50257"),
    "gemm_fp16_k_odd": ("unaligned-product", "high", "8192 × 4096 × 1023.*K = 1023"),
    "gemm_fp32_no_tf32": ("product-without-tf32", "high", "1 product of fp32"),
    "gemm_fp64_by_accident": ("product-in-fp64", "high", "1 product in fp64"),
    "casts_up_and_down": ("casts", "high", "20 casts"),
    "autocast_fp32_weights": ("casts", "high", "7 casts \\(fp32 to bf16\\)"),
    "conv_nchw": ("layout-copies", "high", "12 kernels"),
    "contiguous_copies": ("layout-copies", "high", "6 kernels"),
    "rmsnorm_by_hand": ("unfused-chain", "high", "a normalization over tensors of 256 MiB"),
    "softmax_by_hand": ("unfused-chain", "high", "a softmax over tensors of 128 MiB"),
    "gelu_by_hand": ("unfused-chain", "high", "an activation over tensors of 128 MiB"),
    "loss_by_hand": ("unfused-chain", "high", "a cross entropy"),
    "compile_is_eager": ("unfused-chain", "high", "4 kernels"),
    "adam_loop": ("optimizer-on-cpu", "high", "192 kernels"),
    "cpu_in_forward": ("cpu-op", "high", "aten::sum and aten::abs run on the CPU"),
    "copy_pinned_blocking": ("synchronization", "medium", "aten::copy_ waits for the device once"),
    "small_kernels": ("overhead-bound", "high", "launch-bound"),
    "recompiles": ("compiled-in-forward", "high", "compiles inside this forward"),
    "sdpa_dense_mask": ("slow-attention-backend", "high", "2048 × 2048"),
    "sdpa_fp32": ("slow-attention-backend", "high", "fp32"),
    "synchronize_in_forward": ("synchronization", "high", "12 times in a forward"),
    "python_between_launches": ("python-time", "high", "Python"),
    "slow_data_loader": ("data-loading", "high", "DataLoader"),
    "qkv_apart": ("products-apart", "high", "3 products of an input of 2048 × 1024 in a row"),
}
SEVERITIES = ("high", "medium", "low", "info")
#: Counterparts with a fault of their own: eager pointwise ops, matmul's copies of strided inputs, fp32 products.
OTHER_FAULTS = {
    "casts_none": "unfused-chain",
    "strided_views": "unwritten-copy",
    "gemm_fp32_intended": "product-without-tf32",
}
#: Forwards so short that launching takes longer than the work, which is said of them.
SHORT = "overhead-bound"


def findings_of(name: str) -> list[Finding]:
    """Those of a run of this case alone, with the ceilings of its GPU."""
    return find_in_run({name: fault_facts(name, dict(MEDIANS)[name])})


@pytest.mark.parametrize("name", NAMED)
def test_a_recorded_fault_is_named_first(name: str) -> None:
    rule, least, text = NAMED[name]
    first = findings_of(name)[0]
    assert first.rule == rule
    assert SEVERITIES.index(first.severity) <= SEVERITIES.index(least)
    assert re.search(text, first.text)
    assert first.remedy


@pytest.mark.parametrize("name", sorted({name for name, _ in MEDIANS} - set(NAMED)))
def test_a_healthy_counterpart_has_no_finding_of_weight(name: str) -> None:
    weighty = {f.rule for f in findings_of(name) if f.severity in ("high", "medium")}
    assert weighty <= {SHORT, OTHER_FAULTS.get(name)}


def test_the_remedy_fits_the_cause() -> None:
    remedies = {name: findings_of(name)[0].remedy for name in ("adam_loop", "conv_nchw", "gemm_vocab_odd")}
    assert "fused=True" in remedies["adam_loop"]
    assert "channels_last" in remedies["conv_nchw"]
    assert "N to 50304" in remedies["gemm_vocab_odd"]
    for name in ("synchronize_in_forward", "copy_pinned_blocking", "slow_data_loader", "cpu_in_forward"):
        assert not any("replay" in f.remedy for f in findings_of(name) if f.severity in ("high", "medium")), name


def test_graph_breaks_are_counted_with_what_lies_between() -> None:
    """Three regions of 10 µs, an item() between each: two breaks."""
    regions = [Call(2 * n, 0, None, "op", f"Torch-Compiled Region: {n}/0", 20.0 * n, 10.0, 10.0) for n in range(3)]
    items = [Call(2 * n + 1, 0, None, "op", "aten::item", 20.0 * n + 12.0, 5.0, 5.0) for n in range(2)]
    calls = tuple(sorted((*regions, *items), key=lambda call: call.start_us))
    (finding,) = [f for f in find(CaseFacts("r", "c", calls=calls)) if f.rule == "graph-breaks"]
    assert finding.text == "The forward enters 3 compiled regions: 2 graph breaks, with aten::item between."
    assert ".item()" in finding.remedy
    assert not [f for f in find(CaseFacts("r", "c", calls=calls[:1])) if f.rule == "graph-breaks"]


def product(blocks: int, m: int) -> CaseFacts:
    """One product of m x 128 x 4096 in tiles of 128 x 128, one block on each of 132 multiprocessors at a time."""
    tensors = inputs([[m, 4096], [4096, 128]], every="c10::BFloat16")
    calls = (
        Call(0, 0, None, "op", "aten::mm", 0.0, 20.0, 16.0, kernels=1, inputs=tensors),
        Call(1, 1, 0, "runtime", "cudaLaunchKernel", 10.0, 4.0, 4.0, kernels=1, correlation=1),
    )
    name = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_nn_align8>(Params)"
    kernel = Activity(
        0, "kernel", name, 20.0, 100.0, op="aten::mm", op_path=("aten::mm",), grid=(blocks, 1, 1), block=(256, 1, 1),
        registers_per_thread=200, shared_memory_bytes=160000, launch_start_us=10.0, correlation=1,
    )  # fmt: skip
    forward = ProfiledForward(1, 0, 20.0, 100.0, 100.0, 0.0, (kernel,))
    return CaseFacts(
        "r", "c", kernels=1, capability="9.0", device_properties=H200, forwards=(forward,), calls=calls, chosen=(1, 0)
    )


def test_one_block_more_than_multiprocessors_costs_a_wave() -> None:
    """133 blocks on 132: two waves for 1.0076 of work, so 49.6 % of the time."""
    (finding,) = [f for f in find(product(133, 133 * 128)) if f.rule == "tail-wave"]
    assert finding.time_us == pytest.approx(100 * (1 - 133 / 132 / 2))
    assert "takes 2 waves, and the last wave fills 1 % of the device" in finding.text
    assert not [f for f in find(product(132, 132 * 128)) if f.rule == "tail-wave"]


def test_measured_waves_replace_the_estimate() -> None:
    """133 blocks would need two waves by their resources; measured, two blocks fit on a multiprocessor: 0.50 waves."""
    facts = product(133, 133 * 128)
    measured = KernelCounters(run="r", case="c", status="joined", position=0, waves=133 / 264)
    assert "tail-wave" not in {f.rule for f in find(replace(facts, counters=(measured,)))}
    (finding,) = [f for f in find(replace(facts, counters=(replace(measured, waves=1.25),))) if f.rule == "tail-wave"]
    assert "takes 2 waves (measured by Nsight Compute), and the last wave fills 25 % of the device" in finding.text
    assert finding.time_us == pytest.approx(100 * (1 - 1.25 / 2))


#: Planted case -> (rule of its first finding, its time in µs where it is known by hand).
PLANTED = {
    "p01-gemm-unaligned": ("unaligned-product", 1450 - 165),
    "p02-fp32-no-tf32": ("product-without-tf32", 2681),
    "p05-item-sync": ("synchronization", None),
    "p06-h2d-pageable": ("pageable-copy", 9500),
    "p11-layernorm-unfused": ("unfused-chain", 792 - 126),
    "p13-cudamalloc": ("allocation", None),
}


def test_planted_faults_are_named_first(planted_facts: Facts) -> None:
    cases = planted_facts
    for name, (rule, time_us) in PLANTED.items():
        first = find(cases[name], cases)[0]
        assert first.rule == rule, name
        assert time_us is None or first.time_us == pytest.approx(time_us, rel=0.02)
    for name in ("p20-one-layer", "p20-two-layers", "ceiling-matmul", "ceiling-copy"):
        assert not [f for f in find(cases[name], cases) if f.severity in ("high", "medium")], name


def test_one_op_in_a_row_may_work_on_as_many_tensors() -> None:
    """The kernels of gelu by hand, each launched by a multiplication: nothing says that they form one expression."""
    facts = fault_facts("gelu_by_hand", 1000.0)
    assert any(f.rule == "unfused-chain" for f in find(facts))
    multiplied = {a.op for a in facts.activities}
    calls = tuple(replace(call, name="aten::mul") if call.name in multiplied else call for call in facts.calls)
    forwards = tuple(
        replace(forward, activities=tuple(replace(a, op="aten::mul") for a in forward.activities))
        for forward in facts.forwards
    )
    alike = replace(facts, calls=calls, forwards=forwards)
    assert len(launched(alike)) >= 3
    assert not [f for f in find(alike) if f.rule == "unfused-chain"]


def test_a_copy_of_a_strided_input_is_not_told_to_work_in_place() -> None:
    (copy,) = [f for f in findings_of("strided_views") if f.rule == "unwritten-copy"]
    assert copy.text.endswith("aten::reshape > aten::clone > aten::copy_. Its input is not contiguous.")
    assert "in place" not in copy.remedy


def test_the_time_that_tf32_allows_is_quoted() -> None:
    """2 x 4096^3 FLOP at the 410 TFLOP/s that TF32 reaches on an H200: 335 us."""
    (finding,) = [f for f in findings_of("gemm_fp32_no_tf32") if f.rule == "product-without-tf32"]
    assert finding.text.endswith("The ceiling of TF32 allows 335 µs.")


def test_a_forward_that_replays_a_graph_is_not_told_to_use_one() -> None:
    (finding,) = [f for f in findings_of("cudagraphs_used") if f.rule == SHORT]
    assert "replay the forward" not in finding.remedy
    assert "capture more of the model" in finding.remedy


def test_only_kernels_of_the_optimizer_count_as_its_own() -> None:
    """A fused norm before the step of the optimizer neither makes the optimizer fused nor is launched by it."""
    facts = fault_facts("adam_loop", dict(MEDIANS)["adam_loop"])
    first, *others = facts.forwards[0].activities
    norm = replace(first, op="aten::_fused_rms_norm", launch_start_us=facts.forwards[0].start_us)
    before = replace(facts, forwards=(replace(facts.forwards[0], activities=(norm, *others)),), chosen=(1, 0))
    (finding,) = [f for f in find(before) if f.rule == "optimizer-on-cpu"]
    assert finding.text.endswith("which launches 191 kernels.")
