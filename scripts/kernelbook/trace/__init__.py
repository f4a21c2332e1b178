"""Reads torch.profiler traces of any version, plain or gzipped, complete or damaged.

In: the path of a trace. Out: a `TraceReading`: Arrow tables of ranges, ops, kernels, activities and calls, totals and
warnings. Knows nothing about cases and configurations. How activities find their ops: README.md beside this file.
"""

from kernelbook.trace.reading import TraceReading, read_trace
from kernelbook.trace.tables import select_ranges
from kernelbook.trace.types import Totals, TraceError, TraceWarning

__all__ = ["Totals", "TraceError", "TraceReading", "TraceWarning", "read_trace", "select_ranges"]
