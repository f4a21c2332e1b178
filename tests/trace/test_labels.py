"""Names of kernels in the table for people: short, and no two alike."""

import pytest

from kernelbook.kernel_names.labels import labels

NAMES = [
    f"void at::native::{kind}elementwise_kernel<4, at::native::{functor}<float>, std::array<char*, 2ul> >(int, "
    f"at::native::{functor}<float>, std::array<char*, 2ul>)::{{lambda(int)#1}}"
    for kind in ("vectorized_", "")
    for functor in ("AddFunctor", "MulFunctor")
] + [f"void cutlass::Kernel<cutlass_80_tensorop_gemm_{tile}_tn>(Params)" for tile in ("64x64", "128x64")]


@pytest.mark.parametrize("room", [24, 53, 72])
def test_kernels_can_be_told_apart_by_their_labels(room):
    shown = labels(NAMES, room)
    assert len(set(shown)) == len(NAMES)
    assert all(len(label) <= room for label in shown)
    if room > 24:
        assert shown[:2] == ["vectorized_elementwise_kernel · Add", "vectorized_elementwise_kernel · Mul"]
        assert "64x64" in shown[4]
        assert "128x64" in shown[5]


def test_labels_of_one_name_are_numbered():
    assert labels(["k<1>(int)", "k<1>(int)"], 24) != labels(["k<1>(int)"], 24) * 2
