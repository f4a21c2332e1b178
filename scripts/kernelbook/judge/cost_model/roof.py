"""The roofline model: the least time from two ceilings, and the share of it that was achieved.

Williams, Waterman and Patterson, CACM 52(4), 2009: time is at least FLOPs over the compute ceiling and bytes over the
memory ceiling. FLOPs in FLOP, bytes in bytes, times in µs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelbook.kernel_names import KernelName
from kernelbook.kernel_names.model import element

#: A least time below this, in µs, is not used: the shortest recorded kernels, which set four bytes, take 0.7 µs on an
#: H200.
LEAST_ROOF_US = 1.0
#: A share above this means that the ceiling does not apply: the bytes came from a cache. Between 1 and this, a
#: kernel reads more than it writes, which memory does faster than the copy that measured the ceiling: its share is 1.
MOST_SHARE = 1.05
#: Types with a separate ceiling, slowest first; fp32 is that of the CUDA cores.
COMPUTE_TYPES = ("fp64", "fp32", "tf32", "16-bit", "fp8")
#: Quantities that can determine a roof.
SIDES = COMPUTE, MEMORY, L2 = ("compute", "memory", "L2 cache")
#: torch's names of element types -> the profiler's.
PROFILER_KINDS = {"bfloat16": "c10::BFloat16", "float16": "c10::Half", "float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Ceilings:
    """The best rates of a device: compute type -> FLOP/s, and bytes/s of its memory and L2 cache; missing if unknown.

    ``l2_bytes``: the largest working set to which the rate of the L2 cache applies.
    """

    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    bytes_per_s: float | None = None
    l2_bytes_per_s: float | None = None
    l2_bytes: int | None = None

    def compute(self, kind: str | None) -> float | None:
        """FLOP/s of products of a compute type."""
        return self.flops_per_s.get(kind or "")

    def traffic(self, moved: int | None, time_us: float | None) -> tuple[float | None, str]:
        """(bytes/s, side) that limit work which moved these bytes in this time; side: MEMORY or L2.

        It is the L2 cache if the bytes fit in it and moved faster than memory can move them.
        """
        rate = per_second(moved, time_us)
        if rate and self.bytes_per_s and rate > MOST_SHARE * self.bytes_per_s and self._fits_l2(moved):
            return self.l2_bytes_per_s, L2
        return self.bytes_per_s, MEMORY

    def _fits_l2(self, moved: int | None) -> bool:
        return bool(self.l2_bytes_per_s and moved and self.l2_bytes and moved <= self.l2_bytes)


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
    """The least time for some work, and the quantity that determines it: one of SIDES."""

    time_us: float
    side: str

    def share(self, time_us: float | None) -> float | None:
        """The roof's time over the time taken, as `share_of`."""
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


def roof_of(
    flops: int | None, moved: int | None, time_us: float | None, ceilings: Ceilings, kind: str | None = None
) -> Roof | None:
    """The roof of work with these FLOPs and bytes; None without a ceiling that it needs.

    ``time_us``: the time that the work took, which shows whether its bytes came from the L2 cache. ``kind``: the
    compute type of the FLOPs.
    """
    bytes_per_s, side = ceilings.traffic(moved, time_us)
    compute, memory = time_at(flops, ceilings.compute(kind)), time_at(moved, bytes_per_s)
    if (flops and compute is None) or memory is None:
        return None
    return Roof(compute, COMPUTE) if compute is not None and compute > memory else Roof(memory, side)
