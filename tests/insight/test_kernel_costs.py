"""Traffic and FLOPs of kernels, worked out by hand from the shapes of the cases and of made-up calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kernelbook.cases import Activity, Call, CaseFacts, ProfiledForward
from kernelbook.judge.cost_model import Ceilings, KernelCost, ceilings_of, gemm_costs, kernel_costs
from kernelbook.judge.cost_model.shapes import launched
from kernelbook.judge.cost_model.traffic import Traffic, traffic_of
from kernelbook.trace.inputs import Input
from tests.insight.insight_recorded import Facts
from tests.insight.made_inputs import inputs as recorded_inputs

MIB = 2**20
BF16, F32 = "c10::BFloat16", "float"
SCORES = [8, 16, 1024, 1024]


def costs(facts: Facts, case: str) -> dict[int, KernelCost]:
    return {cost.position: cost for cost in kernel_costs(facts[case], ceilings_of(facts))}


def taking(forward: ProfiledForward, position: int, duration_us: float) -> ProfiledForward:
    """The forward with this time of one of its activities."""
    timed = (
        replace(each, duration_us=duration_us) if each.position == position else each for each in forward.activities
    )
    return replace(forward, activities=tuple(timed))


def call(name: str, *inputs: tuple[list[int], str] | str) -> Call:
    """An op with tensors as (shape, type) and other inputs as the text that the profiler writes."""
    shapes = [[] if isinstance(given, str) else given[0] for given in inputs]
    kinds = ["Scalar" if isinstance(given, str) else given[1] for given in inputs]
    said = [given if isinstance(given, str) else "" for given in inputs]
    return Call(0, 0, None, "op", name, 0.0, 1.0, 1.0, inputs=recorded_inputs(shapes, kinds, said))


@pytest.mark.parametrize(
    ("made", "read", "written"),
    [
        (call("aten::mul_", (SCORES, BF16), ([], "double")), 256 * MIB, 256 * MIB),
        (call("aten::masked_fill_", (SCORES, BF16), ([1024, 1024], "bool"), "-inf"), 257 * MIB, 256 * MIB),
        (call("aten::add_", (SCORES, F32), ([1024, 1024], F32), "1"), 516 * MIB, 512 * MIB),
        (call("aten::add", ([4, 1], F32), ([1, 8], F32), "1"), 48, 128),  # broadcast: each as it lies in memory
        (call("aten::add", ([8], BF16), ([8], BF16), "1", ([8], BF16)), 32, 16),  # an output handed in is not read
        (call("aten::copy_", (SCORES, BF16), (SCORES, F32), "False"), 512 * MIB, 256 * MIB),
        (call("aten::fill_", ([1024, 1024], "bool"), "1."), 0, MIB),
        (call("aten::gelu_backward", (SCORES, BF16), (SCORES, BF16), "none"), 512 * MIB, 256 * MIB),
        (call("aten::isneginf", (SCORES, F32)), 512 * MIB, 128 * MIB),
        (call("aten::where", ([1024, 1024], "bool"), ([], F32), ([], F32)), MIB, 4 * MIB),
        (call("aten::where", ([8, 1], "bool"), ([], F32), ([8, 4], F32), ([8, 4], F32)), 8 + 128, 128),
        (call("aten::tril", ([1024, 1024], "bool"), "0"), MIB, MIB),
        (call("aten::all", (SCORES, "bool"), "-1", "True"), 128 * MIB, 131072),
        (call("aten::sum", ([4, 8], F32), "[1]", "False", ""), 128, 16),
        (call("aten::sum", ([4, 8], F32), "[]", "False", ""), 128, 4),
        (call("aten::amax", ([4, 8], F32), "[-2, 1]", "False"), 128, 4),
        (call("aten::_softmax", (SCORES, BF16), "-1", "False"), 256 * MIB, 256 * MIB),
        (call("aten::_softmax", ([8], BF16), "-1", "True"), 16, 32),  # half to float
        (call("LigerGELUMulFunction", ([8192, 3072], BF16), ([8192, 3072], BF16)), 96 * MIB, 48 * MIB),
    ],
)  # fmt: skip
def test_traffic_of_an_op(made: Call, read: int, written: int) -> None:
    assert traffic_of(made) == Traffic(read, written)


def _laid_out(made: Call, strides: Sequence[tuple[int, ...] | None]) -> tuple[Input, ...]:
    return tuple(replace(each, strides=steps) for each, steps in zip(made.inputs, strides, strict=True))


def test_an_expanded_tensor_counts_as_it_lies_in_memory() -> None:
    copied = call("aten::copy_", ([8, 4, 1024, 64], BF16), ([8, 4, 1024, 64], BF16), "False")
    strides = ((262144, 65536, 64, 1), (65536, 0, 64, 1), ())  # each of 8 heads for 4 queries
    assert traffic_of(copied) == Traffic(4 * MIB, 4 * MIB)
    assert traffic_of(replace(copied, inputs=_laid_out(copied, strides))) == Traffic(MIB, 4 * MIB)
    assert traffic_of(replace(copied, inputs=_laid_out(copied, ((0,), None, None)))) == Traffic(4 * MIB, 4 * MIB)


def test_traffic_of_a_product_holds_the_bias_or_the_output_seeded_with_it() -> None:
    a, b, bias, out = ([1024, 32], BF16), ([32, 64], BF16), ([64], BF16), ([1024, 64], BF16)
    factors, flops = 2 * (1024 * 32 + 32 * 64), 2 * 1024 * 32 * 64
    assert traffic_of(call("aten::mm", a, b)) == Traffic(factors, 2 * 1024 * 64, flops, BF16)
    assert traffic_of(call("aten::addmm", bias, a, b, "1", "1")) == Traffic(factors + 128, 131072, flops, BF16)
    seeded = traffic_of(call("aten::addmm", bias, a, b, "1", "1", out), seeded=True)
    assert seeded == Traffic(factors + 131072, 131072, flops, BF16)
    batched = traffic_of(call("aten::bmm", ([128, 1024, 64], F32), ([128, 64, 1024], F32)))
    assert batched == Traffic(2 * 32 * MIB, 512 * MIB, 2 * 128 * 1024 * 1024 * 64, F32)


@pytest.mark.parametrize(
    "made",
    [
        call("aten::conv2d", ([1, 3, 8, 8], F32), ([4, 3, 3, 3], F32)),  # not known here
        call("aten::add", ([8], F32), ([8], BF16), "1"),  # which type comes out is for torch to say
        call("aten::mul", ([8], "long int"), "0.5"),
        call("aten::add", ([8], "QUInt8"), ([8], "QUInt8"), "1"),
        call("aten::add", ([8], F32), ([5], F32), "1"),
        call("aten::mm", ([8, 4], F32), ([5, 8], F32)),
        call("aten::sum", ([4, 8], "int"), "[1]", "False", ""),
        call("aten::sum", ([4, 8], BF16), "[1]", "False", "6"),
        replace(call("aten::cat", "0"), inputs=recorded_inputs([[[8], [8]], []], ["TensorList", "Scalar"])),
        replace(call("aten::mul", "1"), inputs=()),
        call("aten::sum", ([4, 8], F32), "6"),  # of this variant the second input is a type
        call("aten::sum", ([4, 8], F32), "[2]", "False", ""),
        call("aten::mean", ([], F32), "[0]", "False", ""),
        call("aten::addmm", ([4], F32), ([2, 3], F32)),
        replace(call("aten::mul", "1", "1"), inputs=recorded_inputs({"a": 1})),  # a trace may hold anything
        replace(call("aten::mul", "1", "1"), inputs=recorded_inputs([1, 2], [["float"], {}])),
    ],
)
def test_traffic_is_never_guessed(made: Call) -> None:
    assert traffic_of(made) is None


def test_pointwise_kernels_of_attention(recorded_facts: Facts) -> None:
    found, copy = (
        costs(recorded_facts, "attention-inplace-eager"),
        2**32 / recorded_facts["ceiling-copy"].device_time_us,
    )
    acts = {a.position: a for a in recorded_facts["attention-inplace-eager"].activities}
    mul, fill = found[2], found[3]
    assert (mul.op, mul.bytes) == ("aten::mul_", 2 * 256 * MIB)
    assert (fill.op, fill.bytes) == ("aten::masked_fill_", 2 * 256 * MIB + MIB)
    for cost in (mul, fill):
        rate = cost.bytes / acts[cost.position].duration_us  # bytes a µs
        assert cost.gb_per_s == pytest.approx(rate / 1e3)
        assert cost.share_of_memory == cost.share_of_roof == pytest.approx(rate / copy)
        assert (cost.flops, cost.tflops, cost.roof) == (None, None, "memory")
    # A mask that is broadcast makes for an unvectorised kernel: a third of the rate of the one beside it.
    assert mul.gb_per_s > 2.5 * fill.gb_per_s


def test_products_of_attention_are_under_the_memory_roof(recorded_facts: Facts) -> None:
    found = costs(recorded_facts, "attention-inplace-eager")
    for cost in (found[1], found[5]):
        assert cost.bytes == 2 * 16 * MIB + 256 * MIB
        assert cost.flops / cost.bytes == pytest.approx(56.9, abs=0.05)  # against a ridge of 190 FLOP a byte
        assert cost.roof == "memory"
        assert cost.share_of_roof == cost.share_of_memory
        assert 0.83 < cost.share_of_roof < 0.87
    gate = costs(recorded_facts, "mlp-eager")[1]
    assert (gate.roof, gate.share_of_roof) == (
        "compute",
        pytest.approx(gate.tflops * 1e12 / ceilings_of(recorded_facts).compute("16-bit")),
    )


def test_products_in_fp32_are_judged_by_the_rate_of_cuda_cores(recorded_facts: Facts) -> None:
    scores = costs(recorded_facts, "sdpa-math-eager")[10]
    assert scores.bytes == 2 * 32 * MIB + 512 * MIB  # in four bytes an element, though the case is one of bf16
    # 8 x 16 products of 1024 x 64 x 1024 against the best rate of fp32, which is 51.3 TFLOP/s in this recording.
    fp32 = ceilings_of(recorded_facts).compute("fp32")
    assert fp32 == pytest.approx(51.3e12, rel=0.005)
    assert scores.flops == 2 * 8 * 16 * 1024 * 64 * 1024
    assert (scores.compute_type, scores.roof) == ("fp32", "compute")
    assert scores.share_of_roof == pytest.approx(scores.flops / scores.time_us / (fp32 / 1e6))
    assert 0.4 < scores.share_of_roof < 0.8
    assert scores.share_of_memory == pytest.approx(scores.gb_per_s * 1e9 / ceilings_of(recorded_facts).bytes_per_s)


def test_copies_count_read_and_written(recorded_facts: Facts) -> None:
    copied = costs(recorded_facts, "attention-naive-eager")[3]
    assert (copied.label, copied.bytes) == ("Memcpy DtoD", 2 * 256 * MIB)
    cast = costs(recorded_facts, "sdpa-math-eager")[17]
    assert (cast.op, cast.bytes) == ("aten::copy_", 512 * MIB + 256 * MIB)
    seeds, product = (costs(recorded_facts, "matmul-add-4096-compile")[position] for position in (0, 2))
    assert (seeds.bytes, product.bytes) == (64 * MIB, 4 * 32 * MIB)  # two factors, the seeded output, the output
    up = Activity(0, "memcpy", "Memcpy HtoD (Pageable -> Device)", 0.0, 10.0, bytes=8)
    facts = recorded_facts["attention-naive-eager"]
    forward = replace(facts.representative, activities=(up,))
    assert kernel_costs(replace(facts, forwards=(forward,), trace_path=None)) == []


def test_the_only_kernel_of_a_forward_does_all_of_it(recorded_facts: Facts) -> None:
    (flash,) = costs(recorded_facts, "sdpa-flash-eager").values()
    assert (flash.bytes, flash.flops) == (64 * MIB, 17_196_646_400)
    assert flash.roof == "compute"


def test_shares_of_tiny_kernels_and_of_cached_bytes_are_none(recorded_facts: Facts) -> None:
    small = costs(recorded_facts, "matmul-add-64-eager")
    assert [cost.bytes for cost in small.values()] == [3 * 64 * 64 * 2] * 2
    assert {(cost.share_of_memory, cost.share_of_roof) for cost in small.values()} == {(None, None)}
    case, memory = "matmul-add-4096-eager", ceilings_of(recorded_facts).bytes_per_s / 1e9
    # Some of the add's bytes stay in the L2 cache, so that its rate may lie above that of memory.
    facts, moved = recorded_facts[case], 3 * 2 * 4096**2
    for above, share in ((1.045, 1.0), (1.055, None)):
        time_us = moved / (above * memory * 1e3)
        forwards = tuple(taking(forward, 2, time_us) for forward in facts.forwards)
        add = costs(recorded_facts | {case: replace(facts, forwards=forwards)}, case)[2]
        assert add.gb_per_s == pytest.approx(above * memory)
        assert add.bytes == moved > 60 * MIB  # its tensors do not fit there: its ceiling is not that of the cache
        assert add.share_of_memory == add.share_of_roof == share


def test_nothing_is_made_up_without_shapes_or_for_unpaired_kernels(recorded_facts: Facts) -> None:
    facts = recorded_facts["mlp-eager"]
    bare = replace(facts, trace_path=None)
    assert gemm_costs(bare) == kernel_costs(bare) == launched(bare) == []
    assert gemm_costs(recorded_facts["sdpa-flash-eager"]) == []
    more = (*facts.representative.activities, replace(facts.activities[-1], position=7))
    assert launched(replace(facts, forwards=(replace(facts.representative, activities=more),))) == []
    assert kernel_costs(CaseFacts("r", "c"), Ceilings({"16-bit": 1e15}, 1e12)) == []


def test_products_of_the_mlp(recorded_facts: Facts) -> None:
    gate, up, down = gemm_costs(recorded_facts["mlp-eager"])
    assert (gate.m, gate.n, gate.k, gate.batch) == (8192, 3072, 768, 1)
    assert (down.m, down.n, down.k, down.batch) == (8192, 768, 3072, 1)
    assert gate.flops == up.flops == down.flops == 2 * 8192 * 3072 * 768  # 38.7 GFLOP each
    # x 12 MiB, weight 4.5 MiB, result 48 MiB, in two bytes an element.
    assert gate.bytes == 12 * MIB + 4.5 * MIB + 48 * MIB
    assert gate.tflops == pytest.approx(gate.flops / gate.time_us / 1e6)
    assert gate.time_us == recorded_facts["mlp-eager"].activities[gate.position].duration_us
    assert gate.intensity == pytest.approx(38.654705664e9 / (64.5 * MIB))


def test_products_of_attention_are_batched_over_batch_and_heads(recorded_facts: Facts) -> None:
    scores, out = gemm_costs(recorded_facts["attention-inplace-eager"])
    assert (scores.batch, scores.m, scores.n, scores.k) == (128, 1024, 1024, 64)
    assert (out.batch, out.m, out.n, out.k) == (128, 1024, 64, 1024)
    assert scores.flops + out.flops == 4 * 8 * 16 * 1024 * 1024 * 64


def test_a_wave_is_what_the_device_holds_at_once(recorded_facts: Facts) -> None:
    scores, out = gemm_costs(recorded_facts["sdpa-math-eager"])
    # 128 threads of 255 registers, given out as 256 a thread: 2 blocks in 65,536; of 121, given out as 128: 4.
    assert (scores.tiles, scores.blocks, scores.waves) == (8192, 8192, pytest.approx(8192 / (132 * 2)))
    assert (out.tiles, out.blocks, out.waves) == (2048, 2048, pytest.approx(2048 / (132 * 4)))
    assert scores.tiles_per_block == out.tiles_per_block == 1.0
    gate = gemm_costs(recorded_facts["mlp-eager"])[0]
    # 32 by 24 tiles of 256 by 128 on 132 persistent blocks, one a multiprocessor.
    assert (gate.tiles, gate.blocks, gate.waves) == (768, 132, 1.0)
    assert gate.tiles_per_block == pytest.approx(5.82, abs=0.005)


def test_linear_reads_its_product_from_addmm(recorded_facts: Facts) -> None:
    (gemm,) = gemm_costs(recorded_facts["linear-eager"])
    assert (gemm.m, gemm.n, gemm.k) == (1024, 64, 32)
    # A tile of 64 x 8, its first side along n: one tile across the 64 outputs, 128 down the 1024 rows.
    assert (gemm.tiles, gemm.blocks) == (128, 128)
