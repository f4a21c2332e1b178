"""Reads torch.profiler traces of any version, plain or gzipped, complete or damaged.

In: the path of a trace. Out: a `TraceReading` with tables of ranges, ops, kernels, activities and calls, totals and
warnings. It does not know cases or configurations. README.md in this folder describes the method.
"""

from kernelbook.trace.reading import TraceReading, read_trace
from kernelbook.trace.types import Totals, TraceError, TraceWarning

__all__ = ["Totals", "TraceError", "TraceReading", "TraceWarning", "read_trace"]
