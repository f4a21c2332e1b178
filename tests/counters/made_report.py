"""Reports of Nsight Compute and kernels of traces, made by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PEAK = ".avg.pct_of_peak_sustained_elapsed"
#: What ncu 2025.3 printed for one forward of in-place attention on an H200: names, launch shapes and a few metrics.
MUL = (
    "void at::vectorized_elementwise_kernel<8, at::AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "binary_internal::MulFunctor<float>>, std::array<char *, 2>>(int, T2, T3)"
)
MASK = (
    "void at::elementwise_kernel<128, 4, void at::gpu_kernel_impl_nocast<at::<unnamed>::masked_fill_kernel("
    "at::TensorIterator &, const c10::Scalar &)::[lambda() (instance 1)]::operator ()() const::[lambda() (instance 12)]"
    "::operator ()() const::[lambda(c10::BFloat16, bool) (instance 1)]>(at::TensorIteratorBase &, const T1 &)::"
    "[lambda(int) (instance 1)]>(int, T3)"
)
SOFTMAX = (
    "void <unnamed>::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, 0, 0>(T2 *, const T1 *, int, int, "
    "int, const bool *, int, bool)"
)
QK, PV = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT"
#: The same kernels as torch.profiler names them.
TORCH = {
    MUL: (
        "void at::native::vectorized_elementwise_kernel<8, at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, "
        "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int, "
        "at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
        "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul>)"
    ),
    MASK: (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::(anonymous "
        "namespace)::masked_fill_kernel(at::TensorIterator&, c10::Scalar const&)::{lambda()#1}::operator()() const::"
        "{lambda()#12}::operator()() const::{lambda(c10::BFloat16, bool)#1}>(at::TensorIteratorBase&, at::native::("
        "anonymous namespace)::masked_fill_kernel(at::TensorIterator&, c10::Scalar const&)::{lambda()#1}::operator()() "
        "const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16, bool)#1} const&)::{lambda(int)#1}>(int, int)"
    ),
    SOFTMAX: (
        "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>("
        "c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
    ),
}
GEMM_SHAPE = ((2, 66, 1), (384, 1, 1))
#: (name, grid, block, read bytes, written bytes, ns, SM %, DRAM %) of the five kernels.
ATTENTION = (
    (QK, *GEMM_SHAPE, 33_621_248, 241_797_120, 84_832, 21.42, 67.51),
    (MUL, (131072, 1, 1), (128, 1, 1), 268_452_096, 244_086_016, 123_744, 17.84, 86.08),
    (MASK, (262144, 1, 1), (128, 1, 1), 224_424_960, 243_772_672, 345_056, 61.54, 28.20),
    (SOFTMAX, (32768, 1, 1), (32, 4, 1), 268_466_688, 248_548_096, 282_336, 83.31, 38.06),
    (PV, *GEMM_SHAPE, 285_242_624, 11_036_416, 80_640, 22.09, 76.37),
)
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "sm__throughput" + PEAK)
COLUMNS += ("dram__throughput" + PEAK,)
UNITS = {"dram__bytes_read.sum": "byte", "dram__bytes_write.sum": "byte", "gpu__time_duration.sum": "ns"}


@dataclass(frozen=True)
class Kernel:
    """A kernel of a trace."""

    position: int
    name: str
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    duration_us: float = 100.0
    start_us: float | None = None
    correlation: int | None = None


def report(
    rows: Sequence[tuple] = ATTENTION,
    more: Mapping[str, Sequence[object]] | None = None,
    units: Mapping[str, str] | None = None,
) -> str:
    """A raw page as ncu prints it. more: further metrics, a value a kernel."""
    more, units = more or {}, {**UNITS, **(units or {})}
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    writer.writerow(["ID", "Process ID", "Host Name", "Kernel Name", "Block Size", "Grid Size", *COLUMNS, *more])
    writer.writerow(["", "", "", "", "", "", *(units.get(name, "%") for name in (*COLUMNS, *more))])
    for number, (name, grid, block, *figures) in enumerate(rows):
        own = [values[number] for values in more.values()]
        writer.writerow([number, 1607, "127.0.0.1", name, block, grid, *map(_grouped, figures), *own])
    head = "==WARNING== Note: Running with unmodified GPU clocks.\n==PROF== Connected to process 1607\n"
    return head + written.getvalue()


def _grouped(value: float) -> str:
    return f"{value:,}"


def kernels(rows: Sequence[tuple] = ATTENTION) -> list[Kernel]:
    """The kernels of the trace that belong to such a report, launched in this order."""
    return [
        Kernel(place + 1, TORCH.get(name, name), grid, block, ns / 1e3, 1000.0 * place, 10 + place)
        for place, (name, grid, block, _, _, ns, *_) in enumerate(rows)
    ]
