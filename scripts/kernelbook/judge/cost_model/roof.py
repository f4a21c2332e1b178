"""The roofline model: a least time from two ceilings, and the share of it that was achieved.

Williams, Waterman and Patterson, CACM 52(4), 2009: time is at least FLOPs over the compute ceiling and bytes over the
memory ceiling. FLOPs in FLOP, bytes in bytes, times in µs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelbook.kernel_names import KernelName
from kernelbook.kernel_names.model import element

#: Below this, in µs, a roof says nothing: the shortest kernels recorded, which set four bytes, take 0.7 µs on an H200.
LEAST_ROOF_US = 1.0
#: A share above this means that the ceiling does not apply: the bytes came from the L2 cache. Between 1 and this, a
#: kernel reads more than it writes, which memory does faster than the copy that measured the ceiling: its share is 1.
MOST_SHARE = 1.05
#: Types with a ceiling of their own, slowest first; fp32 is that of the CUDA cores.
COMPUTE_TYPES = ("fp64", "fp32", "tf32", "16-bit", "fp8")
#: torch's names of element types -> the profiler's.
PROFILER_KINDS = {"bfloat16": "c10::BFloat16", "float16": "c10::Half", "float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Ceilings:
    """The best rates of a device: compute type -> FLOP/s, and bytes/s of its memory; missing if unknown."""

    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    bytes_per_s: float | None = None

    def compute(self, kind: str | None) -> float | None:
        """FLOP/s of products of a compute type."""
        return self.flops_per_s.get(kind or "")


def compute_type(dtype: str | None, kernel: KernelName | None = None) -> str | None:
    """The compute type of a product: that of its kernel if the name states it, otherwise that of its operands.

    dtype: of the operands, as torch, the profiler or kernel names spell it. float32 operands are multiplied in TF32 if
    the kernel uses tensor cores, otherwise on CUDA cores. None for types without a ceiling.
    """
    operands = element(PROFILER_KINDS.get(dtype or "", dtype))
    stated = kernel.element_type if kernel else "unknown"
    kind = operands if stated in ("unknown", "16-bit") and operands != "unknown" else stated
    if kind == "fp32" and kernel and kernel.tensor_cores == "yes":
        return "tf32"
    kind = "16-bit" if kind in ("bf16", "fp16") else kind
    return kind if kind in COMPUTE_TYPES else None


@dataclass(frozen=True)
class Roof:
    """The least time for some work, and what sets it: compute or memory."""

    time_us: float
    side: str

    def share(self, time_us: float | None) -> float | None:
        """The roof's time over what was taken, as `share_of`."""
        return share_of(self.time_us, time_us)


def share_of(least_us: float | None, time_us: float | None) -> float | None:
    """Least time over time, at most 1; None if either is missing, above MOST_SHARE, or if the least is too short."""
    if not least_us or not time_us or least_us < LEAST_ROOF_US or least_us > MOST_SHARE * time_us:
        return None
    return min(least_us / time_us, 1.0)


def time_at(amount: float | None, per_s: float | None) -> float | None:
    """µs that an amount takes at a rate."""
    return 1e6 * amount / per_s if amount and per_s else None


def per_second(amount: float | None, time_us: float | None) -> float | None:
    """Amount a second."""
    return amount / (time_us * 1e-6) if amount and time_us else None


def roof_of(flops: int | None, moved: int | None, ceilings: Ceilings, kind: str | None = None) -> Roof | None:
    """The roof of work with these FLOPs and bytes; None without a ceiling that it needs.

    ``kind``: the compute type of the FLOPs.
    """
    compute, memory = time_at(flops, ceilings.compute(kind)), time_at(moved, ceilings.bytes_per_s)
    if (flops and compute is None) or memory is None:
        return None
    return Roof(compute, "compute") if compute is not None and compute > memory else Roof(memory, "memory")
