"""Sentences about counters: modelled bytes and limiters against the measured ones, and refusals with remedies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from kernelbook.cases import label
from kernelbook.counters import NOT_JOINED, REFUSED, KernelCounters
from kernelbook.judge.trust import LEAST_US, compared
from kernelbook.report.trust_section import Statement
from kernelbook.text import formatting

#: Written bytes below this share of the modelled ones were still in the L2 cache when the kernel ended.
FEW_WRITTEN = 0.25


def statements(rows: Sequence[KernelCounters]) -> tuple[Statement, ...]:
    """Bytes, limiters, kernels that could not be joined, and refusals; nothing without counters."""
    return (*_bytes(rows), *_limiters(rows), *_apart(rows), *_refused(rows))


def _bytes(rows: Iterable[KernelCounters]) -> Iterable[Statement]:
    rows_compared = compared(rows)
    if not rows_compared:
        return
    ratios = [row.bytes_ratio or 1.0 for row in rows_compared]
    worst = rows_compared[-1]
    yield Statement(
        f"Modelled bytes are {median(ratios):.2f}× the DRAM bytes that Nsight Compute measured, in the median of "
        f"{formatting.plural(len(rows_compared), 'kernel')} over {LEAST_US:.0f} µs. They differ most for "
        f"{_kernel(worst)} in {worst.case}, {worst.bytes_ratio:.2f}×: {_why(worst)}"
    )


def _why(row: KernelCounters) -> str:
    """The reason why modelled and measured bytes differ, by the counters."""
    if (row.bytes_ratio or 1.0) < 1:
        return "it read data again that the caches no longer held"
    written = row.dram_write_bytes or 0.0
    if written < FEW_WRITTEN * (row.modelled_bytes or 0):
        return "what it wrote stayed in the L2 cache"
    return "part of what it moved stayed in the L2 cache"


def _limiters(rows: Iterable[KernelCounters]) -> Iterable[Statement]:
    judged = [row for row in rows if row.agrees is not None]
    if not judged:
        return
    other = [row for row in judged if not row.agrees]
    agreed = f"{len(judged) - len(other)} of {formatting.plural(len(judged), 'kernel')}"
    text = f"For {agreed} the model and the counters name the same limit"
    if not other:
        yield Statement(text)
        return
    longest = max(other, key=lambda row: row.trace_duration_us or 0.0)
    yield Statement(
        f"{text}. The longest of the others is {_kernel(longest)} in {longest.case}: {longest.modelled_limiter} by the "
        f"model, {longest.limiter} by the counters"
    )


def _apart(rows: Iterable[KernelCounters]) -> Iterable[Statement]:
    apart = [row for row in rows if row.status == NOT_JOINED]
    if apart:
        cases = tuple(dict.fromkeys((row.case, "") for row in apart))
        kernels = formatting.plural(len(apart), "kernel")
        yield Statement(
            f"{kernels} could not be joined to what ncu profiled (tables/counters.csv has the reasons)", cases
        )


def _refused(rows: Iterable[KernelCounters]) -> Iterable[Statement]:
    cases: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        if row.status == REFUSED:
            cases.setdefault(row.reason or "", []).append((row.case, ""))
    for reason, refused in cases.items():
        yield Statement(f"No counters: {formatting.clip(reason, 300)}", tuple(dict.fromkeys(refused)))


def _kernel(row: KernelCounters) -> str:
    return label("kernel", row.name or "")
