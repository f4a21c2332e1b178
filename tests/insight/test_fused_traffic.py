"""Traffic of generated kernels: of recorded ones by hand from their shapes, of made-up forwards by their data flow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelbook.cases import Activity, Call, CaseFacts
from kernelbook.judge.cost_model import Launched, ceilings_of, kernel_costs
from kernelbook.judge.cost_model.kernel_costs import fused_traffic
from tests.insight.insight_recorded import Facts
from tests.insight.made_inputs import inputs

MIB = 2**20
HIDDEN = 8192 * 3072 * 2  # bytes of the MLP's inner tensors
SCORES = 8 * 16 * 1024 * 1024  # elements of attention's weights
HEADS = 8 * 16 * 1024 * 64


def moved(facts: CaseFacts) -> dict[int, int]:
    return {cost.position: cost.bytes for cost in kernel_costs(facts) if (cost.op or "").startswith("triton_")}


def test_gelu_and_product_read_both_tensors_and_write_over_one(recorded_facts: Facts) -> None:
    # Two tensors are passed. Both come from products and must be read, since they are no output and nothing else
    # reads them; the third product reads what is written.
    assert moved(recorded_facts["mlp-compile"]) == {4: 3 * HIDDEN}
    liger = {cost.op: cost.bytes for cost in kernel_costs(recorded_facts["mlp-liger"])}
    assert liger["LigerGELUMulFunction"] == 3 * HIDDEN  # the same work
    (cost,) = (c for c in kernel_costs(recorded_facts["mlp-compile"], ceilings_of(recorded_facts)) if c.position == 4)
    assert (round(cost.gb_per_s, -1), round(cost.share_of_roof, 2)) == (
        2690,
        0.63,
    )  # 151 MB in 56.0 µs, against 4,258 GB/s


def test_softmax_over_its_scores_and_casts_beside_it(recorded_facts: Facts) -> None:
    assert moved(recorded_facts["attention-naive-compile"]) == {2: 2 * 2 * SCORES + 1024 * 1024}  # and the mask
    casts = HEADS * (2 + 4)
    assert moved(recorded_facts["sdpa-math-compile"]) == {0: casts, 1: casts, 3: 2 * 4 * SCORES, 4: casts, 6: casts}


def test_a_forward_of_one_generated_kernel_moves_what_it_must(recorded_facts: Facts) -> None:
    flex = recorded_facts["attention-flex-compile"]  # a template, whose tensors stand in no known order
    assert moved(flex) == {0: 4 * HEADS * 2}


# --- made-up forwards ------------------------------------------------------------------------------------------------


def launch(position: int, op: str, *tensors: int | tuple[int, str], alone: bool = True) -> Launched:
    """A kernel whose op was given tensors of so many floats, or of so many elements of a type."""
    given = [(each, "float") if isinstance(each, int) else each for each in tensors]
    made = inputs([[size] for size, _ in given], [kind for _, kind in given])
    call = Call(position, 0, None, "op", op, 0.0, 1.0, 1.0, inputs=made)
    return Launched(Activity(position, "kernel", op, float(position), 1.0, op=op), call, alone, False)


def facts(inputs: int | None, output: int | None) -> CaseFacts:
    return CaseFacts("r", "c", input_bytes=inputs, output_bytes=output)


def inferred(inputs: int | None, output: int | None, *pairs: Launched) -> dict[int, int]:
    return {place: traffic.bytes for place, traffic in fused_traffic(facts(inputs, output), pairs).items()}


def test_one_tensor_in_one_out() -> None:
    assert inferred(32, 32, launch(0, "triton_poi_fused_gelu_0", 8, 8)) == {0: 64}


def test_a_single_tensor_is_changed_in_place_if_it_was_written_before() -> None:
    pairs = launch(0, "aten::add", 8, 8), launch(1, "triton_poi_fused_gelu_0", 8)
    assert inferred(64, 32, *pairs) == {1: 64}
    assert inferred(64, 32, launch(0, "triton_poi_fused_gelu_0", 8)) == {}  # never an input of the forward


def test_a_kernel_that_makes_a_tensor_reads_none() -> None:
    assert inferred(0, 32, launch(0, "triton_poi_fused_ones_0", 8)) == {0: 32}


def test_two_tensors_that_nothing_else_reads_are_both_read() -> None:
    halves = (8, "c10::BFloat16")
    casts = [launch(0, "aten::copy_", 8, halves), launch(1, "aten::copy_", 8, halves)]
    # Two casts write 8 floats each; the output is as large as one of them. The sum is written over the other.
    assert inferred(32, 32, *casts, launch(2, "triton_poi_fused_add_0", 8, 8)) == {2: 96}
    # Of an output as large as both, one of them may be left unread, and the kernel may read the other alone.
    assert inferred(32, 64, *casts, launch(2, "triton_poi_fused_add_0", 8, 8)) == {}


def test_where_two_ways_are_possible_nothing_is_said() -> None:
    # Either the sum is read and something written for the output, or the sum is written over with another input.
    pairs = launch(0, "aten::add", 8, 8), launch(1, "triton_poi_fused_mul_1", 8, 8)
    assert inferred(64, 32, *pairs) == {}
    assert inferred(32, 32, *pairs[1:]) == {1: 64}


@pytest.mark.parametrize(
    ("inputs", "output", "pairs"),
    [
        (None, 32, [launch(0, "triton_poi_fused_gelu_0", 8, 8)]),
        (32, None, [launch(0, "triton_poi_fused_gelu_0", 8, 8)]),
        (
            32,
            32,
            [launch(0, "aten::conv2d", 8, 8), launch(1, "triton_poi_fused_gelu_0", 8)],
        ),  # unknown
        (32, 32, [launch(0, "triton_tem_fused_mm_0", 8, 8)]),  # a template passes its tensors in an order of its own
        (32, 32, [launch(0, "triton_poi_fused_gelu_0", 8, 8, alone=False)]),
        (32, 32, [launch(0, "aten::gelu", 8)]),
        (8, 32, [launch(0, "triton_poi_fused_gelu_0", 8, 8)]),  # reads more than there is
        (10**9, 10**9, [launch(i, f"triton_poi_fused_add_{i}", *[8] * 9) for i in range(5)]),  # too many ways
    ],
)
def test_nothing_is_guessed(inputs: int | None, output: int | None, pairs: list[Launched]) -> None:
    assert inferred(inputs, output, *pairs) == {}


def test_inference_needs_the_measured_sizes(recorded_facts: Facts) -> None:
    assert moved(replace(recorded_facts["mlp-compile"], output_bytes=None)) == {}
