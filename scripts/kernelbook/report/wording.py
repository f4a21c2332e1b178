"""Words that several parts of the report use for a case or a finding."""

from __future__ import annotations

from kernelbook.cases import CaseFacts
from kernelbook.judge.findings import Finding
from kernelbook.report.ranges import WholeFile
from kernelbook.text.formatting import NOT_AVAILABLE, duration, plural


def cost(finding: Finding) -> str:
    """The time of a finding: `128 µs`, or `51.1 µs – 69.4 µs` where the processes differ."""
    low, high = (duration(each) for each in (finding.time_low_us, finding.time_high_us))
    one = finding.time_us is None or finding.time_low_us is None or finding.time_high_us is None or low == high
    return duration(finding.time_us) if one else f"{low} – {high}"


def one_time(row: CaseFacts) -> str:
    """The device time of a forward; without one the unprofiled forward time, marked as such: `forward 22.7 µs`."""
    if row.device_time_us is None and row.forward_time_us is not None:
        return f"forward {duration(row.forward_time_us)}"
    return duration(row.device_time_us)


def counts(row: CaseFacts | WholeFile) -> str:
    """`5 kernels + 1 memcpy + 1 memset`, or n/a where the trace held no device activity."""
    if row.kernels is None:
        return NOT_AVAILABLE
    every = ((row.kernels, "kernel"), (row.memcpys, "memcpy"), (row.memsets, "memset"))
    return " + ".join(plural(count, one) for count, one in every if count) or "0 kernels"
