"""Reads torch.profiler traces: any version, plain or gzipped, sound or damaged."""

from kernelbook.trace.model import Totals, TraceError, TraceWarning
from kernelbook.trace.reading import TraceReading, read_trace
from kernelbook.trace.tables import select_ranges

__all__ = ["Totals", "TraceError", "TraceReading", "TraceWarning", "read_trace", "select_ranges"]
