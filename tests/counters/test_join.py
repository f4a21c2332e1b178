"""Kernels of a trace joined to those of a report: right ones, and ten wrong ones that must stay apart."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from kernelbook.counters import join
from kernelbook.counters.files import parse
from kernelbook.counters.join import same_kernel
from tests.counters.made_report import ATTENTION, GEMM_SHAPE, MASK, MUL, PV, QK, SOFTMAX, TORCH, kernels, report


def joined(of_trace, text) -> list:
    return join("h200", "attention", of_trace, parse(text))


def states(of_trace, text) -> list[str]:
    return [row.status for row in joined(of_trace, text)]


def test_the_same_kernels_are_joined():
    rows = joined(kernels(), report())
    assert [row.status for row in rows] == ["joined"] * 5
    assert [row.position for row in rows] == [1, 2, 3, 4, 5]
    assert [row.dram_bytes for row in rows] == [275_418_368, 512_538_112, 468_197_632, 517_014_784, 296_279_040]
    assert rows[2].reason is None


def changed(place: int, **figures) -> tuple:
    """The rows with other parts of one: name, grid or block."""
    name, grid, block, *rest = ATTENTION[place]
    row = (figures.get("name", name), figures.get("grid", grid), figures.get("block", block), *rest)
    return (*ATTENTION[:place], row, *ATTENTION[place + 1 :])


def swapped(one: int, other: int) -> tuple:
    rows = list(ATTENTION)
    rows[one], rows[other] = rows[other], rows[one]
    return tuple(rows)


FLOAT_MASK = MASK.replace("(instance 12)", "(instance 7)")
#: What was planted -> (rows of the report, places that must not be joined).
WRONG = {
    "a kernel missing in the report": (ATTENTION[:2] + ATTENTION[3:], {0, 1, 2, 3, 4}),
    "the last kernel missing": (ATTENTION[:4], {0, 1, 2, 3, 4}),
    "one kernel more, at the end": ((*ATTENTION, ATTENTION[1]), {0, 1, 2, 3, 4}),
    "one kernel more, in front": ((ATTENTION[1], *ATTENTION), {0, 1, 2, 3, 4}),
    "two forwards in the report": (ATTENTION * 2, {0, 1, 2, 3, 4}),
    "another order": (swapped(2, 3), {2, 3}),
    "another tile of a product": (changed(0, name=QK.replace("256x128", "128x256")), {0}),
    "another grid": (changed(1, grid=(65536, 1, 1)), {1}),
    "another block": (changed(3, block=(64, 2, 1)), {3}),
    "the same op in another type": (changed(2, name=FLOAT_MASK), {2}),
    "another vector size": (changed(1, name=MUL.replace("<8, ", "<4, ")), {1}),
    "products of equal shape swapped": (swapped(0, 4), {0, 4}),
}


@pytest.mark.parametrize("planted", WRONG)
def test_a_wrong_partner_is_not_joined(planted):
    rows, apart = WRONG[planted]
    found = joined(kernels(), report(rows))
    assert [place for place, row in enumerate(found) if row.status != "joined"] == sorted(apart)
    for place in apart:
        assert found[place].dram_bytes is None
        assert found[place].limiter is None
        assert "measure the case again with counters" in found[place].reason
        assert found[place].name == kernels()[place].name


def test_what_differs_is_stated():
    def reason(rows, place: int) -> str:
        return joined(kernels(), report(rows))[place].reason

    assert "ncu saw 4 kernels in the forward and the trace 5" in reason(ATTENTION[:4], 0)
    assert "another order" in reason(swapped(2, 3), 2)
    assert "autotuning" in reason(changed(0, name="triton_mm_7"), 0)
    assert "its grid was (65536, 1, 1) under ncu and (131072, 1, 1) in the trace" in reason(
        changed(1, grid=(65536, 1, 1)), 1
    )


def test_the_work_grows_with_the_number_of_kernels(monkeypatch):
    """100 kernels, each another than ncu saw: at most four looks at a name for each, not 100."""
    looks = []
    monkeypatch.setattr(sys.modules["kernelbook.counters.join"], "words", lambda name: looks.append(name) or (name,))
    monkeypatch.setattr(
        sys.modules["kernelbook.counters.join"], "same_kernel", lambda one, other: looks.append(one) or one == other
    )
    trace = kernels([(f"a{n}", *ATTENTION[0][1:]) for n in range(100)])
    rows = join("run", "case", trace, parse(report([(f"b{n}", *ATTENTION[0][1:]) for n in range(100)])))
    assert {row.status for row in rows} == {"not joined"}
    assert len(looks) <= 400


def test_launch_order_counts_and_not_the_order_of_starts():
    """Two streams: the kernel that was launched second started first."""
    first, second, *rest = kernels()
    shifted = [replace(second, position=1, start_us=0.0), replace(first, position=2, start_us=500.0), *rest]
    rows = joined(shifted, report())
    assert [(row.position, row.status) for row in rows[:2]] == [(2, "joined"), (1, "joined")]


def test_kernels_of_a_graph_share_their_launch_and_are_taken_by_start():
    graph = [replace(kernel, correlation=7) for kernel in reversed(kernels())]
    assert states(graph, report()) == ["joined"] * 5


def test_a_kernel_without_launch_shape_is_not_joined():
    of_trace = [replace(kernels()[0], grid=None), *kernels()[1:]]
    assert states(of_trace, report()) == ["not joined", *["joined"] * 4]


def test_functions_that_were_left_out_are_reported():
    """Only the softmax and the mask were profiled, as in a forward with too many kernels."""
    some = [
        replace(row, functions=("softmax_warp_forward", "elementwise_kernel")) for row in parse(report(ATTENTION[2:4]))
    ]
    rows = join("h200", "attention", kernels(), some)
    assert [row.status for row in rows] == ["not joined", "not joined", "joined", "joined", "not joined"]
    assert rows[0].reason.startswith("not profiled")


def test_a_trace_without_kernels_is_a_refused_row():
    (row,) = joined([], report())
    assert row.status == "refused"
    assert "ProfilerActivity.CUDA" in row.reason


@pytest.mark.parametrize("name", [MUL, MASK, SOFTMAX])
def test_both_ways_to_demangle_are_one_name(name):
    assert same_kernel(TORCH[name], name)


@pytest.mark.parametrize(
    ("torch", "ncu"),
    [
        # from a trace and a report of one forward on an H200
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<bool>, std::array<char*, 1ul> >"
            "(int, at::native::FillFunctor<bool>, std::array<char*, 1ul>)",
            "void at::vectorized_elementwise_kernel<4, at::FillFunctor<bool>, std::array<char *, 1>>(int, T2, T3)",
        ),
        (
            "void at::native::triu_tril_kernel<bool, int, false, 8, false>(at::cuda::detail::TensorInfo<bool, int>)",
            "void at::triu_tril_kernel<bool, int, 0, 8, 0>(cuda::TensorInfo<T1, T2>)",
        ),
        ("void f<4>(int)", "void f<(int)4>(int)"),
        ("triton_poi_fused_gelu_mul_0", "triton_poi_fused_gelu_mul_0"),
    ],
)
def test_names_of_one_kernel(torch, ncu):
    assert same_kernel(torch, ncu)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (QK, PV),
        (TORCH[MUL], MUL.replace("MulFunctor", "AddFunctor")),
        (TORCH[SOFTMAX], SOFTMAX.replace("10, 0, 0", "10, 1, 0")),
        (TORCH[SOFTMAX], SOFTMAX.replace("c10::BFloat16", "c10::Half")),
        ("triton_poi_fused_mul_0", "triton_poi_fused_mul_1"),
        (TORCH[MASK], MASK.replace("masked_fill_kernel", "masked_scatter_kernel")),
    ],
)
def test_names_of_two_kernels(one, other):
    assert not same_kernel(one, other)


def test_a_duration_that_differs_gets_a_word():
    """80.64 µs under ncu and 60 µs in the trace: 34 % longer. 84.832 and 80 µs are 6 % apart."""
    of_trace = [replace(kernels()[0], duration_us=80.0), *kernels()[1:4], replace(kernels()[4], duration_us=60.0)]
    rows = joined(of_trace, report())
    assert rows[0].duration_note is None
    assert rows[4].duration_note.startswith("34 % longer under ncu, which flushes the caches")


def test_shapes_of_products_are_alike():
    assert ATTENTION[0][1:3] == ATTENTION[4][1:3] == GEMM_SHAPE
