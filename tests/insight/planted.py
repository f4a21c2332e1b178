"""Recorded folders made by hand with one planted fault each: a program of ops, kernels and calls, played on a clock.

Times are in µs and made up, but plausible for an H200. An op takes `OP_US` of CPU time before and after what is inside
it, a launch `LAUNCH_US`; a kernel starts when it is launched and the stream is free.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.insight.insight_traces import H200

OP_US, LAUNCH_US, LATENCY_US = 2.0, 4.0, 3.0
BF16, FP32 = "c10::BFloat16", "float"
Tensor = tuple[Sequence[int], str]
Event = dict[str, Any]


@dataclass
class Program:
    """A trace under way: the clock of the CPU, and when the stream is free."""

    events: list[Event] = field(default_factory=list)
    clock: float = 1000.0
    free: float = 0.0
    correlation: int = 0

    @contextmanager
    def op(self, name: str, *tensors: Tensor, category: str = "cpu_op", cpu: float = OP_US) -> Iterator[None]:
        """An op with what is done inside it; tensors: its arguments as (sizes, type)."""
        start, args = self.clock, {}
        if tensors:
            args = {
                "Input Dims": [list(sizes) for sizes, _ in tensors],
                "Input type": [kind for _, kind in tensors],
                "Concrete Inputs": ["" for _ in tensors],
            }
        self.clock += cpu
        place = len(self.events)
        yield
        self.clock += cpu
        self.events.insert(place, _event(category, name, start, self.clock - start, **args))

    def kernel(self, name: str, us: float, grid: int = 1056, **attributes: Any) -> None:
        """A launch and its kernel."""
        self.call("cudaLaunchKernel", LAUNCH_US)
        given = {"grid": [grid, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}
        self._device("kernel", name, us, **given | attributes)

    def copy(self, way: str, size: int, us: float, blocks: bool = False) -> None:
        """A memcpy (``HtoD (Pageable -> Device)``); with `blocks`, its call returns when it is done."""
        start = self.clock
        self.call("cudaMemcpyAsync", LAUNCH_US)
        self._device("gpu_memcpy", f"Memcpy {way}", us, bytes=size)
        if blocks:
            self.clock = self.free + 2.0
            self.events[-2]["dur"] = self.clock - start

    def wait(self, name: str = "cudaStreamSynchronize") -> None:
        """A call that waits for the stream."""
        start = self.clock
        self.clock = max(self.clock, self.free) + 3.0
        self.correlation += 1
        self.events.append(_event("cuda_runtime", name, start, self.clock - start, correlation=self.correlation))

    def call(self, name: str, us: float) -> None:
        """A runtime call without device work."""
        self.correlation += 1
        self.events.append(_event("cuda_runtime", name, self.clock, us, correlation=self.correlation))
        self.clock += us

    def _device(self, category: str, name: str, us: float, **args: Any) -> None:
        start = max(self.clock - LAUNCH_US + LATENCY_US, self.free)
        given = {"device": 0, "stream": 7, "correlation": self.correlation, **args}
        self.events.append(_event(category, name, start, us, 0, 7, **given))
        self.free = start + us


def _event(
    category: str, name: str, start: float, us: float, pid: int = 1, tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": us, "args": args}


Play = Callable[[Program], None]
OF_CASE = ("workload", "variant", "mode", "dtype", "compile_options", "params")


def write_case(folder: Path, case: str, play: Play, **about: Any) -> None:
    """<folder>/<case>/1/ with three forwards named `fwd`, each as long unprofiled as in the trace.

    about: fields of the case (`OF_CASE`) or of the measurement.
    """
    program, spans = Program(), []
    for _ in range(3):
        start = program.clock
        with program.op("fwd", category="user_annotation", cpu=1.0):
            play(program)
        spans.append(max(program.clock, program.free) - start)
        program.clock = start + spans[-1] + 50.0
    target = folder / case / "1"
    target.mkdir(parents=True)
    trace = {"schemaVersion": 1, "deviceProperties": [H200], "record_shapes": 1, "traceEvents": program.events}
    with gzip.open(target / "trace.json.gz", "wt", encoding="utf-8") as file:
        json.dump(trace, file)
    spec = {"case": case, "workload": case, "variant": case, "mode": "eager", "annotation": "fwd", "params": {}}
    spec |= {"dtype": "bfloat16"} | {name: about.pop(name) for name in OF_CASE if name in about}
    measured = {
        "schema": 1,
        "case": spec,
        "status": "ok",
        "params_used": {},
        "device": {"type": "cuda", "name": "NVIDIA H200", "capability": "9.0"},
        "forward_times_us": spans,
        "trace": "trace.json.gz",
    }
    (target / "measurement.json").write_text(json.dumps(measured | about))


# --- parts of programs -----------------------------------------------------------------------------------------------

NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
TILE_32 = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x1_nn_align8>(Params)"
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda()#3}::operator()() const::{lambda()#12}, std::array<char*, 2ul>, 4>(int)"
)
POINTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>(int)"
)
SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*, float const*)"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"


def product(
    p: Program, m: int, n: int, k: int, us: float, name: str = NVJET, kind: str = BF16, **attributes: Any
) -> None:
    """aten::matmul > aten::mm and one kernel."""
    tensors = ((m, k), kind), ((k, n), kind)
    with p.op("aten::matmul", *tensors), p.op("aten::mm", *tensors):
        p.kernel(name, us, **{"grid": 132, "registers per thread": 168, "shared memory": 200000} | attributes)


def pointwise(p: Program, op: str, us: float, *tensors: Tensor, name: str = POINTWISE) -> None:
    """One op with one kernel."""
    with p.op(op, *tensors):
        p.kernel(name, us)


def cast(p: Program, sizes: Sequence[int], source: str, target: str, us: float) -> None:
    """aten::to and its kernel."""
    with p.op("aten::to", (sizes, source)), p.op("aten::_to_copy", (sizes, source)):
        pointwise(p, "aten::copy_", us, (sizes, target), (sizes, source), ((), "Scalar"), name=CAST)


def item(p: Program) -> None:
    """aten::item: a copy of 4 bytes and the wait for it."""
    with p.op("aten::item", ((), FP32)), p.op("aten::_local_scalar_dense", ((), FP32)):
        p.copy("DtoH (Device -> Pageable)", 4, 1.5)
        p.wait()
