"""The roofline model: a least time from two ceilings, and the share of it that was achieved.

Williams, Waterman and Patterson, CACM 52(4), 2009: time is at least FLOPs over the compute ceiling and bytes over the
memory ceiling. FLOPs in FLOP, bytes in bytes, times in µs.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Below this, in µs, a roof says nothing: the shortest kernels recorded, which set four bytes, take 0.7 µs on an H200.
LEAST_ROOF_US = 1.0
#: Shares above this are of work that a ceiling did not hold back: the bytes came from the L2 cache. Just above 1 is a
#: kernel that reads more than it writes, which memory does faster than the copy by which the ceiling was measured.
MOST_SHARE = 1.05
#: torch's names of element types -> the profiler's.
PROFILER_KINDS = {"bfloat16": "c10::BFloat16", "float16": "c10::Half", "float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Ceilings:
    """What this device can do at most, measured in the run: FLOP/s and bytes/s, None where no case measured it.

    ``dtype``: the element type, in torch's words, whose products the compute ceiling is of; None where any.
    """

    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class Roof:
    """The least time for some work, and what sets it: compute or memory."""

    time_us: float
    side: str

    def share(self, time_us: float | None) -> float | None:
        """The roof's time over what was taken, as `share_of`."""
        return share_of(self.time_us, time_us)


def share_of(least_us: float | None, time_us: float | None) -> float | None:
    """Least time over time; None where either is missing, above MOST_SHARE, or for a least below LEAST_ROOF_US."""
    if not least_us or not time_us or least_us < LEAST_ROOF_US or least_us > MOST_SHARE * time_us:
        return None
    return least_us / time_us


def time_at(amount: float | None, per_s: float | None) -> float | None:
    """µs that an amount takes at a rate."""
    return 1e6 * amount / per_s if amount and per_s else None


def per_second(amount: float | None, time_us: float | None) -> float | None:
    """Amount a second."""
    return amount / (time_us * 1e-6) if amount and time_us else None


def roof_of(flops: int | None, moved: int | None, ceilings: Ceilings, kind: str | None = None) -> Roof | None:
    """The roof of work of so many FLOPs and bytes; None where a ceiling that it needs was not measured.

    ``kind``: the profiler's name of the element type that the FLOPs are in; None where it is that of the ceiling.
    """
    if flops and ceilings.dtype and kind and PROFILER_KINDS.get(ceilings.dtype) != kind:
        return None
    compute, memory = time_at(flops, ceilings.flops_per_s), time_at(moved, ceilings.bytes_per_s)
    if (flops and compute is None) or memory is None:
        return None
    return Roof(compute, "compute") if compute is not None and compute > memory else Roof(memory, "memory")
