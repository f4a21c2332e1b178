"""Sizes of the tensors behind kernels, and types that copies convert, against the parameters of the recorded cases."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from kernelbook.cases import Activity, CaseFacts
from kernelbook.judge.cost_model.traffic import conversions, sizes_of, tensor_sizes
from kernelbook.kernel_names.labels import activity_label
from tests.helpers import ROOT
from tests.insight.made_inputs import inputs

BATCH, HEADS, SEQ, HEAD_DIM = 8, 16, 1024, 64  # of the attention cases in config.yaml
OPERAND, SCORES, MASK = BATCH * HEADS * SEQ * HEAD_DIM, BATCH * HEADS * SEQ * SEQ, SEQ * SEQ
ROWS, DIM, HIDDEN = 64 * 128, 768, 3072  # of the MLP cases


def test_sizes_of_recorded_attention_are_those_of_its_parameters(recorded_facts: dict[str, CaseFacts]) -> None:
    sizes = tensor_sizes(recorded_facts["attention-inplace-eager"])
    assert sizes == {
        1: (OPERAND, OPERAND),  # q times k; 0 is the memset, which has none
        2: (SCORES,),
        3: (SCORES, MASK),
        4: (SCORES,),
        5: (SCORES, OPERAND),
    }
    compiled = tensor_sizes(recorded_facts["sdpa-math-compile"])
    assert compiled[2] == (OPERAND, OPERAND)  # bmm.out: its output is not counted
    assert compiled[3] == (SCORES,)
    assert compiled[4] == (OPERAND, OPERAND)
    assert tensor_sizes(recorded_facts["mlp-eager"])[6] == (ROWS * HIDDEN, HIDDEN * DIM)


def test_casts_of_recorded_attention_are_between_its_type_and_fp32(recorded_facts: dict[str, CaseFacts]) -> None:
    found = conversions(recorded_facts["sdpa-math-eager"])
    assert found == {**dict.fromkeys((0, 1, 2), ("bf16", "fp32")), **dict.fromkeys((17, 19), ("fp32", "bf16"))}
    assert conversions(recorded_facts["attention-naive-eager"]) == {}  # its copy changes no type


@pytest.mark.parametrize(
    ("op", "shapes", "sizes"),
    [
        ("aten::add", "[[4, 8], [8], []]", (32, 8)),
        ("aten::fill_", "[[], []]", (1,)),
        ("aten::addmm", "[[8], [4, 2], [2, 8], [], []]", (16, 8)),
        ("aten::bmm", "[[2, 4, 8], [2, 8, 4], [2, 4, 4]]", (64, 64)),
        ("aten::cat", "[[[2, 3], [4, 3]], []]", (12, 6)),
        ("aten::zeros", "[]", ()),
        ("aten::mm", '"damaged"', ()),
    ],
)
def test_sizes_are_read_off_recorded_shapes(op: str, shapes: str, sizes: tuple[int, ...]) -> None:
    assert sizes_of(op, inputs(json.loads(shapes))) == sizes


def test_the_table_has_them_in_the_representative_forward() -> None:
    rows = pq.read_table(ROOT / "reports/example/tables/activities.parquet").to_pylist()
    assert not any(row["tensor_sizes"] for row in rows if not row["representative"])
    assert not any(row["converts"] for row in rows if not row["representative"] or row["op"] != "aten::copy_")
    found = {(row["op"], *row["tensor_sizes"]) for row in rows if row["tensor_sizes"]}
    assert ("aten::gelu", ROWS * HIDDEN) in found or ("aten::masked_fill_", SCORES, MASK) in found


def test_the_report_says_both_types_where_they_are_known() -> None:
    name = (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{lambda(float)#1}, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)"
    )
    unknown = Activity(0, "kernel", name, 0.0, 1.0)
    assert (activity_label(unknown).what, activity_label(unknown).precision) == ("converts to fp32", "")
    known = activity_label(replace(unknown, converts="bf16 to fp32"))
    assert (known.what, known.precision) == ("converts bf16 to fp32", "")
