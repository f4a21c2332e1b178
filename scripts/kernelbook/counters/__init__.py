"""Counters of Nsight Compute, joined to the kernels that torch.profiler recorded.

In: the raw page of a report as CSV, and the kernels of a case's representative forward. Out: a `KernelCounters` for
each kernel, with its counters or the reason why it has none; and what limits the kernel, by Nsight's rule.
"""

from __future__ import annotations

from kernelbook.counters.files import CountersError, counters_beside, read_counters
from kernelbook.counters.join import join
from kernelbook.counters.kernel import JOINED, NOT_JOINED, REFUSED, Figures, KernelCounters, Profiled, Stall, facts_of

__all__ = [
    "JOINED",
    "NOT_JOINED",
    "REFUSED",
    "CountersError",
    "Figures",
    "KernelCounters",
    "Profiled",
    "Stall",
    "counters_beside",
    "facts_of",
    "join",
    "read_counters",
]
